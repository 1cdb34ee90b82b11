"""What operators and authors of tests write: the base of its models, and its numbers.

A bad value is a pydantic ValidationError that names the field and does not repeat the input, which may hold what must
not be shown (a password in a URL, a key where a name belongs).
"""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Configured(BaseModel):
    """Base of what is written: frozen, unknown fields are refused, input is never shown.

    Pydantic takes `hide_input_in_errors` from the outermost model only: every model that holds others sets it too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


Whole = Annotated[int, BeforeValidator(_no_boolean)]
"""A whole number, of either sign."""
FromZero = Annotated[float, BeforeValidator(_no_boolean), Field(ge=0, allow_inf_nan=False)]
"""A number of 0 or more."""
Seconds = Annotated[float, BeforeValidator(_no_boolean), Field(gt=0, allow_inf_nan=False)]
"""More than none."""
UpToADay = Annotated[Seconds, Field(le=86_400)]
"""Seconds, a day at most."""
