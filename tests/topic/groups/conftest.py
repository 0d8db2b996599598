"""Groups over a log in memory, with two topics that have no logs: only how many partitions and where each ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig, MemoryStorage, Retention
from seglog.errors import TopicNotFound
from seglog.topic.groups import Groups

if TYPE_CHECKING:
    from collections.abc import Iterator


class Hall:
    """Where groups meet: their log, and what they are told of topics. `ends`: topic -> the end of each partition."""

    CONFIG = LogConfig(segment_bytes=4096, retention=Retention(compact=True))

    def __init__(self, clock: Any) -> None:
        self.clock = clock
        self.ends: dict[str, list[int]] = {"orders": [100, 100, 100, 100], "users": [10, 10]}
        self.storage = MemoryStorage()
        self.open()

    def open(self, mode: Any = "a") -> Groups:
        """Open the log and what stands in it."""
        self.log = seglog.open(self.storage, self.CONFIG if mode == "a" else None, mode=mode, clock=self.clock)
        self.groups = Groups(
            self.log,
            partitions=self.count,
            clock=self.clock,
            bounds=self.bounds,
            records_from=lambda topic, partition, offset: max(0, self.bounds(topic, partition)[1] - offset),
        )
        return self.groups

    def reopen(self, mode: Any = "a") -> Groups:
        """Do so again, as after an end of whatever kind: all that is known stands in the log."""
        self.log.close()
        return self.open(mode)

    def count(self, topic: str) -> int:
        if topic not in self.ends:
            raise TopicNotFound(topic)
        return len(self.ends[topic])

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        self.count(topic)
        return 0, self.ends[topic][partition]


@pytest.fixture
def hall(clock: Any) -> Iterator[Hall]:
    hall = Hall(clock)
    yield hall
    hall.log.close()


@pytest.fixture
def groups(hall: Hall) -> Groups:
    return hall.groups
