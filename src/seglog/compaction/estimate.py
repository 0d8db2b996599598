"""Measure how much a pass would free without copying: only its search.

Read only, in any process that sees the files. Keys are read unverified: a segment whose damage shows only in a checksum
is measured, although a compaction would find the damage and skip the segment.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from seglog.compaction.plan import CompactionPlan, Measured, record_bytes
from seglog.compaction.rate_limit import Pace, Progress
from seglog.compaction.superseded import Search, pass_bytes
from seglog.errors import CorruptRecord
from seglog.format.manifest import SegmentEntry
from seglog.parallel.ahead import Ahead
from seglog.storage import Storage


def measure(
    plan: CompactionPlan,
    sources: Storage,
    *,
    progress: Progress | None = None,
    abort: Callable[[], bool] | None = None,
) -> tuple[Measured, ...]:
    """Return for every source of a plan how many of its records would be removed, and about how many bytes would live.

    A source that the plan skips, or that cannot be read, keeps everything.

    Args:
        plan: The plan to measure.
        sources: Storage of the log.
        progress: Called with (bytes done, bytes in total).
        abort: Called often; True ends the measurement.

    Raises:
        CompactionAborted: If `abort` returned True.
        CorruptLog: If a source is missing.
    """
    while True:
        pace = Pace(pass_bytes(plan), progress=progress, abort=abort)
        try:
            with Ahead() as ahead:
                search = Search(sources, plan, (secrets.randbits(64), secrets.randbits(64)), pace, ahead)
                search.run()
        except CorruptRecord as error:
            broken = {one.file for one in plan.sources if error.path == f"{sources.path}/{one.name()}"}
            if not broken:
                raise
            plan = replace(plan, passed=plan.passed | broken)
            continue
        found = {deaths.entry.file: deaths.measured for deaths in search.deaths}
        return tuple(found.get(one.file) or _all_of(one) for one in plan.sources)


def _all_of(entry: SegmentEntry) -> Measured:
    return Measured(entry=entry, live_bytes=record_bytes(entry), dead=0)
