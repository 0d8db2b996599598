"""Traces and metrics: what OpenTelemetry's own in-memory exporters, and a collector beside a server, receive."""

from __future__ import annotations

import http.server
import os
import re
import subprocess
import sys
import threading

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import seglog
from seglog.telemetry import carry, context_of, observe, processing
from tests.test_import import loaded
from tests.waiting import HANG_SECONDS, until

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider, exporter.get_finished_spans
    provider.shutdown()


def read(reader: InMemoryMetricReader) -> dict[tuple[str, ...], float]:
    data = reader.get_metrics_data()
    return {
        (metric.name, *(str(value) for _, value in sorted(point.attributes.items()))): point.value
        for resource in (() if data is None else data.resource_metrics)
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def test_a_record_carries_the_trace_that_appended_it_to_the_one_that_processes_it(spans):
    provider, finished = spans
    tracer = provider.get_tracer("test")
    with seglog.open(seglog.MemoryStorage()) as log:
        with tracer.start_as_current_span("order"):
            log.append(b"three", headers=carry([("kind", b"order"), ("traceparent", b"old")]))
        record = log.read(0)
        assert [name for name, _ in record.headers] == ["kind", "traceparent"]
        with processing(record, group="billing", name="orders", tracer_provider=provider):
            pass
    order, done = finished()
    assert done.name == "process orders"
    assert done.kind is SpanKind.CONSUMER
    linked = done.links[0].context
    assert (linked.trace_id, linked.span_id) == (order.context.trace_id, order.context.span_id)
    assert done.attributes["messaging.system"] == "seglog"
    assert done.attributes["messaging.consumer.group.name"] == "billing"
    assert done.attributes["messaging.message.body.size"] == 5
    assert done.attributes["messaging.seglog.offset"] == 0


def test_the_records_of_a_topic_name_their_place_and_a_failure_is_recorded(spans, tmp_path):
    provider, finished = spans
    with seglog.Broker(tmp_path) as broker:
        broker.create_topic("orders").append(None, key=b"a")
        with broker.consumer("billing", ["orders"]) as consumer:
            (record,) = consumer.poll()
        with pytest.raises(ZeroDivisionError), processing(record, tracer_provider=provider):
            raise ZeroDivisionError("no")
    (span,) = finished()
    assert span.name == "process orders"
    assert span.attributes["messaging.destination.partition.id"] == "0"
    assert span.links == ()
    assert span.status.status_code is StatusCode.ERROR
    assert span.events[0].name == "exception"


def test_without_a_span_or_a_context_nothing_is_added(spans):
    assert carry([("kind", b"order")]) == [("kind", b"order")]
    with seglog.open(seglog.MemoryStorage()) as log:
        log.append(b"v", headers=[("traceparent", b"\xff damaged"), ("tracestate", None)])
        assert dict(context_of(log.read(0))) == {}


def test_a_log_and_a_broker_are_observed_while_they_are_open(tmp_path):
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    log = seglog.open(tmp_path / "log")
    broker = seglog.Broker(tmp_path / "shop")
    observe(log, meter_provider=provider, name="events")
    observe(broker, meter_provider=provider)
    log.append(b"one")
    topic = broker.create_topic("orders")
    topic.append(b"one")
    topic.append(b"two")
    broker.groups.commit("billing", {"orders": {0: 1}})
    found = read(reader)
    assert found["seglog.log.next_offset", "events"] == 1
    assert found["seglog.log.next_offset", "orders/0"] == 2
    assert found["seglog.log.size", "events"] == log.size
    assert found["seglog.group.lag", "billing", "orders", "0"] == 1
    broker.close()
    log.close()
    assert not any(name[1:] == ("orders/0",) for name in read(reader))
    provider.shutdown()


def test_importing_and_using_a_log_loads_no_telemetry():
    program = """
import seglog, seglog.telemetry, seglog.server.app
with seglog.open(seglog.MemoryStorage()) as log:
    log.append(b"v")"""
    assert loaded(program, "opentelemetry") == set()


class Collector(http.server.BaseHTTPRequestHandler):
    received: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        self.received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def figures_of(received: list[tuple[str, bytes]]) -> dict[str, Metric]:
    """Return the latest metrics that a collector has received, by name."""
    return {
        metric.name: metric
        for path, body in received
        if path == "/v1/metrics"
        for group in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in group.scope_metrics
        for metric in scope.metrics
    }


def test_a_server_sends_spans_and_metrics_to_a_collector(tmp_path):
    received: list[tuple[str, bytes]] = []
    handler = type("Receiving", (Collector,), {"received": received})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        environment = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
            "OTEL_SERVICE_NAME": "orders-log",
        }
        command = [sys.executable, "-m", "seglog", "serve", str(tmp_path / "shop"), "--port", "0", "--otel"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            url = next(found[0] for line in process.stdout if (found := re.search(r"http://127\S+:\d+", line)))
            traced = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            httpx.post(
                f"{url}/topics/default/records", content=b"one", headers=traced, timeout=HANG_SECONDS
            ).raise_for_status()
            assert httpx.get(f"{url}/topics/missing", timeout=HANG_SECONDS).status_code == 404
            assert httpx.get(f"{url}/groups/a%2Fb", timeout=HANG_SECONDS).status_code == 404
            until(lambda: "seglog.appended_records" in figures_of(received))
            process.terminate()
            process.communicate(timeout=HANG_SECONDS)
        collector.shutdown()
    sent = [ExportTraceServiceRequest.FromString(body) for path, body in received if path == "/v1/traces"]
    spans = {
        span.name: span
        for one in sent
        for group in one.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    }
    append = spans["POST /topics/{topic}/records"]
    assert (append.trace_id.hex(), append.parent_span_id.hex()) == (TRACE, PARENT)
    assert {one.key: one.value.int_value for one in append.attributes}["http.response.status_code"] == 200
    assert {"GET /topics/{topic}", "GET /groups/{group}"} <= spans.keys()
    resource = {one.key: one.value.string_value for one in sent[0].resource_spans[0].resource.attributes}
    assert (resource["service.name"], resource["service.version"]) == ("orders-log", seglog.__version__)
    figures = figures_of(received)
    assert figures["seglog.appended_records"].sum.data_points[0].as_double == 1
    assert figures["seglog.free_bytes"].gauge.data_points[0].as_int > 0
    assert {point.count for point in figures["http.server.request.duration"].histogram.data_points} == {1}
