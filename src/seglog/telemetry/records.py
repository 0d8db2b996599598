"""The trace context in the headers of records (W3C Trace Context), and spans around their processing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import seglog

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

    from seglog.record import Header, Record, TopicRecord

SYSTEM = "seglog"
_PROPAGATOR = TraceContextTextMapPropagator()  # whatever the program uses elsewhere: a record outlives its settings


def carry(headers: Iterable[Header] = ()) -> list[Header]:
    """Return headers for a record, with the current trace context: `log.append(value, headers=carry())`.

    Args:
        headers: Other headers of the record; a trace context among them is replaced. Without a current span they are
            returned as they are.
    """
    context: dict[str, str] = {}
    _PROPAGATOR.inject(context)
    kept = [header for header in headers if not context or header[0] not in _PROPAGATOR.fields]
    return [*kept, *((name, value.encode("ascii")) for name, value in context.items())]


def context_of(record: Record | TopicRecord) -> Context:
    """Return the trace context that a record carries; an empty one if it carries none."""
    carried = {name: value.decode("latin-1") for name, value in record.headers if name in _PROPAGATOR.fields and value}
    return _PROPAGATOR.extract(carried, context=_empty())


def _empty() -> Context:
    from opentelemetry.context import Context  # noqa: PLC0415 - a value here, a type above

    return Context()


@contextmanager
def processing(
    record: Record | TopicRecord,
    *,
    group: str | None = None,
    name: str | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Iterator[Span]:
    """Run a block as the processing of a record: in a span of kind CONSUMER, linked to the trace that appended it.

    An exception of the block is recorded in the span and raised.

    Args:
        record: The record, from a log, a topic or a consumer.
        group: The consumer group.
        name: The name of the log, for records that do not know their topic.
        tracer_provider: Default: the global one.
    """
    tracer = trace.get_tracer("seglog", seglog.__version__, tracer_provider)
    where = getattr(record, "topic", None) or name
    attributes: dict[str, AttributeValue] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.body.size": 0 if record.value is None else len(record.value),
        "messaging.seglog.offset": record.offset,
    }
    if where is not None:
        attributes["messaging.destination.name"] = where
    if (partition := getattr(record, "partition", None)) is not None:
        attributes["messaging.destination.partition.id"] = str(partition)
    if group is not None:
        attributes["messaging.consumer.group.name"] = group
    appended = trace.get_current_span(context_of(record)).get_span_context()
    links = [trace.Link(appended)] if appended.is_valid else []
    title = "process" if where is None else f"process {where}"
    with tracer.start_as_current_span(title, kind=trace.SpanKind.CONSUMER, attributes=attributes, links=links) as span:
        yield span
