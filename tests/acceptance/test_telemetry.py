"""A worker process with all its telemetry on: its page is scraped, its spans reach a collector, its log is JSON."""

import asyncio
import json
import urllib.request

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.acceptance.commands import free_port
from tests.acceptance.shift_house import House, http_answer
from tests.acceptance.test_secrets import ECHO, KEY, found_in
from tests.endpoints.raw_server import raw_server, reply

HEADER = "Bearer collector-key-0123456789"
"""A collector's key."""


def scraped(url: str) -> str:
    """The page of metrics."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_worker_with_all_its_telemetry_on_tells_of_a_run_and_of_no_key(house_on_shared_server: House) -> None:
    house = house_on_shared_server
    address = f"127.0.0.1:{free_port()}"
    house.outside.refusals[2] = http_answer(500, ECHO)
    async with raw_server(reply("", content_type="application/x-protobuf")) as collector:
        worker = await house.worker(
            PLANTED_KEY=KEY,
            LONGSHIFT_ENDPOINTS__MODEL__API_KEY_ENV="PLANTED_KEY",
            LONGSHIFT_TELEMETRY__PROMETHEUS=address,
            LONGSHIFT_TELEMETRY__TRACES="true",
            LONGSHIFT_TELEMETRY__CONTENT="true",
            LONGSHIFT_TELEMETRY__LOG_FORMAT="json",
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url.removesuffix("/v1"),
            OTEL_EXPORTER_OTLP_HEADERS=f"authorization={HEADER}",
        )
        await house.start()
        await house.ended_as_undisturbed(failed_calls=1)
        page = await asyncio.to_thread(scraped, f"http://{address}/metrics")
        assert await worker.stop(60) == 0

    of_run = 'longshift_runs_ended_total{agent="looker",status="COMPLETED"} 1'
    of_failure = 'longshift_model_calls_total{agent="looker",endpoint="model",outcome="status"} 1'
    assert {of_run, of_failure} <= set(page.splitlines())
    assert "temporal_worker_task_slots_available{" in page
    names = set()
    for head, headers, body in collector.requests:
        assert (head, headers["authorization"]) == ("POST /v1/traces HTTP/1.1", HEADER)
        for exported in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = {pair.key: pair.value.string_value for pair in exported.resource.attributes}
            assert resource["service.name"] == "longshift"
            names |= {span.name for scope in exported.scope_spans for span in scope.spans}
    assert {"RunWorkflow:agent_run", "RunActivity:call_model", "chat scripted", "execute_tool look"} <= names
    lines = [json.loads(line) for line in house.log.read_text().splitlines()]
    (failed,) = [line for line in lines if line["message"].startswith("model call 2 failed")]
    assert (failed["run_id"], failed["activity_id"], failed["level"]) == (house.run_id, "model-2", "warning")
    assert len(failed["trace_id"]) == 32
    told = [page.encode(), house.log.read_bytes(), *(body for _, _, body in collector.requests)]
    assert [text for text in told if found_in(text) or HEADER.encode() in text] == []
