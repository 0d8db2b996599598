"""acks=all with min.insync.replicas: answered once enough copies have the records, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.errors import LogTruncated, NotMirrored
from seglog.kafka.faults import FewCopies, NotCopied
from seglog.log.copies import held

if TYPE_CHECKING:
    from seglog.kafka.requests.call import Call
    from seglog.log.log import Log
    from seglog.server.runtime.mirroring import Written


def check_copies(log: Log, copies: int) -> None:
    """Raise FewCopies if fewer copies have ever reported than the topic wants: then nothing is appended."""
    if not copies:
        return
    view = log.view()
    known = len(held(log._reports(), view.manifest.cuts, view.next_offset))
    if known < copies:
        raise FewCopies(f"{known} copies follow {log.path}; the topic wants {copies} (min.insync.replicas less one)")


async def copied(call: Call, written: Written, copies: int) -> None:
    """Return when as many copies as the topic wants have what was appended.

    Raises:
        NotCopied: The request's time is over, or the records were removed by a truncate.
    """
    if not copies:
        return
    seconds = min(max(call.values["timeout_ms"], 0) / 1000, call.services.settings.limits.wait_seconds)
    try:
        await call.services.mirroring.mirrored(written, copies, seconds)
    except (NotMirrored, LogTruncated) as error:
        raise NotCopied(str(error)) from error
