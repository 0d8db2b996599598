"""Which idempotency keys a topic knows, and for how long: from its logs at first use, and from its own appends."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from seglog.errors import InvalidArgument, ReentrantCall, SeglogError
from seglog.forks import Inheritable
from seglog.log.log import Log
from seglog.record import checked_offset
from seglog.topic.idempotency.marks import Share, digest_of, hash_of, read_mark


@dataclass(frozen=True, slots=True)
class OnceWindow:
    """How far back a repeated key is recognised.

    A key whose record was compacted away is forgotten at the next opening.

    Args:
        keys: The latest keys of a topic that are remembered.
        bytes: Of the end of each partition's store, read at the first call with a key after opening (0.1 s for 64 MiB).

    Raises:
        InvalidType: If a value is no number.
        InvalidArgument: If a value is negative.
    """

    keys: int = 100_000
    bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        """Raise InvalidType or InvalidArgument for what is no number of 0 or more."""
        for name in ("keys", "bytes"):
            if checked_offset(getattr(self, name), f"once_window.{name}") < 0:
                raise InvalidArgument(f"once_window.{name} is {getattr(self, name)}; it must be 0 or more")


WINDOW = OnceWindow()


def verify(log: Log, share: Share) -> Share:
    """Return a share as verified if the records at its offset are its rows, else unchanged; ignores errors of the log.

    Records that are damaged, or removed by compaction or retention, cannot be verified. The last of several rows may
    equal those of another append, so a retry still compares all of them (`whole`).
    """
    if not 0 < share.rows - share.row <= log.next_offset - share.first:
        return share
    if share.row and share.own is None:
        return share
    try:
        digest = _digest_at(log, share.first, share.stop)
    except SeglogError:
        return share
    expected = share.digest if share.own is None else share.own
    return share._replace(whole=share.stop == share.first + 1, verified=True) if digest == expected else share


def _digest_at(log: Log, first: int, stop: int) -> int | None:
    """Return the digest of the records first..stop, None if one is missing."""
    if stop - first == 1:
        record = log.read(first)
        return digest_of(hash_of(record.key), hash_of(record.value))
    from seglog.topic.idempotency.batches import digest_at  # noqa: PLC0415 - imports pyarrow and numba when first used

    return digest_at(log, first, stop)


class OnceMemory(Inheritable):
    """The keys known in a topic's partitions. Thread-safe. Reads the logs at first use."""

    def __init__(self, logs: Sequence[Log], window: OnceWindow) -> None:
        self._logs = logs
        self._window = window
        self._enter_child()
        self._watch_forks()
        self._known: OrderedDict[str, tuple[Share, ...]] = OrderedDict()  # the latest last
        self._epochs: dict[int, int] = {}  # partition -> the epoch of its log when it was read

    def _enter_child(self) -> None:
        self._guard = threading.RLock()
        self._freed = threading.Condition(self._guard)
        self._busy: dict[str, int] = {}  # key -> the thread of this process that uses it

    @contextmanager
    def alone(self, once: str) -> Iterator[tuple[Share, ...]]:
        """Wait until no other thread uses this key, reserve it, and yield what is stored under it."""
        with self._guard:
            while once in self._busy:
                if self._busy[once] == threading.get_ident():  # a signal handler, or an iterable of chunks
                    raise ReentrantCall(f"the append with once={once!r}")
                self._freed.wait()
            stored = self._stored(once)
            self._busy[once] = threading.get_ident()
        try:
            yield stored
        except Exception:
            raise
        except BaseException:  # an interrupt may have hit between the append and `remember`
            self._epochs.clear()
            raise
        finally:
            with self._guard:
                self._busy.pop(once, None)
                self._freed.notify_all()

    def is_ready(self, once: str) -> bool:
        """Whether `alone` would neither wait nor read a log; False for a known key, which may need either."""
        if not self._guard.acquire(blocking=False):
            return False
        try:
            return len(self._epochs) == len(self._logs) and once not in self._busy and once not in self._known
        finally:
            self._guard.release()

    def remember(self, once: str, share: Share) -> None:
        """Note what was stored; replaces what was known of the same rows."""
        with self._guard:
            place = share.partition, share.row
            self._note(once, [one for one in self._known.get(once, ()) if (one.partition, one.row) != place], share)

    def _note(self, once: str, known: Iterable[Share], share: Share) -> None:
        self._known.pop(once, None)
        self._known[once] = (*known, share)
        while len(self._known) > self._window.keys:
            self._known.popitem(last=False)

    def _stored(self, once: str) -> tuple[Share, ...]:
        if len(self._epochs) < len(self._logs):
            self._read(number for number in range(len(self._logs)) if number not in self._epochs)
        known = self._known.get(once, ())
        cut = {share.partition for share in known if self._epochs[share.partition] != self._epoch(share.partition)}
        if cut:  # the log was truncated since: only the log knows its records now
            self._read(cut)
            known = self._known.get(once, ())
        if not all(share.verified for share in known):
            known = self._known[once] = self._verified(known)
        return tuple(found for share in known if (found := self._still_there(share)) is not None)

    def _verified(self, known: Iterable[Share]) -> tuple[Share, ...]:
        """Return one share per place that marks name: the latest that the log confirms, else the latest."""
        best: dict[tuple[int, int], Share] = {}
        for share in known:
            place = share.partition, share.row
            share = share if share.verified else verify(self._logs[share.partition], share)
            if share.verified or place not in best or not best[place].verified:
                best[place] = share
        return tuple(best.values())

    def _still_there(self, share: Share) -> Share | None:
        """Return a share in the log's present state: a poisoned log loses what was never synced, so its end moves.

        So a repeated append gets the log's error instead of an acknowledgement.
        """
        end = self._logs[share.partition].next_offset
        if share.first >= end:
            return None
        return share if share.stop <= end else share._replace(whole=False)

    def _epoch(self, partition: int) -> int:
        return self._logs[partition].epoch

    def _read(self, partitions: Iterable[int]) -> None:
        """Replace what is known of these partitions by what their logs contain."""
        numbers = set(partitions)
        for number in numbers:
            self._epochs.pop(number, None)
        for once, shares in list(self._known.items()):
            kept = tuple(share for share in shares if share.partition not in numbers)
            if len(kept) < len(shares):
                self._known[once] = kept
        for number in sorted(numbers):
            epoch = self._epoch(number)
            for once, share in self._marks(number):
                self._note(once, self._known.get(once, ()), share)
            self._epochs[number] = epoch

    def _marks(self, number: int) -> Iterator[tuple[str, Share]]:
        log = self._logs[number]
        if log.next_offset == log.lowest_offset:
            return
        from seglog.topic.idempotency.tail_search import marks_at_end  # noqa: PLC0415 - imports pyarrow and numba when first used

        most = max(self._window.keys // len(self._logs), 1)
        for offset, value in marks_at_end(log, self._window.bytes, most):
            found = read_mark(value, number, offset)
            if found is not None:
                yield found
