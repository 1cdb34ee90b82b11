"""Endpoints as the operator describes them: what the worker's configuration may say, and what a call costs by it.

Generated text never reaches this file's values, and no key stands in them: only the NAME of the environment variable
that holds one. A bad value is a pydantic ValidationError that names the field and the remedy and does not
repeat the input, which may hold what must not be shown (a password in a URL, a key where a name belongs).
"""

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)

from longshift import jsontext
from longshift.configured import Configured, FromZero, Seconds, Whole
from longshift.turns import Usage

MAX_BODY_BYTES = 256 * 1024
"""Bytes of a decoded reply accepted unless configured; a full turn of 4096 tokens is under 32 KiB."""


BodyBytes = Annotated[Whole, Field(gt=0)]


def _strict_json(value: JsonValue) -> JsonValue:
    return jsontext.parse(jsontext.canonical(value))


AuthoredJson = Annotated[JsonValue, AfterValidator(_strict_json)]
Milliseconds = Annotated[int, Field(strict=True, ge=0)]


class Price(Configured):
    """What the operator pays for tokens."""

    input_cents_per_million: FromZero
    """US cents for a million input tokens, cached ones included."""
    output_cents_per_million: FromZero
    """US cents for a million output tokens."""


class ServerConfig(Configured):
    """Base of what an operator writes about a model behind HTTP."""

    path: ClassVar[str]
    """Where requests go, added to `url`."""
    models_path: ClassVar[str]
    """Where the list of its models is, likewise: to ask for it costs nothing."""
    example: ClassVar[str]
    """A URL, for errors."""

    url: str
    """Base URL."""
    model: Annotated[str, Field(min_length=1)]
    """The server's name for the model."""
    timeout_seconds: Seconds = 120
    """Seconds for the whole of one call, from the name look-up to the last byte of the reply."""
    api_key_env: str | None = None
    """NAME of the environment variable that holds the key; none: no key is sent."""
    price: Price | None = None
    """Prices in US cents; without them a call settles at the run's estimate."""
    call_ids: Literal["server", "own"] = "server"
    """`own`: each call gets an id of Longshift's, for servers that use the same ids again in every turn."""
    max_body_bytes: BodyBytes = MAX_BODY_BYTES
    """Bytes of a decoded reply; a larger one is refused while it is being read."""

    @field_validator("url")
    @classmethod
    def _base_url(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise ValueError(f"is not a URL; give one such as {cls.example}") from None
        if parts.scheme not in ("http", "https") or not host or not re.fullmatch(r"[!-~]+", url):
            raise ValueError(f"must be an http or https URL of plain ASCII, such as {cls.example}")
        if "@" in parts.netloc:
            raise ValueError("must not hold a user name or password; name the key's variable in api_key_env")
        if "?" in url or "#" in url:
            raise ValueError("must have no query and no fragment")
        url = url.rstrip("/")
        if url.endswith(cls.path):
            raise ValueError(f"must be the base URL, which ends before {cls.path}")
        return url

    @field_validator("api_key_env")
    @classmethod
    def _variable_name(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError("must be the NAME of an environment variable, such as OPENAI_API_KEY, not the key itself")
        return name


class OpenAIConfig(ServerConfig):
    """A server of OpenAI-compatible chat completions: Ollama, vLLM, llama.cpp, OpenAI and others."""

    path = "/chat/completions"
    models_path = "/models"
    example = "http://127.0.0.1:11434/v1"

    kind: Literal["openai"] = "openai"
    """The tag of this kind."""
    output_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The request's field for the output allowance; OpenAI's reasoning models refuse the older `max_tokens`."""
    reasoning_effort: str | None = None
    """Sent as it is where set; "none" keeps a thinking model on Ollama from spending the allowance on thought."""
    temperature: FromZero | None = None
    """Sampling temperature; none: the server's default."""
    seed: Whole | None = None
    """Sampling seed, for experiments that are to be repeated; none: the server's default."""


class AnthropicConfig(ServerConfig):
    """Anthropic's Messages API, or a server that speaks it."""

    path = "/v1/messages"
    models_path = "/v1/models?limit=1000"
    example = "https://api.anthropic.com"

    kind: Literal["anthropic"] = "anthropic"
    """The tag of this kind."""
    url: str = example
    """Base URL; `/v1/messages` is added to it."""
    thinking: Literal["disabled"] | None = None
    """`disabled` keeps a model that thinks by default from spending the allowance on thought; none: its default."""

    @field_validator("url")
    @classmethod
    def _before_the_version(cls, url: str) -> str:
        if url.endswith("/v1"):
            raise ValueError(f"must be the base URL, which ends before {cls.path}")
        return url


class ReplayCall(Configured):
    """One authored tool call."""

    id: str | None = None
    """The call's id; none or empty: Longshift makes one, as for a server that sends none."""
    name: str
    """The tool asked for; need not exist."""
    arguments: AuthoredJson = None
    """An object, or JSON text of one; anything else makes the turn invalid, as it would from a server."""


class ReplayError(Configured):
    """An authored failure, judged as the same HTTP status from a server would be."""

    status: Annotated[int, Field(strict=True, ge=400, le=599)]
    """HTTP status, 400 to 599."""
    retry_after: FromZero | None = None
    """Seconds the endpoint asks to wait."""


class ReplayTurn(Configured):
    """One authored answer: the N-th is the run's N-th reply."""

    content: str = ""
    """The turn's text."""
    calls: tuple[ReplayCall, ...] = ()
    """The calls it asks for."""
    output_tokens: AuthoredJson = None
    """Output tokens reported; any JSON, so that a nonsense report can be played too. None: not reported."""
    input_tokens: AuthoredJson = None
    """Input tokens reported, likewise."""
    delay_ms: Milliseconds = 0
    """Milliseconds the answer is held back."""
    error: ReplayError | None = None
    """A failure in place of a turn."""


class ReplayConfig(Configured):
    """Authored turns in place of a model, from a file or written here."""

    kind: Literal["replay"] = "replay"
    """The tag of this kind."""
    file: Path | None = None
    """A JSON file: a list of turns, or an object with one under `turns`."""
    turns: tuple[ReplayTurn, ...] | None = None
    """The turns themselves."""
    timeout_seconds: Seconds | None = None
    """Seconds after which a turn that is held back counts as timed out; none: never."""
    price: Price | None = None
    """What its tokens count as costing, to rehearse a budget or a fund; without it a call costs the run's estimate."""
    delay_seconds: FromZero = 0
    """Seconds each turn is held back beside its own delay, as a model takes its time."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.turns is None):
            raise ValueError("give either `file` or `turns`, and not both")
        return self


EndpointConfig = Annotated[OpenAIConfig | AnthropicConfig | ReplayConfig, Field(discriminator="kind")]
"""Any endpoint, told apart by `kind`."""


TEMPLATE_TOKENS = 1024
"""Input tokens a server may add to a request: the marks of its chat template and its own words on how to call tools,
for which Anthropic counts up to 530. What it adds for each message is less than the JSON around that message."""


def highest_cost(price: Price | None, *, context_bytes: int, allowed: int) -> int | None:
    """The most that a call can be expected to cost, in micro-USD, rounded up; None where there is no price.

    No token of a text is shorter than a byte: the tokenizers of today's models work on bytes, or fall back to them. So
    the bytes of the context bound its tokens, three- or fourfold for English.

    Args:
        price: the operator's price, where there is one.
        context_bytes: bytes of the JSON of transcript and tool schemas.
        allowed: output tokens allowed in the reply.
    """
    most = Usage(input_tokens=context_bytes + TEMPLATE_TOKENS, output_tokens=allowed)
    return cost(most, price, allowed=allowed, estimate=0)


def cost(usage: Usage, price: Price | None, *, allowed: int, estimate: int) -> int | None:
    """What a call cost, in micro-USD, rounded up; or the most that is known of it, so that a budget can still bind.

    Args:
        usage: what the reply reports. Output tokens that are not reported are charged as `allowed`; where either count
            is missing and has a price, the call costs at least its estimate.
        price: the operator's price, where there is one.
        allowed: output tokens allowed in the reply.
        estimate: micro-USD reserved for the call.

    None where there is no price, or where the report makes no sense. A US cent is 10,000 micro-USD, so cents per
    million tokens are hundredths of a micro-USD per token.
    """
    if price is None or usage.invalid is not None:
        return None
    hundredths, least = Fraction(0), 0
    for tokens, otherwise, cents in (
        (usage.input_tokens, 0, price.input_cents_per_million),
        (usage.output_tokens, allowed, price.output_cents_per_million),
    ):
        if tokens is None and cents:
            least = estimate
        hundredths += (otherwise if tokens is None else tokens) * Fraction(repr(cents))
    return max(least, math.ceil(hundredths / 100))
