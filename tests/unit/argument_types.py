"""Types of arguments that tools in tests take."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Flavour(StrEnum):
    """Two flavours."""

    VANILLA = "vanilla"
    MINT = "mint"


class Lax(BaseModel):
    """A model that by itself would coerce and let unknown fields through."""

    model_config = ConfigDict(extra="allow")

    title: str
    count: int = 1
