"""What an experiment's endpoint answered to what it is, as the folder keeps it."""

import json
from pathlib import Path

import pytest

from endpoints.config import AnthropicConfig, EndpointConfig, OpenAIConfig, ReplayConfig
from endpoints.replay import ReplayEndpoint
from lab.identity import FILE, described, earlier, identify
from lab.receipt import versions


@pytest.mark.asyncio
async def test_answers_are_kept_in_order_and_come_back_as_they_were_given(tmp_path: Path) -> None:
    endpoint = ReplayEndpoint("measured", ReplayConfig(turns=()))  # has no list of models to ask for
    config = OpenAIConfig(url="http://127.0.0.1:1/v1", model="small")

    first = await identify(tmp_path, endpoint, config)
    second = await identify(tmp_path, endpoint, config)

    assert second[:-1] == first
    assert json.dumps(second) == json.dumps(earlier(tmp_path))  # a receipt that is written anew is the same file


@pytest.mark.asyncio
async def test_each_answer_keeps_the_versions_that_measured_from_then_on(tmp_path: Path) -> None:
    config = ReplayConfig(turns=())
    endpoint = ReplayEndpoint("measured", config)
    before = {"at": 1.5, "kind": "replay", "versions": {"longshift": "0.0.9"}}
    (tmp_path / FILE).write_text(json.dumps([before]), encoding="utf-8")

    kept, answer = await identify(tmp_path, endpoint, config)

    assert kept == before
    assert isinstance(answer, dict)
    assert answer["versions"] == versions()
    assert {"longshift", "python", "scipy", "temporalio"} <= versions().keys()


def test_an_endpoint_is_told_from_another_by_all_that_is_said_of_it_but_its_key() -> None:
    config = OpenAIConfig(url="http://127.0.0.1:1/v1", model="small", temperature=0)

    assert described(config) == described(
        OpenAIConfig(url="http://127.0.0.1:1/v1/", model="small", temperature=0, seed=None, api_key_env="OTHER_KEY")
    )
    others: list[EndpointConfig] = [
        config.model_copy(update={"url": "http://127.0.0.1:2/v1"}),
        config.model_copy(update={"temperature": 0.5}),
        config.model_copy(update={"temperature": None}),
        config.model_copy(update={"seed": 7}),
        AnthropicConfig(url=config.url.removesuffix("/v1"), model="small"),
        ReplayConfig(turns=()),
    ]
    assert len({described(one) for one in [config, *others]}) == 1 + len(others)
