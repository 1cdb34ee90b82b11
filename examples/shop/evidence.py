"""The shop's own checks of a shift: were the right drafts made, and the right orders placed?

They read them out of the observations of the registered tools, never out of prose, and know what they expect by
themselves, so that neither a model that only describes its drafts nor a tool that computes them wrongly can pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from longshift import Trajectory, Verdict, evidence_check, validate_episode
from longshift.messages import Message, ToolMessage
from longshift.observations import read

TOOL, ORDER_TOOL = "draft_order", "place_order"
"""The registered names of the tools whose observations count."""
EXPECTED = (
    {"sku": "SKU-STRAWBERRY", "quantity": 4, "total_cents": 1100, "currency": "USD"},
    {"sku": "SKU-VANILLA", "quantity": 6, "total_cents": 1500, "currency": "USD"},
)
"""The drafts of a good opening shift, by sku."""
SHAPE = {name: type(item) for name, item in EXPECTED[0].items()}
"""What a draft looks like; anything else did not go through."""


@dataclass(frozen=True)
class Evidence:
    """What the observations of a shift prove."""

    verdict: bool
    """Both drafts are there, once each, nothing was refused, and nothing else was drafted."""
    drafts: tuple[dict[str, Any], ...]
    """The drafts that went through, in order."""
    total_cents: int
    """US cents of these drafts."""
    sentence: str
    """Why the verdict is what it is."""


def check_drafts(messages: Sequence[Message]) -> Evidence:
    """Judge a shift by its transcript, complete or not."""
    report = validate_episode(messages)
    if report.problem is not None:
        reason = f"message {report.problem.index} breaks the episode: {report.problem.reason}"
        return Evidence(False, (), 0, reason)
    observed = [read(item.content) for item in messages if isinstance(item, ToolMessage) and item.name == TOOL]
    drafts: tuple[Any, ...] = tuple(body["value"] for body in observed if _is_draft(body.get("value")))
    total = sum(draft["total_cents"] for draft in drafts)
    failed = len(observed) - len(drafts)
    if failed:
        sentence = f"{failed} of {len(observed)} drafts did not go through"
    elif not drafts:
        sentence = "no draft was made"
    elif sorted(drafts, key=lambda draft: draft["sku"]) != list(EXPECTED):
        made = ", ".join(f"{draft['sku']} x {draft['quantity']}" for draft in drafts)
        sentence = f"the drafts are not the expected ones: {made}"
    else:
        return Evidence(True, drafts, total, f"both drafts were made, once each, {total} cents in all")
    return Evidence(False, drafts, total, sentence)


@evidence_check(
    looks_at="what draft_order returned: vanilla and strawberry, each once, as many as are needed at their prices, and "
    "nothing else drafted or refused",
    cannot_know="whether the stock that the shop tells of is the stock in the freezer, and whether the answer says the "
    "same as the drafts",
)
def drafts(trajectory: Trajectory) -> Verdict:
    """The drafts of an opening shift are the right ones."""
    found = check_drafts(trajectory.messages)
    return Verdict(found.verdict, found.sentence)


@evidence_check(
    looks_at="what place_order returned, or a person said that it had: vanilla and strawberry, each ordered once, as "
    "many as are needed, and no order of which nobody knows whether it was placed",
    cannot_know="whether the supplier holds these orders and no others; compare with the supplier's own list",
)
def orders(trajectory: Trajectory) -> Verdict:
    """The orders of a shift that buys are the right ones."""
    made = [(order.get("sku"), order.get("quantity")) for order in _objects(trajectory.values(ORDER_TOOL))]
    wanted = [(draft["sku"], draft["quantity"]) for draft in EXPECTED]
    shown = ", ".join(f"{sku} x {quantity}" for sku, quantity in made) or "nothing"
    lost = [error for error in trajectory.errors(ORDER_TOOL) if error["kind"] == "outcome_unknown"]
    unknown = len(lost) + len(trajectory.unanswered(ORDER_TOOL))
    if unknown:
        return Verdict(False, f"{unknown} more may or may not have been placed; placed: {shown}")
    if sorted(made, key=str) == sorted(wanted, key=str):
        return Verdict(True, f"both orders were placed, once each: {shown}")
    return Verdict(False, f"the orders are not the expected ones: {shown}")


def _objects(values: list[Any]) -> list[dict[str, Any]]:
    """The values as objects; what is none is an order of nothing known."""
    return [value if isinstance(value, dict) else {} for value in values]


def _is_draft(value: object) -> bool:
    return isinstance(value, dict) and {name: type(item) for name, item in value.items()} == SHAPE
