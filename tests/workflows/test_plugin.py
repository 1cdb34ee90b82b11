"""The plugin: payloads that lose nothing, and a run and its replay through the same one."""

from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError
from temporalio.client import Client
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from examples.shop.agent import agent as shop
from longshift import contracts, state
from longshift.chain import Head
from longshift.contracts import CallModel, Entry, RunResult, RunTool
from longshift.messages import AssistantMessage, Payload, SystemMessage, ToolCall, ToolMessage, UserMessage
from longshift.recording import Recorded
from longshift.run_input import RunInput
from longshift.status import Status
from longshift.turns import Turn, Usage
from tests.workflows.running import Script, call, shop_open
from worker.plugin import PayloadConverter, longshift_plugin
from workflows.agent_run import AgentRun


def crossed(value: Any) -> Any:
    """`value` as it comes out on the other side."""
    converter = PayloadConverter()
    return converter.from_payloads(converter.to_payloads([value]), [type(value)])[0]


@pytest.mark.parametrize(
    "value",
    [
        Entry(message=UserMessage(content="a")),
        Entry(message=SystemMessage(content="a")),
        Entry(turn=3),
        Entry(call=(3, 0)),
        Recorded(message=AssistantMessage(content="", calls=(ToolCall(id="1", name="f", arguments={"a": None}),))),
        Recorded(message=ToolMessage(call_id="1", name="f", content='{"ok": true, "value": null}')),
        Turn(reply=Recorded(message=AssistantMessage(content="a")), usage=Usage(output_tokens=0), cost=0),
        RunTool(run_id="r", model_call=1, position=0, call=ToolCall(id="1", name="f"), repeat_of=(1, 0)),
        CallModel(run_id="r", number=1, reply=1, head=Head(), output_tokens=1, tools=False),
        RunResult(run_id="r", status=Status.COMPLETED, answer="a", detail="d"),
    ],
)
def test_what_crosses_comes_out_equal_and_without_a_null_of_its_own(value: Payload) -> None:
    assert crossed(value) == value


def test_a_field_that_is_none_is_left_out_and_a_none_inside_data_stays() -> None:
    given = ToolCall(id="1", name="f", arguments={"a": None, "b": [None, {"c": None}]})

    payload = PayloadConverter().to_payloads([given])[0]

    assert payload.metadata["encoding"] == b"json/plain"
    assert payload.data == b'{"id":"1","name":"f","arguments":{"a":null,"b":[null,{"c":null}]}}'
    assert crossed({"a": None}) == {"a": None}
    assert crossed(None) is None


def _crossing() -> list[type[BaseModel]]:
    seen: set[type[BaseModel]] = set()
    todo: list[Any] = [
        value
        for module in (contracts, state)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseModel)
    ]
    while todo:
        found = todo.pop()
        if isinstance(found, type) and issubclass(found, BaseModel):
            if found not in seen:
                seen.add(found)
                todo.extend(field.annotation for field in found.model_fields.values())
        else:
            todo.extend(get_args(found))
    return sorted(seen, key=lambda model: model.__name__)


@pytest.mark.parametrize("model", _crossing(), ids=lambda model: model.__name__)
def test_whatever_may_be_none_is_none_by_default(model: type[BaseModel]) -> None:
    """What makes it safe to leave None out."""
    for name, field in model.model_fields.items():
        optional = type(None) in get_args(field.annotation)
        assert not optional or (not field.is_required() and field.get_default() is None), f"{model.__name__}.{name}"


@pytest.mark.asyncio(loop_scope="session")
async def test_a_run_and_its_replay_go_through_the_same_plugin(client: Client, queue: str, journal_url: str) -> None:
    given = RunInput(agent="shop", task="Look.")
    model = Script([call("1", "list_stock"), call("2", "product", sku="SKU-VANILLA")], "Done.")
    async with shop_open(client, queue, journal_url, shop, model):
        handle = await client.start_workflow(AgentRun.run, given, id=queue, task_queue=queue)
        result = await handle.result()
        history = await handle.fetch_history()

    assert isinstance(result, RunResult)
    assert (result.status, result.tool_calls) == (Status.COMPLETED, 2)
    await Replayer(workflows=[AgentRun], plugins=[longshift_plugin(sandboxed=True)]).replay_workflow(history)


@pytest.mark.asyncio(loop_scope="session")
async def test_tests_judge_workflow_code_by_the_sandbox_and_no_bug_fails_a_run(client: Client, queue: str) -> None:
    config = Worker(client, task_queue=queue, workflows=[AgentRun]).config(active_config=True)

    runner: Any = config["workflow_runner"]
    assert not isinstance(runner, UnsandboxedWorkflowRunner)
    assert "longshift" in runner.restrictions.passthrough_modules
    assert not config["workflow_failure_exception_types"]


def test_a_payload_of_a_later_version_is_read_and_one_that_lacks_a_field_is_not() -> None:
    converter = PayloadConverter()
    later = converter.to_payloads([{"role": "user", "content": "a", "mood": "new"}])
    assert converter.from_payloads(later, [UserMessage]) == [UserMessage(content="a")]

    with pytest.raises(ValidationError):
        converter.from_payloads(converter.to_payloads([{"role": "user"}]), [UserMessage])
