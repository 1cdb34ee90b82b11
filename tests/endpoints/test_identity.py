"""What an endpoint answers when it is asked what it is, kept beside what is measured of it."""

import json
from pathlib import Path

import pytest

from endpoints.config import OpenAIConfig, ReplayConfig
from endpoints.factory import open_endpoint
from lab.experiment import ExperimentRefused
from lab.identity import earlier, identify
from tests.endpoints.raw_server import raw_server, reply

pytestmark = pytest.mark.asyncio


async def test_an_endpoint_is_asked_what_it_is_and_each_answer_is_kept(tmp_path: Path) -> None:
    async with raw_server(reply('{"data": [{"id": "small"}]}')) as server:
        config = OpenAIConfig(url=server.url, model="small", temperature=0.5, api_key_env=None)
        endpoint = open_endpoint("local", config)
        for asked in (1, 2):
            answers = await identify(tmp_path, endpoint, config)
            assert len(answers) == asked
        await endpoint.close()
    assert earlier(tmp_path) == answers
    told = json.dumps(answers)
    assert server.url not in told
    assert '"models": ["small"]' in told
    assert '"temperature": 0.5' in told


async def test_an_endpoint_that_does_not_answer_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    async with raw_server(reply("no", status=500)) as server:
        config = OpenAIConfig(url=server.url, model="small")
        endpoint = open_endpoint("local", config)
        with pytest.raises(ExperimentRefused, match=r"^--endpoint: .*longshift doctor$"):
            await identify(tmp_path, endpoint, config)
        await endpoint.close()
    assert earlier(tmp_path) == []


async def test_authored_turns_have_only_what_the_operator_says(tmp_path: Path) -> None:
    config = ReplayConfig(turns=())
    (answer,) = await identify(tmp_path, open_endpoint("authored", config), config)
    assert isinstance(answer, dict)
    assert (answer["kind"], "listing" in answer) == ("replay", False)
