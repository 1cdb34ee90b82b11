"""Messages: their canonical text, their weight, and what a history keeps of a large one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from longshift import jsontext
from longshift.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    arguments_digest,
    text_of,
    weigh,
)
from longshift.observations import ok, read
from longshift.recording import INLINE_BYTES, Recorded, record

TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["é" * 4200, "\0" * 1500, " " * 8500])
ARGUMENTS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), TEXT | st.none(), max_size=1)
CALLS = st.builds(
    ToolCall, id=st.just("a"), name=st.just("look"), arguments=ARGUMENTS, malformed=st.none() | TEXT.filter(bool)
)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(SystemMessage, content=TEXT),
    st.builds(UserMessage, content=TEXT),
    st.builds(AssistantMessage, content=TEXT, calls=st.lists(CALLS, max_size=1).map(tuple)),
    st.builds(ToolMessage, call_id=st.just("a"), name=st.just("look"), content=TEXT.map(ok)),
)
ADAPTER: TypeAdapter[Message] = TypeAdapter(Message)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (SystemMessage(content="Be brief."), '{"content":"Be brief.","role":"system"}'),
        (UserMessage(content='é "x"\n'), '{"content":"é \\"x\\"\\n","role":"user"}'),
        (AssistantMessage(content="Done."), '{"calls":[],"content":"Done.","role":"assistant"}'),
        (
            AssistantMessage(content="", calls=(ToolCall(id="a", name="look", arguments={"b": None, "a": 1}),)),
            '{"calls":[{"arguments":{"a":1,"b":null},"id":"a","name":"look"}],"content":"","role":"assistant"}',
        ),
        (
            ToolMessage(call_id="a", name="look", content=ok(1)),
            '{"call_id":"a","content":"{\\"ok\\":true,\\"value\\":1}","name":"look","role":"tool"}',
        ),
    ],
)
def test_a_message_has_one_text_by_which_it_is_hashed_and_measured(message: Message, text: str) -> None:
    assert text_of(message) == text
    assert weigh(message).bytes == len(text.encode())
    assert weigh(message).sha256 == jsontext.sha256(text)


@given(MESSAGES)
def test_a_message_survives_its_text(message: Message) -> None:
    assert ADAPTER.validate_json(text_of(message)) == message


@given(MESSAGES)
def test_a_history_keeps_a_message_whole_or_small_with_the_weight_of_the_whole(message: Message) -> None:
    kept = record(message)
    assert kept.weight == weigh(message)
    assert Recorded.model_validate_json(kept.model_dump_json()).weight == weigh(message)
    if weigh(message).bytes <= INLINE_BYTES:
        assert kept == Recorded(message=message)
        return
    assert weigh(kept.message).bytes < 8 * INLINE_BYTES, "control characters take six bytes each"
    if isinstance(message, AssistantMessage):
        assert isinstance(kept.message, AssistantMessage)
        assert bool(kept.message.content.strip()) == bool(message.content.strip())
        assert [arguments_digest(one) for one in kept.message.calls] == [arguments_digest(one) for one in message.calls]
        assert [one.malformed is None for one in kept.message.calls] == [one.malformed is None for one in message.calls]


def test_a_message_is_cut_from_one_byte_over_the_bound() -> None:
    frame = weigh(UserMessage(content="")).bytes
    fits = UserMessage(content="x" * (INLINE_BYTES - frame))
    assert record(fits).whole is None
    assert record(UserMessage(content=fits.content + "x")).whole is not None


def test_a_turn_of_many_large_calls_stays_small() -> None:
    calls = tuple(ToolCall(id=f"{n:0256}", name="n" * 256, arguments={"x": "y" * 100_000}) for n in range(32))
    kept = record(AssistantMessage(content="x" * 100_000, calls=calls))
    assert weigh(kept.message).bytes < 64 * 1024
    assert isinstance(kept.message, AssistantMessage)
    assert all(one.arguments == {} and one.arguments_sha256 for one in kept.message.calls)


def test_a_large_observation_stays_one_when_it_is_cut() -> None:
    kept = record(ToolMessage(call_id="a", name="look", content=ok({"rows": ["x" * 50] * 1000})))
    assert isinstance(kept.message, ToolMessage)
    assert read(kept.message.content)["ok"] is True


@pytest.mark.parametrize("fields", [{"role": "boss", "content": "x"}, {"content": "x"}, {"role": "user"}, {}, None])
def test_what_is_no_message_is_refused(fields: Any) -> None:
    with pytest.raises(ValueError, match="validation error"):
        ADAPTER.validate_python(fields)
