"""Case files: authored turns, limits, messages sent to the run, and what must come out. Reading and judging them.

A mistake in a file is told by file, key and remedy, and all of them at once; none is guessed around, since a case that
says something else than its author meant proves nothing.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError, model_validator
from pydantic_core import to_json

from endpoints.config import ReplayTurn
from endpoints.replay import load_turns
from examples.shop.evidence import check_drafts
from longshift import jsontext
from longshift.contracts import RunResult
from longshift.messages import Message
from longshift.run_input import InputRefused, RunInput, read_input
from longshift.status import Status

EVIDENCE = frozenset({"drafts_cents", "evidence"})
"""What `expect` may hold beside the result's keys: read out of the transcript by the shop's own check."""
EXPECTABLE = EVIDENCE | RunResult(run_id="", status=Status.COMPLETED, detail="").document().keys()
"""All that `expect` may hold."""
SHOWN = 200
"""Characters shown of a value that differs."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S")]
Flag = Annotated[bool, Field(strict=True)]


class CasesRefused(Exception):
    """Nothing is played, since a file or a path cannot be used. Its text has a line for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


class _Authored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Sending(_Authored):
    """One message to the run."""

    at_start: Flag = False
    """Sent with the start, before the first step."""
    during_model_call: Annotated[int, Field(strict=True, gt=0)] | None = None
    """Sent while this model call is out; counted from 1, as the run counts them."""
    signal: Text | None = None
    """Name of the signal that it is."""
    update: Text | None = None
    """Name of the update that it is."""
    args: JsonValue = None
    """A list is the arguments one by one, anything else is the only one; without the key there is none."""
    refused: Flag = False
    """The run must refuse the update."""

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if self.at_start == (self.during_model_call is not None):
            raise ValueError("say when: either `at_start`: true, or `during_model_call` with the call's number")
        if (self.signal is None) == (self.update is None):
            raise ValueError("say what: either a `signal` or an `update`, by its name")
        if self.refused and self.update is None:
            raise ValueError("`refused` is for an update; nobody is told what becomes of a signal")
        return self

    @property
    def arguments(self) -> tuple[JsonValue, ...]:
        """The arguments of the message."""
        if "args" not in self.model_fields_set:
            return ()
        return tuple(self.args) if isinstance(self.args, list) else (self.args,)

    def __str__(self) -> str:
        when = "at the start" if self.at_start else f"during model call {self.during_model_call}"
        return f"{self.signal or self.update} {when}"


class _File(_Authored):
    """A case file, but for what other readers judge: the input of the run and the turns."""

    name: Text | None = None
    why: str = ""
    agent: Text
    task: JsonValue = None
    messages: JsonValue = None
    limits: JsonValue = None
    turns: JsonValue
    send: tuple[Sending, ...] = ()
    expect: Annotated[dict[str, JsonValue], Field(min_length=1)]


@dataclass(frozen=True)
class Case:
    """One case, checked."""

    name: str
    """What it is called in reports: its own name, else the file's."""
    given: RunInput
    """What the run starts with."""
    turns: tuple[ReplayTurn, ...]
    """What the endpoint answers, in order."""
    send: tuple[Sending, ...]
    """What is sent to the run, in order."""
    expect: dict[str, JsonValue]
    """What must come out: values of the result's document, and those of EVIDENCE."""


def read_cases(paths: Iterable[Path], agents: Collection[str]) -> list[Case]:
    """The cases in files and folders, in the order given, by name within a folder, each file once.

    Args:
        paths: case files, and folders whose every `*.json` is one.
        agents: names of the agents that can be played.

    Raises:
        CasesRefused: for what cannot be read or is malformed, and where there is nothing at all.
    """
    problems: list[str] = []
    files: dict[Path, Path] = {}
    for path in paths:
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        files |= {file.resolve(): file for file in found if file.resolve() not in files}
        if not found:
            problems.append(f"{path}: holds no case; give a folder with *.json files, or a case file")
    cases: list[Case] = []
    for file in files.values():
        try:
            cases.append(read_case(file, agents))
        except CasesRefused as refused:
            problems += refused.problems
    if problems or not cases:
        raise CasesRefused(problems or ["there is nothing to play; give case files, or folders of them"])
    return cases


def read_case(file: Path, agents: Collection[str]) -> Case:
    """The case in a file.

    Raises CasesRefused with a line for each problem: file, key and remedy.
    """
    try:
        given = jsontext.parse(file.read_bytes())
    except OSError as error:
        raise CasesRefused([f"{file}: cannot be read ({error.strerror}); give the path of a case file"]) from None
    except jsontext.JsonRefused as error:
        raise CasesRefused([f"{file}: is not valid JSON ({error}); mend it there"]) from None
    try:
        authored = _File.model_validate(given)
    except ValidationError as error:
        raise CasesRefused([f"{file}: {line}" for line in _lines(error)]) from None
    problems = [
        f"expect.{key[:60]}: nothing comes out under this name; take of {', '.join(sorted(EXPECTABLE))}"
        for key in authored.expect.keys() - EXPECTABLE
    ]
    asked = authored.model_dump(include={"agent", "task", "messages", "limits"}, exclude_unset=True)
    try:
        run = read_input((asked,))
        if run.agent not in agents:
            problems.append(f"agent: there is no agent {run.agent[:60]!r}; the agents are {', '.join(sorted(agents))}")
    except InputRefused as refused:
        problems += [f"{place}: {text}" for place, text in refused.problems.items()]
    lines = [f"{file}: {line}" for line in problems]
    try:
        turns = load_turns(file)
    except ValueError as error:
        lines.append(str(error))
    if lines:
        raise CasesRefused(lines)
    return Case(authored.name or file.stem, run, tuple(turns), authored.send, authored.expect)


def mismatches(case: Case, result: RunResult, transcript: Sequence[Message]) -> list[str]:
    """What came out otherwise than `case` expects, a sentence each, in the order of `expect`."""
    shop = check_drafts(transcript)
    came = result.document() | {"drafts_cents": shop.total_cents, "evidence": shop.verdict}
    because = {"status": result.detail, "evidence": shop.sentence, "drafts_cents": shop.sentence}
    found: list[str] = []
    for key, expected in case.expect.items():
        if not _agrees(key, expected, came[key]):
            why = f" ({because[key]})" if key in because else ""
            found.append(f"{key}: expected {_shown(expected)}, came {_shown(came[key])}{why}")
    return found


def _agrees(key: str, expected: JsonValue, came: JsonValue) -> bool:
    """Equal as JSON, in which true is not 1; of the detail, a sentence of ours, a part is enough."""
    if key == "detail" and isinstance(expected, str) and isinstance(came, str):
        return expected in came
    return expected == came and isinstance(expected, bool) == isinstance(came, bool)


def _shown(value: JsonValue) -> str:
    text = to_json(value).decode()
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _lines(error: ValidationError) -> list[str]:
    lines = []
    for details in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(map(str, details["loc"]))
        match details["type"]:
            case "extra_forbidden":
                keys = Sending.model_fields if details["loc"][0] == "send" else _File.model_fields
                text = f"is no key here; remove it or mend its name: the keys are {', '.join(keys)}"
            case "missing":
                text = "is missing; add it"
            case "model_type" if not place:
                text = "must be an object with the keys of a case"
            case "too_short":
                text = 'is empty; say what must come out, as in {"status": "COMPLETED"}'
            case _:
                text = details["msg"].removeprefix("Value error, ").replace("Input should", "must", 1)
        lines.append(f"{place}: {text}" if place else text)
    return lines
