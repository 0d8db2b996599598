"""One batch for many partitions: all of it or nothing, whenever the process dies.

`txn/<query>-<batch>.json` of a topic names every staged segment of a batch. The file, synced, is the commit: from then
on the batch belongs to the topic, and each partition publishes its part. An interrupted publication is completed before
anything else happens to the topic (`finish` is repeatable). The file is removed last.
Source: format.md, "publish many partitions". Knows logs and stages, no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xxhash import xxh64_hexdigest

from seglog.errors import CorruptLog, FormatVersionError, SeglogError
from seglog.format.foreign import UNREADABLE
from seglog.log.staging import StagedSegment, checked_batch, checked_name
from seglog.storage import Storage, must_sync

if TYPE_CHECKING:
    from seglog.log.log import Log

VERSION = 1
DIRECTORY = "txn"
_SUFFIX = ".json"
_TEMPORARY = ".tmp"


@dataclass(frozen=True, kw_only=True)
class Transaction:
    """A batch: its query, its number (growing), and partition -> staged segments in their order."""

    query: str
    batch: int
    staged: Mapping[int, Sequence[StagedSegment]]

    def __post_init__(self) -> None:
        checked_name(self.query, "query")

    @property
    def file(self) -> str:
        """The name of its file, below the topic's directory."""
        return f"{DIRECTORY}/{self.query}-{self.batch}{_SUFFIX}"

    def encode(self) -> bytes:
        """Return the file's bytes: one line of JSON, one of its XXH64."""
        staged = {str(number): [one.to_json() for one in share] for number, share in self.staged.items()}
        body = json.dumps({"format": VERSION, "query": self.query, "batch": self.batch, "staged": staged}).encode()
        return body + b"\n" + xxh64_hexdigest(body).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes, path: str) -> Transaction:
        """Parse a file's bytes. Raises CorruptLog if they are damaged, FormatVersionError if they are newer."""
        body, _, check = data.removesuffix(b"\n").partition(b"\n")
        if check != xxh64_hexdigest(body).encode():
            raise CorruptLog(
                f"{path} is damaged: it names a batch that was committed but not yet added to every partition. "
                "Restore it, or move it away to abandon the missing parts of that batch"
            )
        try:
            return cls._from_json(json.loads(body))
        except UNREADABLE as error:
            # the check matches, so it was written like this
            raise FormatVersionError(
                f"{path}: this seglog, which reads format version {VERSION}, does not know this transaction "
                f"({error}). Install a newer seglog; nothing was changed"
            ) from error

    @classmethod
    def _from_json(cls, values: dict[str, Any]) -> Transaction:
        if values["format"] != VERSION:
            raise ValueError(f"its format version is {values['format']}")
        staged = {
            int(number): [StagedSegment.from_json(one) for one in share] for number, share in values["staged"].items()
        }
        return cls(query=values["query"], batch=checked_batch(values["batch"]), staged=staged)


def commit(topic: Storage, transaction: Transaction) -> None:
    """Make the batch part of the topic permanently: its file and the file's name are on disk.

    Raises StorageError: nothing changed. LogPoisoned: the outcome is unknown until the topic is opened again.
    """
    topic.make([DIRECTORY])
    must_sync(topic.sync_directory)  # its creator may have died before its name was on disk
    temporary = f"{DIRECTORY}/{_TEMPORARY}"
    file = topic.create(temporary, replace=True)
    file.pwrite(transaction.encode(), 0)
    must_sync(file.datasync)
    topic.rename(temporary, transaction.file)
    must_sync(lambda: topic.sync_directory(DIRECTORY))


def unfinished(topic: Storage) -> Iterator[Transaction]:
    """Yield the batches that were committed but not finished."""
    for name in topic.names(DIRECTORY):
        if name.endswith(_SUFFIX):
            file = topic.open(f"{DIRECTORY}/{name}")
            yield Transaction.decode(file.pread(file.size(), 0), file.path)


def finish(topic: Storage, transaction: Transaction, logs: Sequence[Log]) -> dict[int, range]:
    """Publish every partition's part that is still missing, and remove the transaction.

    Returns partition -> the offsets added now. Raises the errors of `Log.publish`; it can be repeated.
    """
    added: dict[int, range] = {}
    for number, share in transaction.staged.items():
        try:
            offsets = logs[number].publish(share, query=transaction.query, batch=transaction.batch)
        except SeglogError as error:
            error.add_note(
                f"batch {transaction.batch} of query {transaction.query!r} is committed: partition {number} and the "
                f"following get their parts when the topic is opened next ({topic.path}/{transaction.file})"
            )
            raise
        if offsets is not None:
            added[number] = offsets
    topic.unlink(transaction.file)
    return added
