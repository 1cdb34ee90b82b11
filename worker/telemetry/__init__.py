"""What a worker tells of its work: metrics, traces, a log in JSON. Each is off until the configuration turns it on, and
what it needs is imported only then.

    metrics.py   the loop's figures, counted where a step ends, on the page with Temporal's own
    tracing.py   spans: Temporal's interceptor, OpenTelemetry's exporter, and what is taken out between the two
    spans.py     the spans of model calls and tools
    lines.py     a log of one JSON object a line
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from endpoints.base import Endpoint
from endpoints.config import EndpointConfig, ReplayConfig
from longshift import observations
from longshift.contracts import RanTool, RunSpec
from store.journal import Journal
from toolsets.mcp.secrets import Secrets
from worker.problems import SettingsRefused
from worker.settings import Settings

if TYPE_CHECKING:
    from temporalio.runtime import Runtime
    from temporalio.worker import Interceptor

    from worker.telemetry.tracing import Tracing

EXTRA = "Longshift's extra telemetry (in a checkout: .uv/bin/uv sync --locked --inexact --extra telemetry)"
"""What has to be installed for traces."""
KEYS_OF_OTHERS = ("TEMPORAL_API_KEY", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
"""Variables that hold keys, beside those that the configuration names."""

AgentOf = Callable[[str], Awaitable[str]]
"""The name of a run's agent, by the run's id; blank where the journal cannot tell."""


class Telemetry:
    """The telemetry of one worker process."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] = os.environ) -> None:
        """Turn on what is configured.

        Raises SettingsRefused where traces are asked for and OpenTelemetry is not installed, and where metrics cannot
        be served.
        """
        self._settings = settings.telemetry
        self._tracing: Tracing | None = None
        self.runtime: Runtime | None = None
        """Temporal's, where it is to serve the metrics; give it to the client."""
        if self._settings.prometheus is not None:
            from worker.telemetry.metrics import serving

            self.runtime = serving(settings)
        if not (self._settings.traces or self._settings.log_format == "json"):
            return
        secrets = Secrets(keys_of(settings, environ))
        if self._settings.traces:
            self._tracing = _tracing(settings, secrets)
        if self._settings.log_format == "json":
            from worker.telemetry.lines import log_in_lines

            log_in_lines(secrets, self._tracing.ids if self._tracing else None)

    def endpoints(
        self, endpoints: Mapping[str, Endpoint], configs: Mapping[str, EndpointConfig], journal: Journal
    ) -> Mapping[str, Endpoint]:
        """The endpoints, with a span for each call where traces are on."""
        if self._tracing is None:
            return endpoints
        from worker.telemetry.spans import TracedEndpoint

        agent_of = _agents(journal)
        return {
            name: TracedEndpoint(endpoint, configs[name], agent_of, content=self._settings.content)
            for name, endpoint in endpoints.items()
        }

    def interceptors(self, journal: Journal) -> "list[Interceptor]":
        """What Temporal's worker is to call around activities, the outermost first.

        Args:
            journal: knows the runs' agents and endpoints.
        """
        found: list[Interceptor] = []
        if self._tracing is not None:
            from worker.telemetry.spans import ToolSpans

            found += [self._tracing.interceptor, ToolSpans(_agents(journal), content=self._settings.content)]
        if self.runtime is not None:
            from worker.telemetry.metrics import LoopMetrics

            found.append(LoopMetrics(self.runtime.metric_meter, journal))
        return found

    async def close(self) -> None:
        """Send what spans are left, for a few seconds at most."""
        if self._tracing is not None:
            await self._tracing.close()


def kind_of(ran: RanTool) -> str:
    """`ok`, or the kind of the error that the observation of a tool call is."""
    try:
        return observations.kind_of(ran.observation.message.content)
    except ValueError:
        return "ok"


def missing(settings: Settings) -> str | None:
    """What has to be installed for the telemetry that is configured, in words; None where nothing has."""
    if not settings.telemetry.traces:
        return None
    try:
        import worker.telemetry.tracing  # noqa: F401
    except ModuleNotFoundError as error:
        text = f"needs {error.name}, which is not installed; install {EXTRA}, or set traces = false"
        return settings.sources.line(("telemetry", "traces"), text)
    return None


def _tracing(settings: Settings, secrets: Secrets) -> "Tracing":
    if problem := missing(settings):
        raise SettingsRefused([problem])
    from worker.telemetry.tracing import Tracing

    return Tracing(secrets, content=settings.telemetry.content)


def _agents(journal: Journal) -> AgentOf:
    async def agent_of(run_id: str) -> str:
        spec = await spec_of(journal, run_id)
        return spec.agent.name if spec else ""

    return agent_of


async def spec_of(journal: Journal, run_id: str) -> RunSpec | None:
    """What a run works with, as its steps have read it before; None where the journal cannot tell, whatever keeps it
    from that: no step may fail because of what is told of it."""
    try:
        return await journal.spec(run_id)
    except Exception:
        return None


def keys_of(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """The values that nothing which leaves the worker may hold."""
    servers = [endpoint for endpoint in settings.endpoints.values() if not isinstance(endpoint, ReplayConfig)]
    names = [*KEYS_OF_OTHERS, *(server.api_key_env for server in servers if server.api_key_env)]
    for program in settings.mcp_servers.values():
        names += [*program.env_from, *program.headers_from.values()]
    headers = [part.partition("=")[2] for name in KEYS_OF_OTHERS for part in environ.get(name, "").split(",")]
    plain = map(unquote, headers)  # as OpenTelemetry reads them
    return [*(environ.get(name, "") for name in names), *headers, *plain, *_passwords(settings.journal.url)]


def _passwords(url: str) -> list[str]:
    """A database's password, as it is and as its URL writes it."""
    try:
        password = make_url(url).password
    except (ArgumentError, ValueError):  # which ends the worker, in words, once it opens the journal
        return []
    return [password, url.partition("://")[2].partition("@")[0].partition(":")[2]] if password else []
