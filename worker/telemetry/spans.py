"""Spans of model calls and tools, by OpenTelemetry's semantic conventions for generative AI.

Their names are those of the package opentelemetry-semantic-conventions, against which a test holds them. They are
written out here, since that package promises of none of them where it will be imported from.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode
from pydantic import JsonValue
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from endpoints.base import Endpoint, Reply, Request
from endpoints.config import EndpointConfig, OpenAIConfig, ServerConfig
from longshift import jsontext, observations
from longshift.contracts import RanTool, RunTool
from longshift.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from longshift.turns import CallFailed, Usage
from worker.telemetry import AgentOf, kind_of

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_SEED = "gen_ai.request.seed"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"

SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT = "gen_ai.tool.call.result"
CONTENT = (SYSTEM_INSTRUCTIONS, INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_CALL_ARGUMENTS, TOOL_CALL_RESULT)
"""What models, tools and people wrote: set only where the configuration says so."""

CHAT, EXECUTE_TOOL = "chat", "execute_tool"
"""Operations, as the conventions call them."""
COST = "longshift.cost_micro_usd"
"""What a model call cost by its endpoint's price, in millionths of a US dollar. The conventions have no name for it."""
MODEL_CALL = "longshift.model_call"
"""Number of the model call that asked for a tool."""


class TracedEndpoint:
    """An endpoint with a span around each call that is really sent, from the request to the parsed reply."""

    def __init__(self, endpoint: Endpoint, config: EndpointConfig, agent_of: AgentOf, *, content: bool) -> None:
        self._endpoint = endpoint
        self._agent_of = agent_of
        self._content = content
        self._model = config.model if isinstance(config, ServerConfig) else config.kind
        self._attributes = _of_endpoint(config, self._model)

    async def send(self, request: Request) -> Reply:
        """See endpoints.base.Endpoint."""
        run_id = activity.info().workflow_id or ""
        about = {CONVERSATION_ID: run_id, REQUEST_MAX_TOKENS: request.output_tokens}
        if agent := await self._agent_of(run_id):
            about[AGENT_NAME] = agent
        with _span(f"{CHAT} {self._model}", SpanKind.CLIENT, {**self._attributes, **about}) as span:
            try:
                reply = await self._endpoint.send(self._listened_to(request, span) if self._content else request)
            except CallFailed as failed:
                _set_usage(span, failed.failure.usage)
                _failed(span, failed.failure.kind, failed.failure.message)
                raise
            _set_usage(span, reply.usage)
            if reply.cost is not None:
                span.set_attribute(COST, reply.cost)
            span.set_attribute(RESPONSE_FINISH_REASONS, [reply.stop_reason])
            if self._content:
                said = {**_as_sent(reply.message), "finish_reason": reply.stop_reason}
                span.set_attribute(OUTPUT_MESSAGES, json.dumps([said]))
            return reply

    async def close(self) -> None:
        """See endpoints.base.Endpoint."""
        await self._endpoint.close()

    def _listened_to(self, request: Request, span: Span) -> Request:
        """The request, whose messages the span holds as well once the endpoint has read them."""

        async def messages() -> Sequence[Message]:
            sent = await request.messages()
            instructions = [_text(m.content) for m in sent if isinstance(m, SystemMessage)]
            if instructions:
                span.set_attribute(SYSTEM_INSTRUCTIONS, json.dumps(instructions))
            others = [_as_sent(m) for m in sent if not isinstance(m, SystemMessage)]
            span.set_attribute(INPUT_MESSAGES, json.dumps(others))
            return sent

        return replace(request, messages=messages)


class ToolSpans(Interceptor):
    """A span around each tool call that is dispatched."""

    def __init__(self, agent_of: AgentOf, *, content: bool) -> None:
        self._agent_of = agent_of
        self._content = content

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """See temporalio.worker.Interceptor."""
        return _ToolSpan(next, self._agent_of, self._content)


class _ToolSpan(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, agent_of: AgentOf, content: bool) -> None:
        super().__init__(next)
        self._agent_of = agent_of
        self._content = content

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        request = input.args[0] if input.args else None
        if not isinstance(request, RunTool) or request.repeat_of is not None:  # a repeated call runs nothing
            return await super().execute_activity(input)
        call = request.call
        about = {
            OPERATION_NAME: EXECUTE_TOOL,
            TOOL_NAME: call.name,
            TOOL_TYPE: "function",
            TOOL_CALL_ID: call.id,
            CONVERSATION_ID: request.run_id,
            MODEL_CALL: request.model_call,
        }
        if self._content:
            about[TOOL_CALL_ARGUMENTS] = jsontext.canonical(call.arguments)
        with _span(f"{EXECUTE_TOOL} {call.name}", SpanKind.INTERNAL, about) as span:
            try:
                ran: RanTool = await super().execute_activity(input)
            except ApplicationError as error:
                _failed(span, error.type or "internal", error.message)
                raise
            if agent := await self._agent_of(request.run_id):
                span.set_attribute(AGENT_NAME, agent)
            content = ran.observation.message.content
            if (kind := kind_of(ran)) != "ok":
                _failed(span, kind, observations.message_of(content))
            if self._content:
                span.set_attribute(TOOL_CALL_RESULT, content)
            return ran


@contextmanager
def _span(name: str, kind: SpanKind, attributes: Mapping[str, Any]) -> Iterator[Span]:
    """A span around the body; what breaks the body off without a word of its own is named by its class."""
    tracer = trace.get_tracer("longshift")
    with tracer.start_as_current_span(
        name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except (CallFailed, ApplicationError):
            raise
        except BaseException as error:  # a cancellation too
            _failed(span, type(error).__name__, "")
            raise


def _failed(span: Span, kind: str, message: str) -> None:
    span.set_attribute(ERROR_TYPE, kind)
    span.set_status(StatusCode.ERROR, message or None)


def _set_usage(span: Span, usage: Usage | None) -> None:
    if usage is not None:
        for name, count in ((USAGE_INPUT_TOKENS, usage.input_tokens), (USAGE_OUTPUT_TOKENS, usage.output_tokens)):
            if count is not None:
                span.set_attribute(name, count)


def _of_endpoint(config: EndpointConfig, model: str) -> dict[str, Any]:
    """What every span of an endpoint says. Of its URL, the host and the port."""
    found: dict[str, Any] = {OPERATION_NAME: CHAT, PROVIDER_NAME: config.kind, REQUEST_MODEL: model}
    if isinstance(config, ServerConfig):
        url = urlsplit(config.url)
        found[SERVER_ADDRESS] = url.hostname
        found[SERVER_PORT] = url.port or (443 if url.scheme == "https" else 80)
    if isinstance(config, OpenAIConfig):
        sampling = {REQUEST_TEMPERATURE: config.temperature, REQUEST_SEED: config.seed}
        found |= {name: value for name, value in sampling.items() if value is not None}
    return found


def _as_sent(message: Message) -> dict[str, JsonValue]:
    """A message in the conventions' form: a role, and parts."""
    parts: list[JsonValue]
    match message:
        case AssistantMessage():
            parts = [_text(message.content)] if message.content else []
            for call in message.calls:
                parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments})
        case ToolMessage():
            parts = [{"type": "tool_call_response", "id": message.call_id, "response": message.content}]
        case SystemMessage() | UserMessage():
            parts = [_text(message.content)]
    return {"role": message.role, "parts": parts}


def _text(content: str) -> dict[str, JsonValue]:
    return {"type": "text", "content": content}
