"""The episode invariant: valid transcripts pass, and every way of breaking one is found."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from longshift.episode import EpisodeReport, validate_episode
from longshift.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from longshift.observations import error, ok

SYSTEM = SystemMessage(content="Be brief.")
USER = UserMessage(content="Look.")
ANSWER = AssistantMessage(content="Done.")


def asks(*ids: str, name: str = "look", content: str = "") -> AssistantMessage:
    """A turn that asks for these calls."""
    return AssistantMessage(content=content, calls=tuple(ToolCall(id=id_, name=name) for id_ in ids))


def told(id_: str, name: str = "look", content: str = ok(1)) -> ToolMessage:
    """The observation of a call."""
    return ToolMessage(call_id=id_, name=name, content=content)


def valid(*messages: Message) -> EpisodeReport:
    """The report of what must be valid."""
    report = validate_episode(messages)
    assert report.valid, report.problem
    assert report.problem is None
    return report


@pytest.mark.parametrize(
    "messages",
    [
        (SYSTEM, USER, ANSWER),
        (USER, ANSWER),
        (USER, USER, ANSWER),
        (SYSTEM, USER, asks("a"), told("a"), ANSWER),
        (USER, asks("a", "b"), told("a"), told("b", content=error("refused", "no")), asks("c"), told("c"), ANSWER),
        (USER, asks("a", content="I will look."), told("a"), USER, ANSWER),
        (USER, ANSWER, USER, USER, AssistantMessage(content="Again.")),
        (USER, asks("a", name=""), told("a", name="", content=error("unknown_tool", "no such tool")), ANSWER),
    ],
)
def test_a_whole_episode_is_valid_and_complete(messages: tuple[Message, ...]) -> None:
    report = valid(*messages)
    assert (report.complete, report.unanswered) == (True, ())


@pytest.mark.parametrize(
    ("messages", "unanswered"),
    [
        ((), ()),
        ((SYSTEM,), ()),
        ((SYSTEM, USER), ()),
        ((USER, asks("a"), told("a")), ()),
        ((USER, asks("a", "b", "c")), ("a", "b", "c")),
        ((USER, asks("a", "b", "c"), told("a")), ("b", "c")),
        ((USER, asks("a", name="")), ("a",)),
        ((USER, ANSWER, USER), ()),
        ((USER, AssistantMessage(content=" \n")), ()),
    ],
)
def test_an_episode_may_end_early_and_then_names_the_calls_that_never_ran(
    messages: tuple[Message, ...], unanswered: tuple[str, ...]
) -> None:
    report = valid(*messages)
    assert (report.complete, report.unanswered) == (False, unanswered)


@pytest.mark.parametrize(
    ("messages", "index", "words"),
    [
        ((USER, SYSTEM, ANSWER), 1, "a system message stands only at the start"),
        ((SYSTEM, SYSTEM, USER), 1, "a system message stands only at the start"),
        ((USER, ANSWER, ANSWER), 2, "an assistant message follows a final answer"),
        ((USER, ANSWER, asks("a"), told("a")), 2, "an assistant message follows a final answer"),
        ((USER, asks("a"), ANSWER), 2, "the call a has no observation before this assistant message"),
        ((USER, asks("a", "b"), told("a"), USER), 3, "the call b has no observation before this user message"),
        ((USER, asks("a"), SYSTEM), 2, "the call a has no observation before this system message"),
        ((USER, asks("a"), told("b"), ANSWER), 2, "for the call b where that of a is due"),
        ((USER, asks("a", "b"), told("b"), told("a")), 2, "for the call b where that of a is due"),
        ((USER, asks("a", "b"), told("a"), told("a")), 3, "for the call a where that of b is due"),
        ((USER, asks("a"), told("a"), told("a")), 3, "for the call a, which is answered already"),
        ((USER, told("a")), 1, "for the call a, which was never made"),
        ((USER, told("")), 1, "for the call (empty), which was never made"),
        ((USER, ANSWER, told("a")), 2, "for the call a, which was never made"),
        ((USER, asks("a", "a"), told("a"), told("a")), 1, "the call id a was used before"),
        ((USER, asks("a"), told("a"), asks("a"), told("a")), 3, "the call id a was used before"),
        ((USER, asks("")), 1, "a call of look has no id"),
        ((USER, asks("a", name=""), told("a", name="")), 2, "the call a names no tool and yet has a result"),
        ((USER, asks("a"), told("a", name="other")), 2, "names the tool other, the call names look"),
        ((USER, asks("a"), told("a", content="two")), 2, "the observation of the call a is not one: Expecting value"),
        ((USER, asks("a"), told("a", content="{}")), 2, 'is not one: it is no object with "ok"'),
    ],
)
def test_the_first_message_that_breaks_it_is_named_with_the_reason(
    messages: tuple[Message, ...], index: int, words: str
) -> None:
    report = validate_episode(messages)
    assert (report.valid, report.complete) == (False, False)
    assert report.problem is not None
    assert report.problem.index == index
    assert words in report.problem.reason


def test_mappings_of_the_same_shape_are_read_like_messages() -> None:
    messages = [USER, asks("a"), told("a"), ANSWER]
    as_data = [message.model_dump(mode="json") for message in messages]
    assert validate_episode(as_data) == validate_episode(messages)
    assert validate_episode([MappingProxyType(item) for item in as_data]) == validate_episode(messages)
    assert validate_episode(iter(messages)) == validate_episode(tuple(messages))


class Hostile(Mapping[str, Any]):
    """A mapping that cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(["role"])

    def __len__(self) -> int:
        return 1


UNCHECKED: dict[str, Any] = {"content": 5, "calls": None}
"""What a message holds that was made past its own checks."""


def _breaking_off() -> Iterator[Message]:
    yield USER
    raise OSError("gone")


@pytest.mark.parametrize(
    ("messages", "index", "words"),
    [
        (None, 0, "is a NoneType, not a sequence"),
        (5, 0, "is a int, not a sequence"),
        ("text", 0, "is a str, not a sequence"),
        ({"role": "user"}, 0, "is a dict, not a sequence"),
        ([None], 0, "it is no message"),
        ([USER, "text"], 1, "it is no message"),
        ([USER, {"role": "robot", "content": "x"}], 1, "it is no message"),
        ([{"role": "\ud800", "content": "x"}], 0, "it is no message"),
        ([{"role": "user"}], 0, "it is no message: user.content: Field required"),
        ([{"role": "user", "content": 5}], 0, "it is no message: user.content"),
        ([{"role": "assistant", "content": "", "calls": [{"name": "x"}]}], 0, "assistant.calls.0.id"),
        ([{"role": "assistant", "content": "", "calls": [{"id": "a", "name": "x", "arguments": []}]}], 0, "arguments"),
        ([Hostile()], 0, "it cannot be read: RuntimeError"),
        (_breaking_off(), 0, "it cannot be read: OSError"),
        ([AssistantMessage.model_construct(**UNCHECKED)], 0, "it cannot be read"),
        ([{"role": "tool", "call_id": "x" * 10_000, "name": "n", "content": ""}], 0, "an observation for the call x"),
    ],
    ids=lambda value: "" if not isinstance(value, str) or "\ud800" in value else value[:20],
)
def test_garbage_is_reported_and_never_raised(messages: object, index: int, words: str) -> None:
    report = validate_episode(messages)
    assert not report.valid
    assert report.problem is not None
    assert report.problem.index == index
    assert words in report.problem.reason
    assert len(report.problem.reason) <= 300


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "calls", "id", "name"]), inner, max_size=5)
    ),
    max_leaves=15,
)


@settings(deadline=None)
@given(st.lists(json_values | st.sampled_from([SYSTEM, USER, ANSWER, asks("a"), told("a")]), max_size=6))
def test_any_garbage_gives_a_report(messages: list[Any]) -> None:
    report = validate_episode(messages)
    assert report.valid == (report.problem is None)


@st.composite
def episodes(draw: st.DrawFn) -> list[Message]:
    """A whole episode: questions, batches, answers."""
    messages: list[Message] = [SYSTEM] if draw(st.booleans()) else []
    number = 0
    for _ in range(draw(st.integers(1, 3))):
        messages += [USER] * draw(st.integers(1, 2))
        for size in draw(st.lists(st.integers(1, 3), max_size=3)):
            ids = [f"call-{number + place}" for place in range(size)]
            number += size
            messages.append(asks(*ids, content=draw(st.sampled_from(["", "I will look."]))))
            messages += [told(id_, content=draw(st.sampled_from([ok(1), error("refused", "no")]))) for id_ in ids]
            messages += [USER] * draw(st.integers(0, 1))
        messages.append(ANSWER)
    return messages


@settings(deadline=None)
@given(episodes())
def test_every_whole_episode_passes(messages: list[Message]) -> None:
    assert validate_episode(messages) == EpisodeReport(valid=True, complete=True)


@settings(deadline=None)
@given(episodes(), st.data())
def test_every_beginning_of_an_episode_passes_and_names_exactly_the_open_calls(
    messages: list[Message], data: st.DataObject
) -> None:
    begun = messages[: data.draw(st.integers(0, len(messages)))]
    report = valid(*begun)
    asked = [call.id for item in begun if isinstance(item, AssistantMessage) for call in item.calls]
    answered = {item.call_id for item in begun if isinstance(item, ToolMessage)}
    assert list(report.unanswered) == [id_ for id_ in asked if id_ not in answered]


def _drop(messages: list[Message], at: int) -> list[Message]:
    return messages[:at] + messages[at + 1 :]


def _duplicate(messages: list[Message], at: int) -> list[Message]:
    return messages[: at + 1] + messages[at:]


def _swap(messages: list[Message], at: int) -> list[Message]:
    return [*messages[:at], *messages[at + 1 : at + 2], messages[at], *messages[at + 2 :]]


def _rename(messages: list[Message], at: int) -> list[Message]:
    item = messages[at]
    if isinstance(item, ToolMessage):
        renamed: Message = item.model_copy(update={"call_id": item.call_id + "x"})
    elif isinstance(item, AssistantMessage) and item.calls:
        first = item.calls[0].model_copy(update={"id": item.calls[0].id + "x"})
        renamed = item.model_copy(update={"calls": (first, *item.calls[1:])})
    else:
        return messages
    return [*messages[:at], renamed, *messages[at + 1 :]]


@pytest.mark.parametrize("change", [_drop, _duplicate, _swap, _rename])
@settings(deadline=None)
@given(episodes(), st.data())
def test_every_single_change_around_a_call_is_found(
    change: Callable[[list[Message], int], list[Message]], messages: list[Message], data: st.DataObject
) -> None:
    around = [
        place
        for place, item in enumerate(messages)
        if isinstance(item, ToolMessage) or (isinstance(item, AssistantMessage) and item.calls)
    ]
    assume(around)
    at = data.draw(st.sampled_from(around))
    changed = change(messages, at)
    assume(changed != messages)
    assert not validate_episode(changed).valid


@settings(deadline=None)
@given(episodes(), st.data())
def test_a_message_in_an_open_batch_or_a_second_answer_is_found(messages: list[Message], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(messages)))
    before = messages[at - 1]
    inside = bool(validate_episode(messages[:at]).unanswered)
    answered = isinstance(before, AssistantMessage) and not before.calls
    for extra in (SYSTEM, USER, ANSWER):
        changed = [*messages[:at], extra, *messages[at:]]
        followed = at < len(messages) and isinstance(messages[at], AssistantMessage)
        broken = (
            inside
            or isinstance(extra, SystemMessage)
            or (isinstance(extra, AssistantMessage) and (answered or followed))
        )
        assert validate_episode(changed).valid is not broken
