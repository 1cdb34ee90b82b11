"""An endpoint behind HTTP, whatever its format: build a request, send it, parse the reply."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import JsonValue

from endpoints.base import Reply, Request
from endpoints.config import ServerConfig
from endpoints.transport import BEARER, Transport
from longshift.messages import AssistantMessage, Message
from longshift.tools import ToolSpec
from longshift.turns import ModelFailure

Config = TypeVar("Config", bound=ServerConfig)


@dataclass(frozen=True)
class Listing:
    """What a server said when it was asked which models it has."""

    status: int | None
    """The HTTP status; None where it did not answer."""
    models: tuple[str, ...] | None
    """Their names; None where it gave no list."""
    failure: ModelFailure | None
    """Why it gave none, unless it gave something else."""


class ServerEndpoint(Generic[Config]):
    """Base of the endpoints of each format, which add the two pure functions and the headers that it asks for."""

    def __init__(
        self,
        name: str,
        config: Config,
        build_body: Callable[[Config, Sequence[Message], Sequence[ToolSpec], int], Mapping[str, Any]],
        parse_reply: Callable[[str, Config, JsonValue, Request], Reply],
        *,
        key_header: tuple[str, str] = BEARER,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._config = config
        self._build_body = build_body
        self._parse_reply = parse_reply
        self._transport = Transport(
            name,
            f"{config.url}{config.path}",
            timeout_seconds=config.timeout_seconds,
            max_body_bytes=config.max_body_bytes,
            api_key_env=config.api_key_env,
            key_header=key_header,
            headers=headers,
        )

    async def send(self, request: Request) -> Reply:
        """Send and parse; see endpoints.base.Endpoint."""
        body = self._build_body(self._config, await request.messages(), request.tools, request.output_tokens)
        reply = self._parse_reply(self._name, self._config, await self._transport.post_json(body), request)
        told = reply.message.model_dump(mode="json")  # arguments stood in it as JSON text, with escapes of their own
        clean = self._transport.without_key(told)
        return reply if clean == told else replace(reply, message=AssistantMessage.model_validate(clean))

    async def models(self) -> Listing:
        """Ask the server for the list of its models, with the key: it shows whether it answers, at no cost."""
        status, answer = await self._transport.get_json(f"{self._config.url}{self._config.models_path}")
        if isinstance(answer, ModelFailure):
            return Listing(status, None, answer)
        found = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(found, list):
            return Listing(status, None, None)
        return Listing(status, tuple(str(one["id"]) for one in found if isinstance(one, dict) and "id" in one), None)

    async def close(self) -> None:
        """Close connections."""
        await self._transport.close()
