"""Bundles that somebody wrote: with a digest that fits, and whatever else in them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from client.audit import Evidence
from client.audit_bundle import read_bundle, write_bundle
from client.errors import Refused
from longshift import jsontext
from tests.unit.test_audit import differing, journal, recording


def forged(change: Callable[[dict[str, Any]], object], file: Path) -> None:
    """A bundle of a sound run, changed, with a digest that fits."""
    name = "opening-shift"
    write_bundle(Evidence(name, recording(name), recording(name).events, journal(name)), file)
    content = json.loads(file.read_text(encoding="utf-8"))
    del content["sha256"]
    change(content)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    file.write_text(json.dumps(content | {"sha256": jsontext.sha256(text)}), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda bundle: bundle.update(history=[], latest=""), "latest names none of the Temporal runs"),
        (lambda bundle: bundle.update(latest="another"), "latest names none of the Temporal runs"),
        (lambda bundle: bundle["journal"]["messages"][0].update(number=[1]), "journal.messages.0.number"),
        (lambda bundle: bundle["journal"]["tool_calls"][0].update(call_id={"a": 1}), "journal.tool_calls.0.call_id"),
        (lambda bundle: bundle["journal"]["messages"][0].update(body="\ud800"), "lone surrogate"),
    ],
)
def test_a_bundle_that_cannot_be_audited_is_refused(
    change: Callable[[dict[str, Any]], object], said: str, tmp_path: Path
) -> None:
    forged(change, tmp_path / "bundle.json")
    with pytest.raises(Refused, match=said):
        read_bundle(tmp_path / "bundle.json")


def test_a_bundle_in_which_a_key_stands_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bundle.json"
    forged(lambda bundle: None, file)
    read_bundle(file)
    file.write_text(file.read_text(encoding="utf-8").replace("{", '{"journal": {}, ', 1), encoding="utf-8")
    with pytest.raises(Refused, match="a key stands twice"):
        read_bundle(file)


def test_a_number_that_somebody_gave_by_hand_and_that_is_not_finite_stands_as_text_in_a_bundle(tmp_path: Path) -> None:
    name, file = "opening-shift", tmp_path / "bundle.json"
    given = recording(name)
    (run,) = given.runs
    events = (*run.events[:-1], replace(run.events[-1], values=(float("inf"),)))
    given = replace(given, runs=(replace(run, events=events),))
    write_bundle(Evidence(name, given, given.events, journal(name)), file)
    evidence, _, _ = read_bundle(file)
    assert evidence.recording is not None
    assert list(evidence.recording.runs[0].events[-1].values) == ["Infinity"]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_bundle_with_a_number_that_is_not_finite_is_refused(number: str, tmp_path: Path) -> None:
    file = tmp_path / "bundle.json"
    forged(lambda bundle: None, file)
    text = file.read_text(encoding="utf-8")
    assert '"quantity": 6' in text
    file.write_text(text.replace('"quantity": 6', f'"quantity": {number}'), encoding="utf-8")
    with pytest.raises(Refused, match=f"is no JSON .{number}"):
        read_bundle(file)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda bundle: bundle["journal"]["runs"][0].pop("length"), "chain"),
        (lambda bundle: bundle["journal"]["runs"][0].update(digest=None), "chain"),
        (lambda bundle: bundle["journal"]["decisions"][-1].pop("detail"), "decisions"),
        (lambda bundle: bundle["history"][0]["events"][0].update(values=[]), "history"),
    ],
)
def test_a_forged_bundle_is_found(change: Callable[[dict[str, Any]], object], name: str, tmp_path: Path) -> None:
    forged(change, tmp_path / "bundle.json")
    evidence, said, _ = read_bundle(tmp_path / "bundle.json")
    assert differing(said) == []
    assert name in differing(evidence.checks())
