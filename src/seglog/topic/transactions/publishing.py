"""A decided transaction becomes records and committed offsets: completely, once, in as many attempts as it takes.

Each batch is appended with its idempotency key, so a repetition in the same process stores nothing twice. After a crash
the keys are looked up in what was appended since the decision, however long that is, and a batch of which only a part
was appended is continued; a group's offset is left alone if the group has committed for that partition since, other
than by a transaction that was decided before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from seglog.errors import KeyRequired, SeglogError, TopicNotFound
from seglog.topic.groups.records import OffsetRecord, decided_at, decode
from seglog.topic.idempotency.marks import Share, read_mark
from seglog.topic.idempotency.memory import verify
from seglog.topic.layout.places import Partition
from seglog.topic.transactions.journal import Decision, Journal

if TYPE_CHECKING:
    from seglog.log.log import Log
    from seglog.topic.groups import Groups
    from seglog.topic.topic import Topic

Appended = Callable[[Partition, int], object]
"""Called when a batch is in its log: with its place and how many records it has."""


def decision_of(journal: Journal, open_topic: Callable[[str], Topic], groups: Log, at: int) -> Decision:
    """Return the decision to commit now.

    Raises KeyRequired if a topic was switched to compaction by key since records without a key were staged for it.
    """
    starts = {}
    keyless = {batch.place for batch in journal.batches if batch.keyless}
    for place, log in _logs(journal, open_topic):
        if place in keyless and log.config.retention.needs_keys:
            raise KeyRequired(what=f"a record that was staged for partition {place[1]} of {place[0]!r}")
        starts[place] = (log.next_offset, log.epoch)
    return Decision(at, starts, groups.next_offset, term_of(groups))


def term_of(groups: Log) -> int:
    """Return the term in which a directory of topics is led."""
    return groups.view().manifest.role.term


def publish(
    journal: Journal,
    open_topic: Callable[[str], Topic],
    groups: Groups,
    appended: Appended = lambda _place, _rows: None,
) -> None:
    """Append the records of a decided transaction, commit its offsets, and make both durable. Repeatable.

    Topics that were deleted since the records were staged get none. Raises the errors of appending: what is missing is
    added by the next call.
    """
    assert journal.decision is not None  # noqa: S101 - the caller has decided it
    written: dict[Partition, Log] = {}
    before = journal.published
    try:
        _append(journal, journal.decision, open_topic, appended, written)
    except SeglogError:
        if journal.published > before:
            with suppress(SeglogError):
                for log in written.values():
                    log.sync()
                journal.note_appended()
        raise
    for _, log in _logs(journal, open_topic):
        log.sync()
    _commit(journal, journal.decision, groups)


def _append(
    journal: Journal,
    decision: Decision,
    open_topic: Callable[[str], Topic],
    appended: Appended,
    written: dict[Partition, Log],
) -> None:
    """Append what is missing, and note its logs in `written`."""
    known: dict[Partition, dict[str, Share]] = {}
    for batch in journal.batches[journal.published :]:
        topic = _same(open_topic, batch.topic, batch.topic_id)
        if topic is not None:
            log = written[batch.place] = topic.partition(batch.partition)
            if journal.inherited and batch.place not in known:
                known[batch.place] = stored_since(log, batch.partition, decision.starts[batch.place])
            share = known.get(batch.place, {}).get(batch.once)
            if share is None:
                rows, once = journal.records(batch), batch.once
                topic.append_batch(rows, partition=batch.partition, once=once, force_timestamp=True)
            elif not verify(log, share).verified:
                topic._complete_batch(journal.records(batch), share, batch.once)
            log.flush()
            appended(batch.place, batch.rows)
        journal.published += 1


def _logs(journal: Journal, open_topic: Callable[[str], Topic]) -> Iterator[tuple[Partition, Log]]:
    """Yield the partitions that have staged records, without those of topics that were deleted since."""
    for place, topic_id in {batch.place: batch.topic_id for batch in journal.batches}.items():
        topic = _same(open_topic, place[0], topic_id)
        if topic is not None:
            yield place, topic.partition(place[1])


def _same(open_topic: Callable[[str], Topic], name: str, topic_id: str) -> Topic | None:
    """Return a topic, None if it was deleted since."""
    try:
        topic = open_topic(name)
    except TopicNotFound:
        return None
    return topic if topic.id == topic_id else None


def stored_since(log: Log, partition: int, start: tuple[int, int]) -> dict[str, Share]:
    """Return the batches that were appended since a decision, by their keys; of one in pieces the last piece."""
    from seglog.topic.idempotency.tail_search import marks_since  # noqa: PLC0415 - imports pyarrow and numba when used

    offset, epoch = start
    cut = log.view().manifest.cuts.first_since(epoch)
    first = max(min(offset, log.next_offset, offset if cut is None else cut), log.lowest_offset)
    if first >= log.next_offset:
        return {}
    found = (read_mark(value, partition, at) for at, value in marks_since(log, first))
    return {one[0]: one[1] for one in found if one is not None}


def _commit(journal: Journal, decision: Decision, groups: Groups) -> None:
    if journal.committed or not journal.offsets:
        return
    since = _committed_since(groups.log, decision)
    merged: dict[tuple[str, Partition], OffsetRecord] = {}
    for group, offsets, logs, payer in journal.offsets.values():
        for place, (offset, text) in offsets.items():
            log, epoch = logs.get(place, (None, 0))
            merged[group, place] = OffsetRecord(group, place, offset, log, epoch, text, payer=payer)
    groups.commit_decided([entry for key, entry in merged.items() if key not in since], decision.at)
    groups.log.sync()
    journal.committed = True


def _committed_since(log: Log, decision: Decision) -> frozenset[tuple[str, Partition]]:
    """Return the groups' partitions whose last commit is not of this transaction or one that was decided before."""
    later: dict[tuple[str, Partition], bool] = {}
    for record in log.scan(max(min(decision.groups, log.next_offset), log.lowest_offset)):
        entry, at = decode(record.key, record.value), decided_at(record.headers)
        if isinstance(entry, OffsetRecord):
            later[entry.group, entry.partition] = at is None or at > decision.at
    return frozenset(key for key, is_later in later.items() if is_later)
