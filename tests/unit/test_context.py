"""Context policies: whatever the run, what a model is sent is a valid episode that fits, and nothing is lost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longshift import Status, jsontext, validate_episode
from longshift.admission import Allowance, End, Hold, before_model_call
from longshift.agent import schemas_bytes
from longshift.chain import Head
from longshift.context import MAX_PARTS, TARGET, Excerpt, Summary, Window, heading, instruction, summarized
from longshift.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    text_of,
    weigh,
)
from longshift.observations import ok
from longshift.state import RunState, Stop
from longshift.turns import ModelFailure, Turn
from tests.unit.authored import agent, call, failure, turn
from tests.unit.loop_driver import RUN_ID, START, Driver, Moment, checked

ROOM = {"model_calls": 500, "tool_calls": 5000, "total_output_tokens": 10**9, "repeats": 0, "seconds": 10.0**6}
"""Limits that no test here reaches by itself."""
SCHEMAS = schemas_bytes(agent().tools)


def bytes_of(messages: Sequence[Message]) -> int:
    """What `context_bytes` counts of a call that is sent these messages."""
    return jsontext.size(f"[{','.join(map(text_of, messages))}]") + SCHEMAS


def steps(count: int, size: int = 300) -> list[Turn]:
    """So many turns with a call each, whose exchange takes about twice so many bytes."""
    return [turn("", call(f"c{n}", "look", text=f"{n:04}".ljust(size, "."))) for n in range(count)]


# Any run


@dataclass(frozen=True)
class Scene:
    """A run: what opens it, what the model does, what a user says, what the limits are."""

    policy: str
    opening: Sequence[Message]
    turns: Sequence[Sequence[int]]
    """Sizes of the arguments of each turn's calls; a turn of none is an answer."""
    summaries: Sequence[str | None]
    """What the model says where it is asked for a summary, in turn; None: it asks for a tool."""
    tells: Sequence[int]
    """Sizes of what a user says, at the model calls that this counts."""
    limits: Sequence[int]
    """`context_bytes`, one for each stretch of ten model calls."""
    wrap_up: bool
    model_calls: int
    fails: frozenset[int]
    """Model calls that fail."""
    driver: list[Driver] = field(default_factory=list)


def _opening(system: int, first: int, more: Sequence[int], begins_with_assistant: bool) -> list[Message]:
    messages: list[Message] = [SystemMessage(content="s" * system)] if system else []
    if not begins_with_assistant:
        messages.append(UserMessage(content="u" * first))
    for number, size in enumerate(more):
        made = ToolCall(id=f"o{number}", name="look")
        messages += [
            AssistantMessage(content="é" * (size // 3), calls=(made,)),
            ToolMessage(call_id=made.id, name="look", content=ok("x" * size)),
        ]
    if begins_with_assistant and not more:
        messages.append(AssistantMessage(content="Before you ask."))
    if begins_with_assistant or len(more) % 2:
        messages.append(UserMessage(content="Go on."))
    return messages


SIZES = st.one_of(st.integers(0, 40), st.integers(0, 700))
SCENES = st.builds(
    Scene,
    policy=st.sampled_from(["window", "summarize"]),
    opening=st.builds(_opening, st.integers(0, 200), st.integers(0, 300), st.lists(SIZES, max_size=8), st.booleans()),
    turns=st.lists(st.lists(SIZES, min_size=1, max_size=3), min_size=5, max_size=40),
    summaries=st.lists(st.one_of(st.none(), st.sampled_from(["", " ", "So far.", '\n"é" ' * 40, "z" * 9000]))),
    tells=st.lists(SIZES, max_size=5),
    limits=st.lists(st.integers(3000, 9000), min_size=1, max_size=4),
    wrap_up=st.booleans(),
    model_calls=st.integers(5, 60),
    fails=st.frozensets(st.integers(1, 40), max_size=4),
)


def play(scene: Scene, carry: bool = True) -> Driver:
    """Play a scene to its end, looking at each call as it is made."""
    limits = ROOM | {"wrap_up": scene.wrap_up, "model_calls": scene.model_calls, "context_bytes": scene.limits[0]}
    told = dict(enumerate(scene.tells, start=1))

    def replies() -> Iterator[Turn | ModelFailure]:
        summaries = iter(scene.summaries)
        for number, sizes in enumerate(scene.turns, start=1):
            while driver.offered[-1].summary:
                text = next(summaries, "A summary.")
                yield turn("", call("none", "look")) if text is None else turn(text)
            if number in scene.fails:
                yield failure(retry_after=0.0)
                while driver.offered[-1].summary:
                    yield turn("After a failure.")
            yield turn("", *(call(f"c{number}-{n}", "look", text="t" * size) for n, size in enumerate(sizes)))
        while driver.offered[-1].summary:
            yield turn("At last.")
        yield turn("Done.")
        yield turn("Done, and what was said since.")

    def hook(running: Driver, moment: Moment) -> None:
        if moment != "model":
            return
        calls = running.state.model_calls
        if calls in told:
            running.tell({"text": "m" * (told.pop(calls) + 1)})
        look(running, scene)
        if calls % 10 == 0:
            running.set_limits({"context_bytes": scene.limits[(calls // 10) % len(scene.limits)]})

    driver = Driver(
        agent(context=scene.policy, limits=limits), replies(), opening=scene.opening, hook=hook, carry=carry
    )
    return driver


def kept(transcript: Sequence[Message]) -> int:
    """Messages that never leave: the system's and the first user's, where nothing stands before them."""
    count = int(transcript[0].role == "system")
    return count + int(transcript[count].role == "user")


def exchanges(messages: Sequence[Message]) -> int:
    """How many exchanges messages are; what stands before the first assistant message is one."""
    turns = sum(message.role == "assistant" for message in messages)
    return turns + int(bool(messages) and messages[0].role != "assistant")


def look(driver: Driver, scene: Scene) -> None:
    """Hold what the latest call was sent against the rules."""
    sent, allowance, state = driver.sent[-1], driver.offered[-1], driver.state
    limit, transcript, stays = state.limits.context_bytes, driver.transcript, kept(driver.transcript)
    report = validate_episode(sent)
    assert report.valid
    assert not report.unanswered
    assert sent[:stays] == transcript[:stays]
    assert sent[-1].role in ("user", "tool")
    assert bytes_of(sent) <= limit
    asked = allowance.summary
    excerpt = asked.excerpt if asked else state.excerpt
    if asked:
        assert (scene.policy, bytes_of(sent), sent[-1].role) == ("summarize", asked.bytes, "user")
        assert state.model_calls < state.limits.model_calls - scene.wrap_up, "it is not the last"
    else:
        assert bytes_of(sent) == state.context_bytes
    if excerpt is None:
        assert sent == transcript
        return
    assert excerpt.kept.length == stays
    left, rest = transcript[stays : excerpt.start], transcript[excerpt.start : excerpt.until]
    assert excerpt.exchanges == exchanges(left)
    assert rest[0].role == "assistant" or (not left and asked)
    marker = [UserMessage(content=_stand_in(driver, excerpt))] if left else []
    last = [UserMessage(content=instruction(excerpt.characters))] if asked else []
    assert sent == [*transcript[:stays], *marker, *rest, *last]


def _stand_in(driver: Driver, excerpt: Excerpt) -> str:
    text = heading(RUN_ID, excerpt)
    assert f"longshift transcript {RUN_ID}]" in text
    if excerpt.summary is None:
        return text
    assert f"model call {excerpt.summary.call}." in text
    return text + driver.summaries[excerpt.summary.call]


def smallest(driver: Driver) -> int:
    """Bytes of the least that the next call can be sent: what stays, a bare marker and the latest exchange."""
    transcript, stays, state = driver.transcript, kept(driver.transcript), driver.state
    begins = [n for n, message in enumerate(transcript) if n == stays or (n > stays and message.role == "assistant")]
    start = begins[-1] if begins else len(transcript)
    excerpt = Excerpt(kept=state.head, start=start, exchanges=exchanges(transcript[stays:start]))
    text = heading(RUN_ID, excerpt.model_copy(update={"kept": state.head.model_copy(update={"length": stays})}))
    marker = [UserMessage(content=text)] if start > stays else []
    waiting = [UserMessage(content=told) for told in state.tells]
    return bytes_of([*transcript[:stays], *marker, *transcript[start:], *waiting])


@settings(deadline=None, max_examples=100)
@given(SCENES)
def test_whatever_the_run_what_is_sent_is_a_valid_episode_that_fits_and_nothing_is_lost(scene: Scene) -> None:
    driver = play(scene)
    result = checked(driver)
    least, limit = smallest(driver), driver.state.limits.context_bytes
    if result.status is Status.CONTEXT_LIMIT:
        assert least > limit or scene.wrap_up, "the notice of a wrap-up may be what fits no more"
    assert driver.state.window is not None
    assert len(driver.state.window.parts) <= MAX_PARTS


@settings(deadline=None, max_examples=20)
@given(SCENES)
def test_a_run_that_never_outgrows_its_context_is_the_same_under_every_policy(scene: Scene) -> None:
    plays = []
    for policy in ("stop", "window", "summarize"):
        roomy = Scene(**(vars(scene) | {"policy": policy, "limits": [10**9]}))
        driver = play(roomy, carry=False)
        plays.append((driver.run().model_dump(), driver.sent))
    assert plays[0] == plays[1] == plays[2]


# The window


def test_when_the_window_moves_it_leaves_head_room_so_that_most_calls_begin_alike() -> None:
    run = agent(context="window", limits=ROOM | {"context_bytes": 8000})
    driver = Driver(run, [*steps(100), turn("Done.")])
    assert checked(driver).status is Status.COMPLETED
    starts = [allowance.window.excerpt().start for allowance in driver.offered if allowance.window]
    moves = [n for n in range(1, 101) if starts[n] != starts[n - 1]]
    assert 10 < len(moves) < 40
    assert all(bytes_of(driver.sent[n]) <= 8000 * TARGET for n in moves)


def test_an_exchange_too_large_to_fit_still_ends_the_run_with_the_figures() -> None:
    run = agent(context="summarize", limits=ROOM | {"context_bytes": 3000})
    driver = Driver(run, [*steps(2), turn("", call("big", text="x" * 3000))])
    result = checked(driver)
    assert (result.status, result.model_calls) == (Status.CONTEXT_LIMIT, 3)
    assert (
        result.detail
        == f"the next call needs {smallest(driver)} of 3000 context bytes, with nothing but the latest exchange"
    )


def test_a_raised_limit_lets_a_run_that_waits_at_it_go_on() -> None:
    def hook(driver: Driver, moment: Moment) -> None:
        if moment == "hold":
            driver.set_limits({"context_bytes": 9000})

    run = agent(context="window", limits=ROOM | {"context_bytes": 3000, "on_limit": "wait"})
    driver = Driver(run, [*steps(2), turn("", call("big", text="x" * 3000)), turn("Done.")], hook=hook)
    assert checked(driver).status is Status.COMPLETED
    assert driver.sent[-1] == driver.transcript[:-1], "nothing has to leave any more"


def test_what_a_user_says_last_stands_in_the_tail() -> None:
    def hook(driver: Driver, moment: Moment) -> None:
        if moment == "model" and driver.state.model_calls == 20:
            driver.tell({"text": "Hurry."})

    run = agent(context="window", limits=ROOM | {"context_bytes": 6000})
    driver = Driver(run, [*steps(20), turn("Done.")], hook=hook)
    assert checked(driver).status is Status.COMPLETED
    assert driver.sent[-1][-1] == UserMessage(content="Hurry.")


# Summaries

ASKED: Sequence[Message] = (UserMessage(content="Begin."),)
SMALL = ROOM | {"context_bytes": 8000, "output_tokens": 1000}


def summarizing(texts: Sequence[Turn | ModelFailure], count: int = 30, **limits: Any) -> Driver:
    """A run of so many steps in which the model is asked for summaries, and says these first."""

    def replies() -> Iterator[Turn | ModelFailure]:
        said = iter(texts)
        for step in [*steps(count), turn("Done.")]:
            while driver.offered[-1].summary:
                yield next(said, turn("A later summary."))
            yield step

    driver = Driver(agent(context="summarize", limits=SMALL | limits), replies(), opening=ASKED)
    return driver


def test_a_summary_stands_in_the_place_of_what_it_tells_of_and_is_summarized_in_turn() -> None:
    driver = summarizing([turn("Twelve done."), turn("Twenty done.")])
    result = checked(driver)
    asked = [n for n, allowance in enumerate(driver.offered) if allowance.summary]
    assert (result.status, result.model_calls) == (Status.COMPLETED, 31 + len(asked))
    assert len(asked) > 1
    first, second = (driver.sent[n] for n in asked[:2])
    assert isinstance(first[1], AssistantMessage), "the first summary is of the exchanges after the opening"
    assert second[1].content.endswith("Twelve done.")
    after = driver.sent[asked[0] + 1][1]
    assert (after.role, after.content.endswith("\n\nTwelve done.")) == ("user", True)
    assert "[This is a summary of them, which you wrote in model call" in after.content
    assert all("summary" not in message.content for message in driver.transcript)


def test_a_summary_call_is_counted_and_paid_like_any_other() -> None:
    budget = {"estimated_call_cents": 1, "model_budget_cents": 60}
    driver = summarizing([turn("S", tokens=7, cost=20_000)], 12, **budget)
    result = checked(driver)
    assert [allowance.summary is not None for allowance in driver.offered].count(True) == 1
    assert (result.model_calls, result.output_tokens, result.exposure) == (14, 13 + 7, 13 * 10_000 + 20_000)
    assert driver.state.replies == 14


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (turn(" \n"), "it is blank"),
        (turn("I look again.", call("again")), "it asks for tool calls"),
        (turn("y" * 3000), "it takes 3000 bytes where 2000 may be taken"),
    ],
)
def test_a_summary_that_cannot_be_used_leaves_the_bare_marker(reply: Turn, why: str) -> None:
    driver = summarizing([reply], 15)
    result = checked(driver)
    asked = next(n for n, allowance in enumerate(driver.offered) if allowance.summary)
    after = driver.sent[asked + 1][1]
    assert after.content.endswith(f"longshift transcript {RUN_ID}]")
    assert [decision.detail["why"] for decision in driver.state.decisions if decision.kind == "summary_refused"] == [
        why
    ]
    assert result.notes == ("a summary could not be used: older exchanges left the context without one",)


def test_what_left_after_a_summary_without_one_is_told_beside_it() -> None:
    driver = summarizing([turn("Told."), turn(" ")], 25)
    checked(driver)
    asked = [n for n, allowance in enumerate(driver.offered) if allowance.summary]
    after = driver.sent[asked[1] + 1][1].content
    assert "This is a summary of the first" in after
    assert after.endswith("\n\nTold.")


@pytest.mark.parametrize("texts", [(" ", "Told."), ("Told before.", " ", "Told.")])
def test_a_summary_says_of_how_many_exchanges_it_is_where_others_left_without_one(texts: Sequence[str]) -> None:
    driver = summarizing([turn(text) for text in texts], 40)
    checked(driver)
    asked = {n: allowance.summary for n, allowance in enumerate(driver.offered) if allowance.summary}
    blank, last = (list(asked)[texts.index(text)] for text in (" ", "Told."))
    untold = asked[blank].after.left.exchanges - asked[blank].excerpt.exchanges
    told = asked[last].after.left.exchanges - untold
    marker = driver.sent[last + 1][1].content
    assert f"\n[This is a summary of {told} of them, which you wrote in model call " in marker
    assert marker.endswith("\n\nTold.")
    reply = AssistantMessage(content="Told.")
    earlier = summarized(asked[last], reply, weigh(reply), 9, 8000, lambda: False)  # as runs from before the patch say
    assert isinstance(earlier, Window)
    assert "\n[This is a summary of them, which" in heading(RUN_ID, earlier.excerpt())


def test_a_summary_call_that_fails_follows_the_retry_rules() -> None:
    busy = failure("busy", retry_after=0.0)
    assert checked(summarizing([busy, busy, turn("S")])).status is Status.COMPLETED
    result = checked(summarizing([busy] * 3))
    assert (result.status, result.detail) == (Status.MODEL_FAILED, "busy (3 attempts made)")
    result = checked(summarizing([failure("refused", transient=False)]))
    assert (result.status, result.detail) == (Status.MODEL_FAILED, "refused")


@pytest.mark.parametrize("wrap_up", [False, True])
@pytest.mark.parametrize("by", ["model_calls", "total_output_tokens", "model_budget_cents"])
def test_the_last_call_that_the_limits_leave_is_not_spent_on_a_summary(by: str, wrap_up: bool) -> None:
    full = summarizing([turn("S", tokens=1000, cost=10_000)], 12)
    checked(full)
    before = next(n for n, allowance in enumerate(full.offered) if allowance.summary)
    for further in range(5):
        limits: dict[str, Any] = {"wrap_up": wrap_up}
        if by == "model_calls":
            limits["model_calls"] = before + further
        elif by == "total_output_tokens":
            limits["total_output_tokens"] = before + 1000 * further
        else:
            limits |= {"estimated_call_cents": 1, "model_budget_cents": max(1, before + further)}
        if by == "model_budget_cents":
            limits["output_tokens"] = 10
        driver = summarizing([turn("S")], 12, **limits)
        checked(driver)
        asked = any(allowance.summary for allowance in driver.offered)
        assert asked == (further > 1 + wrap_up), (further, limits)


def test_a_transcript_far_past_its_limit_is_summarized_in_bites() -> None:
    opening: list[Message] = [UserMessage(content="Go.")]
    for n in range(30):
        made = ToolCall(id=f"o{n}", name="look")
        opening += [
            AssistantMessage(content="", calls=(made,)),
            ToolMessage(call_id="o" + str(n), name="look", content=ok("x" * 600)),
        ]
    run = agent(context="summarize", limits=SMALL)
    driver = Driver(run, [*(turn(f"Bite {n}.") for n in range(3)), turn("Done.")], opening=opening)
    assert checked(driver).status is Status.COMPLETED
    assert [allowance.summary is not None for allowance in driver.offered] == [True, True, True, False]
    excerpts = [allowance.summary.excerpt for allowance in driver.offered if allowance.summary]
    assert [one.start for one in excerpts[1:]] == [one.until for one in excerpts[:-1]], "each goes on where one ended"


def test_a_stop_a_pause_and_the_deadline_hold_before_a_summary_as_before_any_call() -> None:
    due: list[RunState] = []

    def hook(driver: Driver, moment: Moment) -> None:
        if moment == "model" and driver.offered[-1].summary and not due:
            before = driver.state.model_copy(deep=True)
            before.model_calls -= 1
            due.append(before)

    driver = summarizing([], 12)
    driver.hook = hook
    checked(driver)
    state = due[0]
    allowance = before_model_call(state, START)
    assert isinstance(allowance, Allowance)
    assert allowance.summary
    late = before_model_call(state, state.deadline)
    assert isinstance(late, End)
    assert late.status is Status.TIME_LIMIT
    assert isinstance(before_model_call(state.model_copy(update={"paused": True}), START), Hold)
    stopped = before_model_call(state.model_copy(update={"stop": Stop()}), START)
    assert isinstance(stopped, End)
    assert stopped.status is Status.STOP_REQUESTED


def test_the_texts_are_those_by_which_old_calls_are_shown() -> None:
    bare = Excerpt(kept=Head(length=2), start=9, exchanges=3)
    left = (
        "[3 earlier exchanges of this run (7 messages) stood here and are left out, since the transcript outgrew the "
        "context. All of them are in the journal; a person sees them with: longshift transcript run-1]"
    )
    told = Summary(call=5, sha256="", exchanges=2, bytes=0)
    assert heading(RUN_ID, bare) == left
    assert heading(RUN_ID, bare.model_copy(update={"summary": told})) == (
        f"{left}\n[This is a summary of the first 2 of them, which you wrote in model call 5.]\n\n"
    )
    untold = Summary(call=5, sha256="", exchanges=1, untold=1, bytes=0)
    for exchanges_left, of in ((2, "them"), (3, "the first 2 of them")):
        marker = bare.model_copy(update={"summary": untold, "exchanges": exchanges_left})
        assert f"\n[This is a summary of 1 of {of}, which you wrote in model call 5.]" in heading(RUN_ID, marker)
    assert jsontext.sha256(instruction(500)) == "9021055432c97e6eec214348a1e1dc17a0e1b62620f4a6c402e811e2a7d8546b"


# What is carried


def test_what_is_carried_of_the_window_stays_small_after_ten_thousand_calls() -> None:
    state = RunState(run_id="r", started_at=START)
    state.limits = state.limits.changed({"context_bytes": 2_000_000})
    state.follow("window")
    state.append_message(UserMessage(content="Go."))
    for n in range(10_000):
        made = ToolCall(id=f"c{n}", name="look")
        state.append_message(AssistantMessage(content="", calls=(made,)))
        state.append_message(ToolMessage(call_id=made.id, name="look", content=ok(n)))
        allowance = before_model_call(state.model_copy(update={"model_calls": 0}), START)
        assert isinstance(allowance, Allowance)
        state.take_in((), allowance.window)
        state.journaled(len(state.entries), 0)
    window = state.window
    assert window is not None
    assert window.left.exchanges + sum(part.exchanges for part in window.parts) == 10_000
    assert window.parts[-1].exchanges == 1, "the latest exchange leaves alone"
    assert len(window.model_dump_json()) < 4096
    assert Window.model_validate_json(window.model_dump_json()) == window


@pytest.mark.parametrize("text", ['"é"\n' * 20, "é" * 5000], ids=["whole in the history", "cut there"])
def test_a_summary_weighs_what_its_text_does_in_json_also_where_the_history_has_it_cut(text: str) -> None:
    driver = summarizing([turn(text)] * 9, 150, context_bytes=80_000)
    checked(driver)
    window = driver.state.window
    assert window is not None
    assert window.summary is not None
    assert window.summary.bytes == jsontext.size(jsontext.canonical(text)) - len('""')
