"""Stage whole segments for a log: any process writes them beside the log; links and one manifest add them.

A stage is a directory `staging/<batch>/<us since the epoch>-<random>/` of the log, written by one process (a Spark
task, a compaction) without a lock. Offsets in a store are relative, so a segment gets its place in the log only when
it joins.

Invariant: until the manifest that names them is installed, staged segments are no part of the log, and a join can be
repeated after any failure.
- `finish` returns only after stores, names and every parent directory are synced.
- A join links the files to their final names, never over existing ones; the stage keeps its own names, so the join
  can be done again. Then the directory is synced and one manifest installed, which also records the batch number.
- An interrupted join leaves linked files that no manifest names; the next opening removes them, because they are
  still in their stage. Hence a stage is removed only after its manifest, or once it has expired (KEPT_US).
Nothing here changes a log's structure; `LiveSegments` does.
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
from seglog.log.batch_layout import checked, fill
from seglog.log.repair.rebuild_manifest import read_or_rebuild
from seglog.log.stage_names import names_below
from seglog.record import checked_offset
from seglog.segment.active import ActiveSegment, create_segment
from seglog.segment.sealed import open_store
from seglog.storage import Storage, Subdirectory, must_sync

COMPACTION = "compact-"  # stages of a compaction; no transaction names them
OWN = COMPACTION + "own-"  # of a compaction by the log's own writer: it has ended once another process has the lock
JOB = "job-"  # prefix of the query id of a job that runs once
JOBS_KEPT = 16
KEPT_US = 24 * 3600 * 1_000_000  # longer than any task writes to one stage


@dataclass(frozen=True, kw_only=True)
class StagedSegment:
    """A sealed segment in a stage. directory: that of the stage, below the log's; entry: its figures and name."""

    directory: str
    entry: SegmentEntry

    @property
    def records(self) -> int:
        """Number of records."""
        return self.entry.records or 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for a message to another process or a transaction's file."""
        return {"directory": self.directory, "entry": json.loads(self.entry.line)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> StagedSegment:
        """Read what `to_json` returned."""
        directory = values["directory"]
        if not isinstance(directory, str):
            raise TypeError(f"a stage's directory is {directory!r}")
        return cls(directory=directory, entry=SegmentEntry.from_values(dict(values["entry"])))


def checked_name(name: object, what: str) -> str:
    """Return the name of a batch or a query (`what`); files have this name. Raises InvalidType or InvalidArgument."""
    if not isinstance(name, str):
        raise InvalidType(f"the name of a {what} must be str, not {type(name).__name__}")
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise InvalidArgument(f"{name!r} cannot name a {what}: it is used as a file name")
    return name


def checked_batch(batch: object) -> int:
    """Return the number of a batch as a plain int, 0 or more. Raises InvalidType or InvalidArgument."""
    number = checked_offset(batch, "batch")
    if number < 0:
        raise InvalidArgument(f"batch is {number}; batch numbers start at 0")
    return number


def compaction_batch(*, own: bool = False) -> str:
    """Return a new name for a compaction's batch; an opening recognizes leftovers by it. own: see OWN."""
    return (OWN if own else COMPACTION) + secrets.token_hex(8)


def stage_directory(batch: str, now: int) -> str:
    """Return a unique name for a new stage of a batch."""
    return f"{filename.STAGING}/{checked_name(batch, 'batch')}/{now}-{secrets.token_hex(4)}"


def ancestors(directory: str) -> list[str]:
    """Return a directory of a log and its parents up to the log's own, "", which is last."""
    parts = directory.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), -1, -1)]


def refuse_rebuilt(manifest: Manifest, path: str) -> None:
    """Raise CorruptLog if an operator has not accepted a rebuilt manifest: it may lack the last published batches."""
    if manifest.rebuilt:
        raise CorruptLog(
            f"{path}: the manifest was lost and rebuilt, so it is unknown which batches were published; "
            "check the log, then accept it with `seglog repair`"
        )


def after_batch(published: Mapping[str, int], query: str, batch: int) -> dict[str, int]:
    """Return the last published batch of each query after a batch, the newest last.

    Only the last JOBS_KEPT jobs are remembered: a job's id is only needed to finish its own transaction.
    """
    known = {name: number for name, number in published.items() if name != query} | {query: batch}
    jobs = [name for name in known if name.startswith(JOB)]
    return {name: number for name, number in known.items() if name not in jobs[:-JOBS_KEPT]}


class Stage:
    """Writes dense segments with base offset 0 and the log's segment size. Not safe for threads.

    A context manager: without `finish` it removes everything.
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
            self._files.make([filename.TMP])  # the batch's directory, empty until now, was removed as unused

    # --- used by `fill` -----------------------------------------------------------------------------------------

    @property
    def active(self) -> ActiveSegment:
        """The segment that is being filled."""
        if self._active is None:
            self._active = self._begin()
        return self._active

    def age_is_due(self) -> bool:
        """Return False: a stage is finished before a segment's age matters."""
        return False

    def fits(self, length: int) -> bool:
        """Whether the active segment has space for `length` more bytes."""
        return self.active.empty or self.active.size + length <= self.segment_bytes

    def check_size(self, length: int, *, row: int | None = None) -> None:
        """Raise RecordTooLarge for a record that fits no segment."""
        limit = self._config.store_limit - HEADER_BYTES
        if length > limit:
            raise RecordTooLarge(length, limit, row=row)

    def roll(self) -> None:
        """Seal the active segment; all of it is then on the disk."""
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

    # --- for callers --------------------------------------------------------------------------------------------

    def append_batch(self, data: Any, *, force_timestamp: bool = False) -> int:
        """Append an Arrow table or record batch, with arguments and errors of `Log.append_batch`; return its rows.

        After StorageError or LogPoisoned the stage may hold a part of the batch and can only be discarded.
        """
        self._check_open()
        from seglog.arrow.convert import ArrowBatch  # noqa: PLC0415 - pyarrow and numba load when first used
        from seglog.arrow.given_times import check_times  # noqa: PLC0415 - as above

        if not force_timestamp:
            check_times(data)
        needs_keys = self._config.retention.needs_keys
        batch = checked(self, ArrowBatch.prepare(data, now=self._clock()), needs_keys=needs_keys)
        self._open = False
        fill(self, batch)
        self._open = True
        return batch.rows

    def finish(self) -> list[StagedSegment]:
        """Return the segments once they and their names survive power loss.

        The last call on a stage, also if it fails: repeating a failed sync proves nothing.
        """
        self._check_open()
        self._open = False
        self.roll()
        for directory in ancestors(self.directory):  # their creator may have died before it synced their names
            must_sync(partial(self._storage.sync_directory, directory))
        if not self._sealed:
            self.discard()
        self._finished = True
        return self._sealed

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidArgument(f"{self._files.path}: the stage is finished or failed; begin another one")

    def discard(self) -> None:
        """Remove the stage and its content."""
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
    """Raise CorruptLog if a staged store is missing, too short, or another file: it could not join the log."""
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
    """Link a staged segment's files to their names in the log, never over existing ones; does not sync the directory.

    entry: the segment's place in the log; its base offset may differ from the staged one if offsets have no gaps. The
    stage keeps its names, so that an interrupted join can be repeated.
    """
    check_staged(storage, staged)
    if entry.dense:
        _rebase_index(storage, staged, entry)
    for kind in staged.entry.kinds:
        source = f"{staged.directory}/{staged.entry.name(kind)}"
        if kind == filename.STORE or storage.identity(source) is not None:
            storage.link(source, entry.name(kind))


def _rebase_index(storage: Storage, staged: StagedSegment, entry: SegmentEntry) -> None:
    """Write the log's base offset into the dense index; if that fails, remove the index, which is rebuilt later."""
    name = f"{staged.directory}/{staged.entry.name(filename.INDEX)}"
    try:
        index = storage.open(name, writable=True)
        index.pwrite(encode_dense_header(entry.base_offset, entry.records or 0, entry.salt), 0)
    except StorageError:
        storage.unlink(name)


def placed(staged: StagedSegment, *, base_offset: int, file: int, sealed_at: int) -> SegmentEntry:
    """Return the entry of a staged segment for a place in the log."""
    length = (staged.entry.next_offset or 0) - staged.entry.base_offset
    return replace(
        staged.entry, base_offset=base_offset, next_offset=base_offset + length, file=file, sealed_at=sealed_at
    )


# --- cleaning up --------------------------------------------------------------------------------------------------


def remove_stages(storage: Storage, batch: str) -> None:
    """Remove every stage of a batch. What cannot be removed, or a task is still writing, expires later."""
    with suppress(StorageError):
        storage.remove_directory(f"{filename.STAGING}/{batch}")


def remove_own(storage: Storage) -> None:
    """Remove the stages of compactions by earlier writers of this log; for the process that has just taken the lock."""
    for batch in storage.names(filename.STAGING):
        if batch.startswith(OWN):
            remove_stages(storage, batch)


def age_out(storage: Storage, now: int, *, batches: str = "") -> None:
    """Remove stages older than KEPT_US, of batches with this prefix: no process will publish them.

    Unless restricted to compaction, do not call this for a partition of a topic with an unfinished transaction, which
    still needs its stages at any age. Other processes may create stages meanwhile, also in a batch's directory that is
    empty.
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
