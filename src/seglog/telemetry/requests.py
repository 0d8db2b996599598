"""A span and a duration for each HTTP request of a server, as OpenTelemetry's conventions for HTTP name them."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from opentelemetry import metrics, propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

import seglog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from opentelemetry.util.types import AttributeValue
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)  # those of the conventions


class Traced:
    """An ASGI app that reports the requests of another one.

    Args:
        app: The app; its router sets the path that matched.
        tracer_provider: Default: the global one.
        meter_provider: Default: the global one.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._app = app
        self._tracer = trace.get_tracer("seglog.server", seglog.__version__, tracer_provider)
        meter = metrics.get_meter("seglog.server", seglog.__version__, meter_provider)
        self._seconds = meter.create_histogram(
            "http.server.request.duration",
            "s",
            "Duration of HTTP requests.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request within a span, whose parent is the one that the request names."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = perf_counter(), 500
        known = scope["method"] if scope["method"] in METHODS else "_OTHER"
        attributes: dict[str, AttributeValue] = {"http.request.method": known, "url.scheme": scope["scheme"]}
        named = {**attributes, "url.path": scope["path"], "network.protocol.version": scope["http_version"]}

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        parent = propagate.extract(_headers(scope))
        with self._tracer.start_as_current_span(known, parent, SpanKind.SERVER, named) as span:
            try:
                await self._app(scope, receive, sent)
            finally:
                route = getattr(scope.get("route"), "path", None)
                attributes["http.response.status_code"] = status
                if route is not None:
                    attributes["http.route"] = route
                    span.update_name(f"{known} {route}")
                span.set_attributes(attributes)
                if status >= 500:
                    span.set_status(Status(StatusCode.ERROR))
                self._seconds.record(perf_counter() - begun, attributes)


def _headers(scope: Scope) -> Mapping[str, str]:
    """Return the headers of a request that may carry a trace context."""
    wanted = propagate.get_global_textmap().fields
    found = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
    return {name: value for name, value in found if name in wanted}
