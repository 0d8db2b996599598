"""The open files of a log that is written: closed while a process with thousands of logs needs the descriptors."""

from __future__ import annotations

from contextlib import suppress

from seglog.errors import SeglogError
from seglog.log.writer_state import WriterState, change
from seglog.storage.descriptors import OPEN_LOGS


class OpenFiles:
    """Registers the active segment's files, and closes them on demand."""

    def __init__(self, state: WriterState) -> None:
        self._state = state
        self._registered = False
        self._kept = False
        if state.live.active.suspendable:
            self._register()

    def _register(self) -> None:
        """Register the active segment's open files; other logs may close theirs now."""
        if not self._registered:
            self._registered = True
            OPEN_LOGS.add(self.suspend)

    def suspend(self) -> bool:
        """Close the active segment's files until they are needed; return False if the log is in use.

        Invariant: files are closed only when no thread uses them, and without losing a promise:
        - this takes the mutex without waiting: a thread that holds it may wait for a descriptor that this should free;
        - `suspend` syncs what is not durable before it closes the files: an error of writing back after the close would
          never be reported;
        - the next call of any thread opens the files again and calls `_register`.
        """
        state, mutex = self._state, self._state.mutex  # a child forked meanwhile gets another one
        if self._kept or state.reentered() or not mutex.acquire(blocking=False):
            return False
        try:
            return state.closed or state.change(self._suspend_active)
        except SeglogError:
            return False  # writing has ended, perhaps because this sync failed
        finally:
            mutex.release()
            if state.closing:
                with suppress(SeglogError):  # the log that needs the descriptors must not get this error
                    state.close_now()

    def _suspend_active(self) -> bool:
        self._registered = False  # first: a reader may open them again at once, and registers them
        suspended = self._state.live.active.suspend(self._register)
        if not suspended:
            self._registered = True
        return suspended

    @change
    def keep(self) -> None:
        """Keep the files open from now on: the directory will be moved or removed while readers continue."""
        self.reopen()

    def reopen(self) -> None:
        """Do what `keep` does, within a change."""
        self._kept = True
        self._state.live.active.reopen()
