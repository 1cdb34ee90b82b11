"""What is made of a server's words about a tool, its arguments and its results, without a server."""

from typing import Any

import pytest
from mcp_types import CallToolResult
from pydantic import JsonValue

from longshift import ArgumentsRefused, ToolRefused, jsontext
from longshift.questions import ApprovalRule
from longshift.tools import Tool, ToolSpec
from toolsets.mcp import results, schemas
from toolsets.mcp.arguments import SchemaArguments
from toolsets.mcp.config import McpServerConfig, McpTool
from toolsets.mcp.definitions import MAX_DEFINITION_BYTES, difference, digest, digest_of_all, read_spec
from toolsets.mcp.errors import Unusable
from toolsets.mcp.secrets import Secrets

LOOK: dict[str, Any] = {
    "name": "look",
    "description": "Look.",
    "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
    "annotations": {"readOnlyHint": True, "idempotentHint": True},
}


def config(**tool: Any) -> McpServerConfig:
    return McpServerConfig(command="x", allow=("*",), tools={"look": McpTool(**tool)})


def refused(schema: dict[str, Any], **arguments: Any) -> str:
    tool = Tool(ToolSpec(name="t"), lambda: None, SchemaArguments({"type": "object", **schema}))
    with pytest.raises(ArgumentsRefused) as raised:
        tool.validate(arguments)
    return str(raised.value).removeprefix("t did not run: ")


@pytest.mark.parametrize(
    ("annotations", "given", "kind", "idempotent"),
    [
        (None, {}, "effect", False),
        ({}, {}, "effect", False),
        ({"readOnlyHint": "yes"}, {}, "effect", False),
        ({"readOnlyHint": True}, {}, "read", False),
        ({"readOnlyHint": True, "idempotentHint": True}, {}, "read", False),
        ({"idempotentHint": True}, {}, "effect", True),
        ({"idempotentHint": True}, {"idempotent": False}, "effect", False),
        ({"idempotentHint": True}, {"kind": "read"}, "read", False),
        ({"readOnlyHint": True}, {"kind": "effect"}, "effect", False),
        ({"readOnlyHint": True}, {"needs_approval": True}, "effect", False),
        ({"readOnlyHint": True}, {"idempotent": True}, "effect", True),
        (None, {"idempotent": True}, "effect", True),
    ],
)
def test_a_tool_is_an_effect_unless_the_operator_or_the_server_says_that_it_is_a_read(
    annotations: object, given: dict[str, Any], kind: str, idempotent: bool
) -> None:
    spec = read_spec("house", {**LOOK, "annotations": annotations}, config(**given))

    assert (spec.kind, spec.idempotent) == (kind, idempotent)


def test_a_spec_has_the_servers_words_and_the_operators_limits() -> None:
    rule = ApprovalRule(argument="what", not_in=("a",))

    spec = read_spec("house", LOOK, config(needs_approval=rule, timeout_seconds=7))

    assert (spec.name, spec.description, spec.parameters) == ("house__look", "Look.", LOOK["inputSchema"])
    assert (spec.needs_approval, spec.timeout_seconds, spec.max_bytes) == (rule, 7, 16_384)
    assert spec.definition_sha256 == digest(LOOK)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "a.b"}, "providers refuse the name 'house__a.b'"),
        ({"name": "x" * 60}, "providers refuse the name"),
        ({"description": "x" * MAX_DEFINITION_BYTES}, "bytes, at most"),
        ({"description": "\ud800"}, "lone surrogate"),
        ({"inputSchema": {"type": "string"}}, 'not of type "object"'),
        ({"inputSchema": {}}, 'not of type "object"'),
        ({"inputSchema": {"type": "object", "properties": {"a": {"type": "nonsense"}}}}, "no JSON schema .at prop"),
        ({"inputSchema": {"type": "object", "properties": 3}}, "no JSON schema .at properties"),
    ],
)
def test_a_tool_that_no_model_can_be_offered_is_refused_with_the_reason(change: dict[str, Any], says: str) -> None:
    with pytest.raises(Unusable, match=says):
        read_spec("house", {**LOOK, **change}, config())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, None),
        ({"title": "A title counts for nothing"}, None),
        ({"description": "Other."}, "the server changed its description"),
        ({"inputSchema": {"type": "object"}}, "the server changed its arguments"),
        ({"annotations": {}}, "the server changed its annotations"),
        ({"description": "x", "inputSchema": {"type": "object"}}, "the server changed its description and arguments"),
    ],
)
def test_what_changed_since_a_run_began_is_named(change: dict[str, Any], says: str | None) -> None:
    recorded = read_spec("house", LOOK, config())

    assert difference(recorded, {**LOOK, **change}) == says


def test_the_digest_of_a_list_does_not_depend_on_its_order() -> None:
    other = {**LOOK, "name": "other"}

    assert digest_of_all({"look": LOOK, "other": other}) == digest_of_all({"other": other, "look": LOOK})
    assert digest_of_all({"look": LOOK}) != digest_of_all({"look": LOOK, "other": other})


@pytest.mark.parametrize(
    ("schema", "arguments", "says"),
    [
        (
            {"properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
            {},
            "a: is missing, must be of type string",
        ),
        ({"required": ["a", "b"]}, {}, "a: is missing; b: is missing"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"z": 1}, "z: is no argument of it; the arguments"),
        ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": 1}, "a: must be of type string or null, not 1"),
        ({"properties": {"a": {"enum": ["x", 2]}}}, {"a": 1}, 'a: must be one of "x", 2, not 1'),
        ({"properties": {"a": {"maximum": 3}}}, {"a": 4}, "a: must satisfy maximum 3, not 4"),
        ({"properties": {"a": {"type": "integer"}}}, {"a": True}, "a: must be of type integer, not true"),
        ({"properties": {"a": {"items": {"type": "integer"}}}}, {"a": [1, "x"]}, "a.1: must be of type integer"),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, {"minimum": 2}]}}}, {"a": 1}, "a: fits none, or more than"),
        (
            {"properties": {"a": {"properties": {}, "additionalProperties": False}}},
            {"a": {"b": 1}},
            "a.b: is not expected here",
        ),
        ({"properties": {"a": {"$ref": "https://example.com/s"}}}, {"a": 1}, "the tool's own schema cannot be used"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, {"a": 1}, "the tool's own schema cannot be used"),
        (
            {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
            {"a": 1},
            "schema cannot",
        ),
        (
            {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
            {"xa": "1", "ya": 1},
            "ya: is no argument of it; the arguments are: none; xa: must be of type integer",
        ),
        (
            {"patternProperties": {"^x": {}}, "additionalProperties": {"type": "integer"}},
            {"x": "1", "y": "1"},
            "y: must be of type integer",
        ),
    ],
)
def test_bad_arguments_are_named_with_what_was_expected(
    schema: dict[str, Any], arguments: dict[str, Any], says: str
) -> None:
    assert says in refused(schema, **arguments)


SLOW = "^([a-zA-Z0-9]+)+@x$"
"""Takes a matcher that goes back longer than anybody waits, on a text of 40 letters."""
DRAFT = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": SLOW}}},
        {"properties": {"a": {"$schema": DRAFT, "pattern": SLOW}}},
        {"properties": {"a": {"propertyNames": {"pattern": SLOW}, "pattern": SLOW}}},
    ],
)
def test_a_pattern_that_would_take_for_ever_is_matched_at_once(schema: dict[str, Any]) -> None:
    assert "a: must satisfy pattern" in refused(schema, a="a" * 40)


@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties"])
def test_so_is_one_of_the_names_of_arguments(keyword: str) -> None:
    schema: dict[str, JsonValue] = {"patternProperties": {SLOW: {}}, keyword: {"type": "integer"}}

    assert SchemaArguments(schema).read('{"%s":1}' % ("a" * 40))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(?!b)", "b"),
        (r"(.)\1", "ab"),
        ("(", "x"),
        ("((((a?){500}){500}){500}){500}", "x"),
        ("^a*$", "a" * schemas.MAX_TEXT + "b"),
        ("(" * 9000 + ")" * 9000, "x"),
    ],
)
def test_what_is_not_matched_at_once_is_left_to_the_server(pattern: str, text: str) -> None:
    spec = read_spec(
        "house", {**LOOK, "inputSchema": {"type": "object", "additionalProperties": {"pattern": pattern}}}, config()
    )

    assert SchemaArguments(spec.parameters).read(jsontext.canonical({"a": text})) == {"arguments": {"a": text}}


def test_a_schema_that_would_be_checked_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "SECONDS", 0.1)
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    schema = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**doubled, "d40": {}}}

    assert "they could not be checked against the tool's schema within 0.1 s" in refused(schema, a=1)


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "properties": {"a": {"exclusiveMinimum": True, "minimum": 0}},
        },
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {"minimum": 1}}},
        {"$schema": "https://nobody.knows/this", "properties": {"a": {"minimum": 1}}},
        {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"minimum": 1}}},
    ],
)
def test_schemas_of_any_draft_are_read_and_references_inside_them_followed(schema: dict[str, Any]) -> None:
    spec = read_spec("house", {**LOOK, "inputSchema": {"type": "object", **schema}}, config())

    assert SchemaArguments(spec.parameters).read('{"a":1}') == {"arguments": {"a": 1}}


def result(*content: dict[str, Any], **more: Any) -> CallToolResult:
    return CallToolResult.model_validate({"content": list(content), **more})


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        (result(), ""),
        (result({"type": "text", "text": "one"}, {"type": "text", "text": "two"}), "one\ntwo"),
        (result({"type": "text", "text": "{}"}, structuredContent={"a": [None]}), {"a": [None]}),
        (result({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}), "[audio, audio/wav, 3 bytes, not shown]"),
        (result({"type": "resource_link", "uri": "file:///a", "name": "a"}), "[link to the resource file:///a]"),
        (result({"type": "resource", "resource": {"uri": "a:b", "text": "in it"}}), "in it"),
        (
            result({"type": "resource", "resource": {"uri": "a:b", "blob": "AA=="}}),
            "[resource a:b, of unknown type, 1 bytes, not shown]",
        ),
    ],
)
def test_a_result_is_its_structured_content_or_its_text_and_never_what_is_neither(
    returned: CallToolResult, value: object
) -> None:
    assert results.value(returned) == value


def test_a_result_that_is_an_error_is_refused_with_its_text() -> None:
    with pytest.raises(ToolRefused, match=r"^no such file$"):
        results.value(result({"type": "text", "text": "no such file"}, isError=True))
    with pytest.raises(ToolRefused, match="said nothing"):
        results.value(result(isError=True))


def test_a_key_is_hidden_with_and_without_what_stands_before_it_and_short_values_are_left() -> None:
    secrets = Secrets(["Bearer abcdefgh12", "short"])

    assert secrets.hidden({"abcdefgh12": ["Bearer abcdefgh12!", "short", 7]}) == {"***": ["***!", "short", 7]}
