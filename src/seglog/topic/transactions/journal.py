"""The file of one transaction: what it stages for each partition and group, and at its end the decision to commit.

    .transactions/<16 hex digits>.txn

The file is written as the records arrive, and synced once: with the decision, which is the commit. A file without a
decision changes nothing; who began the transaction may resume it if the system has not been restarted since, as then
all that was written is there.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from seglog.errors import CorruptLog, FormatVersionError
from seglog.log.boot_id import boot_id
from seglog.storage import File, Storage, must_sync
from seglog.topic.layout.places import Partition
from seglog.topic.transactions.frames import FORMAT, HEAD, Frame, Kind, decode, encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

SUFFIX = ".txn"


class Batch(NamedTuple):
    """A staged batch. topic_id: of the topic; once: its idempotency key; about: what the stager noted with it."""

    topic: str
    topic_id: str
    partition: int
    once: str
    rows: int
    about: dict[str, Any]
    position: int = 0
    length: int = 0

    @property
    def place(self) -> Partition:
        """Its topic and partition."""
        return self.topic, self.partition


class Offsets(NamedTuple):
    """Offsets that a group commits, by partition, with their metadata."""

    group: str
    offsets: Mapping[Partition, tuple[int, str]]


class Decision(NamedTuple):
    """The commit. starts: where each partition ended then, and its epoch; groups: where the log of groups ended."""

    at: int
    starts: Mapping[Partition, tuple[int, int]]
    groups: int


@dataclass(slots=True, eq=False)
class Journal:
    """A transaction. about: of whom it is; resumable: whether all that was written before a restart is there."""

    storage: Storage
    name: str
    about: dict[str, Any]
    file: File
    size: int
    resumable: bool = True
    inherited: bool = False  # from an earlier process, which may have published a part
    batches: list[Batch] = field(default_factory=list)
    offsets: list[Offsets] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    decision: Decision | None = None
    published: int = 0  # batches of this process's publication that are in their logs
    committed: bool = False  # whether this process has committed the offsets

    @classmethod
    def create(cls, storage: Storage, about: dict[str, Any]) -> Journal:
        """Begin a transaction. storage: the directory of journals."""
        storage.make([])
        name = secrets.token_hex(8) + SUFFIX
        journal = cls(storage, name, about, storage.create(name), 0)
        journal._write(Kind.BEGIN, {"format": FORMAT, "boot": boot_id(), "about": about})
        return journal

    @classmethod
    def load(cls, storage: Storage, name: str) -> Journal | None:
        """Read a transaction that an earlier process left; None if it had not even begun.

        Raises FormatVersionError for one of a newer version, StorageError if it cannot be read.
        """
        file = storage.open(name, writable=True)
        frame = _read(file, 0)
        if frame is None or frame.kind is not Kind.BEGIN:
            return None
        if frame.values["format"] != FORMAT:
            raise FormatVersionError(
                f"{file.path} has format {frame.values['format']}; this seglog reads format {FORMAT}. Install a newer "
                "seglog; nothing was changed"
            )
        is_same_run = bool(boot_id()) and frame.values["boot"] == boot_id()
        journal = cls(storage, name, frame.values["about"], file, frame.end, is_same_run, inherited=True)
        while (frame := _read(file, journal.size)) is not None:
            journal._take(frame)
            journal.size = frame.end
        return journal

    def _take(self, frame: Frame) -> None:
        values = frame.values
        match frame.kind:
            case Kind.BATCH:
                self.batches.append(Batch(**values, position=frame.position, length=frame.length))
            case Kind.OFFSETS:
                self.offsets.append(_offsets(values))
            case Kind.NOTE:
                self.notes.append(values)
            case Kind.DECISION:
                starts = {(topic, number): (start, epoch) for topic, number, start, epoch in values["starts"]}
                self.decision = Decision(values["at"], starts, values["groups"])
            case Kind.BEGIN:
                raise CorruptLog(f"{self.file.path} has a second beginning")

    def _write(self, kind: Kind, values: dict[str, Any], data: Any = b"") -> None:
        """Append a frame; after an error the next one takes its place."""
        parts = encode(kind, values, data)
        self.file.pwritev(parts, self.size)
        self.size += sum(memoryview(part).nbytes for part in parts)

    # --- before the decision --------------------------------------------------------------------------------------

    def stage(self, batch: Batch, records: pa.RecordBatch) -> None:
        """Stage records for a partition. batch: `rows` and the place in the file are set here.

        Raises StorageError: nothing was staged.
        """
        import pyarrow as pa  # noqa: PLC0415 - imported with the first transaction

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, records.schema) as stream:
            stream.write_batch(records)
        data = sink.getvalue()
        values = batch._replace(rows=records.num_rows)._asdict()
        del values["position"], values["length"]
        self._write(Kind.BATCH, values, data)
        self.batches.append(batch._replace(rows=records.num_rows, position=self.size - data.size, length=data.size))

    def stage_offsets(self, group: str, offsets: Mapping[Partition, tuple[int, str]]) -> None:
        """Stage the commit of a group. Raises StorageError: nothing was staged."""
        values = {"group": group, "offsets": [[*place, *said] for place, said in offsets.items()]}
        self._write(Kind.OFFSETS, values)
        self.offsets.append(Offsets(group, dict(offsets)))

    @property
    def is_published(self) -> bool:
        """Whether an earlier process, or this one, has published it; its beginner has to note that."""
        return any("published" in one for one in self.notes)

    def note_published(self) -> None:
        """Write that nothing is left to publish; durable when it returns."""
        self.note({"published": True})
        must_sync(self.file.datasync)

    def note(self, values: dict[str, Any]) -> None:
        """Write what is needed to resume the transaction."""
        self._write(Kind.NOTE, values)
        self.notes.append(values)

    def decide(self, decision: Decision) -> None:
        """Commit: from now on the transaction is published, if not by this process then by the next one.

        Raises StorageError: it is undecided. LogPoisoned: unknown until the broker is opened again.
        """
        starts = [[*place, *start] for place, start in decision.starts.items()]
        self._write(Kind.DECISION, {"at": decision.at, "starts": starts, "groups": decision.groups})
        self.sync()
        self.decision = decision

    def sync(self) -> None:
        """Return once the file and its name are on the disk. Raises LogPoisoned."""
        must_sync(self.file.datasync)
        must_sync(self.storage.sync_directory)

    # --- afterwards -----------------------------------------------------------------------------------------------

    def records(self, batch: Batch) -> pa.Table:
        """Read a staged batch."""
        import pyarrow as pa  # noqa: PLC0415 - as above

        with pa.ipc.open_stream(pa.py_buffer(self.file.pread(batch.length, batch.position))) as stream:
            return stream.read_all()

    def remove(self) -> None:
        """End the transaction: published, or aborted."""
        self.storage.unlink(self.name)
        self.file.close()

    def close(self) -> None:
        """Leave the file to the next process."""
        self.file.close()


def _read(file: File, position: int) -> Frame | None:
    head = file.pread(HEAD.size, position)
    if len(head) < HEAD.size:
        return None
    length = HEAD.unpack(head)[0]
    if position + HEAD.size + length > file.size():
        return None
    return decode(head, file.pread(length, position + HEAD.size), position)


def _offsets(values: dict[str, Any]) -> Offsets:
    named = {(topic, number): (offset, text) for topic, number, offset, text in values["offsets"]}
    return Offsets(values["group"], named)
