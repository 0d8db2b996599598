"""How much a pass would let go of, counted without copying anything: the search of a pass, and no more.

Reads only, in any process that sees the files. Keys are read unverified here: a segment whose damage shows only in a
checksum is measured all the same, though a compaction would find it out and leave it alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from seglog.errors import CorruptRecord
from seglog.format.manifest import SegmentEntry
from seglog.keyed.ahead import Ahead
from seglog.keyed.died import Search, pass_bytes
from seglog.keyed.pace import Pace, Progress
from seglog.keyed.plan import CompactionPlan, Measured, record_bytes
from seglog.storage import Storage


def measure(
    plan: CompactionPlan,
    sources: Storage,
    *,
    progress: Progress | None = None,
    abort: Callable[[], bool] | None = None,
) -> tuple[Measured, ...]:
    """Return for every source of a plan how many of its records would go, exactly, and what bytes would live, about.

    A source that the plan passes over, or that cannot be walked through, keeps all it has. progress, abort: see Pace;
    CompactionAborted where it was stopped, CorruptLog where a source is gone.
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
