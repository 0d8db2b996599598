"""What consumer groups ask about topics, answered by the open ones."""

from __future__ import annotations

from collections.abc import Callable

from seglog.clock import Clock
from seglog.format.cuts import Cuts
from seglog.log.log import Log
from seglog.topic.groups import Groups
from seglog.topic.topic import Topic


def groups_of(log: Log, topic: Callable[[str], Topic], clock: Clock) -> Groups:
    """Return the groups that the log `.groups` stores. topic: returns an open topic; raises TopicNotFound."""

    def partitions(name: str) -> int:
        return topic(name).partitions

    def bounds(name: str, partition: int) -> tuple[int, int]:
        found = topic(name).partition(partition)
        return found.lowest_offset, found.next_offset

    def history(name: str, partition: int) -> tuple[str, Cuts]:
        manifest = topic(name).partition(partition)._own_view().manifest
        return f"{manifest.log_id:016x}", manifest.cuts

    def records_from(name: str, partition: int, offset: int) -> int:
        return topic(name).partition(partition).records_from(offset)

    return Groups(log, partitions=partitions, clock=clock, bounds=bounds, records_from=records_from, history=history)
