"""acks=all with min.insync.replicas: answered once enough copies have the records, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from seglog.errors import LogTruncated, NotMirrored
from seglog.kafka.faults import FewCopies, NotCopied
from seglog.log.copies import held
from seglog.server.runtime.mirroring import Written

if TYPE_CHECKING:
    from seglog.kafka.requests.call import Call
    from seglog.log.log import Log


@asynccontextmanager
async def copied(call: Call, log: Log) -> AsyncIterator[list[range]]:
    """Append within the context, and add the offsets to the list: it ends when enough copies have them.

    Raises:
        FewCopies: Fewer copies have ever reported than the topic wants; nothing was appended.
        NotCopied: The request's time is over, or the records were removed by a truncate.
    """
    copies = log.config.retention.copies
    if copies:
        _check(log, copies)
    since, appended = log.epoch, list[range]()
    yield appended
    if not copies or not appended:
        return
    seconds = min(max(call.values["timeout_ms"], 0) / 1000, call.services.settings.limits.wait_seconds)
    try:
        await call.services.mirroring.mirrored(Written(log, appended[-1].stop - 1, since), copies, seconds)
    except (NotMirrored, LogTruncated) as error:
        raise NotCopied(str(error)) from error


def _check(log: Log, copies: int) -> None:
    view = log.view()
    known = len(held(log._reports(), view.manifest.cuts, view.next_offset))
    if known < copies:
        raise FewCopies(f"{known} copies follow {log.path}; the topic wants {copies} (min.insync.replicas less one)")
