"""The shop's own check of a shift: were the right drafts made?

It reads the drafts out of the observations of the registered tool, never out of prose, and knows what it expects by
itself, so that neither a model that only describes its drafts nor a tool that computes them wrongly can pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from longshift import validate_episode
from longshift.messages import Message, ToolMessage
from longshift.observations import read

TOOL = "draft_order"
"""The registered name of the tool whose observations count."""
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


def _is_draft(value: object) -> bool:
    return isinstance(value, dict) and {name: type(item) for name, item in value.items()} == SHAPE
