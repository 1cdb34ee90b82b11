"""Whether every effect is settled, or its outcome unknown and said to be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from longshift import observations
from longshift.audit.columns import Row, shown, stored
from longshift.audit.history import History, Steps
from longshift.contracts import RunResult

SAID = "a person found"
"""In every observation that a person's word made of an unknown outcome (longshift/effects.py)."""


@dataclass
class Open:
    """Effects that may or may not have happened, by the ledger."""

    said: list[str] = field(default_factory=list)
    """Those of which the run says so, by the id of the call."""
    at_work: list[str] = field(default_factory=list)
    """Those of a run that goes on, that was ended from outside, or of a way that a reset has left."""
    unsaid: str | None = None
    """The first of which nobody says so."""


def open_effects(
    effects: Sequence[Row], result: RunResult | None, told: Mapping[str, str], history: History | None
) -> Open:
    """The effects that are not settled.

    Args:
        effects: their rows.
        result: how the run ended, where it has.
        told: the observations of the transcript, by the call's id.
        history: to know which calls are of the way that counts.
    """
    found = Open()
    path = None if history is None or not history.whole else Steps.of(history.path).tools
    counts = None if path is None else {(place[0], place[1], stored(place[2])) for place in path}
    unknown = [stored(call_id) for call_id in (*result.unknown_calls, *result.unrun_calls)] if result else []
    for row in effects:
        if row.get("state") not in ("started", "unknown"):
            continue
        call_id, place = row.get("call_id"), (row.get("model_call"), row.get("position"), row.get("call_id"))
        name = shown(call_id)
        if call_id in unknown or _says_so(told.get(str(call_id))):
            found.said.append(name)
        elif result is None or (counts is not None and place not in counts):
            found.at_work.append(name)
        elif found.unsaid is None:
            found.unsaid = f"the call {name} may or may not have happened, and the run does not say so"
    return found


def _says_so(content: str | None) -> bool:
    if content is None:
        return False
    try:
        return observations.kind_of(content) == "outcome_unknown" or SAID in content
    except ValueError:
        return False
