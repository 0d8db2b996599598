"""Make appended records durable: at `sync`, after `flush_records` appends, and every `flush_interval` seconds."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from seglog.errors import LogPoisoned
from seglog.log.durability import IntervalSync
from seglog.log.writer_state import OPEN, WriterState, change

if TYPE_CHECKING:
    from seglog.config import LogConfig
    from seglog.segment.active import ActiveSegment


class Syncer:
    """Syncs one log; concurrent callers share a sync, see `Durability`."""

    def __init__(self, state: WriterState) -> None:
        self._state = state
        self._flush_records: int | None = None

    def take(self, config: LogConfig) -> None:
        """Sync from now on as this config wants it."""
        state, interval = self._state, config.flush_interval
        seconds = None if interval is None else float(interval)  # type: ignore[arg-type] # settled to float
        self._flush_records = config.flush_records
        if state.interval_sync is not None:
            state.interval_sync.change(seconds)
        elif seconds is not None:
            state.interval_sync = IntervalSync(seconds, self.sync_quietly)

    def sync(self) -> None:
        """Return once every appended record survives power loss."""
        self._wait(self._end_of_log())

    @change
    def _end_of_log(self) -> int:
        live, end = self._state.live, self._state.live.active.next_offset
        if end <= self._state.durability.durable_offset:  # else a sync follows, and checks it
            live.catalog.ownership.check()  # the directory may have been removed
        return end

    def flush_if_due(self, next_offset: int) -> None:
        """Sync if that is due after an append that ends at `next_offset`."""
        if self.is_due(next_offset):
            self._wait(next_offset)

    def is_due(self, next_offset: int) -> bool:
        """Whether an append that ends at `next_offset` syncs before it returns.

        If so it must not be buffered: an error while the buffer is written at the sync would come after the append.
        """
        due = self._flush_records
        return due is not None and next_offset - self._state.durability.durable_offset >= due

    def _wait(self, next_offset: int) -> None:
        """Return once the records before `next_offset` survive power loss; after a change by this thread."""
        state, me = self._state, get_ident()
        try:
            state.busy.add(me)
            state.durability.wait(next_offset, self.sync_written)
        finally:
            state.busy.discard(me)
            if state.closing:
                state.close_now()

    def sync_written(self) -> int:
        """Sync what is written by now, without the mutex; return its end. Called by one thread at a time."""
        state = self._state
        active, target = self._written()
        try:
            active.datasync()
            state.live.catalog.ownership.check_after_sync()  # last: nothing in a removed directory is acknowledged
        except LogPoisoned as error:
            state.poison(error)
            raise
        with state.mutex:
            if state.phase is OPEN and active is state.live.active:
                try:
                    active.mark_durable(target)
                except BaseException as error:  # an interrupt; after a StorageError the old mark stays
                    state.after_failure(error)
                    raise
        return target

    def _written(self) -> tuple[ActiveSegment, int]:
        """Write the buffer; return the active segment and its end."""
        state = self._state
        with state.mutex:
            state.check_writable()
            active = state.live.active
            if active.reader.next_offset == active.next_offset:  # nothing is buffered
                return active, active.next_offset
        return state.change(self._write_buffer)

    def _write_buffer(self) -> tuple[ActiveSegment, int]:
        active = self._state.live.active
        active.write_buffer()
        return active, active.next_offset

    def sync_quietly(self) -> None:
        """Sync if something was appended; does nothing once writing has ended."""
        state = self._state
        if state.phase is OPEN and state.live.active.next_offset > state.durability.durable_offset:
            self.sync()
