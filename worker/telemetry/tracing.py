"""Traces: Temporal's own interceptor, a replay-safe tracer, OpenTelemetry's exporter, and what is taken out of spans on
their way. Where they go, and how many are kept, OpenTelemetry's own OTEL_* variables say.
"""

import asyncio
import logging
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status, format_span_id, format_trace_id
from opentelemetry.util.types import Attributes
from temporalio.contrib.opentelemetry import OpenTelemetryInterceptor, create_tracer_provider

from toolsets.mcp.secrets import Secrets

CLOSE_SECONDS = 1.5
"""Seconds that an ending worker gives to the export of its last spans: whoever ended it does not wait for long."""
QUERIES = "HandleQuery:"
"""Begins the names of spans that are not exported: whoever watches a run asks it every second, and changes nothing."""
WORDS = ("exception.message", "exception.stacktrace")
"""Attributes of an exception that may hold what a model, a tool or a person wrote; its type may not."""

log = logging.getLogger("longshift.worker")


class Tracing:
    """The tracer of this process; there is one at most, since OpenTelemetry takes no second one."""

    def __init__(self, secrets: Secrets, *, content: bool, exporter: SpanExporter | None = None) -> None:
        """Set OpenTelemetry's tracer up.

        Args:
            secrets: what no span may hold.
            content: whether spans may hold what models, tools and people wrote.
            exporter: takes the spans; none: OTLP over HTTP, as the OTEL_* variables say.
        """
        # A collector's answer may repeat the key it was sent; and a run that leaves the worker's memory is no error.
        for chatty in ("opentelemetry.exporter", "urllib3", "opentelemetry.context"):
            logging.getLogger(chatty).setLevel(logging.CRITICAL)
        found = Resource.create()
        if str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            found = found.merge(Resource({SERVICE_NAME: "longshift"}))
        self._provider = create_tracer_provider(resource=found, shutdown_on_exit=False)
        cleaned = Cleaned(exporter or OTLPSpanExporter(), secrets, content=content)
        self._provider.add_span_processor(Ended(cleaned))
        trace.set_tracer_provider(self._provider)
        self.interceptor = OpenTelemetryInterceptor(add_temporal_spans=True)

    def ids(self) -> Mapping[str, str]:
        """The ids of the span that is at work, by the names that OpenTelemetry gives them in a log."""
        found = trace.get_current_span().get_span_context()
        if not found.is_valid:
            return {}
        return {"trace_id": format_trace_id(found.trace_id), "span_id": format_span_id(found.span_id)}

    def flush(self) -> None:
        """Export what is there. Blocks."""
        self._provider.force_flush()

    async def close(self) -> None:
        """Export what is left, for a few seconds at most: in a thread that nothing waits for, since a collector that
        does not answer is asked again and again."""
        done, loop = asyncio.Event(), asyncio.get_running_loop()

        def shut_down() -> None:
            self._provider.shutdown()
            loop.call_soon_threadsafe(done.set)

        threading.Thread(target=shut_down, name="last spans", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await done.wait()
        except TimeoutError:
            log.warning("the last spans could not be exported within %g s and are lost", CLOSE_SECONDS)


class Ended(BatchSpanProcessor):
    """Exports spans in the background, but for those of runs that go on: where a run under way leaves a worker, its
    coroutine is thrown away, which ends its span; the worker that has it next ends the same span again."""

    def on_end(self, span: ReadableSpan) -> None:
        """See SpanProcessor."""
        if not isinstance(sys.exc_info()[1], GeneratorExit):
            super().on_end(span)


class Cleaned(SpanExporter):
    """Hands spans on without keys and, unless content is on, without the words of models, tools and people."""

    def __init__(self, exporter: SpanExporter, secrets: Secrets, *, content: bool) -> None:
        self._exporter = exporter
        self._secrets = secrets
        self._content = content
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Clean and hand on; says in the log when that begins to fail, and when it goes again."""
        kept = [self._cleaned(span) for span in spans if not span.name.startswith(QUERIES)]
        if not kept:
            return SpanExportResult.SUCCESS
        result = self._exporter.export(kept)
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self._failing:
            log.warning("spans cannot be exported and are lost; check the collector and OTEL_EXPORTER_OTLP_ENDPOINT")
        elif self._failing and not failing:
            log.info("spans are exported again")
        self._failing = failing
        return result

    def shutdown(self) -> None:
        """See SpanExporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """See SpanExporter."""
        return self._exporter.force_flush(timeout_millis)

    def _cleaned(self, span: ReadableSpan) -> ReadableSpan:
        status = span.status
        words = self._secrets.hide(status.description) if self._content and status.description else None
        return ReadableSpan(
            name=self._secrets.hide(span.name),
            context=span.get_span_context(),
            parent=span.parent,
            resource=span.resource,
            attributes=self._attributes(span.attributes),
            events=[self._event(event) for event in span.events],
            links=span.links,
            kind=span.kind,
            status=Status(status.status_code, words),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _event(self, event: Event) -> Event:
        told = {name: v for name, v in (event.attributes or {}).items() if self._content or name not in WORDS}
        return Event(event.name, self._attributes(told), event.timestamp)

    def _attributes(self, attributes: Attributes) -> Attributes:
        return {name: self._hidden(value) for name, value in (attributes or {}).items()}

    def _hidden(self, value: Any) -> Any:
        return self._secrets.hidden(list(value) if isinstance(value, tuple) else value)
