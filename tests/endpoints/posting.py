"""One request through the transport, to a server that a test scripts."""

from typing import Any

import pytest

from endpoints.transport import Transport
from longshift.turns import CallFailed, ModelFailure
from tests.endpoints.raw_server import Answer, RawServer, raw_server

CAP = 4096
"""Bytes of a body that the transport takes here."""


async def post(server: RawServer, *, seconds: float = 5, key_env: str | None = None, times: int = 1) -> Any:
    """The JSON that comes back."""
    transport = Transport("shop", server.url, timeout_seconds=seconds, max_body_bytes=CAP, api_key_env=key_env)
    try:
        for _ in range(times):
            answer = await transport.post_json({"text": "grüß"})
        return answer
    finally:
        await transport.close()


async def failed(answer: Answer, **options: Any) -> ModelFailure:
    """The failure that an answer is."""
    async with raw_server(answer) as server:
        with pytest.raises(CallFailed) as caught:
            await post(server, **options)
        assert len(server.requests) == 1, "a request is sent once"
    failure = caught.value.failure
    assert failure.message.startswith("endpoint 'shop': ")
    return failure
