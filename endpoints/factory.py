"""From an endpoint's configuration to the endpoint."""

from typing import assert_never

from endpoints.anthropic import AnthropicEndpoint
from endpoints.base import Endpoint
from endpoints.config import AnthropicConfig, EndpointConfig, OpenAIConfig, ReplayConfig
from endpoints.openai import OpenAIEndpoint
from endpoints.replay import ReplayEndpoint


def open_endpoint(name: str, config: EndpointConfig) -> Endpoint:
    """The endpoint that the operator named `name`. It connects when it first sends; close it when the worker ends.

    Raises ValueError where a replay's file cannot be used.
    """
    match config:
        case OpenAIConfig():
            return OpenAIEndpoint(name, config)
        case AnthropicConfig():
            return AnthropicEndpoint(name, config)
        case ReplayConfig():
            return ReplayEndpoint(name, config)
        case _:
            assert_never(config)
