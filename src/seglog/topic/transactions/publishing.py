"""A decided transaction becomes records and committed offsets: completely, once, in as many attempts as it takes.

Each batch is appended with its idempotency key, so a repetition in the same process stores nothing twice. After a crash
the keys are looked up in what was appended since the decision, however long that is; and a group's offset is left alone
if the group has committed for that partition since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from seglog.errors import TopicNotFound
from seglog.topic.groups.records import OffsetRecord, decode
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
    """Return the decision to commit now."""
    starts = {}
    for place, topic_id in {batch.place: batch.topic_id for batch in journal.batches}.items():
        topic = _same(open_topic, place[0], topic_id)
        if topic is not None:
            log = topic.partition(place[1])
            starts[place] = (log.next_offset, log.epoch)
    return Decision(at, starts, groups.next_offset)


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
    known: dict[Partition, dict[str, Share]] = {}
    written: dict[Partition, Log] = {}
    for batch in journal.batches[journal.published :]:
        topic = _same(open_topic, batch.topic, batch.topic_id)
        if topic is not None:
            log = written[batch.place] = topic.partition(batch.partition)
            if journal.inherited and batch.place not in known:
                known[batch.place] = _stored(log, journal.decision.starts[batch.place])
            share = known.get(batch.place, {}).get(batch.once)
            if share is None or not verify(log, share).verified:
                topic.append_batch(journal.records(batch), partition=batch.partition, once=batch.once)
            log.flush()
            appended(batch.place, batch.rows)
        journal.published += 1
    for place, topic_id in {batch.place: batch.topic_id for batch in journal.batches}.items():
        topic = _same(open_topic, place[0], topic_id)
        if topic is not None:
            topic.partition(place[1]).sync()
    _commit(journal, journal.decision, groups)


def _same(open_topic: Callable[[str], Topic], name: str, topic_id: str) -> Topic | None:
    """Return a topic, None if it was deleted since."""
    try:
        topic = open_topic(name)
    except TopicNotFound:
        return None
    return topic if topic.id == topic_id else None


def _stored(log: Log, start: tuple[int, int]) -> dict[str, Share]:
    """Return the batches that were appended since a decision, by their keys."""
    from seglog.topic.idempotency.tail_search import marks_since  # noqa: PLC0415 - imports pyarrow and numba when used

    offset, epoch = start
    cut = log.view().manifest.cuts.first_since(epoch)
    first = max(min(offset, log.next_offset, offset if cut is None else cut), log.lowest_offset)
    if first >= log.next_offset:
        return {}
    found = (read_mark(value, 0, at) for at, value in marks_since(log, first))
    return {one[0]: one[1] for one in found if one is not None}


def _commit(journal: Journal, decision: Decision, groups: Groups) -> None:
    if journal.committed or not journal.offsets:
        return
    since = _committed_since(groups.log, decision.groups) if journal.inherited else frozenset()
    merged: dict[tuple[str, Partition], tuple[int, str]] = {}
    for group, offsets in journal.offsets:
        merged |= {(group, place): said for place, said in offsets.items()}
    for group in dict.fromkeys(group for group, _ in merged):
        left = {place: said for (of, place), said in merged.items() if of == group and (of, place) not in since}
        groups.commit_decided(group, left)
    groups.log.sync()
    journal.committed = True


def _committed_since(log: Log, start: int) -> frozenset[tuple[str, Partition]]:
    entries: Iterable[OffsetRecord] = (
        entry
        for record in log.scan(max(min(start, log.next_offset), log.lowest_offset))
        if isinstance(entry := decode(record.key, record.value), OffsetRecord)
    )
    return frozenset((entry.group, entry.partition) for entry in entries)
