"""Bundles: what both sides hold of a run, in one JSON file that somebody else can audit without either.

The file carries a digest of all that is in it. Whoever changes it can also write a fitting digest; so the digest is
told when the bundle is made, to be kept where the file is not.
"""

import json
import math
import platform
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from client.audit import Evidence
from client.audit_reading import Recording, TemporalRun
from client.errors import Refused
from client.happenings import Happening
from longshift import jsontext
from longshift.audit.checks import Check

FORMAT = 1
"""Of the file. A later one is refused by an earlier version of Longshift."""
MIN_DIGEST, MAX_DIGEST = 8, 64
"""Hex digits of a digest that is given to compare with."""
Cell = str | int | float | bool | None
"""What a column of a row can hold."""

_EVENTS: TypeAdapter[tuple[Happening, ...]] = TypeAdapter(tuple[Happening, ...])
_USUAL = {one.name: one.default for one in fields(Happening)}


class _Run(BaseModel):
    model_config = ConfigDict(extra="forbid")

    run: str
    continued_from: str = ""
    reset_from: str = ""
    goes_on_in: str = ""
    events: list[dict[str, Any]]


class _Bundle(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid")

    longshift_audit_bundle: Annotated[int, Field(strict=True)]
    run_id: str
    versions: dict[str, str]
    latest: str
    missing: list[str]
    known: dict[str, int]
    history: list[_Run] | None
    journal: dict[str, list[dict[str, Cell]]] | None
    without: dict[str, str]
    sha256: str

    @model_validator(mode="after")
    def _can_be_audited(self) -> Self:
        if self.history is not None and self.latest not in [run.run for run in self.history]:
            raise ValueError("latest names none of the Temporal runs in history")
        jsontext.check(self.journal)  # what is no Unicode has no digest
        return self


def write_bundle(evidence: Evidence, file: Path) -> str:
    """Write a bundle. Returns its digest.

    Raises OSError where the file cannot be written.
    """
    recording = evidence.recording
    content = {
        "longshift_audit_bundle": FORMAT,
        "run_id": evidence.run_id,
        "versions": {name: version(name) for name in ("longshift", "temporalio")}
        | {"python": platform.python_version()},
        "latest": recording.latest if recording is not None else "",
        "missing": list(recording.missing) if recording is not None else [],
        "known": dict(evidence.known),
        "history": None if recording is None else [_run(run) for run in recording.runs],
        "journal": evidence.journal,
        "without": dict(evidence.without),
    }
    # As it will be read: tuples are lists, and what is no JSON is its text, also a number such as Infinity.
    content = json.loads(_text(content), parse_constant=str)
    digest = jsontext.sha256(_text(content))
    file.write_text(_text(content | {"sha256": digest}) + "\n", encoding="utf-8")
    return digest


def read_bundle(file: Path, digest: str | None = None) -> tuple[Evidence, list[Check], str]:
    """Read a bundle.

    Args:
        digest: what was told when the bundle was made, or at least its first digits.

    Returns:
        What it holds, what is to be said of the file itself, and its digest.

    Raises Refused where the file is no bundle that this version can read.
    """
    try:
        text = file.read_text(encoding="utf-8")
        content = json.loads(text, object_pairs_hook=_each_once, parse_float=_finite, parse_constant=_finite)
        bundle = _Bundle.model_validate(content)
        if bundle.longshift_audit_bundle != FORMAT:
            made_by = bundle.versions.get("longshift", "of an unknown version")[:40]
            said = f"has the format {bundle.longshift_audit_bundle}, this version reads {FORMAT}"
            raise Refused(f"{file}: {said}; audit it with the Longshift that made it, {made_by}")
        evidence = _evidence(bundle)
    except OSError as error:
        raise Refused(f"{file}: cannot be read: {error.strerror}; give the path of a bundle") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise Refused(f"{file}: is no bundle of an audit: {place}: {first['msg']}; make one with --export") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{file}: is no JSON ({str(error)[:100]}); give a file that --export made") from None
    del content["sha256"]
    found = jsontext.sha256(_text(content))
    return evidence, [_own(bundle.sha256, found), *_told(digest, found)], found


def _finite(text: str) -> float:
    """A number of JSON as Python reads it, which takes some that JSON does not have. Raises ValueError for one."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no finite number")
    return number


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, of which readers differ where a key stands twice. Raises ValueError for one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _own(written: str, found: str) -> Check:
    if written != found:
        return Check("bundle", "differs", f"it says that its digest is {written[:64]}, its content has {found}")
    return Check("bundle", "held", "its content has the digest that it names")


def _told(digest: str | None, found: str) -> list[Check]:
    if digest is None:
        text = "no --digest was given: whoever changed history and journal alike, and the digest, is not found"
        return [Check("digest", "not checked", text)]
    if not found.startswith(digest.lower()):
        return [Check("digest", "differs", f"it is {found}, and {digest} was given")]
    return [Check("digest", "held", "it is the one that was given")]


def _run(run: TemporalRun) -> dict[str, Any]:
    return {
        "run": run.run,
        "continued_from": run.continued_from,
        "reset_from": run.reset_from,
        "goes_on_in": run.goes_on_in,
        "events": [_event(event) for event in run.events],
    }


def _event(event: Happening) -> dict[str, Any]:
    """An event without what is usual."""
    found = {name: value for name, value in vars(event).items() if value != _USUAL[name]}
    if event.failure is not None:
        found["failure"] = vars(event.failure)
    return found


def _evidence(bundle: _Bundle) -> Evidence:
    recording = None
    if bundle.history is not None:
        runs = tuple(
            TemporalRun(
                run.run, _EVENTS.validate_python(run.events), run.continued_from, run.reset_from, run.goes_on_in
            )
            for run in bundle.history
        )
        recording = Recording(bundle.latest, runs, tuple(bundle.missing))
    return Evidence(bundle.run_id, recording, bundle.known, bundle.journal, bundle.without)


def _text(content: object) -> str:
    """The text that is written and digested: the same for the same content, and pure ASCII."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=repr)
