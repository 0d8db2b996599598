"""Whole segments on their way into a log: any process writes them beside it, a link and a manifest let them join.

A stage is a directory `staging/<batch>/<us since the epoch>-<random>/` of the log. It needs no lock: whoever writes one
(a Spark task, a compaction) shares nothing with others. Offsets in a store are relative, so that its place in the log
is chosen when it joins. What nobody asked for ages out. Nothing here changes a log's structure: that is `LiveSegments`.
"""

from __future__ import annotations

import errno
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from seglog.clock import Clock, system_clock
from seglog.errors import CorruptLog, InvalidArgument, InvalidType, RecordTooLarge, StorageError
from seglog.format import filename
from seglog.format.index import encode_dense_header
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.store import HEADER_BYTES, decode_header
from seglog.log.fill import check_widest, fill
from seglog.log.rebuild import read_or_rebuild
from seglog.log.staged import names_below
from seglog.record import checked_offset
from seglog.segment.active import ActiveSegment, create_segment
from seglog.segment.sealed import open_store
from seglog.storage import Storage, Subdirectory, must_sync

COMPACTION = "compact-"  # the stages of a pass; no transaction ever names them
OWN = COMPACTION + "own-"  # of a pass by the log's own writer: who has the lock after it knows that it is over
JOB = "job-"  # a query id that begins so is of a job that runs once
JOBS_KEPT = 16
KEPT_US = 24 * 3600 * 1_000_000  # longer than any task writes at one stage


@dataclass(frozen=True, kw_only=True)
class StagedSegment:
    """A sealed segment in a stage. directory: of the stage, below the log's; entry: its figures and its name there."""

    directory: str
    entry: SegmentEntry

    @property
    def records(self) -> int:
        """How many records it holds."""
        return self.entry.records or 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for a message to another process or a transaction's file."""
        return {"directory": self.directory, "entry": json.loads(self.entry.line)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> StagedSegment:
        """Read what `to_json` gave."""
        directory = values["directory"]
        if not isinstance(directory, str):
            raise TypeError(f"a stage's directory is {directory!r}")
        return cls(directory=directory, entry=SegmentEntry.from_values(dict(values["entry"])))


def checked_name(name: object, what: str) -> str:
    """Return the name of a batch or a query (`what`), after which files are named; InvalidType, InvalidArgument."""
    if not isinstance(name, str):
        raise InvalidType(f"the name of a {what} must be str, not {type(name).__name__}")
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise InvalidArgument(f"{name!r} cannot name a {what}: a file is named after it")
    return name


def checked_batch(batch: object) -> int:
    """Return the number of a batch as a plain int, 0 or more; InvalidType, InvalidArgument."""
    number = checked_offset(batch, "batch")
    if number < 0:
        raise InvalidArgument(f"batch is {number}; batches are numbered from 0 on")
    return number


def compaction_batch(*, own: bool = False) -> str:
    """Return the name of a new compaction's batch; by it an opening knows what was left of one. own: see OWN."""
    return (OWN if own else COMPACTION) + secrets.token_hex(8)


def stage_directory(batch: str, now: int) -> str:
    """Return the name of a new stage for a batch; no two are alike."""
    return f"{filename.STAGING}/{checked_name(batch, 'batch')}/{now}-{secrets.token_hex(4)}"


def ancestors(directory: str) -> list[str]:
    """Return a directory of a log and those above it, the log's own, "", last."""
    parts = directory.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), -1, -1)]


def refuse_rebuilt(manifest: Manifest, path: str) -> None:
    """Raise CorruptLog while a rebuilt manifest awaits an operator: it may not know the last published batches."""
    if manifest.rebuilt:
        raise CorruptLog(
            f"{path}: the manifest was lost and rebuilt, so nobody knows which batches were published; "
            "look at the log, then accept it with `seglog repair`"
        )


def after_batch(published: Mapping[str, int], query: str, batch: int) -> dict[str, int]:
    """Return what is published after a batch: the last one of each query, the newest at the end.

    Of one-off jobs only the last JOBS_KEPT are remembered: an id serves to finish the job's own transaction.
    """
    known = {name: number for name, number in published.items() if name != query} | {query: batch}
    jobs = [name for name in known if name.startswith(JOB)]
    return {name: number for name, number in known.items() if name not in jobs[:-JOBS_KEPT]}


class Stage:
    """Writes dense segments of base offset 0, as large as the log's own. Not for two threads at a time.

    A context manager: without `finish` nothing of it stays.
    """

    def __init__(self, storage: Storage, batch: str, *, clock: Clock = system_clock) -> None:
        manifest, _ = read_or_rebuild(storage, clock)
        refuse_rebuilt(manifest, storage.path)
        self._config = manifest.config
        self._log_id = manifest.log_id
        self._clock = clock
        self._storage = storage
        self.directory = stage_directory(batch, clock())
        self._files = Subdirectory(storage, self.directory)
        self._make()
        self._open = True
        self._finished = False
        self._sealed: list[StagedSegment] = []
        self._active: ActiveSegment | None = None
        self.segment_bytes = manifest.config.segment_bytes

    def _make(self) -> None:
        try:
            self._files.make([filename.TMP])
        except StorageError as error:
            if error.errno != errno.ENOENT:
                raise
            self._files.make([filename.TMP])  # the batch's directory, empty so far, was taken for one nobody needs

    # --- what `fill` asks for -----------------------------------------------------------------------------------

    @property
    def active(self) -> ActiveSegment:
        """The segment that is being filled."""
        if self._active is None:
            self._active = self._begin()
        return self._active

    def age_is_due(self) -> bool:
        """Never: a stage is finished before a segment's age matters."""
        return False

    def fits(self, length: int) -> bool:
        """Whether the active segment takes `length` more bytes."""
        return self.active.empty or self.active.size + length <= self.segment_bytes

    def check_size(self, length: int, *, row: int | None = None) -> None:
        """Raise RecordTooLarge for a record that no segment can take."""
        limit = self._config.store_limit - HEADER_BYTES
        if length > limit:
            raise RecordTooLarge(length, limit, row=row)

    def roll(self) -> None:
        """Seal the active segment: all of it is on the medium."""
        if self._active is not None and not self._active.empty:
            entry = self._active.seal(self._clock())
            self._sealed.append(StagedSegment(directory=self.directory, entry=entry))
        self._active = None

    def _begin(self) -> ActiveSegment:
        entry = SegmentEntry(
            base_offset=0, file=len(self._sealed) + 1, salt=secrets.randbits(64), created=self._clock()
        )
        store = create_segment(self._files, entry, self._log_id)
        interval = self._config.index_interval_bytes
        return ActiveSegment.start(self._files, entry, store, interval=interval)

    # --- for its user -------------------------------------------------------------------------------------------

    def append_batch(self, data: Any) -> int:
        """Append an Arrow table or record batch, columns and errors as `Log.append_batch`; return its rows.

        After a StorageError or LogPoisoned the stage can only be discarded: it may hold part of the batch.
        """
        self._check_open()
        from seglog.log.arrow import ArrowBatch  # noqa: PLC0415 - pyarrow and numba load when first used

        batch = ArrowBatch.prepare(data, now=self._clock())
        check_widest(self, batch)
        if self._config.retention.needs_keys:
            batch.check_keys()
        self._open = False
        fill(self, batch)
        self._open = True
        return batch.rows

    def finish(self) -> list[StagedSegment]:
        """Return the segments once all of them, and their names, survive power loss. The last call on a stage, also
        where it fails: a sync that is tried again proves nothing.
        """
        self._check_open()
        self._open = False
        self.roll()
        for directory in ancestors(self.directory):  # whoever made one of them may have died before syncing its name
            must_sync(partial(self._storage.sync_directory, directory))
        if not self._sealed:
            self.discard()
        self._finished = True
        return self._sealed

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidArgument(f"{self._files.path}: the stage is finished, or an error ended it; begin another")

    def discard(self) -> None:
        """Remove the stage and all that is in it."""
        self._open = False
        self._sealed, self._active = [], None
        self._storage.remove_directory(self.directory)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if not self._finished:
            self.discard()


# --- joining ------------------------------------------------------------------------------------------------------


def check_staged(storage: Storage, staged: StagedSegment) -> None:
    """Raise CorruptLog where a staged store is gone, too short, or another file: it could not join the log."""
    entry, files = staged.entry, Subdirectory(storage, staged.directory)
    try:
        store = open_store(files, entry)
    except CorruptLog as error:
        raise CorruptLog(
            f"{files.path}/{entry.name()}: the staged store is missing or another file; write the batch again"
        ) from error
    if decode_header(store.pread(HEADER_BYTES, 0), store.path) is None or store.size() < (entry.bytes or 0):
        raise CorruptLog(f"{store.path}: the staged store is damaged or cut short; write the batch again")


def adopt(storage: Storage, staged: StagedSegment, entry: SegmentEntry) -> None:
    """Give a staged segment's files their names in the log, never over existing ones; the directory is not synced.

    entry: the place in the log; its base offset may differ from the staged one's if offsets have no gaps. The stage
    keeps its names, so that a join that was interrupted can be done again.
    """
    check_staged(storage, staged)
    if entry.dense:
        _rebase_index(storage, staged, entry)
    for kind in filename.KINDS:
        source = f"{staged.directory}/{staged.entry.name(kind)}"
        if kind == filename.STORE or storage.identity(source) is not None:
            storage.link(source, entry.name(kind))


def _rebase_index(storage: Storage, staged: StagedSegment, entry: SegmentEntry) -> None:
    """Write the log's base offset into the dense index, which is derived: where it cannot be, it is made anew later."""
    name = f"{staged.directory}/{staged.entry.name(filename.INDEX)}"
    try:
        index = storage.open(name, writable=True)
        index.pwrite(encode_dense_header(entry.base_offset, entry.records or 0, entry.salt), 0)
    except StorageError:
        storage.unlink(name)


def placed(staged: StagedSegment, *, base_offset: int, file: int, sealed_at: int) -> SegmentEntry:
    """Return the entry of a staged segment at its place in the log."""
    length = (staged.entry.next_offset or 0) - staged.entry.base_offset
    return replace(
        staged.entry, base_offset=base_offset, next_offset=base_offset + length, file=file, sealed_at=sealed_at
    )


# --- cleaning up --------------------------------------------------------------------------------------------------


def remove_stages(storage: Storage, batch: str) -> None:
    """Remove every stage of a batch. What the medium refuses, or a task that nobody waits for is still writing, stays;
    it ages out later.
    """
    with suppress(StorageError):
        storage.remove_directory(f"{filename.STAGING}/{batch}")


def remove_own(storage: Storage) -> None:
    """Remove the stages of passes by earlier writers of this log; for whoever has just taken the lock."""
    for batch in storage.names(filename.STAGING):
        if batch.startswith(OWN):
            remove_stages(storage, batch)


def age_out(storage: Storage, now: int, *, batches: str = "") -> None:
    """Remove stages older than KEPT_US, of batches whose name begins so: nobody will publish them any more.

    Not for a partition of a topic with an unfinished transaction, however old, unless only those of compaction are
    meant: that transaction still needs its stages. Others may be making new stages meanwhile, also in the directory of
    a batch that looks empty.
    """
    for batch in [name for name in storage.names(filename.STAGING) if name.startswith(batches)]:
        directory = f"{filename.STAGING}/{batch}"
        for stage in names_below(storage, directory):
            if now - _begun(stage) > KEPT_US:
                with suppress(StorageError):
                    storage.remove_directory(f"{directory}/{stage}")
        with suppress(StorageError):
            storage.remove_if_empty(directory)


def _begun(stage: str) -> int:
    text = stage.partition("-")[0]
    return int(text) if text.isdecimal() else 0
