"""The connection to the Temporal server, the same for clients and workers."""

import asyncio
import logging
from functools import cache

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)
from temporalio.service import RPCError, RPCStatusCode

from worker.plugin import longshift_plugin
from worker.problems import SettingsRefused
from worker.settings import Settings

CONNECT_SECONDS = 5.0
"""Seconds within which a server must answer; a near one does in milliseconds, a far one in a second."""
LOCAL_ADDRESS = "localhost:7233"
"""Where Temporal's own tools look for a server, too, when nothing says otherwise."""
REFUSALS = ("Unauthenticated", "PermissionDenied")
"""gRPC codes in the text of a failed connection with which a server says that it is there and lets us not in."""


class NoServer(Exception):
    """No Temporal server answers. The text names address and remedy."""


async def connect(settings: Settings, runtime: Runtime | None = None) -> Client:
    """Connect to the server that Temporal's profile and its TEMPORAL_* variables name, else to one on this machine.

    Args:
        settings: the configuration.
        runtime: one made by `new_runtime`; none: the process's own, which serves no metrics.

    Raises:
        NoServer: nothing answers there.
        SettingsRefused: the profile cannot be used, the server refuses the credentials or has no such namespace.
    """
    options = _options(settings)
    address, namespace = options.setdefault("target_host", LOCAL_ADDRESS), options.setdefault("namespace", "default")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            client = await Client.connect(**options, plugins=[longshift_plugin()], runtime=runtime or _runtime())
            request = DescribeNamespaceRequest(namespace=namespace)
            await client.workflow_service.describe_namespace(request)
    except (RuntimeError, RPCError, TimeoutError, ValueError) as error:
        way = " with TLS" if options.get("tls") else ""
        raise _explained(error, f"{address}{way}", namespace) from None
    return client


def _explained(error: Exception, address: str, namespace: str) -> Exception:
    """What a failed connection means."""
    if isinstance(error, ValueError):
        return SettingsRefused(
            [f"temporal: the address {address}, or its TLS settings, cannot be used; mend the profile"]
        )
    status = error.status if isinstance(error, RPCError) else None
    if status is RPCStatusCode.NOT_FOUND:
        text = f"the server at {address} has no namespace {namespace}; create it, or mend the profile"
        return SettingsRefused([f"temporal: {text}"])
    denied = status in (RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED)
    if denied or any(code in str(error) for code in REFUSALS):
        text = f"the server at {address} refuses the credentials for namespace {namespace}; mend the profile's"
        return SettingsRefused([f"temporal: {text} API key or certificate"])
    return NoServer(
        f"no Temporal server answers at {address}; start one with: longshift up; "
        "or name another in a Temporal profile or TEMPORAL_ADDRESS"
    )


def _options(settings: Settings) -> ClientConnectConfig:
    profile, file = settings.temporal.profile, settings.temporal.config_file
    if file is not None and not file.is_file():
        text = "there is no such file; give the path of a file of Temporal profiles"
        raise SettingsRefused([settings.sources.line(("temporal", "config_file"), text)])
    try:
        return ClientConfig.load_client_connect_config(profile, config_file=str(file) if file else None)
    except (RuntimeError, ValueError, TypeError, OSError):  # its text may repeat lines of a file that holds a key
        named = f"the profile {profile or 'in use'}"
        where = f"in {file}" if file else "in Temporal's configuration file"
        text = f"{named} cannot be read {where} or from the TEMPORAL_* variables; list it with: temporal config list"
        raise SettingsRefused([f"temporal: {text}"]) from None


def new_runtime(metrics: PrometheusConfig | None = None) -> Runtime:
    """A runtime of Temporal's core. Its log goes where Python's goes: left alone, it goes to stdout, among the results.

    Raises ValueError where metrics cannot be served as asked.
    """
    forwarding = LogForwardingConfig(logging.getLogger("temporalio.core"))
    log = LoggingConfig(TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding=forwarding)
    return Runtime(telemetry=TelemetryConfig(logging=log, metrics=metrics, attach_service_name=False))


@cache
def _runtime() -> Runtime:
    """One a process."""
    return new_runtime()
