"""What opening a log found and did: the vocabulary of recovery, separate so that every layer can use it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RecoveryEvent:
    """One finding of recovery.

    Attributes:
        kind: "torn" (unacknowledged bytes were cut), "damage" (bad bytes that were, or may have been, acknowledged),
            "header" (a store's header is damaged), "manifest" (it was rebuilt), "orphan" (a file was set aside) or
            "cleanup".
        path: The file.
        detail: Description as text.
        offset: Offset of the record, if it is about one.
        position: Its position in bytes.
        bytes: Bytes that were cut or set aside.
    """

    kind: str
    path: str
    detail: str
    offset: int | None = None
    position: int | None = None
    bytes: int = 0


@dataclass(frozen=True)
class RecoveryReport:
    """Everything that recovery found when the log was opened. `clean`: nothing was damaged, cut or set aside."""

    events: tuple[RecoveryEvent, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether there was nothing to recover."""
        return not self.events

    @property
    def damaged(self) -> bool:
        """Whether something that may have been acknowledged is lost or unreadable."""
        return any(event.kind in ("damage", "header", "manifest") for event in self.events)
