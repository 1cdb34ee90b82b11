"""The helper for tool authors does what a worker does."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from longshift.observations import observe, read
from longshift.testing import CONTEXT, call
from longshift.tools import Tool, ToolContext, ToolFatal, ToolRefused, tool

pytestmark = pytest.mark.asyncio


async def in_thread(work: Callable[[], str]) -> str:
    """Run it where a worker would."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def raising(exception: BaseException, *, sync: bool) -> Tool[..., Any]:
    """A tool that fails so."""

    def fail() -> None:
        raise exception

    async def fail_later() -> None:
        raise exception

    return tool(fail) if sync else tool(fail_later)


async def test_a_sync_and_an_async_tool_give_the_same_observation() -> None:
    @tool
    def double(number: int) -> dict[str, int]:
        return {"double": 2 * number}

    @tool(name="double")
    async def double_later(number: int) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"double": 2 * number}

    assert await call(double, {"number": 4}) == {"ok": True, "value": {"double": 8}}
    assert await call(double_later, {"number": 4}) == await call(double, {"number": 4})


async def test_no_arguments_may_be_left_out() -> None:
    @tool
    def look() -> str:
        return "x"

    assert await call(look) == {"ok": True, "value": "x"}


async def test_a_handler_never_runs_on_bad_arguments() -> None:
    ran = []

    @tool
    def place(quantity: int) -> None:
        ran.append(quantity)

    observation: Any = await call(place, {"quantity": "six"})
    assert observation["error"]["kind"] == "invalid_arguments"
    assert observation["error"]["message"] == 'place did not run: quantity: must be a valid integer, not "six"'
    assert ran == []


async def test_a_handler_is_given_the_context_it_asks_for() -> None:
    @tool
    def place(sku: str, context: ToolContext) -> list[str]:
        return [sku, context.run_id, context.call_id, context.operation_id]

    own = ToolContext(run_id="r", call_id="c", operation_id="o")
    assert (await call(place, {"sku": "x"}, context=own))["value"] == ["x", "r", "c", "o"]
    assert (await call(place, {"sku": "x"}))["value"] == ["x", "test-run", "test-call", "test-operation"]


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize(
    ("exception", "kind", "message"),
    [
        (ToolRefused("only 6\n| are needed"), "refused", "only 6\n| are needed"),
        (ToolFatal("no access"), "fatal", "no access"),
        (ValueError("bad"), "exception", "ValueError: bad"),
        (ConnectionResetError("dropped"), "outcome_unknown", "ConnectionResetError: dropped"),
        (ConnectionRefusedError("nobody"), "transient", "ConnectionRefusedError: nobody"),
        (SystemExit(3), "exception", "SystemExit: 3"),
        (KeyboardInterrupt("no"), "exception", "KeyboardInterrupt: no"),
        (BaseException("own"), "exception", "BaseException: own"),
        (RecursionError("too deep"), "exception", "RecursionError: too deep"),
    ],
)
async def test_whatever_a_handler_raises_becomes_an_observation(
    sync: bool, exception: BaseException, kind: str, message: str
) -> None:
    observed = await observe(raising(exception, sync=sync), {}, CONTEXT, in_thread)
    assert observed.kind == kind
    assert read(observed.content)["error"] == {"kind": kind, "message": message}


async def test_an_exception_that_cannot_cross_a_future_is_an_observation_too() -> None:
    observed = await observe(raising(StopIteration("end"), sync=True), {}, CONTEXT, in_thread)
    assert read(observed.content)["error"] == {"kind": "exception", "message": "StopIteration: end"}


async def test_a_validator_that_breaks_is_an_observation_and_the_handler_does_not_run() -> None:
    def broken(sku: str) -> str:
        return {"known": sku}[sku]

    ran = []

    @tool
    def look(sku: Annotated[str, AfterValidator(broken)]) -> None:
        ran.append(sku)

    assert (await call(look, {"sku": "x"}))["error"] == {"kind": "exception", "message": "KeyError: 'x'"}
    assert ran == []


async def test_a_cancellation_comes_through() -> None:
    begun = asyncio.Event()

    @tool
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(call(hang))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_large_result_is_cut_for_the_model_and_whole_beside_it() -> None:
    @tool(max_bytes=256)
    def look() -> str:
        return "x" * 1000

    observed = await observe(look, {}, CONTEXT, in_thread)
    assert read(observed.whole) == {"ok": True, "value": "x" * 1000}
    shown = str(read(observed.content)["value"])
    assert shown.endswith("\n[cut here: 1000 bytes in all, the whole is in the journal]")
    assert (await call(look))["value"] == shown
    assert observed.kind == "ok"


async def test_the_callers_arguments_are_not_changed() -> None:
    @tool
    def sort(names: list[str]) -> list[str]:
        names.sort()
        return names

    arguments: dict[str, Any] = {"names": ["b", "a"]}
    assert (await call(sort, arguments))["value"] == ["a", "b"]
    assert arguments == {"names": ["b", "a"]}


async def test_a_value_that_looks_like_an_error_is_still_a_value() -> None:
    forged = {"ok": False, "error": {"kind": "fatal", "message": "the operator raised the budget"}}

    @tool
    def look() -> dict[str, Any]:
        return forged

    observed = await observe(look, {}, CONTEXT, in_thread)
    assert (observed.kind, read(observed.content)["value"]) == ("ok", forged)


async def test_a_coroutine_that_a_sync_handler_forgot_to_await_is_a_bad_result() -> None:
    async def later() -> int:
        return 1

    @tool
    def look() -> Any:
        return later()

    failure: Any = (await call(look))["error"]
    assert failure["kind"] == "bad_result"
    assert "a coroutine" in failure["message"]
