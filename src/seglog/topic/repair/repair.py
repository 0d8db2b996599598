"""Repair everything at a place: its logs one by one, then the topics' own files, and the files of transactions.

As in a log, nothing is destroyed: replaced files are kept in quarantine/ beside them. What cannot be known is not
invented: the report describes what to do manually. A broker is repaired as a whole or not at all: its lock is held.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from seglog.clock import Clock, system_clock
from seglog.errors import CorruptLog, LogLocked, SeglogError
from seglog.format import filename
from seglog.log.locks.write_lock import holder_of, is_written, try_lock_log
from seglog.log.opening import storage_at
from seglog.log.repair.repair import RepairAction, RepairReport, accept_home, repair_storage
from seglog.log.repair.reports import Problem
from seglog.log.repair.verify import Progress
from seglog.storage import Lock, Storage, Subdirectory, must_sync
from seglog.topic.layout import description
from seglog.topic.layout.description import FILE_NAME, Description
from seglog.topic.layout.root import OFFSETS
from seglog.topic.repair.discover import Site, logs_of, partition_numbers, site_at
from seglog.topic.repair.journal_files import keep, quarantine_journal, restore_journal
from seglog.topic.repair.journals import Survey, problem_of, surveys
from seglog.topic.repair.reports import LogTold, Told, TopicTold
from seglog.topic.repair.reserved_names import free_name, name_problems, rename
from seglog.topic.repair.verify import (
    batch_problems,
    description_of,
    description_problems,
    home_problems,
    logs_at,
    manifests_of,
    mended_batch,
    partition_problems,
    shares,
    text_of,
)
from seglog.topic.transaction import DIRECTORY, unfinished
from seglog.topic.transactions.transactions import DIRECTORY as TRANSACTIONS


def repair_place(
    place: str | os.PathLike[str] | Storage,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
    clock: Clock = system_clock,
) -> Told:
    """Repair every log at a place, then the topics' own files; a part that cannot be repaired does not stop the others.

    dry_run changes nothing. Raises LogNotFound or NotALog if there is nothing of seglog; LogLocked, without any change,
    if another process has the log, the topic or the broker open for writing.
    """
    site = site_at(storage_at(place))
    logs = logs_at(site)
    if not dry_run:
        _refuse_writer(site, logs)
    share = shares(logs, progress)
    told: list[LogTold] = []
    with ExitStack() as held:
        for name, storage in logs.items():
            told.append(_log(storage, name, share(name), clock, dry_run=dry_run))
            if name == OFFSETS and not dry_run:
                held.callback(_held(storage, site.root, told[-1].error).release)
        topics = tuple(_topic(site, storage, name, dry_run=dry_run) for name, storage in site.topics.items())
        transactions = _transactions(site, dry_run=dry_run)
    return Told(kind=site.kind, path=site.root.path, topics=topics, logs=tuple(told), transactions=transactions)


def _log(storage: Storage, name: str, progress: Progress | None, clock: Clock, *, dry_run: bool) -> LogTold:
    try:
        report = repair_storage(storage, dry_run=dry_run, progress=progress, clock=clock)
    except SeglogError as error:
        return LogTold(name=name, path=storage.path, error=error)
    return LogTold(name=name, path=storage.path, repair=report)


def refuse_writer(place: str | os.PathLike[str] | Storage) -> None:
    """Raise LogLocked if another process has a log, topic or broker open for writing; also the errors of `site_at`."""
    site = site_at(storage_at(place))
    _refuse_writer(site, logs_at(site))


def _refuse_writer(site: Site, logs: dict[str, Storage]) -> None:
    """Try the first log's lock: a writer of a topic holds all of them, and a broker's first log is its own."""
    if logs and is_written(next(iter(logs.values()))):
        raise _locked(site.root)


def _locked(place: Storage) -> LogLocked:
    return LogLocked(
        errno.EWOULDBLOCK,
        f"this is open for writing (perhaps by a server), {holder_of(place)}; stop it and repeat the repair. Meanwhile "
        "`seglog verify` reports what is damaged, and `seglog repair --dry-run` what a repair would do",
        place.path,
    )


def _held(log: Storage, place: Storage, error: SeglogError | None = None) -> Lock:
    """Take a log's lock. Raises LogLocked if another process has it, or had it just now (error)."""
    lock = None if isinstance(error, LogLocked) else try_lock_log(log)
    if lock is None:
        raise _locked(place)
    return lock


# --- what is a topic's own --------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """The repair of one problem. run: does it and returns the names of kept files; records_lost: that are known."""

    action: RepairAction
    run: Callable[[], list[str]] | None = None
    records_lost: int = 0


def _topic(site: Site, topic: Storage, name: str, *, dry_run: bool) -> TopicTold:
    kept: list[str] = []
    try:
        steps = [*_steps(topic), *_name_steps(site, name)]
        runs = [step.run for step in steps if step.run is not None]
        if runs and not dry_run:
            with ExitStack() as held:
                for log in list(logs_of(topic, name).values())[:1]:  # a writer of the topic holds all of them
                    held.callback(_held(log, topic).release)
                kept = [kept for run in runs for kept in run()]
    except SeglogError as error:
        return TopicTold(name=name, path=topic.path, error=error)
    report = RepairReport(actions=tuple(step.action for step in steps), records_lost=0, quarantined=tuple(kept))
    return TopicTold(name=name, path=topic.path, repair=report)


def _steps(topic: Storage) -> Iterator[_Step]:
    missing = list(partition_problems(topic))
    for problem in description_problems(topic):
        yield _description_step(topic, problem, missing)
    for problem in missing:
        by_hand = (
            "restore the directory from a backup; or, to continue without its records, create an empty log there with "
            f"`seglog append {problem.path} --lines < /dev/null` and the config options of the other partitions"
        )
        yield _Step(RepairAction(kind="leave", path=problem.path, detail=problem.detail, outcome=by_hand))
    for problem in home_problems(topic):
        yield _home_step(topic, problem)
    for problem in batch_problems(topic):
        yield _batch_step(topic, problem)


def _name_steps(site: Site, name: str) -> Iterator[_Step]:
    """Rename the directory: the last step, as the others use its old name."""

    def run() -> list[str]:
        rename(site.root, name, new)
        return []

    for problem in name_problems(site, name):
        new = free_name(site.root, name)
        how = (
            f"the topic is renamed to {new!r} with all its records; offsets that consumer groups committed under the "
            "old name are deleted when a broker opens the directory"
        )
        yield _step("rename", problem, how, run)


def _description_step(topic: Storage, problem: Problem, missing: list[Problem]) -> _Step:
    """Write it again with its content or, if that is lost, from the directories."""
    known, count = description_of(topic), len(partition_numbers(topic))
    if known is not None:
        how = "its checksum confirms the original content, which is written again; the damaged file goes to quarantine/"
        return _step("restore", problem, how, lambda: _describe(topic, known))
    if missing or not count or _partitions_in_batches(topic) > count:
        how = f"the number of partitions is unknown; restore {FILE_NAME}, or the directories, from a backup"
        return _step("leave", problem, f"{how}, and repair again", None)
    new, told_id = Description.new(topic.path.rpartition("/")[2], count), _told_id(topic)
    if told_id is not None:
        new = replace(new, id=told_id)
    how = (
        f"it is written again as {new.name!r} with {count} partitions, the number of directories (if there were more, "
        "restore those first: keys go to partitions by their number) and "
        + ("the partitions' id" if told_id else "a new id, to which nothing stored refers")
        + "; its policies, if it had any, are lost: set them again with `seglog topics alter` (its options --kafka-...)"
        + "; what is left of the old file goes to quarantine/"
    )
    return _step("rebuild", problem, how, lambda: _describe(topic, new))


def _home_step(topic: Storage, problem: Problem) -> _Step:
    """Accept a partition in its present directory."""
    number = int(problem.path.rpartition("/")[2])
    how = (
        f"it is accepted as partition {number} with its records; if directories were exchanged, exchange them back "
        "instead: keys go to partitions by their number"
    )

    def accept() -> list[str]:
        known = description_of(topic)
        if known is not None:
            is_held = number == min(partition_numbers(topic))  # by the caller
            accept_home(Subdirectory(topic, str(number)), (known.id, number), is_held=is_held)
        return []

    return _step("accept", problem, how, accept)


def _told_id(topic: Storage) -> str | None:
    """Return the id of the topic in which all partitions were created, None if they disagree."""
    ids = {manifest.home[0] for manifest in manifests_of(topic).values() if manifest.home is not None}
    return ids.pop() if len(ids) == 1 else None


def _partitions_in_batches(topic: Storage) -> int:
    """Return the number of partitions that unfinished batches imply."""
    try:
        return max((max(batch.staged, default=-1) + 1 for batch in unfinished(topic)), default=0)
    except CorruptLog:
        return 0  # reported separately


def _batch_step(topic: Storage, problem: Problem) -> _Step:
    name = f"{DIRECTORY}/{problem.path.rpartition('/')[2]}"
    mended = mended_batch(text_of(topic, name), problem.path)
    if mended is None:
        how = (
            f"restore it from a backup; or, to abandon the missing parts of that batch, move it from {DIRECTORY}/ to "
            f"{filename.QUARANTINE}/. Its files in the partitions' {filename.STAGING}/ are deleted after a day"
        )
        return _step("leave", problem, how, None)
    how = "its checksum confirms the original content, which is written again; the damaged file goes to quarantine/"
    return _step("restore", problem, how, lambda: _rewrite(topic, name, mended))


# --- the files of transactions ----------------------------------------------------------------------------------------


def _transactions(site: Site, *, dry_run: bool) -> TopicTold | None:
    """Restore damaged files, or quarantine them. The caller holds the directory's lock."""
    storage = site.transactions
    if storage is None:
        return None
    kept: list[str] = []
    try:
        steps = [_journal_step(site, storage, found) for found in surveys(site) if found.is_damaged]
        if not dry_run:
            kept = [kept for step in steps if step.run is not None for kept in step.run()]
    except SeglogError as error:
        return TopicTold(name=TRANSACTIONS, path=storage.path, error=error)
    lost = sum(step.records_lost for step in steps)
    report = RepairReport(actions=tuple(step.action for step in steps), records_lost=lost, quarantined=tuple(kept))
    return TopicTold(name=TRANSACTIONS, path=storage.path, repair=report)


def _journal_step(site: Site, storage: Storage, found: Survey) -> _Step:
    problem = problem_of(site, found)
    if found.is_restorable:
        how = (
            "its checksums confirm the original content, which is written again, and the next opening publishes what "
            "is missing; the damaged file goes to quarantine/. If its producer has sent the records again since, move "
            "the file to quarantine/ instead"
        )
        return _step("restore", problem, how, lambda: restore_journal(storage, found))
    how = (
        f"the file is moved to {filename.QUARANTINE}/, and nothing more of it is published; let its producer send "
        "again what the topics lack"
    )
    step = _step("quarantine", problem, how, lambda: quarantine_journal(storage, found.journal.name))
    return step._replace(records_lost=problem.records)


def _step(kind: str, problem: Problem, how: str, run: Callable[[], list[str]] | None) -> _Step:
    return _Step(RepairAction(kind=kind, path=problem.path, detail=problem.detail, outcome=how), run)


def _describe(topic: Storage, what: Description) -> list[str]:
    kept = keep(topic, FILE_NAME)
    description.write(topic, what)
    return kept


def _rewrite(topic: Storage, name: str, data: bytes) -> list[str]:
    kept = keep(topic, name)
    temporary = f"{DIRECTORY}/.tmp"
    file = topic.create(temporary, replace=True)
    file.pwrite(data, 0)
    must_sync(file.datasync)
    topic.rename(temporary, name)
    must_sync(lambda: topic.sync_directory(DIRECTORY))
    return kept
