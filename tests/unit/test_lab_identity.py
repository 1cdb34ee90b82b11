"""What an experiment's endpoint answered to what it is, as the folder keeps it."""

import json
from pathlib import Path

import pytest

from endpoints.config import OpenAIConfig, ReplayConfig
from endpoints.replay import ReplayEndpoint
from lab.identity import earlier, identify


@pytest.mark.asyncio
async def test_answers_are_kept_in_order_and_come_back_as_they_were_given(tmp_path: Path) -> None:
    endpoint = ReplayEndpoint("measured", ReplayConfig(turns=()))  # has no list of models to ask for
    config = OpenAIConfig(url="http://127.0.0.1:1/v1", model="small")

    first = await identify(tmp_path, endpoint, config)
    second = await identify(tmp_path, endpoint, config)

    assert second[:-1] == first
    assert json.dumps(second) == json.dumps(earlier(tmp_path))  # a receipt that is written anew is the same file
