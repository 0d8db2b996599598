"""What tests of several layers share: a clock, keyed logs in a short notation, one Spark session a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig, Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

SECOND = 1_000_000


class ManualClock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


class Shop:
    """Makes keyed logs. `a b=x c- .` is a record of key a, one of b with value x, a tombstone of c, one without key."""

    def __init__(self, place: Any, clock: ManualClock) -> None:
        self.place = place
        self.clock = clock

    def open(
        self, *, segment_bytes: int = 4096, segment_age: float | None = 1, compact: bool = True, **retention: Any
    ) -> seglog.Log:
        """Open the log; a segment that holds records rolls where the text of `put` has a bar."""
        kept = Retention(compact=compact, **retention)
        config = LogConfig(
            segment_bytes=segment_bytes, segment_age=segment_age, index_interval_bytes=64, retention=kept
        )
        return seglog.open(self.place, config, clock=self.clock)

    def put(self, log: seglog.Log, text: str) -> None:
        """Append what each part of the text says; a bar ends a segment."""
        for word in text.split():
            if word == "|":
                self.clock.advance(2)
                log.expire()
                continue
            key, equals, value = word.partition("=")
            tombstone = key.endswith("-")
            named = None if key == "." else key.removesuffix("-").encode()
            log.append(None if tombstone else value.encode() if equals else b"v", key=named)

    @staticmethod
    def content(log: seglog.Log) -> str:
        """Return what the log holds: key@offset, ∅ behind the key of a tombstone; by all ways of reading alike."""
        records = list(log.scan())
        assert log.to_arrow()["offset"].to_pylist() == [record.offset for record in records]
        assert [log.read(record.offset) for record in records] == records
        return " ".join(
            f"{'.' if record.key is None else record.key.decode()}{'∅' if record.value is None else ''}@{record.offset}"
            for record in records
        )

    @staticmethod
    def ranges(log: seglog.Log) -> list[tuple[int, int, int]]:
        """Return (base offset, next offset, records) of every segment."""
        return [(one.base_offset, one.next_offset, one.records) for one in log.segments]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shop_at(clock: ManualClock) -> Callable[[Any], Shop]:
    """Make keyed logs at a place: a path, or a storage."""
    return lambda place: Shop(place, clock)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from seglog.spark.session import local_session  # noqa: PLC0415 - pyspark takes a second that few tests need

    session = local_session(
        "seglog tests",
        master="local[2]",
        config={
            "spark.sql.shuffle.partitions": "2",
            # Tests run many small queries: what the second compiler gains them is less than what it costs.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        },
    )
    yield session
    session.stop()
