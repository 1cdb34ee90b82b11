"""Messages from people: whatever arrives is read or refused, and nothing else happens."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longshift.inbox import (
    MAX_REASON,
    MAX_TEXT_BYTES,
    MAX_WAITING_TEXT_BYTES,
    MessageRefused,
    apply_stop,
    read_limits,
    read_stop,
    read_tell,
)
from longshift.messages import UserMessage
from longshift.state import RECENT_REQUESTS, RunState, Stop

ANY_TEXT = st.text(st.characters())
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | st.sampled_from([10**400, "now", "graceful"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            ANY_TEXT | st.sampled_from(["mode", "reason", "text", "request_id", "seconds", "model_calls"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
PAYLOADS = st.lists(ANY_JSON, max_size=3).map(tuple)


def state() -> RunState:
    """A run to send to."""
    return RunState(run_id="r", started_at=0)


def why(read: Callable[[], object]) -> str:
    """The reason of a refusal."""
    with pytest.raises(MessageRefused) as caught:
        read()
    return str(caught.value)


@given(PAYLOADS)
@example(("\ud800",))
@example(({"mode": ["now"], "reason": {}},))
def test_any_payload_is_a_stop(args: tuple[Any, ...]) -> None:
    run = state()
    apply_stop(run, read_stop(args))
    assert run.stop is not None
    assert RunState.model_validate_json(run.model_dump_json()) == run


@given(PAYLOADS)
def test_any_payload_is_a_change_of_limits_or_refused(args: tuple[Any, ...]) -> None:
    try:
        changes, _ = read_limits(args)
    except MessageRefused as refused:
        str(refused).encode()
        return
    state().limits.changed(changes)


@given(PAYLOADS)
@example(("\ud800",))
@example(({"text": "x", "request_id": "\ud800"},))
def test_any_payload_is_a_users_message_or_refused(args: tuple[Any, ...]) -> None:
    try:
        text, request_id = read_tell(state(), args)
    except MessageRefused as refused:
        str(refused).encode()
        return
    (text + (request_id or "")).encode()
    assert text.strip()


@pytest.mark.parametrize(
    ("args", "mode", "reason"),
    [
        ((), "graceful", ""),
        ((None,), "graceful", ""),
        (("enough",), "graceful", "enough"),
        (({"mode": "now"},), "now", ""),
        (({"mode": "now", "reason": "fire"}, 17), "now", "fire"),
        (({"mode": "NOW", "reason": 3},), "graceful", ""),
        (([],), "graceful", ""),
        ((17, "x"), "graceful", ""),
    ],
)
def test_a_stop_is_read_from_what_there_is(args: tuple[Any, ...], mode: str, reason: str) -> None:
    stop = read_stop(args)
    assert (stop.mode, stop.reason, stop.cancelled) == (mode, reason, False)


def test_the_first_stop_stands_and_a_later_one_can_only_hasten_it() -> None:
    run = state()
    apply_stop(run, read_stop(("first",)))
    apply_stop(run, read_stop(({"mode": "now", "reason": "second"},)))
    assert run.stop == Stop(mode="now", reason="first")
    apply_stop(run, Stop(reason="third", cancelled=True))
    assert run.stop == Stop(mode="now", reason="first", cancelled=True)


def test_the_reason_of_any_stop_is_kept_cut() -> None:
    for stop in (read_stop(("x" * 10_000,)), Stop(reason="x" * 10_000, cancelled=True)):
        run = state()
        apply_stop(run, stop)
        assert run.stop is not None
        assert run.stop.reason == "x" * MAX_REASON


def test_a_change_of_limits_is_read_with_its_request_id() -> None:
    assert read_limits(({"seconds": 600, "request_id": "a"},)) == ({"seconds": 600}, "a")
    assert read_limits(({"seconds": 600},)) == ({"seconds": 600}, None)


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ((), "limits: send one object"),
        (({},), "limits: send one object"),
        (({"seconds": 1}, {"seconds": 2}), "limits: send one object"),
        (("+600",), "limits: send one object"),
        (({"request_id": "a"},), "limits: name at least one limit"),
        (({"seconds": "+600"},), "seconds: must be a finite number of seconds above 0, not '+600'"),
        (({"seconds": 600, "request_id": 7},), "request_id: must be a text of 1 to 200 characters"),
        (({"seconds": 600, "request_id": ""},), "request_id: must be a text of 1 to 200 characters"),
        (({"seconds": 600, "request_id": "x" * 201},), "request_id: must be a text of 1 to 200 characters"),
    ],
)
def test_a_bad_change_of_limits_is_refused_with_field_and_remedy(args: tuple[Any, ...], reason: str) -> None:
    assert why(lambda: read_limits(args)).startswith(reason)


def test_the_refusal_of_many_names_stays_small() -> None:
    assert len(why(lambda: read_limits(({f"name-{n}": 0 for n in range(20_000)},)))) < 5_000


def test_a_users_message_is_a_text_or_an_object_with_one() -> None:
    assert read_tell(state(), ("Hello.",)) == ("Hello.", None)
    assert read_tell(state(), ({"text": "Hello.", "request_id": "a"},)) == ("Hello.", "a")


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ((), "text: must be the message's text, not blank"),
        ((" \n",), "text: must be the message's text, not blank"),
        ((17,), "text: must be the message's text, not blank"),
        (("a", "b"), "text: must be the message's text, not blank"),
        (({"text": "a", "txet": "b"},), "tell: txet is not known"),
        (("\ud800",), "text: holds a lone surrogate"),
        (("é" * (MAX_TEXT_BYTES // 2) + "x",), f"text: has {MAX_TEXT_BYTES + 1} bytes"),
    ],
)
def test_a_bad_message_is_refused_with_field_and_remedy(args: tuple[Any, ...], reason: str) -> None:
    assert why(lambda: read_tell(state(), args)).startswith(reason)


def test_messages_that_wait_are_bounded_together() -> None:
    run = state()
    for _ in range(MAX_WAITING_TEXT_BYTES // MAX_TEXT_BYTES):
        run.tells.append(read_tell(run, ("x" * MAX_TEXT_BYTES,))[0])
    assert why(lambda: read_tell(run, ("x",))).startswith("text: too many messages wait")


def test_messages_of_the_transcript_that_the_journal_does_not_hold_yet_count_with_those_that_wait() -> None:
    run = state()
    texts = ["x" * MAX_TEXT_BYTES] * (MAX_WAITING_TEXT_BYTES // MAX_TEXT_BYTES)
    run.take_in([UserMessage(content=text) for text in texts], None)
    assert why(lambda: read_tell(run, ("x",))).startswith("text: too many messages wait")
    assert read_tell(run, ("x",), lambda: False) == ("x", None)
    run.journaled(1, 0)
    assert read_tell(run, ("x",)) == ("x", None)


def test_the_same_request_counts_once_while_it_is_remembered() -> None:
    run = state()
    assert [run.request_is_new(given_id) for given_id in ("a", "a", None, None)] == [True, False, True, True]
    for number in range(RECENT_REQUESTS - 1):
        run.request_is_new(str(number))
    assert not RunState.model_validate_json(run.model_dump_json()).request_is_new("a")
    run.request_is_new("one more")
    assert run.request_is_new("a")
    assert len(run.recent_requests) == RECENT_REQUESTS
