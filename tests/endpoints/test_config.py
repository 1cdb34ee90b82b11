"""What an operator may write about an endpoint, and what a call costs by it."""

import ast
import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict, TypeAdapter, ValidationError

import endpoints.config
from endpoints.anthropic import AnthropicEndpoint
from endpoints.config import (
    TEMPLATE_TOKENS,
    AnthropicConfig,
    EndpointConfig,
    OpenAIConfig,
    Price,
    ReplayConfig,
    cost,
    highest_cost,
)
from endpoints.factory import open_endpoint
from endpoints.openai import OpenAIEndpoint
from endpoints.replay import ReplayEndpoint
from longshift.turns import Usage

CONFIG: TypeAdapter[Any] = TypeAdapter(EndpointConfig, config=ConfigDict(hide_input_in_errors=True))
GOOD = {"kind": "openai", "url": "http://127.0.0.1:11434/v1", "model": "small"}
ANTHROPIC = {"kind": "anthropic", "model": "large"}


def test_the_kind_tells_endpoints_apart() -> None:
    assert isinstance(CONFIG.validate_python(GOOD), OpenAIConfig)
    assert isinstance(CONFIG.validate_python(ANTHROPIC), AnthropicConfig)
    assert isinstance(CONFIG.validate_python({"kind": "replay", "turns": []}), ReplayConfig)
    with pytest.raises(ValidationError, match="kind"):
        CONFIG.validate_python({"kind": "other"})


def test_the_defaults_are_those_that_are_written_down() -> None:
    config = CONFIG.validate_python(GOOD)
    assert (config.timeout_seconds, config.max_body_bytes, config.call_ids) == (120, 262_144, "server")
    assert (config.api_key_env, config.price) == (None, None)


def test_every_field_has_a_sentence() -> None:
    tree = ast.parse(Path(endpoints.config.__file__).read_text(encoding="utf-8"))
    bodies = [one.body for one in ast.walk(tree) if isinstance(one, ast.ClassDef)]
    pairs = [pair for body in bodies for pair in pairwise([*body, ast.Pass()])]
    fields = [(ast.unparse(one), after) for one, after in pairs if isinstance(one, ast.AnnAssign)]
    assert len(fields) > 20
    assert [field for field, after in fields if not isinstance(after, ast.Expr)] == []


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:11434/v1", "https://api.example.com/v1/", "http://[::1]:8080", "http://model-server/openai/v1"],
)
def test_a_base_url_is_taken(url: str) -> None:
    assert CONFIG.validate_python(GOOD | {"url": url}).url == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "", "model-server", "127.0.0.1:11434", "ftp://a/v1", "file:///etc/passwd", "http://", "http:///v1", "//a/v1",
        "http://u:hunter2@a/v1", "http://hunter2@a/v1", "http://a/v1?key=hunter2", "http://a/v1#hunter2", "http://a/v1?",
        "http://a:99999/v1", "http://a:b/v1", "http://[::1/v1", "http://a b/v1", "http://a/v1\n", "http://\u2603/v1",
        "http://a/v1/chat/completions", "http://a/v1/chat/completions/",
    ],
)  # fmt: skip
def test_any_other_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValidationError) as caught:
        CONFIG.validate_python(GOOD | {"url": url})
    assert "url" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_an_anthropic_url_is_anthropics_own_unless_given_and_ends_before_the_version() -> None:
    assert CONFIG.validate_python(ANTHROPIC).url == "https://api.anthropic.com"
    assert CONFIG.validate_python(ANTHROPIC | {"url": "http://127.0.0.1:4010/"}).url == "http://127.0.0.1:4010"
    for url in ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/", "http://a/v1/messages"):
        with pytest.raises(ValidationError, match="which ends before /v1/messages"):
            CONFIG.validate_python(ANTHROPIC | {"url": url})
    with pytest.raises(ValidationError, match=r"such as https://api\.anthropic\.com"):
        CONFIG.validate_python(ANTHROPIC | {"url": "api.anthropic.com"})


def test_what_only_the_other_kind_has_is_refused() -> None:
    with pytest.raises(ValidationError, match="thinking"):
        CONFIG.validate_python(GOOD | {"thinking": "disabled"})
    with pytest.raises(ValidationError, match="output_limit_field"):
        CONFIG.validate_python(ANTHROPIC | {"output_limit_field": "max_tokens"})
    with pytest.raises(ValidationError, match="thinking"):
        CONFIG.validate_python(ANTHROPIC | {"thinking": "enabled"})


def test_a_key_in_place_of_its_variables_name_is_refused_without_being_shown() -> None:
    with pytest.raises(ValidationError, match="must be the NAME of an environment variable") as caught:
        CONFIG.validate_python(GOOD | {"api_key_env": "sk-planted-0123"})
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout_seconds", 0), ("timeout_seconds", -1), ("timeout_seconds", float("inf")),
        ("timeout_seconds", float("nan")), ("timeout_seconds", True), ("model", ""), ("max_body_bytes", 0),
        ("max_body_bytes", 1.5), ("max_body_bytes", True), ("call_ids", "ours"), ("temperature", -1), ("surprise", 1),
        ("price", {"input_cents_per_million": -1, "output_cents_per_million": 0}),
        ("price", {"input_cents_per_million": float("nan"), "output_cents_per_million": 0}),
        ("price", {"input_cents_per_million": True, "output_cents_per_million": 0}),
        ("price", {"input_cents_per_million": 1}),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_by_its_fields_name(field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=field):
        CONFIG.validate_python(GOOD | {field: value})


@pytest.mark.parametrize("source", [{}, {"file": "a.json", "turns": []}])
def test_a_replay_has_exactly_one_source(source: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="either `file` or `turns`"):
        CONFIG.validate_python({"kind": "replay", **source})


def test_authored_values_that_are_no_json_are_refused() -> None:
    with pytest.raises(ValidationError, match="output_tokens"):
        CONFIG.validate_python({"kind": "replay", "turns": [{"output_tokens": float("nan")}]})


PRICE = Price(input_cents_per_million=15, output_cents_per_million=60)


@pytest.mark.parametrize(
    ("usage", "price", "micro_usd"),
    [
        (Usage(output_tokens=1_000_000, input_tokens=1_000_000), PRICE, 750_000),  # 75 cents
        (Usage(output_tokens=0, input_tokens=0), PRICE, 0),
        (Usage(output_tokens=1, input_tokens=0), PRICE, 1),  # 0.6 of a micro-USD, rounded up
        (Usage(output_tokens=5, input_tokens=0), PRICE, 3),  # exactly 3
        (Usage(output_tokens=3, input_tokens=7), PRICE, 3),  # 2.85
        (Usage(output_tokens=3), PRICE, 20),  # nobody knows what the input cost: the estimate
        (Usage(output_tokens=100), PRICE, 60),
        (Usage(input_tokens=7), PRICE, 602),  # the allowance of 1000, and the input: 601.05
        (Usage(), PRICE, 600),
        (Usage(), Price(input_cents_per_million=15, output_cents_per_million=1), 20),
        (Usage(input_tokens=7, invalid="many"), PRICE, None),
        (Usage(output_tokens=3, input_tokens=7), None, None),
        (Usage(output_tokens=3), Price(input_cents_per_million=0, output_cents_per_million=100), 3),
        (Usage(), Price(input_cents_per_million=0, output_cents_per_million=0), 0),
        (Usage(output_tokens=100, input_tokens=0), Price(input_cents_per_million=0, output_cents_per_million=0.1), 1),
        (Usage(output_tokens=1000, input_tokens=0), Price(input_cents_per_million=0, output_cents_per_million=0.1), 1),
        (
            Usage(output_tokens=10**12, input_tokens=0),
            Price(input_cents_per_million=0, output_cents_per_million=1e-7),
            1000,
        ),
    ],
)
def test_a_call_costs_what_it_used_rounded_up_to_a_micro_usd_and_never_nothing_where_that_is_not_reported(
    usage: Usage, price: Price | None, micro_usd: int | None
) -> None:
    assert cost(usage, price, allowed=1000, estimate=20) == micro_usd


def test_no_call_costs_more_than_its_context_has_bytes_and_its_allowance_tokens() -> None:
    highest = highest_cost(PRICE, context_bytes=500, allowed=1000)
    assert highest is not None
    for input_tokens, output_tokens in ((500 + TEMPLATE_TOKENS, 1000), (500, None), (None, 1000), (None, None)):
        usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        charged = cost(usage, PRICE, allowed=1000, estimate=highest)
        assert charged is not None
        assert charged <= highest
    assert highest_cost(None, context_bytes=500, allowed=1000) is None


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_cost_is_never_below_what_was_used(output: int, input_: int, output_price: float, input_price: float) -> None:
    price = Price(input_cents_per_million=input_price, output_cents_per_million=output_price)
    charged = cost(Usage(output_tokens=output, input_tokens=input_), price, allowed=1000, estimate=10**12)
    assert charged is not None
    exact = (output * output_price + input_ * input_price) / 100
    assert charged >= exact * (1 - 1e-12)
    assert charged <= exact * (1 + 1e-12) + 1


def test_a_configuration_opens_its_endpoint(tmp_path: Path) -> None:
    file = tmp_path / "turns.json"
    file.write_text("[]")
    openai = open_endpoint("model", CONFIG.validate_python(GOOD))
    replay = open_endpoint("authored", ReplayConfig(file=file))
    anthropic = open_endpoint("model", CONFIG.validate_python(ANTHROPIC))
    assert isinstance(openai, OpenAIEndpoint)
    assert isinstance(anthropic, AnthropicEndpoint)
    assert isinstance(replay, ReplayEndpoint)
    asyncio.run(openai.close())
    asyncio.run(anthropic.close())
