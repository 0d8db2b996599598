"""A topic on disk: a directory of partitions `0/ 1/ ...`, each a log of its own, and `topic.json`.

Everything durable is the logs' work; this module decides which partition a record goes to and that a topic is
created whole or not at all. It knows nothing of record bytes, segments, consumers or brokers.

A topic is created in this order: lock and create every partition, then `topic.json`. A crash before the last
step leaves empty partitions that no reader takes for a topic, and `Topic.create` starts over from them.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from seglog.clock import system_clock
from seglog.errors import CorruptLog, InvalidArgument, InvalidType, NotALog
from seglog.log.opening import open_log
from seglog.log.staging import age_out, checked_batch, checked_name
from seglog.record import checked_key
from seglog.storage import LocalStorage, Subdirectory
from seglog.topic import description as topic_json
from seglog.topic.partitioner import partition_of
from seglog.topic.transaction import Transaction, commit, finish, unfinished

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    import pyarrow as pa

    from seglog.config import LogConfig
    from seglog.log.log import Log
    from seglog.log.staging import StagedSegment
    from seglog.topic.description import Description

Mode = Literal["a", "r"]


class Topic:
    """A named set of logs. Get one from `Topic.create` or `Topic.open`; it is a context manager.

    Records with a key go where Kafka's default partitioner would put them, so one key stays in one partition
    and its records keep their order. Records without one are dealt out in turn. Order holds within a
    partition only.
    """

    def __init__(
        self, path: Path, description: Description, logs: list[Log], resources: ExitStack, *, unfinished: bool = False
    ) -> None:
        """unfinished: whether batches may wait that an interrupted `publish` committed."""
        self.path = path
        self._description = description
        self._logs = logs
        self._resources = resources
        self._turn = 0
        self._storage = LocalStorage(path)
        self._unfinished = unfinished
        self._publishing = threading.RLock()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        partitions: int,
        config: LogConfig | None = None,
        name: str | None = None,
    ) -> Topic:
        """Create a topic of `partitions` logs (1 to 10,000) with one config and open it for writing.

        name: as readers see it (default: the directory's name). What an interrupted create left is cleared
        first. Raises InvalidArgument (a bad count; a topic is already here), NotALog (something else is
        here), LogLocked.
        """
        root = Path(path)
        _check_partitions(partitions)
        _claim_directory(root)
        with ExitStack() as resources:
            logs = [
                resources.enter_context(open_log(root / str(partition), config, mode="a"))
                for partition in range(partitions)
            ]
            # The locks are held by now, so of two that create at once only one comes here.
            _check_is_new(root)
            description = topic_json.Description.new(name or root.resolve().name, partitions)
            topic_json.write(root, description)
            return cls(root, description, logs, resources.pop_all())

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, mode: Mode = "a") -> Topic:
        """Open an existing topic; it is never created. mode "a": for writing (takes every partition's lock),
        "r".

        Raises LogNotFound, NotALog, FormatVersionError, CorruptLog (damaged, a partition is missing),
        LogLocked.
        """
        root = Path(path)
        description = topic_json.read(root)
        with ExitStack() as resources:
            logs = [
                resources.enter_context(open_log(_existing_partition(root, partition), mode=mode))
                for partition in range(description.partitions)
            ]
            topic = cls(root, description, logs, resources, unfinished=mode == "a")
            topic._finish_batches()
            topic._resources = resources.pop_all()
            return topic

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._description.name

    @property
    def id(self) -> str:
        """The topic's identity: 32 hex digits, drawn when it was created."""
        return self._description.id

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self._description.partitions

    def partition(self, number: int) -> Log:
        """Return the log of one partition, 0 .. partitions - 1; InvalidArgument for any other number."""
        if not 0 <= number < self.partitions:
            raise InvalidArgument(f"topic {self.name!r} has partitions 0 to {self.partitions - 1}, not {number}")
        return self._logs[number]

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> tuple[int, int]:
        """Append one record to its partition and return (partition, offset); arguments as `Log.append`."""
        self._finish_batches()
        key = checked_key(key)
        number = self._turn if key is None else partition_of(key, self.partitions)
        offset = self._logs[number].append(value, key=key, timestamp=timestamp, headers=headers)
        if key is None:
            self._turn = (number + 1) % self.partitions
        return number, offset

    def append_batch(self, data: pa.Table | pa.RecordBatch) -> dict[int, range]:
        """Append rows (columns as `Log.append_batch`) and return the offsets they got, by partition.

        Rows keep their order within a partition; rows without a key are dealt out in turn. Each partition's
        share is appended whole or not at all; if one fails, earlier ones stay and the error's note tells
        their offsets.
        """
        from seglog.topic.split import split_by_partition  # noqa: PLC0415 - pyarrow and numba load with the first batch

        self._finish_batches()
        parts, turn = split_by_partition(data, self.partitions, self._turn)
        offsets: dict[int, range] = {}
        for number, part in parts.items():
            try:
                offsets[number] = self._logs[number].append_batch(part)
            except Exception as error:
                error.add_note(f"partition {number} took nothing of the batch; already appended: {offsets}")
                raise
        self._turn = turn
        return offsets

    def publish(
        self, staged: Mapping[int, Sequence[StagedSegment]], *, query: str, batch: int
    ) -> dict[int, range] | None:
        """Add a batch of staged segments (partition -> segments that a `Stage` of that log wrote) all at once.

        Returns partition -> its offsets; None, and nothing is done, if this or a later batch of the query is here
        already. All partitions get their share or none does, whenever the process dies; readers may see one partition's
        share a moment before another's. An error whose note says "committed" is no loss: the next opening finishes.
        """
        shares = {number: share for number, share in staged.items() if share}
        transaction = Transaction(query=checked_name(query, "query"), batch=checked_batch(batch), staged=shares)
        with self._publishing:
            self._finish_batches()
            if any(_last_batch(log, query) >= transaction.batch for log in self._logs):
                return None
            self.check_staged(transaction.staged)
            self._unfinished = True
            commit(self._storage, transaction)
            added = finish(self._storage, transaction, self._logs)
            self._unfinished = False
            return added

    def check_staged(self, staged: Mapping[int, Sequence[StagedSegment]]) -> None:
        """Raise, without any change, where a partition would refuse: also one without a share."""
        for number in staged:
            self.partition(number)
        for number, log in enumerate(self._logs):  # once it is committed none may refuse
            log.check_staged(staged.get(number, ()))

    def published(self, query: str) -> int | None:
        """Return the number of the last batch that was published for a query, None before the first."""
        last = max(_last_batch(log, query) for log in self._logs)
        return None if last < 0 else last

    def _finish_batches(self) -> None:
        """Do what an interrupted `publish` left to do, before anything else on the topic."""
        if not self._unfinished:
            return
        with self._publishing:  # another thread's may be under way: it is waited for
            for transaction in unfinished(self._storage):
                commit(self._storage, transaction)  # once more: who died in the middle of it may not have synced it
                finish(self._storage, transaction, self._logs)
            self._unfinished = False
            for number in range(self.partitions):  # only now: an unfinished batch needs its stages, however old
                age_out(Subdirectory(self._storage, str(number)), system_clock())

    def sync(self) -> None:
        """Make everything appended so far durable, in every partition."""
        for log in self._logs:
            log.sync()

    def close(self) -> None:
        """Close every partition (each syncs); all are closed even if one fails. Closing twice is harmless."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Topic({str(self.path)!r}, name={self.name!r}, partitions={self.partitions})"


def _last_batch(log: Log, query: str) -> int:
    last = log.published(query)
    return -1 if last is None else last


def _check_partitions(partitions: int) -> None:
    if isinstance(partitions, bool) or not isinstance(partitions, int):
        raise InvalidType(f"partitions must be an int, not {type(partitions).__name__}")
    if not 1 <= partitions <= topic_json.MAX_PARTITIONS:
        raise InvalidArgument(f"partitions is {partitions}; it must be between 1 and {topic_json.MAX_PARTITIONS}")


def _check_is_new(root: Path) -> None:
    if topic_json.is_topic(root):
        raise InvalidArgument(f"{root} already is a topic; Topic.open opens it")


def _claim_directory(root: Path) -> None:
    """Make `root` an empty directory, clearing what an interrupted create left and nothing else."""
    if root.exists() and not root.is_dir():
        raise NotALog(f"{root} is a file; a topic is a directory")
    root.mkdir(parents=True, exist_ok=True)
    topic_json.sync_directory(root.resolve().parent)
    _check_is_new(root)
    entries = sorted(entry for entry in root.iterdir() if entry.name != topic_json.TEMPORARY_NAME)
    for entry in entries:
        if not (entry.name.isdecimal() and entry.is_dir()):
            raise NotALog(f"{root} holds {entry.name!r}, which is no partition; create the topic elsewhere")
    for entry in entries:
        _clear_leftover(entry)


def _clear_leftover(directory: Path) -> None:
    """Remove a partition that never was a topic's. One that holds records is somebody's log: NotALog."""
    log = open_log(directory, mode="a")
    if log.next_offset != log.config.initial_offset:
        log.close()
        raise NotALog(f"{directory} is a log with records but {directory.parent} is no topic; it was left alone")
    log.remove()


def _existing_partition(root: Path, number: int) -> Path:
    """Return the directory of a partition. Opening for writing creates, so a lost one has to be noticed
    before.
    """
    directory = root / str(number)
    if not directory.is_dir() or not any(directory.iterdir()):
        raise CorruptLog(f"{root}: partition {number} is missing; restore {directory} or the records in it are lost")
    return directory
