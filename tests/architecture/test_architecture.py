"""The house rules that no type checker sees: both sides of each activity, written-out policies, mixed versions."""

import ast
import inspect
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import activities.run_activities
import longshift.run_input
import longshift.state
from activities.run_activities import Activities
from longshift.messages import Payload
from workflows import calls

ROOT = Path(__file__).parents[2]
ROOMS = (
    "longshift",
    "store",
    "endpoints",
    "toolsets",
    "activities",
    "workflows",
    "worker",
    "client",
    "lab",
    "examples",
)
STARTS = {"start_activity", "execute_activity"}
WITHIN_THE_TASK = "check_attributes"
"""The one local activity: it only looks, and what it finds must hold for the very task that it is a part of."""
OTHER_STARTS = {
    "start_local_activity",
    "execute_local_activity",
    "start_activity_method",
    "execute_activity_method",
    "start_activity_class",
    "execute_activity_class",
    "execute_child_workflow",
}
"""Ways to start work that the house does not use; whoever begins to must extend these tests."""


def defined(where: object) -> dict[str, Callable[..., Any]]:
    """The activities that a module or a class defines, by the name they are registered under."""
    found = {}
    for _, member in inspect.getmembers(where):
        name = getattr(getattr(member, "__temporal_activity_definition", None), "name", None)
        if name is not None:
            found[name] = member
    return found


REFERENCES = defined(calls)
BODIES = defined(Activities)


def test_every_activity_that_workflows_call_has_a_body_and_no_other_exists() -> None:
    assert REFERENCES
    assert set(REFERENCES) == set(BODIES)


def test_every_body_is_registered_with_the_worker() -> None:
    registered = {body.__func__.__name__ for body in Activities.all(Activities.__new__(Activities))}  # type: ignore[attr-defined]
    assert registered == {body.__name__ for body in BODIES.values()}


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_both_sides_of_an_activity_take_and_give_the_same(name: str) -> None:
    reference, body = REFERENCES[name], BODIES[name]
    assert not defined(activities.run_activities), "bodies are methods, which hold their clients"
    assert reference.__name__ == body.__name__ == name
    assert list(inspect.signature(reference).parameters) == ["request"]
    assert list(inspect.signature(body).parameters) == ["self", "request"]
    hints = typing.get_type_hints(reference)
    assert hints == typing.get_type_hints(body)
    assert issubclass(hints["request"], Payload)
    assert hints["return"] is type(None) or issubclass(hints["return"], Payload)
    assert inspect.iscoroutinefunction(reference)
    assert inspect.iscoroutinefunction(body)


def sources() -> Iterator[tuple[Path, ast.Module]]:
    """The house's modules, parsed."""
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            yield file, ast.parse(file.read_text(encoding="utf-8"))


def made(*names: str) -> Iterator[tuple[Path, ast.Call]]:
    """The calls of functions of these names, in the house."""
    for file, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in names:
                    yield file, node


ACTIVITY_STARTS = [(file, node) for file, node in made(*STARTS) if not ast.unparse(node.func).startswith("super()")]
"""An interceptor hands on what was started elsewhere."""
WRITTEN_OUT = {
    "activity_id",
    "cancellation_type",
    "heartbeat_timeout",
    "retry_policy",
    "schedule_to_close_timeout",
    "start_to_close_timeout",
    "summary",
}


def test_activities_are_started_in_one_file_and_work_in_no_other_way() -> None:
    assert {file.relative_to(ROOT).as_posix() for file, _ in ACTIVITY_STARTS} == {"workflows/calls.py"}
    others = [(file.relative_to(ROOT).as_posix(), ast.unparse(node.args[0])) for file, node in made(*OTHER_STARTS)]
    assert others == [("workflows/calls.py", WITHIN_THE_TASK)]
    started = {ast.unparse(node.args[0]): ast.unparse(node.args[1].args[0]) for _, node in made("Pending")}  # type: ignore[attr-defined]
    assert started == {name: f"contracts.{name.upper()}" for name in REFERENCES if name != WITHIN_THE_TASK}
    assert len(started) == len(ACTIVITY_STARTS)
    assert {
        ast.unparse(keyword.value)
        for _, node in ACTIVITY_STARTS
        for keyword in node.keywords
        if keyword.arg == "result_type"
    } == {"RawValue"}


@pytest.mark.parametrize("start", [node for _, node in ACTIVITY_STARTS], ids=lambda node: ast.unparse(node.args[0]))
def test_every_start_writes_its_time_outs_and_its_policy_out(start: ast.Call) -> None:
    given = {keyword.arg: keyword.value for keyword in start.keywords}
    assert set(given) >= WRITTEN_OUT
    for name in WRITTEN_OUT:
        assert not (isinstance(given[name], ast.Constant) and given[name].value is None), name  # type: ignore[attr-defined]
    policy = given["retry_policy"]
    names = {node.id for node in ast.walk(policy) if isinstance(node, ast.Name) and node.id.isupper()}
    policies = [getattr(calls, name) for name in names]
    assert policies, "the policy is one of the constants"
    for each in policies:
        assert each.maximum_attempts > 0 or ast.unparse(given["schedule_to_close_timeout"]).startswith("_duration(")


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 1e308])
def test_a_time_out_is_always_bounded_and_never_zero(seconds: float) -> None:
    assert 0 < calls._duration(seconds).total_seconds() <= longshift.state.MAX_DURATION + 1


def test_effects_are_dispatched_once_and_reads_a_few_times() -> None:
    assert calls.ONCE.maximum_attempts == 1
    assert 1 < calls.READING.maximum_attempts == calls.READING_LAST.maximum_attempts <= 10


def test_only_an_experiment_starts_shifts_as_children_and_they_outlive_it() -> None:
    ((file, start),) = made("start_child_workflow")
    assert file.relative_to(ROOT).as_posix() == "lab/fan_out.py"
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in start.keywords}
    assert given["id_reuse_policy"] == "WorkflowIDReusePolicy.REJECT_DUPLICATE"
    assert given["parent_close_policy"] == "workflow.ParentClosePolicy.ABANDON"


def test_no_workflow_is_started_with_a_retry_policy() -> None:
    names = "start_workflow", "execute_workflow", "continue_as_new", "start_child_workflow"
    starts = list(made(*names, "ScheduleActionStartWorkflow"))
    assert starts
    for file, node in starts:
        assert "retry_policy" not in {keyword.arg for keyword in node.keywords}, file
        assert None not in {keyword.arg for keyword in node.keywords}, f"{file}: what ** gives cannot be seen here"


def test_nothing_but_activity_starts_names_a_retry_policy() -> None:
    named = {file.relative_to(ROOT).as_posix() for file, _ in made("RetryPolicy")}
    assert named == {"workflows/calls.py"}


def payloads(of: type[Payload] = Payload) -> Iterator[type[Payload]]:
    """All payload classes of the core."""
    for one in of.__subclasses__():
        if one.__module__.startswith("longshift"):
            yield one
            yield from payloads(one)


PAYLOADS = sorted(set(payloads()), key=lambda one: one.__name__)


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda one: one.__name__)
def test_a_payload_ignores_fields_that_it_does_not_know_and_cannot_be_changed(payload: type[Payload]) -> None:
    assert payload.model_config.get("extra") == "ignore"
    assert payload.model_config.get("frozen") is True


def test_requests_and_results_are_payloads() -> None:
    names = {
        "OpenRun",
        "OpenedRun",
        "CallModel",
        "CalledModel",
        "RunTool",
        "RanTool",
        "CloseRun",
        "RunResult",
        "StateView",
    }
    assert names <= {payload.__name__ for payload in PAYLOADS}
    assert longshift.state.RunState.model_config.get("extra") == "ignore"
    assert longshift.run_input.RunInput.model_config.get("extra") == "forbid", "people are told of a wrong field"


FIRST_FIELDS = {
    "CallModel": {"endpoint", "head", "number", "output_tokens", "reply", "run_id"},
    "CalledModel": {"turn"},
    "CloseRun": {"head", "result", "run_id"},
    "Decision": {"at", "kind", "number"},
    "OpenRun": {"given", "run_id", "started_at"},
    "OpenedRun": {"opening", "spec"},
    "RanTool": {"observation"},
    "RunResult": {"detail", "run_id", "status"},
    "RunSpec": {"agent", "endpoint", "heartbeat_seconds"},
    "RunTool": {"agent", "call", "model_call", "position", "run_id"},
    "Turn": {"reply"},
}
"""Fields without a default. What is added later needs one, since an older worker or a kept history does not send it."""


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda one: one.__name__)
def test_a_field_that_was_added_later_has_a_default(payload: type[Payload]) -> None:
    required = {name for name, field in payload.model_fields.items() if field.is_required()}
    assert required <= FIRST_FIELDS.get(payload.__name__, required)
