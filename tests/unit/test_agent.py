"""What an agent's author may declare, and what is recorded of it."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from longshift.agent import Agent, AgentSpec, schemas_bytes
from longshift.limits import Limits
from longshift.tools import tool


@tool(kind="read")
def look(sku: str) -> str:
    """Look."""
    return sku


@tool
def place(sku: str) -> str:
    """Place."""
    return sku


def declared(**changes: Any) -> Agent:
    """A good agent with these changes."""
    return Agent(**{"name": "shop", "system": "Look.", "endpoint": "local", "tools": (look, place)} | changes)


def test_an_agent_needs_a_name_a_prompt_and_an_endpoint_only() -> None:
    agent = Agent(name="a", system="", endpoint="local")
    assert (agent.tools, agent.limits) == ((), Limits())
    assert (agent.unknown_tool, agent.malformed_calls) == ("recoverable", "fail")


def test_limits_may_be_given_as_changes_or_whole() -> None:
    assert declared(limits={"model_calls": 3}).limits == Limits(model_calls=3)
    assert declared(limits=Limits(seconds=5)).limits == Limits(seconds=5)


def test_tools_may_be_a_list_and_keep_their_order() -> None:
    assert declared(tools=[place, look]).tools == (place, look)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"name": "Shop"}, "name", "lower-case letters, digits or -"),
        ({"name": "1shop"}, "name", "begin with a letter"),
        ({"name": "a" * 65}, "name", "1 to 64"),
        ({"name": "shop\n"}, "name", "1 to 64"),
        ({"name": "../shop"}, "name", "1 to 64"),
        ({"system": 5}, "system", "valid string"),
        ({"system": "\ud800"}, "system", "lone surrogate"),
        ({"endpoint": " "}, "endpoint", "name an endpoint"),
        ({"tools": look}, "tools", "must be a tuple of tools"),
        ({"tools": (look, len)}, "tools", "len is not a tool; put @tool above the function"),
        ({"tools": (look, 5)}, "tools", "int is not a tool"),
        ({"tools": (look, place, look)}, "tools", "two tools are called look"),
        ({"limits": {"model_cals": 3}}, "limits", "model_cals: is no limit; the limits are model_calls"),
        ({"limits": {"model_calls": True, "seconds": 0}}, "limits", "seconds: must be a finite number"),
        ({"limits": 5}, "limits", "Limits"),
        ({"unknown_tool": "ignore"}, "unknown_tool", "'recoverable' or 'fatal'"),
        ({"malformed_calls": "skip"}, "malformed_calls", "'fail' or 'observe'"),
        ({"context": "forget"}, "context", "'stop', 'window' or 'summarize'"),
        ({"colour": "red"}, "colour", "Extra inputs are not permitted"),
    ],
)
def test_a_bad_field_is_refused_by_name(changes: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        declared(**changes)
    (error,) = caught.value.errors()
    assert error["loc"][0] == field
    assert words in error["msg"]


def test_all_bad_fields_are_named_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        declared(name="", endpoint="", limits={"repeats": -1})
    assert {error["loc"] for error in caught.value.errors()} == {("name",), ("endpoint",), ("limits",)}


def test_an_agent_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        declared().name = "other"  # type: ignore[misc]


def test_the_spec_is_the_agent_as_data_and_survives_json() -> None:
    agent = declared(limits={"model_calls": 3}, unknown_tool="fatal", malformed_calls="observe", context="window")
    spec = agent.spec()
    assert spec.tools == (look.spec, place.spec)
    assert (spec.name, spec.system, spec.limits.model_calls) == ("shop", "Look.", 3)
    assert (spec.unknown_tool, spec.malformed_calls, spec.context) == ("fatal", "observe", "window")
    assert AgentSpec.model_validate_json(spec.model_dump_json()) == spec


def test_a_spec_of_a_newer_version_is_read_without_what_is_new() -> None:
    assert AgentSpec.model_validate({"name": "shop", "invented": 1}) == AgentSpec(name="shop")


def test_schemas_are_measured_as_the_model_is_told_of_them() -> None:
    assert schemas_bytes(()) == 2
    offered = [{"name": "look", "description": "Look.", "parameters": look.spec.parameters}]
    text = json.dumps(offered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert schemas_bytes([look.spec]) == len(text.encode())
    assert schemas_bytes([look.spec.model_copy(update={"description": "Löök."})]) == len(text.encode()) + 2
