"""The logs that a cleaner maintains at present. Knows nothing of what is done to them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from seglog.errors import InvalidType
from seglog.log.log import Log
from seglog.topic.cleaning.log_cleaning import Care

if TYPE_CHECKING:
    Logs = Mapping[str, Log]


class Roster:
    """The maintained logs, by name. Thread-safe."""

    def __init__(self, logs: Logs | Callable[[], Logs], new: Callable[[str, Log], Care]) -> None:
        if not callable(logs) and not isinstance(logs, Mapping):
            raise InvalidType(f"a cleaner takes a mapping name -> log or a call that returns one, not {logs!r}")
        self._logs = logs
        self._new = new
        self._cares: dict[str, Care] = {}
        self._guard = threading.Lock()

    def meet(self) -> None:
        """Update the logs. A different log under a known name is a new one. Raises the caller's errors."""
        logs = dict(self._logs() if callable(self._logs) else self._logs)
        with self._guard:
            known = self._cares
            self._cares = {
                name: known[name] if name in known and known[name].log is log else self._new(name, log)
                for name, log in logs.items()
            }

    def cares(self) -> list[Care]:
        """Return those that are open, in the order in which they are named."""
        with self._guard:
            return [care for care in self._cares.values() if not care.closed]

    def get(self, name: str) -> Care | None:
        """Return one of them, None if the name is unknown."""
        return next((care for care in self.cares() if care.name == name), None)
