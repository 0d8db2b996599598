"""Keep tables up to date in a thread of the process that writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from seglog.archive.arguments import checked_seconds
from seglog.errors import SeglogError
from seglog.table.synchronize import TableSync

LAST_SECONDS = 60.0  # for the last round: a catalog that never answers must not keep the process


class Failure(NamedTuple):
    """Why a topic's table was not brought up to date. rounds: that failed in a row."""

    error: str
    rounds: int


NONE = Failure("", 0)


class BackgroundTables:
    """Makes a round every `interval` seconds. A round that fails is reported and tried again."""

    def __init__(self, tables: TableSync, interval: float, say: Callable[[str], None]) -> None:
        """Take over the tables and start; `close` closes them. say: called with each new problem, as text."""
        self._tables = tables
        self._interval = checked_seconds(interval, "interval")
        self._say = say
        self.failures: dict[str, Failure] = {}  # of the last round, by topic; "*": of all
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
        failed: dict[str, Exception] = {}
        try:
            self._tables.step()
            self._completed_at = began
        except Exception as error:  # noqa: BLE001 - a catalog has errors of its own; the server goes on without its tables
            failed = self._tables.failures or {"*": error}
        before, now = self.failures, dict[str, Failure]()
        for topic, why in failed.items():
            text = str(why) if isinstance(why, SeglogError) else f"{type(why).__name__}: {why}"
            known = before.get(topic, NONE)
            if text != known.error:
                self._say(f"table: {text}" if topic == "*" else f"table of {topic}: {text}")
            now[topic] = Failure(text, known.rounds + 1)
        self.failures = now

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
