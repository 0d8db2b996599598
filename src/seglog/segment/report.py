"""What opening a log found and did: the words of recovery, kept apart so that every layer can speak them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RecoveryEvent:
    """One thing recovery met. kind: torn (unacknowledged bytes cut), damage (bad bytes that were, or may have
    been, acknowledged), header (a store's header is damaged), manifest (rebuilt), orphan (a file set aside), cleanup.

    path: the file; offset, position: where, if it is about a record; bytes: how many were cut or set aside.
    """

    kind: str
    path: str
    detail: str
    offset: int | None = None
    position: int | None = None
    bytes: int = 0


@dataclass(frozen=True)
class RecoveryReport:
    """All that recovery met when the log was opened. `clean`: nothing was damaged, cut or set aside."""

    events: tuple[RecoveryEvent, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing had to be recovered."""
        return not self.events

    @property
    def damaged(self) -> bool:
        """Whether something that may have been acknowledged is gone or unreadable."""
        return any(event.kind in ("damage", "header", "manifest") for event in self.events)
