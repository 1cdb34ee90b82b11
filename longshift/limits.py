"""The limits of a run: their fields, defaults and units, how they are checked and how they are changed."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

MICRO_USD_PER_CENT = 10_000
"""Money is counted in integer micro-USD: a price of 0.15 USD per million tokens is 0.15 of them a token."""

MAX_COUNT = 10**12
"""The largest count, of calls, bytes or tokens: beyond it lies nonsense, and numbers that no table holds."""
MAX_CENTS = 10**11
"""The largest sum in US cents, a thousand million dollars: in micro-USD it is still exact in every JSON reader."""
MAX_SHOWN = 60
"""Characters shown of a name or a value that is refused."""
MAX_PROBLEMS = 10
"""Problems told in one refusal. What refuses a message travels in a payload, and may not grow with what was sent."""

Positive = Annotated[int, Field(strict=True, gt=0, le=MAX_COUNT)]
Count = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT)]
Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


class LimitsRefused(ValueError):
    """One or more limits are bad. `problems` maps a field to what is wrong with it and the remedy, for the first
    MAX_PROBLEMS."""

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = first_problems(problems)
        super().__init__("; ".join(f"{name}: {text}" for name, text in self.problems.items()))


class Limits(BaseModel):
    """What a run may use. Every limit is absolute for the whole run, whatever restarts in between."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model_calls: Positive = 8
    """Model calls, counted when admitted, answered or not."""
    tool_calls: Positive = 16
    """Tool calls, counted when admitted, refused or not."""
    seconds: Seconds = 60
    """Seconds of wall time since the run started."""
    context_bytes: Positive = 32_768
    """Bytes of the JSON of the messages sent and of the tool schemas, UTF-8."""
    output_tokens: Positive = 1024
    """Output tokens in one turn."""
    total_output_tokens: Positive = 4096
    """Output tokens in the run."""
    estimated_call_cents: Annotated[float, Field(strict=True, ge=0, le=MAX_CENTS, allow_inf_nan=False)] = 0
    """US cents reserved for each model call."""
    model_budget_cents: Annotated[float, Field(strict=True, gt=0, le=MAX_CENTS, allow_inf_nan=False)] = 100
    """US cents the run's exposure may reach."""
    repeats: Count = 3
    """Identical calls (name and canonical arguments) before the run counts as looping; 0 turns it off."""
    model_retries: Count = 2
    """Further attempts at a model call after a transient failure."""
    working_seconds: Seconds | None = None
    """Seconds spent in model calls and tools; waiting does not count. None: no limit."""
    on_limit: Literal["end", "wait"] = "end"
    """`wait`: at a limit the run waits, visibly, until it is raised or the run is stopped."""
    wrap_up: Annotated[bool, Field(strict=True)] = False
    """The last model call that the limits leave is sent without tools and with a notice."""

    @property
    def estimate(self) -> int:
        """The estimate of one model call in micro-USD, rounded up."""
        return _micro_usd(self.estimated_call_cents, ROUND_CEILING)

    @property
    def budget(self) -> int:
        """The run's budget in micro-USD, rounded down."""
        return _micro_usd(self.model_budget_cents, ROUND_FLOOR)

    @property
    def wraps_up(self) -> bool:
        """Whether the last call that the limits leave is for a report. A run that waits at its limits has none."""
        return self.wrap_up and self.on_limit != "wait"

    def changed(self, changes: object) -> Self:
        """These limits with `changes`, a mapping of field name to new absolute value.

        Raises LimitsRefused, naming the bad fields, and changes nothing then.
        """
        if not isinstance(changes, dict):
            raise LimitsRefused({"limits": 'must be an object of limit names and values, like {"model_calls": 12}'})
        known = type(self).model_fields
        problems: dict[str, str] = {
            _name(name): f"is no limit; the limits are {', '.join(known)}" for name in changes if name not in known
        }
        merged = self.model_dump() | {name: value for name, value in changes.items() if name in known}
        try:
            limits = type(self).model_validate(merged)
        except ValidationError as error:
            problems |= {str(e["loc"][0]): _problem(e) for e in error.errors(include_url=False)}
        if problems:
            raise LimitsRefused(problems)
        return limits


RULES = {
    "seconds": "must be a finite number of seconds above 0",
    "working_seconds": "must be a finite number of seconds above 0, or null for no limit",
    "estimated_call_cents": "must be a finite number of US cents, 0 or more",
    "model_budget_cents": "must be a finite number of US cents above 0",
    "repeats": "must be a whole number, 0 or more (0 turns it off)",
    "model_retries": "must be a whole number, 0 or more",
    "on_limit": 'must be "end" or "wait"',
    "wrap_up": "must be true or false",
}
"""What a field must be, for those that are not whole numbers above 0."""


def _name(name: object) -> str:
    """An unknown field's name, made safe to be sent on."""
    return str(name)[:MAX_SHOWN].encode("utf-8", "replace").decode("utf-8")


def first_problems(problems: dict[str, str]) -> dict[str, str]:
    """The first MAX_PROBLEMS of some problems, the last of them saying that there are more."""
    first = dict(list(problems.items())[:MAX_PROBLEMS])
    if len(first) < len(problems):
        last = next(reversed(first))
        first[last] += f" (and {len(problems) - len(first)} more problems)"
    return first


def _problem(error: ErrorDetails) -> str:
    most = f", at most {error['ctx']['le']:.0f}" if error["type"] == "less_than_equal" else ""
    rule = RULES.get(str(error["loc"][0]), "must be a whole number above 0")
    return f"{rule}{most}, not {_shown(error['input'])}"


def _shown(value: object) -> str:
    try:
        shown = repr(value)
    except (ValueError, RecursionError):  # an integer of more digits than Python prints; endless nesting
        return "what it was given, which is too large to show"
    return shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 3] + "..."


def _micro_usd(cents: float, rounding: str) -> int:
    return int((Decimal(repr(cents)) * MICRO_USD_PER_CENT).to_integral_value(rounding=rounding))


def cents(micro_usd: int) -> int | float:
    """Micro-USD as US cents: an integer where it is one, else with up to four decimals."""
    whole, rest = divmod(micro_usd, MICRO_USD_PER_CENT)
    return whole if rest == 0 else micro_usd / MICRO_USD_PER_CENT
