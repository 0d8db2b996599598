"""Traces and metrics with OpenTelemetry. Needs the extra `seglog[otel]`.

    records     the trace context in the headers of records, and spans around their processing
    figures     the figures of logs, topics and a server as asynchronous instruments
    requests    a span and a duration for each HTTP request
    exporting   what `seglog serve --otel` sends, and where

A thin layer: nothing below it knows OpenTelemetry, and nothing loads it unless it is used. Providers are those that the
program has set, or those that it passes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from seglog.extras import require

if TYPE_CHECKING:
    from seglog.telemetry.figures import observe
    from seglog.telemetry.records import carry, context_of, processing

__all__ = ["carry", "context_of", "observe", "processing"]

_MODULES = {"carry": "records", "context_of": "records", "observe": "figures", "processing": "records"}


def require_opentelemetry() -> None:
    """Raise MissingExtra if OpenTelemetry is not installed."""
    require("telemetry needs", "opentelemetry.sdk", extra="otel")


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'seglog.telemetry' has no attribute {name!r}")
    require_opentelemetry()
    return getattr(import_module(f"seglog.telemetry.{_MODULES[name]}"), name)
