"""The result of one round of archiving."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ArchiveReport:
    """The result of one round.

    Attributes:
        commit: Number of the newest commit.
        logs: Number of archived logs.
        records: Sum of their next offsets minus their lowest offsets.
        uploaded: Bytes uploaded in this round.
        deleted: Objects deleted in this round.
        gaps: Of each log, the offsets (start, stop) that it deleted since the last round before they were archived.
        failed: Path of each log that could not be archived, with the reason; its earlier state stays archived.
        undeleted: Why objects that are no longer needed could not be deleted; "" if they could. Affects nothing else.
    """

    commit: int
    logs: int = 0
    records: int = 0
    uploaded: int = 0
    deleted: int = 0
    gaps: dict[str, tuple[int, int]]
    failed: dict[str, str]
    undeleted: str = ""

    def problems(self) -> list[str]:
        """Return the gaps and failures as text."""
        lost = [
            f"{name or 'the log'}: offsets {start} up to {stop} were deleted before they were archived"
            for name, (start, stop) in self.gaps.items()
        ]
        kept = [f"old objects cannot be deleted: {self.undeleted}"] if self.undeleted else []
        failed = [f"{name or 'the log'} was not archived: {reason}" for name, reason in self.failed.items()]
        return lost + failed + kept
