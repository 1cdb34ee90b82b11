"""Evidence: how checks are declared, and what they find of a trajectory."""

import sys
from typing import Any

import pytest
from pydantic import ValidationError

from examples.mending.evidence import TESTS, tests_pass
from examples.shop.agent import agent, buyer
from examples.shop.evidence import drafts, orders
from longshift import Agent, EvidenceCheck, Status, Trajectory, Verdict, evidence_check
from longshift.contracts import RunResult
from longshift.evidence import grade
from longshift.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from longshift.observations import error, ok
from longshift.tools import DeclarationRefused

COMPLETED = RunResult(run_id="r", status=Status.COMPLETED, answer="Done.", detail="answered")
VANILLA: dict[str, Any] = {"sku": "SKU-VANILLA", "quantity": 6, "total_cents": 1500, "currency": "USD"}
STRAWBERRY: dict[str, Any] = {"sku": "SKU-STRAWBERRY", "quantity": 4, "total_cents": 1100, "currency": "USD"}


def trajectory(tool: str, *contents: str) -> Trajectory:
    """A completed shift whose calls of one tool were answered so."""
    calls = tuple(ToolCall(id=f"c{number}", name=tool) for number in range(len(contents)))
    answers = [
        ToolMessage(call_id=call.id, name=tool, content=content) for call, content in zip(calls, contents, strict=True)
    ]
    asked = [AssistantMessage(content="", calls=calls)] if calls else []
    messages: list[Message] = [UserMessage(content="Go."), *asked, *answers]
    return Trajectory(COMPLETED, (*messages, AssistantMessage(content="Both drafts are made, 2600 cents in all.")))


def checking(judge: Any) -> EvidenceCheck:
    """A check that judges so."""
    return evidence_check(name="own", looks_at="what it likes", cannot_know="anything else")(judge)


def test_a_check_is_declared_with_what_it_looks_at_and_what_it_cannot_know() -> None:
    @evidence_check(looks_at="the answer", cannot_know="whether it is true")
    def answered(given: Trajectory) -> Verdict:
        return Verdict(given.result.answer is not None, f"the answer is {given.result.answer}")

    assert (answered.name, answered.looks_at, answered.cannot_know) == (
        "answered",
        "the answer",
        "whether it is true",
    )
    (graded,) = grade([answered], trajectory("look"))
    assert graded.check is answered
    assert graded.verdict == Verdict(True, "the answer is Done.")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"looks_at": " "}, "check own: looks_at is blank; say it in a sentence"),
        ({"cannot_know": ""}, "check own: cannot_know is blank; say it in a sentence"),
        ({"name": "Own check"}, "check 'Own check': cannot be the name of a check"),
    ],
)
def test_a_check_that_says_too_little_is_refused_where_it_is_declared(given: dict[str, str], words: str) -> None:
    with pytest.raises(DeclarationRefused, match="^" + words):
        evidence_check(**{"name": "own", "looks_at": "a", "cannot_know": "b", **given})(lambda given: Verdict(True, ""))


def test_a_trajectory_tells_values_and_errors_of_one_tool_by_its_registered_name() -> None:
    given = trajectory("look", ok(1), error("refused", "no"), ok([2]))

    assert given.values("look") == [1, [2]]
    assert given.errors("look") == [{"kind": "refused", "message": "no"}]
    assert (given.values("other"), given.errors("other")) == ([], [])
    assert [(call.id, body["ok"]) for call, body in given.observed()] == [("c0", True), ("c1", False), ("c2", True)]


def test_a_check_that_fails_itself_did_not_pass() -> None:
    def broken(given: Trajectory) -> Verdict:
        raise LookupError("no\nsuch order")

    def leaving(given: Trajectory) -> Verdict:
        sys.exit(0)

    checks = [checking(broken), checking(lambda given: True), checking(leaving)]
    found = grade(checks, trajectory("look"))

    assert [one.verdict.passed for one in found] == [False, False, False]
    assert found[0].verdict.sentence == "the check itself failed with LookupError: no such order"
    assert found[1].verdict.sentence == "the check itself failed: it returned bool instead of a Verdict"
    assert found[2].verdict.sentence == "the check itself failed with SystemExit: 0"


def test_only_a_valid_episode_is_judged() -> None:
    given = trajectory("look", ok(1))
    doubled = Trajectory(COMPLETED, (*given.messages, given.messages[-1]))

    (found,) = grade([checking(lambda given: Verdict(True, "all is well"))], doubled)

    assert found.verdict.passed is False
    assert found.verdict.sentence.startswith(
        "message 4 breaks the episode: an assistant message follows a final answer"
    )


def test_the_agents_of_the_shop_declare_their_checks_and_no_run_knows_of_them() -> None:
    assert agent.evidence == (drafts,)
    assert buyer.evidence == (orders,)
    assert "evidence" not in agent.spec().model_dump()


@pytest.mark.parametrize(
    ("check", "tool", "contents", "passed", "words"),
    [
        (drafts, "draft_order", [ok(VANILLA), ok(STRAWBERRY)], True, "both drafts were made, once each, 2600 cents"),
        (drafts, "draft_order", [ok(VANILLA)], False, "the drafts are not the expected ones: SKU-VANILLA x 6"),
        (drafts, "draft_order", [], False, "no draft was made"),
        (drafts, "order", [ok(VANILLA), ok(STRAWBERRY)], False, "no draft was made"),
        (orders, "place_order", [ok(STRAWBERRY), ok(VANILLA)], True, "both orders were placed, once each"),
        (orders, "place_order", [ok(VANILLA), ok(VANILLA)], False, "SKU-VANILLA x 6, SKU-VANILLA x 6"),
        (orders, "place_order", [ok(VANILLA), error("refused", "no")], False, "not the expected ones: SKU-VANILLA x 6"),
        (orders, "place_order", [ok("ordered"), ok(None)], False, "None x None, None x None"),
        (orders, "place_order", [], False, "not the expected ones: nothing"),
        (
            orders,
            "place_order",
            [error("outcome_unknown", "lost"), ok(VANILLA), ok(STRAWBERRY)],
            False,
            "1 more may or may not have been placed; placed: SKU-VANILLA x 6, SKU-STRAWBERRY x 4",
        ),
    ],
)
def test_the_shops_checks_judge_by_what_the_tools_observed(
    check: EvidenceCheck, tool: str, contents: list[str], passed: bool, words: str
) -> None:
    (found,) = grade([check], trajectory(tool, *contents))

    assert found.verdict.passed is passed
    assert words in found.verdict.sentence


RUN = ("run_command", {"command": TESTS})
OTHER = ("run_command", {"command": "ls"})
EDIT = ("edit_file", {"path": "a.py", "old": "a", "new": "b"})


def mending(*steps: Any) -> Trajectory:
    """A completed shift of these calls, each with its observation."""
    messages: list[Message] = [UserMessage(content="Mend it.")]
    for number, ((name, arguments), content) in enumerate(steps):
        call = ToolCall(id=f"c{number}", name=name, arguments=arguments)
        messages.append(AssistantMessage(content="", calls=(call,)))
        messages.append(ToolMessage(call_id=call.id, name=name, content=content))
    return Trajectory(COMPLETED, (*messages, AssistantMessage(content="It is mended.")))


@pytest.mark.parametrize(
    ("steps", "passed", "words"),
    [
        (
            [(RUN, ok({"exit_code": 1})), (EDIT, ok("done")), (RUN, ok({"exit_code": 0}))],
            True,
            "ended with exit code 0",
        ),
        ([(RUN, ok({"exit_code": 0})), (OTHER, ok({"exit_code": 1}))], True, "ended with exit code 0"),
        ([(RUN, ok({"exit_code": 0})), (EDIT, error("refused", "no"))], True, "ended with exit code 0"),
        (
            [(RUN, ok({"exit_code": 0})), (EDIT, ok("done"))],
            False,
            "or may have been: 1 writes or edits after the last run",
        ),
        ([(RUN, ok({"exit_code": 0})), (EDIT, error("outcome_unknown", "lost"))], False, "1 writes or edits"),
        ([(RUN, ok({"exit_code": 0})), (RUN, ok({"exit_code": 1}))], False, "ended with exit code 1"),
        (
            [(RUN, ok({"exit_code": 0})), (RUN, error("timeout", "no"))],
            False,
            "were not run, or their last run told no exit code",
        ),
        ([(OTHER, ok({"exit_code": 0}))], False, "were not run, or their last run told no exit code"),
    ],
)
def test_the_mender_is_judged_by_the_last_run_of_the_tests(steps: list[Any], passed: bool, words: str) -> None:
    (found,) = grade([tests_pass], mending(*steps))

    assert found.verdict.passed is passed
    assert words in found.verdict.sentence


ORDERED = trajectory("place_order", ok(STRAWBERRY), ok(VANILLA))
TESTED = mending((RUN, ok({"exit_code": 0})))


def cut_off(given: Trajectory, name: str, requested: bool = True) -> Trajectory:
    """A shift that ended while nobody could say what came of one more call, `lost`; its request is in no message where
    the shift was terminated before the journal confirmed that."""
    turn = [AssistantMessage(content="", calls=(ToolCall(id="lost", name=name),))] if requested else []
    update = {"status": Status.OUTCOME_UNKNOWN, "unrun_calls": ("lost",), "unknown_calls": ("lost",)}
    return Trajectory(COMPLETED.model_copy(update=update), (*given.messages[:-1], *turn))


@pytest.mark.parametrize(
    ("check", "given", "passed"),
    [
        (orders, cut_off(ORDERED, "place_order"), False),
        (orders, cut_off(ORDERED, "place_order", requested=False), False),
        (orders, cut_off(ORDERED, "write_file"), True),
        (tests_pass, cut_off(TESTED, "edit_file"), False),
        (tests_pass, cut_off(TESTED, "write_file"), False),
        (tests_pass, cut_off(TESTED, "run_command"), False),
        (tests_pass, cut_off(TESTED, "run_command", requested=False), False),
        (tests_pass, cut_off(TESTED, "place_order"), True),
    ],
)
def test_an_effect_that_may_have_happened_at_the_end_lets_no_check_of_its_tool_pass(
    check: EvidenceCheck, given: Trajectory, passed: bool
) -> None:
    (found,) = grade([check], given)

    assert (found.verdict.passed, "may or may not have" in found.verdict.sentence) == (passed, not passed)


def test_an_effect_that_the_shift_was_told_of_is_not_unanswered() -> None:
    given = trajectory("edit_file", error("outcome_unknown", "lost"))
    terminated = Trajectory(COMPLETED.model_copy(update={"unknown_calls": ("c0",)}), given.messages)

    assert terminated.unanswered("edit_file") == []


def test_an_agent_takes_checks_only_each_under_its_own_name() -> None:
    def declared(*checks: Any) -> Agent:
        return Agent(name="a", system="", endpoint="e", evidence=checks)

    assert declared(drafts, orders).evidence == (drafts, orders)
    with pytest.raises(ValidationError, match=r"len is not a check; put @evidence_check\(\.\.\.\) above the function"):
        declared(len)
    with pytest.raises(ValidationError, match="two checks are called drafts; give one another name"):
        declared(drafts, drafts)
