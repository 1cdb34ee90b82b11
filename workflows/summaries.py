"""One line for each activity: what the Temporal UI's list of events is read by.

A summary is fixed when its activity is scheduled. So a tool call says what was asked, and the model call after it what
came of it: the lines read as the story of the run.
"""

from collections.abc import Sequence

from longshift import jsontext
from longshift.contracts import CallModel, OpenRun, RunResult, RunTool, SettleEffect
from longshift.inert import inert
from longshift.limits import cents

CHARACTERS = 120
"""Characters of a summary; the UI shows about so many."""
_ERROR = '{"error":{"kind":"'
"""How an observation begins that is an error; canonical JSON has its keys in order."""


def opening(request: OpenRun) -> str:
    """Of the opening of a run."""
    return _cut(f"open the run of agent {request.given.agent}")


def model_call(request: CallModel, since: Sequence[str], tokens: int, dispatch: int) -> str:
    """Of a model call.

    Args:
        since: what came of the calls before it, each `ok` or in words.
        tokens: output tokens of the run so far.
        dispatch: how often this call was handed out before.
    """
    purpose = ", summary" if request.asks_for_summary else "" if request.tools else ", wrap-up"
    well = since.count("ok")
    came = ", ".join([*([f"{well} ok"] if well else []), *(one for one in since if one != "ok")])
    call = f"#{request.number} model call{purpose}{', again' if dispatch else ''}"
    after, so_far = f" after {came}" if came else "", f"; {tokens} tokens so far" if tokens else ""
    return _cut(f"{call}{after}{so_far}")


def tool_call(request: RunTool, *, effect: bool) -> str:
    """Of a tool call: its model call and its place there, the tool, and the arguments as far as they fit."""
    again = f"again ({request.dispatch}) " if request.dispatch else ""
    what = f"{'effect ' if effect else ''}{request.call.name}"
    return _cut(f"{_place(request)} {again}{what} {jsontext.canonical(request.call.arguments)}")


def settling(request: SettleEffect) -> str:
    """Of a look into the ledger."""
    name = request.call.call.name
    if request.resolution is None:
        return _cut(f"{_place(request.call)} settle {name}: what came of it?")
    return _cut(f"{_place(request.call)} resolve {name}: a person knows")


def closing(result: RunResult) -> str:
    """Of the record of the end."""
    spent = f", {cents(result.exposure)} cents" if result.exposure else ""
    counts = f"{result.model_calls} model calls, {result.tool_calls} tool calls, {result.output_tokens} tokens"
    return _cut(f"end: {result.status}; {counts}{spent}")


def outcome(name: str, observation: str) -> str:
    """What came of a tool call, for the model call that is told of it."""
    if not observation.startswith(_ERROR):
        return "ok"
    return f"{name} {observation[len(_ERROR) :].partition(chr(34))[0]}"


def _place(request: RunTool) -> str:
    return f"#{request.model_call}.{request.position}"


def _cut(text: str) -> str:
    """One line, of which no character acts."""
    short = text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 3]}..."
    return short if short.isascii() else inert(short)
