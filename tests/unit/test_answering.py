"""Answers to a run's question: what counts, and what is refused with the field and the remedy."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longshift import answering
from longshift.answering import read_approval, read_denial, read_resolution
from longshift.effects import resolution
from longshift.inbox import MAX_REASON, MAX_TEXT_BYTES, MessageRefused
from longshift.observations import cut, read
from longshift.questions import MIN_DIGEST, PersonsAnswer, QuestionKind, question
from longshift.state import RECENT_REQUESTS, RunState
from tests.unit.authored import call
from tests.unit.test_inbox import ANY_JSON, PAYLOADS

Read = Callable[[RunState, tuple[Any, ...], float], PersonsAnswer]

READS: list[Read] = [read_approval, read_denial, read_resolution]
OF: dict[Read, QuestionKind] = {read_approval: "approval", read_denial: "approval", read_resolution: "outcome"}
"""The question that each answers."""
CALL = call("c1", "send", None, total=60)
DIGEST = question("approval", CALL, "", 0).arguments_sha256
NEEDED: dict[Read, dict[str, Any]] = {
    read_approval: {},
    read_denial: {"reason": "too dear"},
    read_resolution: {"outcome": "did_not_happen"},
}
"""What each needs beside what binds it to the question."""


def asking(kind: QuestionKind) -> RunState:
    """A run that asks about CALL."""
    return RunState(run_id="r", started_at=0, question=question(kind, CALL, "it is asked", 5.0))


def fitting(by: Read, **fields: Any) -> tuple[Any, ...]:
    """An answer that fits the question, but for the fields given; a field of None is left out."""
    whole = {"call_id": "c1", "arguments_sha256": DIGEST, **NEEDED[by], **fields}
    return ({name: value for name, value in whole.items() if value is not None},)


def why(by: Read, state: RunState, args: tuple[Any, ...]) -> str:
    """The reason of a refusal, which leaves the state as it was."""
    before = state.model_dump_json()
    with pytest.raises(MessageRefused) as caught:
        by(state, args, 9.0)
    assert state.model_dump_json() == before
    return str(caught.value)


@pytest.mark.parametrize(
    ("by", "fields", "kind", "reason", "result"),
    [
        (read_approval, {}, "approved", "", None),
        (read_approval, {"reason": "agreed"}, "approved", "agreed", None),
        (read_denial, {}, "denied", "too dear", None),
        (read_resolution, {"outcome": "happened", "result": {"order": [7]}}, "happened", "", {"order": [7]}),
        (read_resolution, {}, "did_not_happen", "", None),
        (read_resolution, {"outcome": "stop", "reason": "no one knows"}, "stop", "no one knows", None),
    ],
)
@pytest.mark.parametrize("digits", [MIN_DIGEST, 63, 64])
def test_an_answer_that_fits_counts(
    by: Read, fields: dict[str, Any], kind: str, reason: str, result: Any, digits: int
) -> None:
    state = asking(OF[by])
    answer = by(state, fitting(by, arguments_sha256=DIGEST[:digits], **fields), 9.0)
    assert answer == PersonsAnswer(call_id="c1", kind=kind, reason=reason, result=result, at=9.0)
    assert answering.apply(state, answer) == answering.WORDS[answer.kind]
    assert state.persons_answer == answer
    assert RunState.model_validate_json(state.model_dump_json()) == state


def test_null_is_a_result() -> None:
    (fields,) = fitting(read_resolution, outcome="happened")
    answer = read_resolution(asking("outcome"), (fields | {"result": None},), 9.0)
    assert (answer.kind, answer.result) == ("happened", None)


@pytest.mark.parametrize("by", READS)
@pytest.mark.parametrize("args", [(), (None,), ("c1",), (7,), ([{"call_id": "c1"}],), ({"call_id": "c1"}, {})])
def test_what_is_not_one_object_is_refused_with_an_example(by: Read, args: tuple[Any, ...]) -> None:
    assert why(by, asking(OF[by]), args).startswith('call_id: send one object, like {"call_id": "c1"')


@pytest.mark.parametrize("by", READS)
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"call_id": None}, "call_id: name the call that waits, as text"),
        ({"call_id": 7}, "call_id: name the call that waits, as text"),
        ({"call_id": "c2"}, "call_id: this call does not wait; c1 waits for"),
        ({"call_id": "\ud800"}, "call_id: this call does not wait; c1 waits for"),
        ({"arguments_sha256": None}, "arguments_sha256: give at least 8 digits of the digest"),
        ({"arguments_sha256": DIGEST[: MIN_DIGEST - 1]}, "arguments_sha256: give at least 8 digits"),
        ({"arguments_sha256": ""}, "arguments_sha256: give at least 8 digits"),
        ({"arguments_sha256": 12345678}, "arguments_sha256: give at least 8 digits"),
        ({"arguments_sha256": "0" * 64}, "arguments_sha256: the call that waits has other arguments"),
        ({"arguments_sha256": DIGEST + "0"}, "arguments_sha256: the call that waits has other arguments"),
        ({"arguments_sha256": DIGEST[1:]}, "arguments_sha256: the call that waits has other arguments"),
        ({"callid": "c1"}, "callid: is not known here; leave it out"),
        ({"\ud800" + "x" * 99: 1}, "?" + "x" * 59 + ": is not known here"),
        ({"reason": 7}, "reason: must be text"),
        ({"reason": ["a"]}, "reason: must be text"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_the_field_and_the_remedy(
    by: Read, fields: dict[str, Any], says: str
) -> None:
    assert why(by, asking(OF[by]), fitting(by, **fields)).startswith(says)


@pytest.mark.parametrize(
    ("by", "fields", "says"),
    [
        (read_approval, {"outcome": "happened"}, "outcome: is not known here"),
        (read_approval, {"result": 1}, "result: is not known here"),
        (read_denial, {"reason": None}, "reason: say why, since the model reads it"),
        (read_denial, {"reason": " \n"}, "reason: say why"),
        (read_resolution, {"outcome": None}, "outcome: must be one of happened, did_not_happen, stop"),
        (read_resolution, {"outcome": "approved"}, "outcome: must be one of"),
        (read_resolution, {"outcome": ["happened"]}, "outcome: must be one of"),
        (read_resolution, {"outcome": "happened"}, "result: give what the call returned"),
        (read_resolution, {"outcome": "did_not_happen", "result": 1}, "result: give what the call returned"),
        (read_resolution, {"outcome": "stop", "result": 1}, "result: give what the call returned"),
        (read_resolution, {"outcome": "happened", "result": float("nan")}, "result: "),
        (read_resolution, {"outcome": "happened", "result": [float("inf")]}, "result: "),
        (read_resolution, {"outcome": "happened", "result": 10**400}, "result: the number 1000"),
        (read_resolution, {"outcome": "happened", "result": 10**5000}, "result: "),
        (
            read_resolution,
            {"outcome": "happened", "result": {"a": "\ud800"}},
            "result: a string holds a lone",
        ),
        (read_resolution, {"outcome": "happened", "result": {"\ud800": 1}}, "result: a string holds a lone"),
        (read_resolution, {"outcome": "happened", "result": "x" * MAX_TEXT_BYTES}, "result: has 65538 bytes, at most"),
    ],
)
def test_each_answer_takes_its_own_fields_only(by: Read, fields: dict[str, Any], says: str) -> None:
    assert why(by, asking(OF[by]), fitting(by, **fields)).startswith(says)


HAPPENED: dict[str, Any] = {"outcome": "happened"}


def nested(levels: int) -> Any:
    """Lists in lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("by", READS)
def test_a_result_that_is_nested_too_deep_is_refused(by: Read) -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    assert why(
        by, asking(OF[by]), fitting(by, result=deep, **({"outcome": "happened"} if by is read_resolution else {}))
    )


@pytest.mark.parametrize(
    ("kind", "by", "says"),
    [
        ("approval", read_resolution, "call_id: this call waits for approval; approve or deny it"),
        ("outcome", read_approval, "call_id: this call waits for its outcome to be resolved; resolve it"),
        ("outcome", read_denial, "call_id: this call waits for its outcome to be resolved; resolve it"),
    ],
)
def test_a_question_of_the_other_kind_is_not_answered(kind: QuestionKind, by: Read, says: str) -> None:
    assert why(by, asking(kind), fitting(by)) == says


@pytest.mark.parametrize("by", READS)
def test_of_two_answers_the_first_stands(by: Read) -> None:
    state = asking(OF[by])
    first = by(state, fitting(by), 9.0)
    words = answering.apply(state, first)
    for again in READS:  # before the run has taken the first, and after
        assert (
            why(again, state, fitting(again))
            == f"call_id: this call was answered before ({words}); the first answer stands"
        )
    assert "no call of this run waits" in why(by, state, fitting(by, call_id="c2"))
    assert state.take_answer() == first
    assert "was answered before" in why(by, state, fitting(by))
    state.question = question(OF[by], call("c2", "send"), "", 0)
    assert "was answered before" in why(by, state, fitting(by))


@pytest.mark.parametrize("by", READS)
def test_a_run_that_asks_nothing_takes_no_answer(by: Read) -> None:
    assert (
        why(by, RunState(run_id="r", started_at=0), fitting(by))
        == "call_id: no call of this run waits for a person now"
    )


def test_a_call_that_was_approved_can_be_resolved_later() -> None:
    state = asking("approval")
    answering.apply(state, read_approval(state, fitting(read_approval), 9.0))
    state.take_answer()
    state.question = question("outcome", CALL, "lost", 0)
    answer = read_resolution(state, fitting(read_resolution), 9.0)
    answering.apply(state, answer)
    state.take_answer()
    assert "answered before (resolved: it did not happen)" in why(read_approval, state, fitting(read_approval))


def test_the_calls_that_were_answered_are_remembered_up_to_a_number() -> None:
    state = RunState(run_id="r", started_at=0)
    for number in range(RECENT_REQUESTS + 5):
        answering.apply(state, PersonsAnswer(call_id=f"c{number}", kind="approved"))
    assert list(state.answered_calls) == [f"c{number}" for number in range(5, RECENT_REQUESTS + 5)]
    answering.apply(state, PersonsAnswer(call_id="c5", kind="happened"))
    assert list(state.answered_calls.items())[-1] == ("c5", "happened")
    assert len(state.answered_calls) == RECENT_REQUESTS


@pytest.mark.parametrize("by", READS)
def test_a_reason_is_kept_cut_and_as_unicode(by: Read) -> None:
    answer = by(asking(OF[by]), fitting(by, reason="\ud800" + "x" * 9999), 9.0)
    assert answer.reason == "?" + "x" * (MAX_REASON - 1)


FIELDS = st.fixed_dictionaries(
    {"call_id": st.just("c1") | ANY_JSON, "arguments_sha256": st.just(DIGEST) | ANY_JSON},
    optional={
        "reason": st.just("so") | ANY_JSON,
        "outcome": st.sampled_from([*answering.OUTCOMES]) | ANY_JSON,
        "result": ANY_JSON,
    },
).map(lambda fields: (fields,))


@pytest.mark.parametrize("by", READS)
@pytest.mark.parametrize("kind", ["approval", "outcome", None])
@given(args=FIELDS | PAYLOADS)
@example(args=fitting(read_resolution, outcome="happened", result=10**400))
def test_whatever_arrives_is_an_answer_that_an_observation_can_be_made_of_or_refused(
    by: Read, kind: QuestionKind | None, args: tuple[Any, ...]
) -> None:
    state = asking(kind) if kind else RunState(run_id="r", started_at=0)
    try:
        answer = by(state, args, 9.0)
    except MessageRefused as refused:
        str(refused).encode()
        return
    assert OF[by] == kind
    answering.apply(state, answer)
    assert RunState.model_validate_json(state.model_dump_json()) == state
    content = resolution(answer)
    if content is not None and kind == "outcome":
        read(cut(content, 256))
        assert not read(content)["ok"] or read(content)["value"] == answer.result
