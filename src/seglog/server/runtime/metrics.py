"""Prometheus metrics: requests and appends are counted as they are answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Metrics:
    """All metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._topics: Callable[[], Iterable[str]] | None = None
        self._requests = Counter(
            "seglog_requests", "Requests answered.", ["operation", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "seglog_request_seconds",
            "Seconds to the end of an answer.",
            ["operation"],
            registry=self.registry,
            buckets=SECONDS,
        )
        self._refused = Counter(
            "seglog_refused", "Refused before there was a request, or its end.", ["status"], registry=self.registry
        )
        self._dropped = Counter(
            "seglog_dropped_answers",
            "Answers dropped because clients did not read them and others needed the memory.",
            registry=self.registry,
        )
        self._records = Counter("seglog_appended_records", "Records appended.", ["topic"], registry=self.registry)
        self._bytes = Counter("seglog_appended_bytes", "Bytes of bodies appended.", ["topic"], registry=self.registry)
        # Looking up a labelled metric takes longer than counting: do it once.
        self._requests_of, self._seconds_of = cache(self._requests.labels), cache(self._seconds.labels)
        self._appended_of: dict[str, tuple[Counter, Counter]] = {}

    def watch(self, state: Collector, topics: Callable[[], Iterable[str]]) -> None:
        """Include the metrics of logs and buffers. topics: returns the names of the topics that exist."""
        self._topics = topics
        self.registry.register(state)

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests_of(operation, status).inc()
        self._seconds_of(operation).observe(seconds)

    def dropped(self) -> None:
        """Count an answer that was dropped because its client did not read it while others needed the memory."""
        self._dropped.inc()

    def refused(self, status: int) -> None:
        """Count a refused connection: too many (503), a slow head (408), a large one (431), ..."""
        self._refused.labels(status).inc()

    def appended(self, topic: str, records: int, size: int) -> None:
        """Count appended records."""
        found = self._appended_of.get(topic)
        if found is None:
            found = self._appended_of[topic] = self._records.labels(topic), self._bytes.labels(topic)
        found[0].inc(records)
        found[1].inc(size)

    def forget_all_but(self, topics: Iterable[str]) -> None:
        """Drop the metrics of deleted topics: every new name would otherwise add some forever."""
        for topic in set(self._appended_of).difference(topics):
            self._appended_of.pop(topic, None)
            self._records.remove(topic)
            self._bytes.remove(topic)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format; examines every log."""
        if self._topics is not None:
            self.forget_all_but(self._topics())
        return generate_latest(self.registry)
