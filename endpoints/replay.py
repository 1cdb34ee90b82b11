"""An endpoint that plays authored turns: turn N is the run's N-th reply, whatever was asked."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from endpoints.answers import failure, refused
from endpoints.base import Reply, Request
from endpoints.config import ReplayConfig, ReplayTurn
from endpoints.reading import RawCall, RawTurn, judged, read_usage
from longshift import jsontext
from longshift.turns import CallFailed

_TURNS = TypeAdapter(tuple[ReplayTurn, ...])


class ReplayEndpoint:
    """Plays the turns of a file or of the configuration. Never reads the transcript."""

    def __init__(self, name: str, config: ReplayConfig) -> None:
        """Load the turns.

        Raises ValueError, naming the file, the turn, the field and the remedy, where the file cannot be used.
        """
        self._name = name
        self._timeout_seconds = config.timeout_seconds
        self._price = config.price
        self._delay_seconds = config.delay_seconds
        self._turns = load_turns(config.file) if config.file is not None else config.turns or ()
        self._source = f"the file {config.file.name}" if config.file is not None else "its configuration"

    async def send(self, request: Request) -> Reply:
        """Answer with the authored turn that is due; see endpoints.base.Endpoint."""
        if request.reply > len(self._turns):
            count = len(self._turns)
            text = (
                f"there is no reply {request.reply}: {self._source} has {count} turn{'s' * (count != 1)}; "
                "add turns, or lower model_calls"
            )
            raise CallFailed(failure(self._name, "used_up", text, transient=False))
        turn = self._turns[request.reply - 1]
        await self._hold_back(self._delay_seconds + turn.delay_ms / 1000)
        if turn.error is not None:
            raise CallFailed(refused(self._name, turn.error.status, wait=turn.error.retry_after))
        calls = [RawCall(call.id, call.name, call.arguments) for call in turn.calls]
        raw = RawTurn(content=turn.content, calls=calls, stop_reason="tool_calls" if calls else "stop")
        usage = read_usage(turn.output_tokens, turn.input_tokens)
        return judged(self._name, lambda: raw, usage, request, price=self._price)

    async def _hold_back(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await asyncio.sleep(seconds)
        except TimeoutError:
            text = f"no answer within {self._timeout_seconds:g} s (timeout_seconds); the turn is held back longer"
            raise CallFailed(failure(self._name, "timeout", text, transient=True)) from None

    async def close(self) -> None:
        """Nothing to close."""


def load_turns(file: Path) -> Sequence[ReplayTurn]:
    """The turns in a JSON file: a list, or an object that has one under `turns`, such as a case.

    Raises ValueError naming the file and, as far as it goes, the turn, the field and the remedy.
    """
    try:
        found = jsontext.parse(file.read_bytes())
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error.strerror}); give the path of a replay file") from None
    except jsontext.JsonRefused as error:
        raise ValueError(f"{file}: is not valid JSON ({error}); mend it there") from None
    turns = found.get("turns") if isinstance(found, dict) else found
    if not isinstance(turns, list):
        raise ValueError(f"{file}: must be a list of turns, or an object with such a list under `turns`")
    try:
        return _TURNS.validate_python(turns)
    except ValidationError as error:
        problems = "; ".join(_problem(one) for one in error.errors())
        raise ValueError(f"{file}: {problems}") from None


def _problem(error: ErrorDetails) -> str:
    turn, *path = error["loc"]
    number = int(turn) + 1
    field = ".".join(str(step + 1 if isinstance(step, int) else step) for step in path)
    match error["type"]:
        case "extra_forbidden":
            text = "is no field of a replay; remove it or mend its name"
        case "missing":
            text = "is missing; add it"
        case "model_type":
            text = 'must be an object such as {"content": "Done.", "output_tokens": 3}'
        case _:
            text = error["msg"].removeprefix("Value error, ")
    return f"turn {number}: {field}: {text}" if field else f"turn {number}: {text}"
