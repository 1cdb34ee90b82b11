"""MCP servers as the operator describes them. No key stands here: only NAMES of environment variables that hold one."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictStr,
    ValidationError,
    model_validator,
)

from longshift.configured import Configured, UpToADay, Whole
from longshift.questions import ApprovalRule
from longshift.tools import MIN_BYTES, Kind

SERVER_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
"""A server's name begins the names of its tools; without an underscore it is clear where it ends."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
EVERY = "*"
"""In `allow`: every tool of the server."""
RULE_EXAMPLE = '{ argument = "total_cents", above = 5000 }'


def _texts(value: object) -> object:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise ValueError('must be a list of texts, such as ["first", "second"]')
    return value


def _variables(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(VARIABLE.fullmatch(name) for name in names):
        raise ValueError('must be NAMES of environment variables, such as ["GITHUB_TOKEN"], not their values')
    return names


def _headers(headers: dict[str, str]) -> dict[str, str]:
    if not all(map(HEADER.fullmatch, headers)) or not all(map(VARIABLE.fullmatch, headers.values())):
        raise ValueError(
            'must map a header to the NAME of an environment variable, such as { Authorization = "MCP_AUTHORIZATION" }'
        )
    return headers


def _allowed(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError('allows nothing; name tools of the server, or give ["*"] for all of them')
    if EVERY in names and len(names) > 1:
        raise ValueError('give "*" alone, or name the tools')
    return names


def _approval(value: object) -> object:
    if isinstance(value, Mapping):
        unknown = sorted(set(value) - set(ApprovalRule.model_fields))
        if unknown:
            raise ValueError(f"{unknown[0]} is no key of a rule; the keys are {', '.join(ApprovalRule.model_fields)}")
        try:
            rule = ApprovalRule.model_validate(value)
        except ValidationError:
            raise ValueError(f"must be true, false or a rule such as {RULE_EXAMPLE}") from None
        if not rule.argument.strip() or (rule.above is None and rule.not_in is None):
            raise ValueError(f"give the rule an `argument` and an `above` or a `not_in`, such as {RULE_EXAMPLE}")
        return rule
    if not isinstance(value, (bool, ApprovalRule)):
        raise ValueError(f"must be true, false or a rule such as {RULE_EXAMPLE}")
    return value


def _server_name(name: str) -> str:
    if not SERVER_NAME.fullmatch(name):
        raise ValueError("is no usable name; take 1 to 32 lower-case letters, digits or -, a letter first")
    return name


Texts = Annotated[tuple[StrictStr, ...], BeforeValidator(_texts)]
ServerName = Annotated[str, AfterValidator(_server_name)]


class McpTool(Configured):
    """What the operator says of one tool, over what its server says."""

    kind: Kind | None = None
    """`read` or `effect`; none: `effect`, unless the server marks it as read-only."""
    idempotent: StrictBool | None = None
    """The server does an effect once for an operation id, however often it is asked; none: as the server marks it."""
    needs_approval: Annotated[bool | ApprovalRule, BeforeValidator(_approval)] = False
    """Whether a person must approve the effect: always, never, or by its arguments."""
    timeout_seconds: UpToADay | None = None
    """Seconds one call may take; none: the server's."""

    @model_validator(mode="after")
    def _of_effects(self) -> Self:
        if self.kind == "read" and (self.idempotent or self.needs_approval):
            option = "idempotent" if self.idempotent else "needs_approval"
            raise ValueError(f'{option} is for effects; leave it out, or give kind = "effect"')
        return self


class McpServerConfig(Configured):
    """An MCP server: a program that the worker starts (stdio), or a URL (streamable HTTP)."""

    command: StrictStr | None = None
    """The program, found on PATH."""
    args: Texts = ()
    """Its arguments."""
    env: dict[str, StrictStr] = Field(default_factory=dict)
    """Environment variables that it is given as they stand here; no keys."""
    env_from: Annotated[Texts, AfterValidator(_variables)] = ()
    """NAMES of the worker's environment variables that are handed on to it, such as one that holds a key."""
    cwd: Path | None = None
    """Its working directory; none: the worker's."""
    url: StrictStr | None = None
    """Its URL."""
    headers_from: Annotated[dict[str, StrictStr], AfterValidator(_headers)] = Field(default_factory=dict)
    """Headers of every request, each with the NAME of the environment variable that holds its value."""
    allow: Annotated[Texts, AfterValidator(_allowed)]
    """Names of the tools that agents get, as the server calls them; `["*"]`: all of them."""
    timeout_seconds: UpToADay = 30
    """Seconds that one call may take, and that reaching the server may take before a run begins."""
    max_bytes: Annotated[Whole, Field(ge=MIN_BYTES)] = 16_384
    """Bytes of an observation's value or message; a larger one is cut."""
    tools: dict[str, McpTool] = Field(default_factory=dict)
    """What differs from what the server says, by the tool's name."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either `command` or `url`, and not both")
        for_commands = [name for name in ("args", "env", "env_from", "cwd") if getattr(self, name)]
        if self.url is not None and for_commands:
            raise ValueError(f"`{for_commands[0]}` is for a `command`; leave it out beside `url`")
        if self.command is not None and self.headers_from:
            raise ValueError("`headers_from` is for a `url`; leave it out beside `command`")
        if self.command is not None and not self.command.strip():
            raise ValueError("`command` is blank; name a program")
        if not all(map(VARIABLE.fullmatch, self.env)):
            raise ValueError('`env` must map names of environment variables to texts, such as { LANG = "C.UTF-8" }')
        if self.url is not None:
            _check_url(self.url)
        return self

    @model_validator(mode="after")
    def _of_allowed_tools(self) -> Self:
        for name in self.tools:
            if not self.allows(name):
                raise ValueError(f"`tools` has {name}, which `allow` does not name; add it there, or remove it here")
        return self

    def allows(self, tool: str) -> bool:
        """Whether agents get the tool that the server calls so."""
        return tool in self.allow or self.allow == (EVERY,)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or not re.fullmatch(r"[!-~]+", url):
        raise ValueError("`url` must be an http or https URL of plain ASCII, such as http://127.0.0.1:8000/mcp")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ValueError("`url` must have no user name, query or fragment; a key's variable is named in headers_from")
