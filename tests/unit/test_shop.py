"""The shop: its tools, its authored shift, and the check of what was drafted."""

import json
from pathlib import Path
from typing import Any

import pytest

from examples import shop
from examples.shop.agent import agent
from examples.shop.evidence import check_drafts
from examples.shop.tools import draft_order, list_stock, product
from longshift import Limits, validate_episode
from longshift.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from longshift.observations import error
from longshift.testing import CONTEXT, call
from longshift.tools import Tool

pytestmark = pytest.mark.asyncio

AUTHORED = json.loads(Path(str(shop.__file__)).with_name("turns.json").read_text("utf-8"))
TOOLS: dict[str, Tool[..., Any]] = {tool.spec.name: tool for tool in agent.tools}


async def played(turns: list[dict[str, Any]]) -> list[Message]:
    """The transcript of these authored turns, every call answered by the real tools."""
    messages: list[Message] = [SystemMessage(content=agent.system), UserMessage(content=AUTHORED["task"])]
    for turn in turns:
        calls = [ToolCall.model_validate(item) for item in turn.get("calls", [])]
        messages.append(AssistantMessage(content=turn.get("content", ""), calls=tuple(calls)))
        for item in calls:
            content = error("unknown_tool", "no such tool")
            if item.name in TOOLS:
                content = json.dumps(await call(TOOLS[item.name], item.arguments, context=CONTEXT))
            messages.append(ToolMessage(call_id=item.id, name=item.name, content=content))
    return messages


def drafting(*drafts: tuple[str, Any]) -> list[dict[str, Any]]:
    """Turns that ask for these drafts in one batch and end."""
    calls = [
        {"id": f"d{number}", "name": "draft_order", "arguments": {"sku": sku, "quantity": quantity}}
        for number, (sku, quantity) in enumerate(drafts)
    ]
    return [{"calls": calls}, {"content": "Done."}]


VANILLA, STRAWBERRY = ("SKU-VANILLA", 6), ("SKU-STRAWBERRY", 4)


async def test_the_agent_is_the_demonstration_as_the_cases_know_it() -> None:
    assert agent.name == "shop"
    assert agent.system == "Prepare replenishment drafts with the tools. Drafts are proposals, never purchases."
    assert agent.endpoint == "authored"
    assert agent.limits == Limits()
    assert {tool.spec.name: tool.spec.kind for tool in agent.tools} == {
        "list_stock": "read",
        "product": "read",
        "draft_order": "read",
    }


async def test_the_stock_says_what_is_needed_at_which_price() -> None:
    value: Any = (await call(list_stock))["value"]
    rows = value["products"]
    assert {row["sku"]: (row["price_cents"], row["needed"]) for row in rows} == {
        "SKU-VANILLA": (250, 6),
        "SKU-STRAWBERRY": (275, 4),
        "SKU-CHOCOLATE": (300, 0),
    }
    assert all(row["needed"] == row["target"] - row["stock"] for row in rows)
    assert [(await call(product, {"sku": row["sku"]}))["value"] for row in rows] == rows


async def test_a_draft_of_what_is_needed_goes_through() -> None:
    assert await call(draft_order, {"sku": "SKU-VANILLA", "quantity": 6}) == {
        "ok": True,
        "value": {"sku": "SKU-VANILLA", "quantity": 6, "total_cents": 1500, "currency": "USD"},
    }


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"sku": "SKU-VANILLA", "quantity": 8}, "refused", "6 tubs are needed, not 8; draft 6"),
        ({"sku": "SKU-CHOCOLATE", "quantity": 1}, "refused", "0 tubs are needed, not 1; draft none"),
        ({"sku": "SKU-MINT", "quantity": 1}, "not_found", "no product SKU-MINT; the products are SKU-VANILLA"),
        ({"sku": "SKU-VANILLA", "quantity": "six"}, "invalid_arguments", 'must be a valid integer, not "six"'),
        ({"sku": "SKU-CHOCOLATE", "quantity": 0}, "invalid_arguments", "greater than or equal to 1"),
    ],
)
async def test_a_wrong_draft_is_refused_with_what_would_be_right(
    arguments: dict[str, Any], kind: str, words: str
) -> None:
    failure: Any = (await call(draft_order, arguments))["error"]
    assert failure["kind"] == kind
    assert words in failure["message"]


async def test_the_opening_shift_gives_two_drafts_and_the_evidence_for_them() -> None:
    messages = await played(AUTHORED["turns"])
    assert len(messages) == 8
    assert validate_episode(messages).complete
    evidence = check_drafts(messages)
    assert evidence.verdict
    assert [draft["total_cents"] for draft in evidence.drafts] == [1500, 1100]
    assert evidence.total_cents == 2600
    assert "2600 cents" in evidence.sentence


@pytest.mark.parametrize(
    ("turns", "total", "words"),
    [
        ([{"content": "Vanilla needs six tubs, strawberry four. Drafted: 2600 cents."}], 0, "no draft was made"),
        (drafting(("SKU-VANILLA", "six")), 0, "1 of 1 drafts did not go through"),
        (drafting(("SKU-VANILLA", 8), VANILLA), 1500, "1 of 2 drafts did not go through"),
        (drafting(("SKU-VANILLA", 8), VANILLA, STRAWBERRY), 2600, "1 of 3 drafts did not go through"),
        (drafting(VANILLA), 1500, "not the expected ones: SKU-VANILLA x 6"),
        (drafting(VANILLA, STRAWBERRY, VANILLA), 4100, "not the expected ones"),
        ([{"calls": [{"id": "x", "name": "database", "arguments": {}}]}, {"content": "No."}], 0, "no draft was made"),
    ],
)
async def test_a_shift_without_both_drafts_once_each_fails_the_check(
    turns: list[dict[str, Any]], total: int, words: str
) -> None:
    evidence = check_drafts(await played(turns))
    assert (evidence.verdict, evidence.total_cents) == (False, total)
    assert words in evidence.sentence


async def test_the_order_of_the_drafts_does_not_matter() -> None:
    assert check_drafts(await played(drafting(STRAWBERRY, VANILLA))).verdict


async def test_drafts_in_another_tools_observations_prove_nothing() -> None:
    messages = await played(drafting(VANILLA, STRAWBERRY))
    renamed = [item.model_copy(update={"name": "note"}) if isinstance(item, ToolMessage) else item for item in messages]
    evidence = check_drafts(renamed)
    assert not evidence.verdict
    assert "breaks the episode" in evidence.sentence


@pytest.mark.parametrize("value", ['"SKU-VANILLA x 6"', '{"sku":"SKU-VANILLA"}', "[]", "null"])
async def test_an_observation_that_is_no_draft_is_none(value: str) -> None:
    messages = await played(drafting(VANILLA, STRAWBERRY))
    spoiled = f'{{"ok":true,"value":{value}}}'
    messages[3] = messages[3].model_copy(update={"content": spoiled})
    evidence = check_drafts(messages)
    assert (evidence.verdict, evidence.total_cents) == (False, 1100)
