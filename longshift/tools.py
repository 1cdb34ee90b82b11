"""Tools: how a typed function becomes one, what the workflow knows of it, and how it says that it failed.

What a tool may raise, and what the run makes of it:

    ToolError               an error observation; its text reaches the model as it stands
    ├── ToolRefused         recoverable: the model reads why and goes on
    │   ├── ToolNotFound        no such record
    │   ├── ToolChanged         no longer the tool that the run started with
    │   └── ArgumentsRefused    raised before the handler: the arguments do not fit the schema
    ├── ToolTransient       may pass: a read is tried again, an effect never; an effect did surely not happen
    ├── ToolOutcomeUnknown  an effect may or may not have happened
    └── ToolFatal           nothing the model does can help: the run ends with TOOL_FATAL

DeclarationRefused stands apart: a function that cannot become a tool, raised where it is declared.
"""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, ParamSpec, TypeVar, get_args, overload

from pydantic import Field, JsonValue

from longshift import jsontext
from longshift.messages import Payload, usual
from longshift.questions import ApprovalRule
from longshift.signatures import Arguments, BadArguments, SignatureRefused, describe, read_signature

P = ParamSpec("P")
R = TypeVar("R")

Kind = Literal["read", "effect"]
"""`read` only observes or computes; `effect` changes the world outside and is never run twice."""

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The names that both OpenAI and Anthropic accept for a function."""
MIN_BYTES = 256
"""The smallest limit on an observation: below it the marker of a cut leaves no room for what was cut."""
MAX_PROBLEMS = 10
"""Bad arguments named in one refusal."""


class ToolSpec(Payload):
    """A tool as data: recorded when a run starts, offered to the model, and all that a workflow knows of it."""

    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """JSON schema of the arguments object."""
    kind: Kind = "effect"
    timeout_seconds: float = 30
    """Seconds one run of the handler may take."""
    max_bytes: int = 16_384
    """Bytes of an observation's value or message; a larger one is cut, whole in the journal."""
    repeatable: bool = False
    """Identical effects in one turn are meant, and each runs."""
    idempotent: bool = Field(False, exclude_if=usual(False))
    """An effect that may be dispatched again under the same `operation_id` when its outcome is not known: the service
    outside does it once."""
    needs_approval: bool | ApprovalRule = Field(False, exclude_if=usual(False))
    """Whether a person must approve the effect first: always, never, or by its arguments."""
    definition_sha256: str = Field("", exclude_if=usual(""))
    """Of a tool that another program offers: the digest of what that said of it, so that a change is noticed."""


@dataclass(frozen=True)
class ToolContext:
    """What a handler may know of its call: a parameter with this annotation is given it and is no argument of the
    model's."""

    run_id: str
    call_id: str
    operation_id: str
    """Stable for one effect, however often it is dispatched: the idempotency key for a service outside."""


class ToolError(Exception):
    """A tool failed and says so in its own words."""

    kind: ClassVar[str] = "exception"


class ToolRefused(ToolError):
    """The tool will not do this; the text says why, and what it would do."""

    kind = "refused"


class ToolNotFound(ToolRefused):
    """What the arguments point at does not exist."""

    kind = "not_found"


class ArgumentsRefused(ToolRefused):
    """The arguments do not fit the tool's schema; the text names each bad one and what was expected."""

    kind = "invalid_arguments"


class ToolChanged(ToolRefused):
    """The tool is no longer the one that the run started with, and was not run."""

    kind = "tool_changed"


class ToolTransient(ToolError):
    """A failure that may pass: a dropped connection, a service that is busy."""

    kind = "transient"


class ToolOutcomeUnknown(ToolError):
    """The effect may or may not have happened, such as when the reply of the service outside never came. What becomes
    of it is the agent's `unknown_outcome` policy, unless the tool is idempotent: then it is dispatched again."""

    kind = "outcome_unknown"


class ToolFatal(ToolError):
    """Permission denied, bad credentials: another try meets the same wall."""

    kind = "fatal"


class DeclarationRefused(TypeError):
    """The function cannot become a tool; the text names the tool, the parameter and the remedy."""


@dataclass(frozen=True, eq=False)
class Tool(Generic[P, R]):
    """A function that a model may call. Called directly it is still the plain function."""

    spec: ToolSpec
    handler: Callable[P, R]
    """The function as it was written, sync or async."""
    arguments: Arguments
    """How a call's arguments are read."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function itself, unchecked."""
        return self.handler(*args, **kwargs)

    @property
    def is_async(self) -> bool:
        """Whether the handler is awaited; if not, a worker runs it in a thread."""
        return any(map(inspect.iscoroutinefunction, (self.handler, type(self.handler).__call__)))

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The Python values of a call's JSON arguments. The handler does not run.

        JSON is read strictly: a type is never coerced to another, except that a whole number is also a float.

        Args:
            arguments: the arguments object, JSON types only; not changed.

        Returns:
            A value for each argument that was given; the handler's own defaults stand for the others.

        Raises:
            ArgumentsRefused: they do not fit. Whatever a validator of the author's raises besides ValueError and
                AssertionError comes through as it is.
        """
        try:
            text = jsontext.canonical(dict(arguments))
            jsontext.parse(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise ArgumentsRefused(f"{self.spec.name} did not run: the arguments are not JSON: {error}") from None
        try:
            return self.arguments.read(text)
        except BadArguments as bad:
            problems = list(bad.problems)
        more = [f"and {len(problems) - MAX_PROBLEMS} more"] if len(problems) > MAX_PROBLEMS else []
        raise ArgumentsRefused(f"{self.spec.name} did not run: {'; '.join(problems[:MAX_PROBLEMS] + more)}")

    def bind(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """The keyword arguments to run the handler with: the validated ones, and `context` where it asks for it.

        Raises ArgumentsRefused like `validate`.
        """
        values = self.validate(arguments)
        if self.arguments.context is not None:
            values[self.arguments.context] = context
        return values


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    kind: Kind = ...,
    name: str | None = ...,
    description: str | None = ...,
    timeout_seconds: float = ...,
    max_bytes: int = ...,
    repeatable: bool = ...,
    idempotent: bool = ...,
    needs_approval: bool | ApprovalRule = ...,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    kind: Kind = "effect",
    name: str | None = None,
    description: str | None = None,
    timeout_seconds: float = 30,
    max_bytes: int = 16_384,
    repeatable: bool = False,
    idempotent: bool = False,
    needs_approval: bool | ApprovalRule = False,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a function with typed parameters a tool. Use it as `@tool` or as `@tool(kind="read")`.

    The schema of the arguments comes from the types; their descriptions from `Annotated[..., Field(description=...)]`
    or the docstring's Args section; the tool's description from the docstring's first paragraph.

    Args:
        function: sync or async, every parameter typed and to be given by name.
        kind: `read` if it only observes or computes; `effect` if it changes anything outside.
        name: what the model calls it, if not the function's name.
        description: what the model is told of it, if not the docstring's first paragraph.
        timeout_seconds: seconds one run of the handler may take.
        max_bytes: bytes of an observation's value or message, at least MIN_BYTES; a larger one is cut.
        repeatable: identical effects in one turn are meant, and each runs.
        idempotent: an effect that the service outside does once for an `operation_id`, however often it is asked.
        needs_approval: whether a person must approve the effect: always, or by an ApprovalRule on its arguments.

    Raises:
        DeclarationRefused: the function or an option cannot be used.
    """

    def declare(function: Callable[P, R]) -> Tool[P, R]:
        called = name if name is not None else getattr(function, "__name__", "")
        _check_options(called, kind, timeout_seconds, max_bytes)
        _check_effect_options(called, kind, idempotent, needs_approval)
        try:
            arguments = read_signature(function, ToolContext)
        except SignatureRefused as refused:
            raise DeclarationRefused(f"tool {called}: {refused}") from None
        _check_rule(called, needs_approval, arguments.schema)
        spec = ToolSpec(
            name=called,
            description=description if description is not None else describe(function),
            parameters=arguments.schema,
            kind=kind,
            timeout_seconds=timeout_seconds,
            max_bytes=max_bytes,
            repeatable=repeatable,
            idempotent=idempotent,
            needs_approval=needs_approval,
        )
        return Tool(spec, function, arguments)

    return declare if function is None else declare(function)


def _check_options(name: str, kind: str, timeout_seconds: float, max_bytes: int) -> None:
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise DeclarationRefused(
            f"tool {name!r}: providers refuse this name; a tool's name is 1 to 64 letters, digits, _ or -; "
            'give one with @tool(name="...")'
        )
    if kind not in get_args(Kind):
        raise DeclarationRefused(f'tool {name}: kind must be "read" or "effect", not {kind!r}')
    number = isinstance(timeout_seconds, (int, float)) and not isinstance(timeout_seconds, bool)
    if not number or not math.isfinite(timeout_seconds) or timeout_seconds <= 0:
        raise DeclarationRefused(
            f"tool {name}: timeout_seconds must be a finite number of seconds above 0, not {timeout_seconds!r}"
        )
    if type(max_bytes) is not int or max_bytes < MIN_BYTES:
        raise DeclarationRefused(f"tool {name}: max_bytes must be a whole number from {MIN_BYTES}, not {max_bytes!r}")


def _check_rule(name: str, needed: bool | ApprovalRule, schema: Mapping[str, Any]) -> None:
    """Raises DeclarationRefused where a rule looks at an argument that the tool does not have."""
    known = schema.get("properties", {})
    if isinstance(needed, ApprovalRule) and needed.argument.split(".")[0] not in known:
        text = f"the approval rule looks at {needed.argument}, which is no argument of it; the arguments are: "
        raise DeclarationRefused(f"tool {name}: {text}{', '.join(known) or 'none'}")


def _check_effect_options(name: str, kind: str, idempotent: bool, needs_approval: bool | ApprovalRule) -> None:
    if kind == "read" and (idempotent or needs_approval):
        option = "idempotent" if idempotent else "needs_approval"
        raise DeclarationRefused(f'tool {name}: {option} is for effects; leave it out, or declare it kind="effect"')
    if isinstance(needs_approval, ApprovalRule):
        if not needs_approval.argument.strip():
            raise DeclarationRefused(f"tool {name}: the approval rule names no argument")
        if needs_approval.above is None and needs_approval.not_in is None:
            raise DeclarationRefused(f"tool {name}: give the approval rule an `above` or a `not_in`")
