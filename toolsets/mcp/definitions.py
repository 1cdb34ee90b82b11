"""From what a server says of a tool to what a run records of it."""

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from longshift import jsontext
from longshift.tools import TOOL_NAME, Kind, ToolSpec
from toolsets.mcp.arguments import check_schema
from toolsets.mcp.config import McpServerConfig, McpTool
from toolsets.mcp.errors import Unusable

SEPARATOR = "__"
"""Stands between a server's name and a tool's in the name that a model knows."""
MAX_DEFINITION_BYTES = 32 * 1024
"""Bytes of a tool's name, description and schema; the largest of known servers have a fifth of it."""
TOLD = ("name", "description", "inputSchema", "annotations")
"""What counts of a definition: what the model is told, and what makes it a read or an effect."""

Definition = Mapping[str, Any]
"""One tool of a `tools/list` result, JSON types only."""


def offered_name(server: str, tool: str) -> str:
    """What a model calls a server's tool."""
    return f"{server}{SEPARATOR}{tool}"


def own_name(server: str, offered: str) -> str | None:
    """What the server calls the tool that a model knows as `offered`; None where it is none of this server's."""
    before, separator, tool = offered.partition(SEPARATOR)
    return tool if separator and before == server else None


def digest(definition: Definition) -> str:
    """Hex SHA-256 of what counts of a definition."""
    return jsontext.sha256(jsontext.canonical({key: definition.get(key) for key in TOLD}))


def digest_of_all(listing: Mapping[str, Definition]) -> str:
    """Hex SHA-256 of a whole list of tools, whatever its order."""
    return jsontext.sha256(jsontext.canonical(sorted(digest(definition) for definition in listing.values())))


def read_spec(server: str, definition: Definition, config: McpServerConfig) -> ToolSpec:
    """What a run records of a tool.

    Raises Unusable, saying why no model can be offered it.
    """
    given = config.tools.get(definition["name"], McpTool())
    name = offered_name(server, definition["name"])
    if not TOOL_NAME.fullmatch(name):
        raise Unusable(f"providers refuse the name {name[:120]!r}, which must be 1 to 64 letters, digits, _ or -")
    try:
        jsontext.check(dict(definition))
        size = jsontext.size(jsontext.canonical({key: definition.get(key) for key in TOLD}))
    except ValueError as error:
        raise Unusable(f"its definition cannot be recorded: {error}") from None
    if size > MAX_DEFINITION_BYTES:
        raise Unusable(f"its definition has {size} bytes, at most {MAX_DEFINITION_BYTES} are offered to a model")
    check_schema(definition["inputSchema"])
    kind, idempotent = _kind(given, definition.get("annotations") or {})
    return ToolSpec(
        name=name,
        description=definition.get("description") or "",
        parameters=_parameters(definition),
        kind=kind,
        timeout_seconds=given.timeout_seconds or config.timeout_seconds,
        max_bytes=config.max_bytes,
        idempotent=idempotent,
        needs_approval=given.needs_approval,
        definition_sha256=digest(definition),
    )


def _parameters(definition: Definition) -> dict[str, JsonValue]:
    """Its schema; the properties are named even where there are none, as some providers ask."""
    return {"properties": {}, **definition["inputSchema"]}


def _kind(given: McpTool, annotations: Mapping[str, object]) -> tuple[Kind, bool]:
    """Kind, and whether it is idempotent: as the operator says, else as the server marks it, else an effect."""
    for_effects = given.idempotent or given.needs_approval
    read = annotations.get("readOnlyHint") is True and not for_effects
    kind: Kind = given.kind or ("read" if read else "effect")
    marked = annotations.get("idempotentHint") is True
    return kind, kind == "effect" and (marked if given.idempotent is None else given.idempotent)


def difference(recorded: ToolSpec, definition: Definition | None) -> str | None:
    """What a server changed of a tool since a run recorded it, in words; None where nothing did."""
    if definition is None:
        return "the server no longer offers it"
    if digest(definition) == recorded.definition_sha256:
        return None
    changed = []
    if (definition.get("description") or "") != recorded.description:
        changed.append("description")
    if _parameters(definition) != recorded.parameters:
        changed.append("arguments")
    return f"the server changed its {' and '.join(changed or ['annotations'])}"
