"""Keep tables up to date in a thread of the process that writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from seglog.archive.arguments import checked_seconds
from seglog.errors import SeglogError
from seglog.table.synchronize import TableSync

LAST_SECONDS = 60.0  # for the last round: a catalog that never answers must not keep the process


class BackgroundTables:
    """Makes a round every `interval` seconds. A round that fails is reported and tried again."""

    def __init__(self, tables: TableSync, interval: float, say: Callable[[str], None]) -> None:
        """Take over the tables and start; `close` closes them. say: called with each new problem, as text."""
        self._tables = tables
        self._interval = checked_seconds(interval, "interval")
        self._say = say
        self._problem = ""
        self._closing = threading.Event()
        self._completed_at = monotonic()
        self._thread = threading.Thread(target=self._run, name="seglog-table", daemon=True)
        self._thread.start()

    @property
    def age(self) -> float:
        """Seconds since the last complete round began."""
        return monotonic() - self._completed_at

    def _run(self) -> None:
        while not self._closing.wait(self._interval):
            self._round()
        self._round()  # what was appended last

    def _round(self) -> None:
        began = monotonic()
        try:
            self._tables.step()
        except Exception as error:  # noqa: BLE001 - a catalog has errors of its own; the server goes on without its tables
            text = str(error) if isinstance(error, SeglogError) else f"{type(error).__name__}: {error}"
            if text != self._problem:
                self._say(f"table: {text}")
            self._problem = text
        else:
            self._problem, self._completed_at = "", began

    def close(self, seconds: float = LAST_SECONDS) -> None:
        """Make a last round and end. A second call does nothing.

        seconds: how long to wait for the round; what it had not committed then is left to the next start.
        """
        self._closing.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._say(f"table: the last round did not end within {seconds:g} s; the next start makes up for it")
        else:
            self._tables.close()
