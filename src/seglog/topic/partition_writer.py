"""Append to one partition, for a caller that keeps it instead of looking up topic and partition for each record."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seglog.log.appends.group import Draft
    from seglog.log.log import Log
    from seglog.topic.appending import Appending
    from seglog.topic.layout.places import Partition
    from seglog.topic.publishing import Publishing


class PartitionWriter:
    """The appends of a partition; see `Topic.writer`. Thread-safe.

    Attributes:
        place: Name of the topic, and number of the partition.
        log: The partition's log.
    """

    __slots__ = ("__weakref__", "_appending", "_publishing", "log", "place")

    def __init__(self, place: Partition, log: Log, appending: Appending, publishing: Publishing) -> None:
        self.place = place
        self.log = log
        self._appending = appending
        self._publishing = publishing

    def is_ready(self, length: int, once: str | None = None) -> bool:
        """Whether `append` of `length` bytes would not block; see Topic.is_ready."""
        return self._appending.is_ready(self.place[1], length, once)

    def append(self, draft: Draft, once: str | None = None, *, durable: bool = False) -> tuple[int, int]:
        """Append one record, so that it survives kill -9, and return (partition, offset).

        Args:
            draft: The record.
            once: An idempotency key; see `Topic`. A repeated append may be stored in another partition.
            durable: Whether the caller calls `sync` afterwards; then that other partition is synced here.

        Raises:
            InvalidArgument: If the record is invalid; other errors as `Topic.append`.
        """
        self._publishing.finish_waiting()
        stored = self._appending.append(draft, partition=self.place[1], once=once)
        self.log.flush()
        if durable and stored[0] != self.place[1]:
            self._appending.sync(stored[0])
        return stored

    def sync(self) -> None:
        """Return once every record of the partition survives power loss."""
        self.log.sync()
