"""The newest record of each key of a log, found by an index in memory instead of a scan.

The index has a fingerprint of each key and an offset, but not the key: what it finds is read, verified and compared. It
is made of the log's records, and lost with the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from seglog.errors import InvalidType
from seglog.forks import Inheritable
from seglog.log.log import Log
from seglog.log.many import newest_of, records_at
from seglog.log.view import at_one_moment
from seglog.record import Record, checked_all
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.log.view import View

MAX_LOAD = 0.9  # as the map of a compaction: 26.7 bytes per key when full, half of them used after it has grown
FIRST_SLOTS = 1024
NONE = -1  # instead of an offset: the key has no record any more


class KeyIndex(Inheritable, Uncopied):
    """Finds the newest record of each key of an open log: `Log.read_keys` without its scan.

    It takes 27 to 54 bytes of memory for each key; those whose records were deleted count until it grows. A call first
    reads what was appended since the last one; the first one, or the first after a truncate, reads the whole log.
    Several threads may use it, as long as the log is open.
    """

    _inside: int  # the thread that is within a call, or 0

    def __init__(self, log: Log) -> None:
        """Index a log, which may be open for appending or for reading.

        Raises:
            InvalidType: If it is no Log.
            CorruptRecord: If a record does not verify.
            MissingExtra: If pyarrow is not installed, and in an installation without compiled kernels numba.
        """
        from seglog.arrow import convert  # noqa: F401, PLC0415 - raises MissingExtra; pyarrow loads when first used

        if not isinstance(log, Log):
            raise InvalidType(f"KeyIndex takes a Log, not {type(log).__name__}")
        self._log = log
        self._enter_child()
        self._watch_forks()
        self.read_keys(())

    def __len__(self) -> int:
        """Return the number of keys, with those whose records were deleted since it has grown."""
        return self._count

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the index takes."""
        fingerprints, offsets = self._map
        return int(fingerprints.nbytes + offsets.nbytes)

    def read_keys(self, keys: Iterable[bytes]) -> dict[bytes, Record]:
        """Return the newest record of each key, as they are at one moment; a key without a record is omitted.

        The newest record of a deleted key is its tombstone, whose value is None. A key whose newest record was removed
        by compaction or repair costs a scan, once. A call from a signal handler within another call scans as well.

        Args:
            keys: The keys. One may occur several times.

        Raises:
            InvalidType: If a key is not bytes.
            CorruptRecord: If a record does not verify, also one of other keys that was appended since the last call.
            LogClosed: If the log is closed.
            LogReplaced: If another log is at its path now.
            LogTruncated: If records were truncated meanwhile; call again.
        """
        wanted = list(dict.fromkeys(checked_all(keys, bytes, "keys")))
        if self._inside == threading.get_ident():  # a signal handler, within a call of this thread
            return self._log.read_keys(wanted)
        by_key = self._newest_of(wanted)
        return {key: by_key[key] for key in wanted if key in by_key}

    @at_one_moment
    def _newest_of(self, wanted: list[bytes]) -> dict[bytes, Record]:
        with self._mutex:
            self._inside = threading.get_ident()
            try:
                view = self._follow()
                found = dict(zip(wanted, self._offsets_of(wanted), strict=True))
                return self._records(view, found)
            finally:
                self._inside = 0

    def _records(self, view: View, offsets: dict[bytes, int]) -> dict[bytes, Record]:
        """Return the records of keys; scan for those whose record is gone, and remember what is found."""
        lowest = view.lowest_offset
        there = {key: offset for key, offset in offsets.items() if offset >= lowest}
        records = records_at(view, list(there.values()), skip_compacted=True)
        by_key = {record.key: record for record in records if record.key is not None}
        left = [key for key in there if key not in by_key]
        if left:
            older, others = newest_of(view, left), {record.offset for record in records}
            gone = [key for key in left if there[key] not in others]  # else another key has the same fingerprint
            self._keep(gone, [older[key].offset if key in older else NONE for key in gone])
            by_key |= older
        return by_key

    def _enter_child(self) -> None:
        """Begin with nothing: another thread may have been within a call when the process was forked."""
        self._mutex = threading.RLock()  # a signal handler may come before `_inside` is set
        self._inside = 0
        self._start_over()

    # --- the map, under the mutex ---------------------------------------------------------------------------------

    def _start_over(self) -> None:
        """Forget all keys."""
        import numpy as np  # noqa: PLC0415 - loads when first used

        self._end: int | None = None  # the offset up to which it has read; None: it knows nothing
        self._first = self._epoch = 0  # the lowest offset then, and the epoch
        self._count = 0
        self._map = _slots(FIRST_SLOTS)
        self._seed = np.frombuffer(os.urandom(16), np.uint64)  # secret: no keys with equal fingerprints can be made

    def _follow(self) -> View:
        """Read what was appended since the last call; return the view that has been read."""
        view = self._log.view()
        epoch, lowest, stop = view.manifest.epoch, view.lowest_offset, view.next_offset
        begun = self._end
        # Without another epoch, an archive can add the first records, and a full disk can prevent a new epoch.
        if begun is None or epoch != self._epoch or begun > stop or lowest < self._first:
            self._start_over()
            self._epoch, self._first = epoch, lowest
            begun = lowest
        self._end = None  # an error may leave half of a batch
        start = max(begun, lowest)
        for batch in view.batches(start, stop) if start < stop else ():
            self._learn(batch, lowest)
        self._end = stop
        return view

    def _learn(self, batch: pa.RecordBatch, lowest: int) -> None:
        """Keep the last record of each key in a batch. lowest: what was before it is deleted."""
        keys = batch.column("key")
        self._store(self._fingerprints(keys), keys.is_valid(), batch.column("offset"), lowest)

    def _keep(self, keys: Sequence[bytes], offsets: Sequence[int]) -> None:
        """Keep other offsets of keys that it has."""
        import pyarrow as pa  # noqa: PLC0415 - loaded already

        names = pa.array(keys, pa.large_binary())
        self._store(self._fingerprints(names), names.is_valid(), pa.array(offsets, pa.int64()), NONE)

    def _store(self, fingerprints: Any, keyed: pa.Array, offsets: pa.Array, lowest: int) -> None:
        from seglog.kernels.keymap import keep_newest  # noqa: PLC0415 - loaded with pyarrow

        has_key, numbers, taken = keyed.to_numpy(zero_copy_only=False), offsets.to_numpy(), 0
        while taken < len(numbers):
            room = int(len(self._map[1]) * MAX_LOAD) - self._count
            rows, added = keep_newest(fingerprints[taken:], has_key[taken:], numbers[taken:], *self._map, room)
            taken += rows
            self._count += added
            if taken < len(numbers):
                self._make_room(lowest)

    def _make_room(self, lowest: int) -> None:
        """Drop the keys whose records were deleted, and double the map unless that has freed half of it."""
        import numpy as np  # noqa: PLC0415 - loaded with pyarrow

        from seglog.kernels.keymap import keep_newest  # noqa: PLC0415 - as above

        table, numbers = self._map
        alive = np.flatnonzero(table.any(axis=1) & (numbers >= lowest))
        slots = len(numbers) * (1 if 2 * len(alive) <= len(numbers) * MAX_LOAD else 2)
        larger = _slots(slots)
        keep_newest(table[alive], np.ones(len(alive), np.bool_), numbers[alive], *larger, len(alive))
        self._map, self._count = larger, len(alive)

    def _offsets_of(self, keys: list[bytes]) -> list[int]:
        """Return the offset of each key's newest record, -1 without one."""
        import numpy as np  # noqa: PLC0415 - loaded with pyarrow
        import pyarrow as pa  # noqa: PLC0415 - as above

        from seglog.kernels.keymap import find_numbers  # noqa: PLC0415 - as above

        found = np.empty(len(keys), np.int64)
        find_numbers(self._fingerprints(pa.array(keys, pa.large_binary())), *self._map, found)
        offsets: list[int] = found.tolist()
        return offsets

    def _fingerprints(self, keys: pa.Array) -> Any:
        """Return uint64[rows, 2]."""
        import numpy as np  # noqa: PLC0415 - loaded with pyarrow
        import pyarrow as pa  # noqa: PLC0415 - as above

        from seglog.kernels.fingerprint import fingerprint_spans  # noqa: PLC0415 - as above

        plain = keys.cast(pa.large_binary())
        _, bounds, data = plain.buffers()
        spans = np.frombuffer(bounds, np.int64)[plain.offset : plain.offset + len(plain) + 1]
        fingerprints = np.empty((len(plain), 2), np.uint64)
        content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        fingerprint_spans(content, spans, self._seed[0], self._seed[1], fingerprints)
        return fingerprints


def _slots(count: int) -> tuple[Any, Any]:
    """Return an empty map: fingerprints uint64[count, 2], offsets int64[count]."""
    import numpy as np  # noqa: PLC0415 - loads when first used

    return np.zeros((count, 2), np.uint64), np.empty(count, np.int64)
