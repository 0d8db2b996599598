"""The audit by key, in this process: exact whatever the memory, of one moment, and loud about damage."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seglog
from seglog.errors import CorruptLog, CorruptRecord, InvalidArgument, InvalidType, LogClosed, LogNotFound, NotALog
from seglog.topic import Topic
from seglog.topic.audit import CONSUMER, MEMORY_BYTES, GroupFigures, KeyAudit, audit_keys
from seglog.topic.audit.key_rounds import SHARES, KeySweep
from seglog.topic.delivered import delivered_from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

Row = tuple[Any, ...]
SMALL = seglog.LogConfig(segment_bytes=2048)
KEYED = seglog.LogConfig(segment_bytes=512, open_segments_max=1, retention=seglog.Retention(compact=True))


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """Key, appended, tombstone, group, delivered, undelivered: a tuple a row."""
    return [tuple(list(row.values())[2:]) for batch in batches for row in batch.to_pylist()]


def by_dict(log: seglog.Log, cuts: Mapping[str, int]) -> tuple[dict[str, int], list[GroupFigures], list[Row]]:
    """The figures of a log, those of its groups, and the rows of its keys, from one dict a question."""
    records = list(log.scan())
    latest = {record.key: record for record in records if record.key is not None}
    got = {
        group: {record.key: record.offset for record in records if record.offset < cut} for group, cut in cuts.items()
    }
    rows = [
        (key, latest[key].offset, latest[key].value is None, group, got[group].get(key), latest[key].offset >= cut)
        for key in sorted(latest)
        for group, cut in sorted(cuts.items())
    ]
    figures = {
        "records": len(records),
        "tombstones": sum(record.value is None for record in records),
        "keys": len(latest),
        "live_keys": sum(record.value is not None for record in latest.values()),
    }
    groups = [
        GroupFigures(
            group=group,
            delivered=cut,
            undelivered_records=sum(record.offset >= cut for record in records),
            undelivered_keys=sum(row[3] == group and row[5] for row in rows),
        )
        for group, cut in sorted(cuts.items())
    ]
    return figures, groups, rows


def check(found: KeyAudit, log: seglog.Log, cuts: Mapping[str, int]) -> None:
    """The audit of one log says what dicts say."""
    figures, groups, rows = by_dict(log, cuts)
    (told,) = found.logs
    assert {name: getattr(told, name) for name in figures} == figures
    assert list(told.groups) == groups
    assert (told.start, told.next_offset) == (log.lowest_offset, log.next_offset)
    assert rows_of(found.keys()) == rows
    for group in cuts:
        assert rows_of(found.undelivered(group)) == [row for row in rows if row[3] == group and row[5]]
    assert found.ok == (not any(row[5] for row in rows))


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A log of 500 records of 20 keys, and of none, in many segments."""
    draw = random.Random(3)
    with seglog.open(tmp_path / "orders", SMALL) as log:
        for number in range(500):
            key = draw.choice([None, *(b"%d" % one for one in range(20))])
            log.append(None if draw.random() < 0.3 else b"value %d" % number, key=key)
    return tmp_path / "orders"


def test_22_for_each_key_and_group_the_last_appended_and_the_last_delivered_offset(
    shop_at: Callable[[Any], Any], tmp_path: Path
) -> None:
    shop = shop_at(tmp_path / "orders")
    with shop.open() as log:
        shop.put(log, "a b c a | c- d d | b")
        log.compact()
        assert shop.content(log) == "b@1 a@3 c∅@4 d@6 b@7"
    groups = {"billing": {"orders": {0: 6}}, "search": {"orders": {0: 8}}, "new": {}}
    with audit_keys(tmp_path / "orders", delivered=groups) as found:
        (told,) = found.logs
        assert (told.records, told.tombstones, told.keys, told.live_keys) == (5, 1, 4, 3)
        assert {group.group: group.undelivered_keys for group in told.groups} == {"billing": 2, "new": 4, "search": 0}
        assert rows_of(found.undelivered("billing")) == [
            (b"b", 7, False, "billing", 1, True),
            (b"d", 6, False, "billing", None, True),
        ]
        assert [row for row in rows_of(found.keys()) if row[0] == b"c"] == [
            (b"c", 4, True, "billing", 4, False),
            (b"c", 4, True, "new", None, True),
            (b"c", 4, True, "search", 4, False),
        ]
        assert rows_of(found.undelivered("search")) == []
        assert not found.ok


KEYS = st.none() | st.sampled_from([b"", b"a", b"b", b"\0", b"\xff\xff", b"a longer key than the others", b"aa"])
APPENDED = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=60)), max_size=80)
CUTS = st.dictionaries(st.sampled_from(["one", "two", "three"]), st.integers(0, 90), max_size=3)


@settings(max_examples=60)
@given(appended=APPENDED, compacted=st.booleans(), cuts=CUTS, memory_bytes=st.sampled_from([1, 3000, MEMORY_BYTES]))
def test_it_says_what_a_dict_says(
    appended: list[tuple[bytes | None, bytes | None]], compacted: bool, cuts: dict[str, int], memory_bytes: int
) -> None:
    with seglog.open(seglog.MemoryStorage(), KEYED if compacted else SMALL) as log:
        for key, value in appended:
            if key is not None or not compacted:
                log.append(value, key=key)
        if compacted:
            log.compact()
        name = log.path.rpartition("/")[2]
        delivered = {group: {name: {0: cut}} for group, cut in cuts.items()}
        with audit_keys(log, delivered=delivered or None, memory_bytes=memory_bytes) as found:
            if cuts:
                check(found, log, cuts)
            else:
                figures, _, _ = by_dict(log, {})
                assert {figure: getattr(found.logs[0], figure) for figure in figures} == figures
                rows = rows_of(found.keys())
                assert len(rows) == figures["keys"]
                assert {row[3:] for row in rows} <= {(None, None, False)}
                assert found.ok


def test_keys_that_do_not_fit_the_memory_are_gone_over_in_rounds(orders: Path) -> None:
    cuts = {"early": 100, "late": 490}
    delivered = {group: {"orders": {0: cut}} for group, cut in cuts.items()}
    with seglog.open(orders, mode="r") as log:
        ranges = [found.rows for found in KeySweep(log, 4000).rounds(np.array([100, 490]))]
        assert len(ranges) > 2
        assert sum(len(rows.keys) for rows in ranges) == 20
        assert all(rows.nbytes <= 4000 // SHARES for rows in ranges)
        for memory_bytes in (1, 4000, MEMORY_BYTES):
            with audit_keys(orders, delivered=delivered, memory_bytes=memory_bytes) as found:
                check(found, log, cuts)


def test_memory_stays_within_its_bound(tmp_path: Path) -> None:
    draw = random.Random(4)
    with seglog.open(tmp_path / "orders") as log:
        keys = [b"%016d" % draw.randrange(60_000) for _ in range(100_000)]
        log.append_batch(pa.table({"key": keys, "value": pa.array([b"v"] * len(keys), pa.binary())}))

    def peak(memory_bytes: int) -> int:
        usual = pa.default_memory_pool()
        counted = pa.proxy_memory_pool(usual)
        pa.set_memory_pool(counted)
        try:
            with audit_keys(tmp_path / "orders", memory_bytes=memory_bytes) as found:
                assert found.logs[0].keys == len(set(keys))
        finally:
            pa.set_memory_pool(usual)
        return int(counted.max_memory())

    assert peak(4 * 1024 * 1024) <= 4 * 1024 * 1024 < peak(MEMORY_BYTES)


def test_the_figures_and_the_rows_are_of_one_moment(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "orders", KEYED) as log:
        for number in range(100):
            log.append(b"value %d" % number, key=b"%d" % (number % 7))
        groups = {"g": {"orders": {0: 50}}}
        with audit_keys(log, delivered=groups) as of_writer, audit_keys(log.path, delivered=groups) as of_reader:
            _, _, rows = by_dict(log, {"g": 50})
            for number in range(100):
                log.append(None, key=b"%d" % number)
            assert log.compact().superseded > 0
            log.expire()
            assert len(list((tmp_path / "orders" / "readers").iterdir())) == 1
            for found in (of_writer, of_reader):
                assert found.logs[0].records == 100
                assert rows_of(found.keys()) == rows
        assert list((tmp_path / "orders" / "readers").iterdir()) == []
        with audit_keys(log, delivered=groups) as later:
            check(later, log, {"g": 50})
        log.append(b"the log is still open", key=b"k")


def test_a_closed_audit_keeps_its_figures_alone(orders: Path) -> None:
    found = audit_keys(orders, delivered={"orders": {0: 10}})
    found.close()
    found.close()
    assert found.total("keys") == 20
    for rows in (found.keys, lambda: found.undelivered(CONSUMER)):
        with pytest.raises(LogClosed, match="the audit is closed"):
            rows()


def test_a_topic_and_a_directory_of_topics_are_audited_partition_by_partition(tmp_path: Path) -> None:
    for name, partitions in (("orders", 3), ("bills", 1)):
        with Topic.create(tmp_path / f"directory of {name}", partitions=partitions, name=name) as topic:
            for number in range(60):
                topic.append(b"v", key=b"%d" % (number % 15))
    groups = {"g": {"orders": {0: 10**6, 1: 10**6, 2: 10**6}, "bills": {0: 59}}}
    with audit_keys(tmp_path, delivered=groups) as found:
        places = [(log.topic, log.partition) for log in found.logs]
        assert places == [("bills", 0), ("orders", 0), ("orders", 1), ("orders", 2)]
        assert [log.undelivered_keys for log in found.logs] == [1, 0, 0, 0]
        assert found.total("keys") == 30
        (row,) = [row for batch in found.undelivered("g") for row in batch.to_pylist()]
        assert (row["topic"], row["partition"], row["key"]) == ("bills", 0, b"14")
        assert (row["appended"], row["delivered"]) == (59, 44)
    with (
        Topic.open(tmp_path / "directory of orders", mode="r") as topic,
        audit_keys(topic, delivered={"orders": {}}) as found,
    ):
        assert found.groups == (CONSUMER,)
        assert found.total("undelivered_keys") == 15
        assert [log.path for log in found.logs] == [topic.partition(number).path for number in range(3)]


def test_damage_is_raised_and_never_passed_over(orders: Path) -> None:
    with seglog.open(orders, mode="r") as log:
        first, second = (orders / segment.name for segment in log.segments[1:3])
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    with pytest.raises(CorruptRecord) as caught:
        audit_keys(orders)
    assert caught.value.path == str(first)
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    second.unlink()
    with pytest.raises(CorruptLog, match=second.name):
        audit_keys(orders)
    assert list((orders / "readers").iterdir()) == [], "what was opened is closed again"


def test_a_manifest_that_had_to_be_rebuilt_is_told(orders: Path) -> None:
    (orders / "MANIFEST").unlink()
    with audit_keys(orders) as found:
        assert found.logs[0].records == 500
        assert [event.kind for event in found.recovery] == ["manifest"]


def test_what_was_delivered_may_name_groups_or_not() -> None:
    alone, grouped = {"orders": {0: 5}}, {"g": {"orders": {0: 5}}, "h": {}}
    assert delivered_from_json('{"orders": {"0": 5}}', "x") == alone
    assert delivered_from_json(json.dumps({"g": {"orders": {"0": 5}}, "h": {}}), "x") == grouped
    strange = ("", "[]", '{"g": 5}', '{"g": {"orders": 5}}', '{"g": {"orders": {"0": "5"}}}')
    for text in (*strange, '{"g": {"t": {"0": 1e999}}}', "[" * 100_000):
        with pytest.raises(InvalidArgument, match="x must be JSON such as"):
            delivered_from_json(text, "x")


def test_a_group_that_has_committed_nothing_keeps_its_name(orders: Path) -> None:
    for delivered, name in (({}, CONSUMER), ({"orders": {}}, CONSUMER), ({"g": {}}, "g")):
        with audit_keys(orders, delivered=delivered) as found:
            assert found.groups == (name,)
            assert found.total("undelivered_keys") == 20
            assert {row[4] for row in rows_of(found.undelivered(name))} == {None}


def test_what_cannot_be_is_one_clear_error(orders: Path, tmp_path: Path) -> None:
    wrong: list[tuple[Any, type[Exception], str]] = [
        ({"orders": {0: 1, 1: 1}}, InvalidArgument, "no partition 1 of topic 'orders'"),
        ({"g": {"bills": {0: 1}}}, InvalidArgument, "delivered to 'g': there is no partition 0 of topic 'bills'"),
        ({"orders": {0: -1}}, InvalidArgument, "-1 is not a valid offset of partition 0 of topic 'orders'"),
        ({"orders": {0: 10**22}}, InvalidArgument, "0 is not a valid offset of partition 0 of topic 'orders'"),
        ({"orders": {"0": 1}}, InvalidType, "a partition must be an int, not str"),
        ({"orders": {0: "1"}}, InvalidType, "an offset must be an int, not str"),
        ({"orders": 5}, InvalidType, "must be offsets by group"),
        (5, InvalidType, "must be offsets by group, topic and partition, or by topic and partition, not int"),
    ]
    for delivered, kind, message in wrong:
        with pytest.raises(kind, match=message):
            audit_keys(orders, delivered=delivered)
    for memory_bytes in (0, -1, True, 1.5):
        with pytest.raises(InvalidArgument, match="memory_bytes"):
            audit_keys(orders, memory_bytes=memory_bytes)  # type: ignore[arg-type] # the mistake
    with audit_keys(orders) as found, pytest.raises(InvalidArgument, match="this audit has no group 'g'"):
        found.undelivered("g")
    with pytest.raises(InvalidType, match="a path, a log or a topic, not int"):
        audit_keys(5)  # type: ignore[arg-type] # the mistake
    with pytest.raises(LogNotFound):
        audit_keys(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    for place in ("file", "empty"):
        with pytest.raises(NotALog):
            audit_keys(tmp_path / place)
    assert not list((orders / "readers").iterdir())


def test_an_audit_whose_log_is_truncated_between_two_rounds_starts_again(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"v", key=b"k")
        sweep = KeySweep(log, 1 << 20)
        sweep._check(3)
        sweep._check(3)
        with pytest.raises(seglog.LogTruncated, match="repeat the audit"):
            sweep._check(2)
