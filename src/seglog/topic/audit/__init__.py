"""What was delivered of every key? A log, a topic or a directory of topics, gone over by key in this process.

    with audit_keys("orders", delivered={"billing": {"orders": {0: 1200, 1: 1180}}}) as found:
        found.ok, found.logs                            # figures, exact
        for batch in found.undelivered("billing"):      # keys whose latest record the group did not get
            print(batch.to_pylist())

For a keyed log the question is not whether every record arrived but whether the latest one of every key did. The Spark
job (seglog.spark.audit) answers it with the same figures and rows, by many machines; it looks for loss and damage too.
pyarrow and numba load with the first audit.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from seglog.errors import InvalidArgument, InvalidType, LogClosed
from seglog.log.log import Log
from seglog.log.opening import open_log
from seglog.topic.audit.figures import GroupFigures, LogKeys
from seglog.topic.delivered import CONSUMER, Delivered, cuts_of, delivered_from_json, read_checkpoint
from seglog.topic.places import Place, logs_at
from seglog.topic.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    import pyarrow as pa

    from seglog.segment.report import RecoveryEvent
    from seglog.topic.audit.swept import SweptLog

MEMORY_BYTES = 256 * 1024 * 1024

__all__ = [
    "CONSUMER",
    "MEMORY_BYTES",
    "GroupFigures",
    "KeyAudit",
    "LogKeys",
    "audit_keys",
    "delivered_from_json",
    "read_checkpoint",
]


class KeyAudit:
    """An audit's result; a context manager that lets go of the files it reads by.

    logs: the figures of every log, in order of topic and partition; groups: their names, in order; recovery: what
    opening the logs met that was not as it should be.
    """

    def __init__(
        self,
        logs: tuple[LogKeys, ...],
        groups: tuple[str, ...],
        swept: Sequence[SweptLog],
        recovery: tuple[RecoveryEvent, ...],
        resources: ExitStack,
    ) -> None:
        self.logs = logs
        self.groups = groups
        self.recovery = recovery
        self._swept: Sequence[SweptLog] | None = swept
        self._resources = resources

    @property
    def ok(self) -> bool:
        """Whether every group got the latest record of every key."""
        return not self.total("undelivered_keys")

    def total(self, figure: str) -> int:
        """Return the sum of a figure of LogKeys over all logs."""
        return sum(getattr(log, figure) for log in self.logs)

    def keys(self) -> Iterator[pa.RecordBatch]:
        """Yield a row for every key and group, in order of topic, partition, key (byte by byte) and group.

        Columns topic, partition, key, appended (its last offset), tombstone (whether that is one), group, delivered
        (its last offset that the group got, null without any), undelivered (whether the group did not get the last).
        Without groups: a row for every key, group and delivered null. Reads the logs again, as they were. LogClosed
        once the audit is closed; else raises as `audit_keys`.
        """
        return (batch for log in self._open() for batch in log.rows())

    def undelivered(self, group: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `keys` of one group for the keys whose latest record it did not get.

        InvalidArgument for a group that the audit does not know.
        """
        if group not in self.groups:
            known = ", ".join(map(repr, self.groups)) or "none"
            raise InvalidArgument(f"there is no group {group!r} in this audit; its groups: {known}")
        number = self.groups.index(group)
        return (batch for log in self._open() for batch in log.undelivered_rows(number))

    def _open(self) -> Sequence[SweptLog]:
        if self._swept is None:
            raise LogClosed("the audit is closed; its figures remain")
        return self._swept

    def close(self) -> None:
        """Let go of the logs that the audit opened and of all files. Closing twice is harmless."""
        self._swept = None
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def audit_keys(
    place: str | os.PathLike[str] | Log | Topic,
    *,
    delivered: Delivered | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> KeyAudit:
    """Count the keys of a log, a topic or the topics of a directory, and what of them was delivered to each group.

    place: a path, or a log or topic that is open; a log alone is partition 0 of a topic named like its directory.
    delivered: group -> topic -> partition -> offset (exclusive: everything before it was delivered); without the groups
    it is that of the group "consumer"; nothing was delivered of a partition that is not named. Records without a key
    count as records (and tombstones), never as keys.

    The figures are of the moment of the call: what is appended, compacted or expired meanwhile changes nothing.
    memory_bytes: the most that is held at a time of keys and offsets, with what joining and reading them takes; only a
    single key is held however long it is. What does not fit is done in several rounds over ranges of keys, each of
    which reads the log once: about 12 * (bytes of the different keys, and for each 61, and 8 a group) / memory_bytes.

    LogNotFound or NotALog where there is no log; InvalidArgument or InvalidType for delivered offsets that cannot be.
    Damage is not passed over: CorruptRecord or CorruptLog; the Spark job and `seglog verify` tell of all there is.
    LogTruncated where a truncate took records away meanwhile.
    """
    if isinstance(memory_bytes, bool) or not isinstance(memory_bytes, int) or memory_bytes < 1:
        raise InvalidArgument(f"memory_bytes is {memory_bytes!r}; it must be an int of at least 1")
    from seglog.topic.audit.swept import SweptLog  # noqa: PLC0415 - pyarrow and numba load with the first audit

    with ExitStack() as resources:
        logs = _logs(place, resources)
        cuts = cuts_of(delivered, [one.key for one, _ in logs])
        swept = [
            SweptLog(one, log, {group: of[one.key] for group, of in cuts.items()}, memory_bytes) for one, log in logs
        ]
        events = () if isinstance(place, Log | Topic) else tuple(one for _, log in logs for one in log.recovery.events)
        figures = tuple(log.figures() for log in swept)
        return KeyAudit(figures, tuple(cuts), swept, events, resources.pop_all())


def _logs(place: str | os.PathLike[str] | Log | Topic, resources: ExitStack) -> list[tuple[Place, Log]]:
    """Return the logs of a place; those that had to be opened are closed by `resources`."""
    if isinstance(place, Log):
        return [(Place(Path(place.path).absolute().name, 0, place.path), place)]
    if isinstance(place, Topic):
        logs = [place.partition(number) for number in range(place.partitions)]
        return [(Place(place.name, number, log.path), log) for number, log in enumerate(logs)]
    if not isinstance(place, (str, os.PathLike)):
        raise InvalidType(f"an audit takes a path, a log or a topic, not {type(place).__name__}")
    return [(one, resources.enter_context(open_log(one.path, mode="r"))) for one in logs_at(place)]
