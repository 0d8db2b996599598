"""The file of one transaction: what it stages for each partition and group, and at its end the decision to commit.

    .transactions/<16 hex digits>.txn

The file is written as the records arrive, and synced once: with the decision, which is the commit. A file without a
decision changes nothing; who began the transaction may resume it if the system has not been restarted since, as then
all that was written is there. A file that is damaged where only damage explains it is an error, not an end.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from seglog.errors import CorruptLog, FormatVersionError, SeglogError, StorageError
from seglog.log.boot_id import boot_id
from seglog.storage import File, Storage, must_sync
from seglog.topic.groups.charges import NOBODY
from seglog.topic.groups.records import COMMIT_BYTES
from seglog.topic.layout.places import Partition
from seglog.topic.transactions.frames import FORMAT, HEAD, Frame, Kind, decode, encode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa

SUFFIX = ".txn"
LETTER_BYTES = 4  # of a string in memory, at most
NOTHING: dict[str, Any] = {}  # what a resumed transaction needs of a batch, is not kept in memory by the others
DECISION_BEGINS = b'{"at":'
SEARCHED_BYTES = 4 * 1024 * 1024  # of the end of a damaged file, for its decision


class Batch(NamedTuple):
    """A staged batch. topic_id: of the topic; once: its idempotency key; about: what the stager noted with it.

    keyless: whether a record has no key, which the topic refuses if it is compacted by key until the commit.
    position, length, frame: in the file, of its Arrow stream, and where its frame begins.
    """

    topic: str
    topic_id: str
    partition: int
    once: str
    rows: int
    about: dict[str, Any]
    keyless: bool = False
    position: int = 0
    length: int = 0
    frame: int = 0

    @property
    def place(self) -> Partition:
        """Its topic and partition."""
        return self.topic, self.partition


class Offsets(NamedTuple):
    """Offsets that a group commits, by partition, with their metadata. logs: of which log, and its epoch there.

    payer: who pays for them once they are committed, see `Payer`.
    """

    group: str
    offsets: dict[Partition, tuple[int, str]]
    logs: dict[Partition, tuple[str | None, int]]
    payer: str = NOBODY


class Decision(NamedTuple):
    """The commit. starts: where each partition ended then, and its epoch; groups: where the log of groups ended.

    term: of the leader that decided it.
    """

    at: int
    starts: Mapping[Partition, tuple[int, int]]
    groups: int
    term: int = 0


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
    offsets: dict[str, Offsets] = field(default_factory=dict)  # by group
    notes: list[dict[str, Any]] = field(default_factory=list)
    decision: Decision | None = None
    published: int = 0  # batches that are known to be in their logs
    committed: bool = False  # whether this process has committed the offsets
    torn: bool = False  # whether the file may go on after `size`
    offset_bytes: int = 0  # about what the offsets take in memory
    parts: int = 0  # batches, offsets and notes in memory; other threads may read it while one is added

    @classmethod
    def create(cls, storage: Storage, about: dict[str, Any]) -> Journal:
        """Begin a transaction. storage: the directory of journals."""
        storage.make([])
        name = secrets.token_hex(8) + SUFFIX
        journal = cls(storage, name, about, storage.create(name), 0)
        try:
            journal._write(Kind.BEGIN, {"format": FORMAT, "boot": boot_id(), "about": about})
        except SeglogError:
            with suppress(StorageError):
                journal.remove()
            raise
        return journal

    @classmethod
    def load(cls, storage: Storage, name: str) -> Journal | None:
        """Read a transaction that an earlier process left; None if it had not even begun.

        Raises FormatVersionError for one of a newer version, StorageError if it cannot be read, CorruptLog if it is
        damaged and was decided, or may have been.
        """
        file = storage.open(name, writable=True)
        frame = read_frame(file, 0)
        if frame is None or frame.kind is not Kind.BEGIN:
            if is_decided_after(file, 0):
                raise CorruptLog(f"{file.path} is damaged at its beginning; its transaction was committed")
            return None
        journal = cls(storage, name, {}, file, frame.end, inherited=True)
        journal._begin(frame)
        while (frame := read_frame(file, journal.size)) is not None:
            journal._take(frame)
            journal.size = frame.end
        journal._check_end()
        return journal

    def _check_end(self) -> None:
        """Raise CorruptLog if the file is damaged after its last frame, not cut off by a kill or power loss."""
        size = self.file.size()
        self.torn = size > self.size
        if not self.torn or self.decision is not None:
            return
        if is_decided_after(self.file, self.size):
            raise CorruptLog(f"{self.file.path} is damaged at byte {self.size}; its transaction was committed")
        head = self.file.pread(HEAD.size, self.size)
        if self.resumable and len(head) == HEAD.size and self.size + HEAD.size + HEAD.unpack(head)[0] <= size:
            raise CorruptLog(f"{self.file.path} is damaged at byte {self.size}; its transaction was open, or committed")

    @property
    def id(self) -> str:
        """Its random id, 16 hex digits."""
        return self.name.removesuffix(SUFFIX)

    def takes(self, frame: Frame) -> bool:
        """Take a frame of a file that may be damaged; return whether it can be at its place. Raises FormatVersionError.

        Only the first one is a beginning.
        """
        if (frame.kind is Kind.BEGIN) != (frame.begin == 0):
            return False
        if frame.kind is Kind.BEGIN:
            self._begin(frame)
        else:
            self._take(frame)
        return True

    def _begin(self, frame: Frame) -> None:
        if frame.values["format"] != FORMAT:
            raise FormatVersionError(
                f"{self.file.path} has format {frame.values['format']}; this seglog reads format {FORMAT}. Install a "
                "newer seglog; nothing was changed"
            )
        self.about = frame.values["about"]
        self.resumable = bool(boot_id()) and frame.values["boot"] == boot_id()

    def _take(self, frame: Frame) -> None:
        values = frame.values
        match frame.kind:
            case Kind.BATCH:
                batch = Batch(**values)._replace(position=frame.position, length=frame.length, frame=frame.begin)
                self._append(batch)
            case Kind.OFFSETS:
                self._add(_offsets(values))
            case Kind.NOTE:
                self._keep(values)
                self.published = max(self.published, values.get("appended", 0))
            case Kind.DECISION:
                starts = {(topic, number): (start, epoch) for topic, number, start, epoch in values["starts"]}
                self.decision = Decision(values["at"], starts, values["groups"], values.get("term", 0))
            case Kind.BEGIN:
                raise CorruptLog(f"{self.file.path} has a second beginning")

    def _write(self, kind: Kind, values: dict[str, Any], data: Any = b"") -> None:
        """Append a frame; after an error nothing of it stays, at the latest when the next one is written."""
        parts = encode(kind, values, data)
        self._cut()
        self.torn = True
        try:
            self.file.pwritev(parts, self.size)
        except StorageError:
            with suppress(StorageError):
                self._cut()
            raise
        self.torn = False
        self.size += sum(memoryview(part).nbytes for part in parts)

    def _cut(self) -> None:
        """End the file at its last frame: parts of a longer one must not be taken for frames after the next one."""
        if self.torn:
            self.file.truncate(self.size)
            self.torn = False

    # --- before the decision --------------------------------------------------------------------------------------

    def stage(self, batch: Batch, records: pa.RecordBatch) -> None:
        """Stage records for a partition. batch: `rows`, `keyless` and the place in the file are set here.

        Raises StorageError: nothing was staged.
        """
        import pyarrow as pa  # noqa: PLC0415 - imported with the first transaction

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, records.schema) as stream:
            stream.write_batch(records)
        data = sink.getvalue()
        batch = batch._replace(rows=records.num_rows, keyless=_is_keyless(records))
        values = batch._asdict()
        del values["position"], values["length"], values["frame"]
        frame = self.size
        self._write(Kind.BATCH, values, data)
        place = {"position": self.size - data.size, "length": data.size, "frame": frame}
        self._append(batch._replace(about=NOTHING, **place))

    def stage_offsets(
        self,
        group: str,
        offsets: Mapping[Partition, tuple[int, str]],
        logs: Mapping[Partition, tuple[str | None, int]] | None = None,
        payer: str = NOBODY,
    ) -> None:
        """Stage the commit of a group; see `Offsets`. Raises StorageError: nothing was staged."""
        known = {} if logs is None else dict(logs)
        values = {
            "group": group,
            "offsets": [[*place, *said] for place, said in offsets.items()],
            "logs": [[*place, *log] for place, log in known.items()],
            "payer": payer,
        }
        self._write(Kind.OFFSETS, values)
        self._add(Offsets(group, dict(offsets), dict(known), payer))

    def _add(self, staged: Offsets) -> None:
        """Keep the latest offset of each partition of a group, and its latest payer."""
        found = self.offsets.get(staged.group, Offsets(staged.group, {}, {}))
        before = len(found.offsets)
        self.offset_bytes += self.growth(staged.group, staged.offsets)
        found.offsets.update(staged.offsets)
        found.logs.update(staged.logs)
        self.offsets[staged.group] = found._replace(payer=staged.payer)
        self.parts += len(found.offsets) - before

    def new_places(self, group: str, offsets: Mapping[Partition, tuple[int, str]]) -> int:
        """Return of how many partitions the group has no offset staged yet."""
        return len(offsets.keys() - self._known(group).keys())

    def _known(self, group: str) -> Mapping[Partition, tuple[int, str]]:
        return self.offsets[group].offsets if group in self.offsets else {}

    def growth(self, group: str, offsets: Mapping[Partition, tuple[int, str]]) -> int:
        """Return about how many bytes more the offsets would take in memory with these, which replace earlier ones."""
        known = self._known(group)
        replaced = [known[place] for place in offsets.keys() & known.keys()]
        return _bytes_of(offsets.values()) - _bytes_of(replaced)

    def _append(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.parts += 1

    def _keep(self, note: dict[str, Any]) -> None:
        self.notes.append(note)
        self.parts += 1

    @property
    def is_published(self) -> bool:
        """Whether an earlier process, or this one, has published it; its beginner has to note that."""
        return any("published" in one for one in self.notes)

    def note_appended(self) -> None:
        """Write how many batches are in their logs, which are synced; durable when it returns.

        What retention and compaction remove from there cannot be found any more, and is not to be appended again.
        """
        self.note({"appended": self.published})
        must_sync(self.file.datasync)

    def note_published(self) -> None:
        """Write that nothing is left to publish; durable when it returns."""
        self.note({"published": True})
        must_sync(self.file.datasync)

    def note(self, values: dict[str, Any]) -> None:
        """Write what is needed to resume the transaction."""
        self._write(Kind.NOTE, values)
        self._keep(values)

    def decide(self, decision: Decision) -> None:
        """Commit: from now on the transaction is published, if not by this process then by the next one.

        Raises StorageError: it is undecided. LogPoisoned: unknown until the broker is opened again.
        """
        starts = [[*place, *start] for place, start in decision.starts.items()]
        values = {"at": decision.at, "starts": starts, "groups": decision.groups, "term": decision.term}
        self._write(Kind.DECISION, values)
        self.sync()
        self.decision = decision

    def sync(self) -> None:
        """Return once the file and its name are on the disk. Raises LogPoisoned."""
        must_sync(self.file.datasync)
        must_sync(self.storage.sync_directory)

    # --- afterwards -----------------------------------------------------------------------------------------------

    def records(self, batch: Batch) -> pa.Table:
        """Read a staged batch. Raises CorruptLog if it is damaged."""
        import pyarrow as pa  # noqa: PLC0415 - as above

        found = frame_bytes(self.file, batch.frame)
        if found is None or decode(*found, batch.frame) is None:
            raise CorruptLog(f"{self.file.path} is damaged at byte {batch.frame}; its transaction is committed")
        with pa.ipc.open_stream(pa.py_buffer(memoryview(found[1])[-batch.length :])) as stream:
            return stream.read_all()

    def remove(self) -> None:
        """End the transaction: published, or aborted."""
        if self.decision is not None and not self.is_published:  # in case the name stays, or returns after a power loss
            with suppress(StorageError):
                self.note({"published": True})
        self.storage.unlink(self.name)
        self.file.close()

    def close(self) -> None:
        """Leave the file to the next process."""
        self.file.close()


def read_frame(file: File, position: int) -> Frame | None:
    """Return the frame at a position, None if it is incomplete or damaged."""
    found = frame_bytes(file, position)
    return None if found is None else decode(*found, position)


def frame_bytes(file: File, position: int) -> tuple[bytes, bytes] | None:
    """Return the head and the payload of a frame, None if the file ends before its end."""
    head = file.pread(HEAD.size, position)
    if len(head) < HEAD.size:
        return None
    length = HEAD.unpack(head)[0]
    if position + HEAD.size + length > file.size():
        return None
    return head, file.pread(length, position + HEAD.size)


def is_decided_after(file: File, start: int) -> bool:
    """Whether a decision follows what cannot be read; it is near the end of the file."""
    size = file.size()
    first = max(start, size - SEARCHED_BYTES)
    data = file.pread(size - first, first)
    at = data.find(DECISION_BEGINS)
    while at >= 0:
        begin = at - HEAD.size
        if (
            begin >= 0
            and HEAD.unpack_from(data, begin)[1] == Kind.DECISION
            and read_frame(file, first + begin) is not None
        ):
            return True
        at = data.find(DECISION_BEGINS, at + 1)
    return False


def _bytes_of(offsets: Collection[tuple[int, str]]) -> int:
    return sum(COMMIT_BYTES + LETTER_BYTES * len(text) for _, text in offsets)


def _is_keyless(records: pa.RecordBatch) -> bool:
    return "key" not in records.schema.names or records.column("key").null_count > 0


def _offsets(values: dict[str, Any]) -> Offsets:
    named = {(topic, number): (offset, text) for topic, number, offset, text in values["offsets"]}
    logs = {(topic, number): (log, epoch) for topic, number, log, epoch in values.get("logs", ())}
    return Offsets(values["group"], named, logs, values.get("payer", NOBODY))
