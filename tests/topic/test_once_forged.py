"""Marks that lie: a record copied with its headers, a header that a caller made up, a log written without its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from xxhash import xxh64_intdigest

from seglog.errors import OnceConflict
from seglog.spark.write.task import StagingTask
from seglog.topic import Topic
from seglog.topic.idempotency.marks import HEADER, Share, digest_of, hash_of, mark_of
from tests.topic.contents import held, table

if TYPE_CHECKING:
    from pathlib import Path

KEEP = ("trace", b"1")
LIES = [b"1 0123456789abcdef order-1", b"3 0123456789abcdef order-1", b"1/4 0123456789abcdef order-1"]
LIES += [b"2 0123456789abcdef:0123456789abcdef order-1", b"999999999 0123456789abcdef order-1"]


def headers_in(topic: Topic) -> list[tuple[str, bytes | None]]:
    return [pair for n in range(topic.partitions) for record in topic.partition(n).scan() for pair in record.headers]


def copied_headers(root: Path) -> list[Any]:
    """Return the headers of a record that was appended with a key to another topic."""
    with Topic.create(root.with_name("source"), partitions=1) as orders:
        number, offset = orders.append(b"the order", key=b"k", headers=[KEEP], once="order-1")
        return [*orders.partition(number).read(offset).headers]


def batch_with(headers: list[Any], kind: Any) -> pa.Table:
    as_kind = headers if pa.types.is_map(kind) else [{"key": name, "value": value} for name, value in headers]
    return pa.table({"value": [b"1", b"2", b"3"], "headers": pa.array([None, as_kind, as_kind[::-1]], kind)})


PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
KINDS = [
    pa.list_(PAIR),
    pa.large_list(pa.struct([("value", pa.large_binary()), ("key", pa.large_string())])),
    pa.list_(pa.struct([("key", pa.dictionary(pa.int32(), pa.string())), ("value", pa.binary())])),
    pa.map_(pa.string(), pa.binary()),
]


def test_a_copied_record_loses_the_mark_and_keeps_its_other_headers(topic: Topic, root: Path) -> None:
    copied = copied_headers(root)
    topic.append(b"another value", headers=copied)
    topic.append_stream([b"another ", b"one"], headers=copied)
    topic.append_stream([b"v"], headers=copied, once="b", digest=xxh64_intdigest(b"v"))
    topic.append_batch(batch_with(copied, KINDS[0]))
    topic.append_batch(batch_with(copied, KINDS[0]), partition=1)
    assert sum(mark[0] == HEADER for mark in headers_in(topic)) == 1  # that of once="b"
    assert headers_in(topic).count(KEEP) == 7


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("once", [None, "mine"])
def test_a_batch_of_copied_rows_loses_the_marks_of_every_row(topic: Topic, kind: Any, once: str | None) -> None:
    lie = (HEADER, LIES[0])
    rows = pa.concat_tables([batch_with([lie, KEEP, lie], kind), batch_with([KEEP], kind)]).slice(1)
    topic.append_batch(rows, partition=0, once=once)
    found = [record.headers for record in topic.partition(0).scan()]
    assert [len(one) for one in found] == [1 + (once is not None), 1, 0, 1, 1]
    assert [pair for one in found for pair in one if pair[0] != HEADER] == [KEEP] * 4


def test_a_batch_keeps_a_header_whose_name_is_as_long_as_that_of_the_mark(topic: Topic) -> None:
    other = ("x" * len(HEADER), b"1")
    topic.append_batch(batch_with([other, (HEADER, LIES[0])], KINDS[0]), partition=0)
    assert headers_in(topic) == [other, other]


def test_the_first_append_with_a_key_is_stored_though_a_copied_record_names_the_key(topic: Topic, root: Path) -> None:
    copied = copied_headers(root)
    for number in range(topic.partitions):
        topic.partition(number).append(b"another value", headers=copied)  # without the topic, which would strip them
    topic.close()
    with Topic.open(root) as again:
        place = again.append(b"the order", key=b"k", once="order-1")
        assert again.partition(place[0]).read(place[1]).value == b"the order"
        assert again.append(b"the order", key=b"k", once="order-1") == place
    with Topic.open(root) as again:
        assert again.append(b"the order", key=b"k", once="order-1") == place


@pytest.mark.parametrize("lie", LIES)
def test_a_mark_that_was_made_up_refuses_nobody_s_key(topic: Topic, root: Path, lie: bytes) -> None:
    for number in range(topic.partitions):
        for _ in range(2):
            topic.partition(number).append(b"x", headers=[(HEADER, lie)])
    topic.close()
    with Topic.open(root) as again:
        offsets = again.append_batch(table(30), once="order-1")
        assert sum(len(one) for one in offsets.values()) == 30
        assert again.append_batch(table(30), once="order-1") == offsets
        with pytest.raises(OnceConflict):
            again.append(b"v", once="order-1")


def test_a_true_mark_counts_though_a_lie_about_its_key_came_later(topic: Topic, root: Path) -> None:
    place = topic.append(b"v", key=b"k", once="order-1")
    copied = topic.partition(place[0]).read(place[1]).headers
    topic.partition(place[0]).append(b"another", headers=copied)
    topic.close()
    with Topic.open(root) as again:
        assert again.append(b"v", key=b"k", once="order-1") == place
        with pytest.raises(OnceConflict):
            again.append(b"w", key=b"k", once="order-1")


def test_a_batch_over_several_partitions_refuses_another_payload_after_reopening(topic: Topic, root: Path) -> None:
    offsets = topic.append_batch(table(30), once="a")
    assert len(offsets) == topic.partitions
    topic.close()
    with Topic.open(root) as again:
        stored = held(again)
        with pytest.raises(OnceConflict):
            again.append_batch(table(30, tag="w"), once="a")
        assert again.append_batch(table(30), once="a") == offsets
        assert held(again) == stored


def test_a_batch_that_an_earlier_version_marked_without_its_own_digest_is_stored_once(topic: Topic, root: Path) -> None:
    rows = pa.table({"key": [b"a", b"b", b"c", b"d"], "value": [b"1", b"2", b"3", b"4"]})
    offsets = topic.append_batch(rows, once="order-1")
    old = Topic.create(root.with_name("old"), partitions=topic.partitions)
    for number, span in offsets.items():
        for record in topic.partition(number).scan(span.start, span.stop):
            headers = [(name, b" ".join([*_without_own(value or b"")])) for name, value in record.headers]
            old.partition(number).append(record.value, key=record.key, timestamp=record.timestamp, headers=headers)
    old.close()
    with Topic.open(old.path) as again:
        stored = held(again)
        assert again.append_batch(rows, once="order-1") == offsets
        assert held(again) == stored


def _without_own(mark: bytes) -> list[bytes]:
    rows, digest, key = mark.split(b" ")
    assert b":" in digest
    return [rows, digest.partition(b":")[0], key]


def test_a_retry_with_other_headers_or_another_time_gets_the_first_answer(topic: Topic, root: Path) -> None:
    place = topic.append(b"v", key=b"k", headers=[("trace", b"1")], timestamp=1, once="a")
    assert topic.append(b"v", key=b"k", headers=[("trace", b"2")], timestamp=2, once="a") == place
    topic.close()
    with Topic.open(root) as again:
        assert again.append(b"v", key=b"k", once="a") == place
        assert again.partition(place[0]).read(place[1]).headers[1:] == (("trace", b"1"),)


def test_a_mark_whose_records_a_compaction_took_refuses_nobody(root: Path) -> None:
    mark = mark_of("a", Share(0, 0, 2, digest_of(hash_of(b"k"), hash_of(b"v"))))
    with Topic.create(root, partitions=1) as topic:
        topic.partition(0).append(b"v", key=b"k", headers=[(HEADER, mark)])
    with Topic.open(root) as again:
        assert again.append(b"other", once="a") == (0, 1)


def test_rows_that_spark_copies_lose_the_marks(topic: Topic, root: Path) -> None:
    task = StagingTask(str(root), None, "copy-0")
    for batch in batch_with([(HEADER, LIES[0]), KEEP], KINDS[0]).to_batches():
        task.take(batch)
    (staged,) = task.finish().values()
    topic.publish(staged, query="copy", batch=0)
    assert headers_in(topic) == [KEEP, KEEP]
