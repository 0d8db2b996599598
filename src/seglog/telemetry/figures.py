"""Figures of logs, topics and a server as asynchronous instruments: they are read when a reader collects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from opentelemetry import metrics
from opentelemetry.metrics import Observation

import seglog
from seglog.errors import SeglogError
from seglog.log.log import Log
from seglog.topic.broker import Broker

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider
    from prometheus_client import CollectorRegistry, Metric

Read = Callable[[], Iterable[Observation]]
# name, unit, description, reading
_OF_A_LOG: tuple[tuple[str, str, str, Callable[[Log], int]], ...] = (
    ("seglog.log.next_offset", "{record}", "The offset that the next record gets.", lambda log: log.next_offset),
    ("seglog.log.lowest_offset", "{record}", "The first offset that is there.", lambda log: log.lowest_offset),
    ("seglog.log.durable_offset", "{record}", "Records before it survive power loss.", lambda log: log.durable_offset),
    ("seglog.log.size", "By", "Bytes of stores.", lambda log: log.size),
)
FRESH_SECONDS = 0.5  # how long collected figures serve all instruments of one export
_GUARD = Lock()
_OBSERVED: WeakKeyDictionary[MeterProvider, _Observed] = WeakKeyDictionary()
_UNITS = {"bytes": "By", "seconds": "s"}


def observe(
    source: Log | Broker | Mapping[str, Log], *, meter_provider: MeterProvider | None = None, name: str = "log"
) -> None:
    """Report the figures of a log, of several, or of a broker's topics and groups, as gauges.

    Args:
        source: What is observed while it is open. A mapping may change later, as the topics of a broker may.
        meter_provider: Default: the global one.
        name: The attribute `seglog.log` of a single log.
    """
    provider = meter_provider or metrics.get_meter_provider()
    with _GUARD:
        observed = _OBSERVED.get(provider)
        if observed is None:
            observed = _OBSERVED[provider] = _Observed(provider)
    observed.sources.append({name: source} if isinstance(source, Log) else source)


class _Observed:
    """The instruments of a provider, and all that they read: an instrument can be made only once."""

    def __init__(self, provider: MeterProvider) -> None:
        self.sources: list[Broker | Mapping[str, Log]] = []
        meter = metrics.get_meter("seglog", seglog.__version__, provider)
        for title, unit, about, reading in _OF_A_LOG:
            meter.create_observable_gauge(title, [_callback(partial(self._of_logs, reading))], unit, about)
        meter.create_observable_gauge(
            "seglog.group.lag", [_callback(self._of_groups)], "{record}", "Records a group has not read."
        )

    def _of_logs(self, reading: Callable[[Log], int]) -> Iterator[Observation]:
        for source in self.sources:
            with suppress(SeglogError):  # it is closed
                for name, log in (source.logs() if isinstance(source, Broker) else source).items():
                    with suppress(SeglogError):  # closed or deleted just now
                        yield Observation(reading(log), {"seglog.log": name})

    def _of_groups(self) -> Iterator[Observation]:
        for source in self.sources:
            if isinstance(source, Broker):
                with suppress(SeglogError):  # it is closed
                    yield from _lags(source)


def _lags(broker: Broker) -> Iterable[Observation]:
    for group in broker.groups.names():
        with suppress(SeglogError):  # deleted just now
            for (topic, partition), records in broker.groups.describe(group).lag.items():
                place = {"messaging.destination.name": topic, "messaging.destination.partition.id": str(partition)}
                yield Observation(records, {"messaging.consumer.group.name": group, **place})


def _callback(read: Read) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def called(_options: CallbackOptions) -> Iterable[Observation]:
        return list(read())

    return called


def mirror(registry: CollectorRegistry, *, meter_provider: MeterProvider | None = None) -> None:
    """Report every gauge and counter of a server's Prometheus registry under its name with a dot: seglog.tails."""
    meter = metrics.get_meter("seglog", seglog.__version__, meter_provider)
    collected = _Collected(registry)
    for family in registry.collect():
        title = family.name.replace("_", ".", 1)
        unit = next((unit for ending, unit in _UNITS.items() if family.name.endswith(ending)), "1")
        read = _callback(partial(collected.samples, family.name))
        if family.type == "gauge":
            meter.create_observable_gauge(title, [read], unit, family.documentation)
        elif family.type == "counter":
            meter.create_observable_counter(title, [read], unit, family.documentation)


class _Collected:
    """All families of a registry, collected once for all instruments: that examines every log."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._guard = Lock()
        self._families: dict[str, Metric] = {}
        self._until = 0.0

    def samples(self, name: str) -> list[Observation]:
        """Return the present samples of a family; the last ones once the server is closed."""
        with self._guard:
            if monotonic() >= self._until:
                with suppress(SeglogError):
                    self._families = {family.name: family for family in self._registry.collect()}
                self._until = monotonic() + FRESH_SECONDS
            family = self._families.get(name)
        found = () if family is None else family.samples
        return [Observation(one.value, dict(one.labels)) for one in found if not one.name.endswith("_created")]
