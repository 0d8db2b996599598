"""What `seglog serve --otel` sends: spans and metrics, with OTLP over HTTP, as the variables OTEL_... configure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import seglog
from seglog.telemetry.figures import mirror
from seglog.telemetry.requests import Traced

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from seglog.server.services import Services

Wrap = Callable[["ASGIApp", "Services"], "ASGIApp"]


@contextmanager
def exporting() -> Iterator[Wrap]:
    """Yield what wraps the app of a server; at the end, everything that was recorded has been sent.

    The variables of OpenTelemetry apply: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, ...
    """
    resource = Resource({"service.name": "seglog", "service.version": seglog.__version__}).merge(_of_environment())
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    figures = MeterProvider(
        [PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource, shutdown_on_exit=False
    )

    def wrap(app: ASGIApp, services: Services) -> ASGIApp:
        mirror(services.metrics.registry, meter_provider=figures)
        return Traced(app, tracer_provider=traces, meter_provider=figures)

    try:
        yield wrap
    finally:
        figures.shutdown()
        traces.shutdown()


def _of_environment() -> Resource:
    """Return what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES state, and the SDK's own attributes."""
    found = dict(Resource.create().attributes)
    if str(found.get("service.name", "")).startswith("unknown_service"):
        del found["service.name"]
    return Resource(found)
