"""Topics and records over HTTP: the same calls, answers and errors as without a server, over both transports."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig, Retention
from seglog.client.failures import error_of
from seglog.client.models import TopicInfo
from seglog.client.requests.call import Answer

ONCE = "seglog-once"


def own(record: Any) -> Any:
    """Return a record without the header in which the server notes the idempotency key."""
    return record._replace(headers=tuple(one for one in record.headers if one[0] != ONCE))


# --- topics -----------------------------------------------------------------------------------------------------------


def test_a_topic_is_made_shown_changed_and_deleted(client: seglog.Client, name: str) -> None:
    config = LogConfig(segment_bytes=4096, retention=Retention(bytes=100_000))
    topic = client.create_topic(name, partitions=3, config=config)
    assert topic.info().config == config
    assert (topic.info().partitions, topic.info().records) == (3, 0)
    assert name in [one.name for one in client.topics()]

    assert client.alter_topic(name, retention=Retention(age=3600.0)).retention == Retention(bytes=100_000, age=3600.0)
    assert topic.info().config.retention.age == 3600.0
    assert client.alter_topic(name, compression="zstd").config.compression == "zstd"
    assert client.alter_topic(name, segment_age=timedelta(hours=1)).config.segment_age == 3600
    assert client.alter_topic(name, segment_age=None).config == client.topic(name).info().config
    with pytest.raises(seglog.ConfigError, match="segment_age"):
        client.alter_topic(name, segment_age=0)
    with pytest.raises(seglog.ConfigError, match="compression"):
        client.alter_topic(name, compression="brotli")  # type: ignore[arg-type] # on purpose

    client.delete_topic(name)
    with pytest.raises(seglog.TopicNotFound):
        topic.info()


def test_refusals_are_the_errors_of_the_local_api(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    with pytest.raises(seglog.TopicExists):
        client.create_topic(name)
    with pytest.raises(seglog.OffsetOutOfRange) as refused:
        topic.read(0, 7)
    assert (refused.value.offset, refused.value.lowest_offset, refused.value.next_offset) == (7, 0, 0)
    with pytest.raises(seglog.TopicNotFound):
        client.topic("nowhere").append(b"v")
    with pytest.raises(seglog.InvalidArgument):
        topic.read(5, 0)
    with pytest.raises(seglog.GroupNotFound):
        client.group(name)
    with pytest.raises(seglog.OffsetConflict):
        topic.append(b"v", partition=0, expected_offset=3)


@pytest.mark.parametrize("bad", ["", "..", "a/b", "a?b", ".hidden", "x" * 201, "a b", "ü"])
def test_a_name_never_becomes_another_path(client: seglog.Client, bad: str) -> None:
    for call in (client.topic(bad).info, lambda: client.delete_topic(bad)):
        with pytest.raises(seglog.InvalidArgument):
            call()


@pytest.mark.parametrize("bad", ["", "..", ".hidden", "x" * 256, "a\n", "a\x9b", "\ud800"])
def test_a_name_that_no_group_can_have_is_refused(client: seglog.Client, bad: str) -> None:
    for call in (client.group, client.committed, client.delete_group):
        with pytest.raises(seglog.InvalidArgument, match="cannot be the name of a group"):
            call(bad)


@pytest.mark.parametrize("name", ["a/b", "a?b=c#d", "a b", "ü/..", "a%2Fb", "a+b", "x" * 255])
def test_a_group_may_have_any_other_name(client: seglog.Client, name: str) -> None:
    with pytest.raises(seglog.GroupNotFound) as caught:
        client.group(name)
    assert caught.value.group == name


@pytest.mark.parametrize("options", [{"value": "text"}, {"value": b"", "key": "k"}, {"value": b"", "timestamp": 1.5}])
def test_a_wrong_type_is_refused_before_it_is_sent(client: seglog.Client, options: Any) -> None:
    with pytest.raises(seglog.InvalidType):
        client.topic("never").append(**options)


# --- one record -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"value": b""},
        {"value": None},
        {"value": b"\x00\xff" * 1000, "key": b""},
        {"value": b"v", "key": b"\x00 &=?%\xff/\n", "timestamp": -5},
        {"value": b"v", "key": b"k" * 40_000},
        {"value": b"v", "headers": (("a", b"1"), ("a", b""), ("ü %", b"\x00&=:\xff"))},
        {"value": b"v", "headers": (("null", None), ("co:lon", b"x"), ("", b"y"))},
        {"value": None, "key": b"k", "headers": (("null", None),), "timestamp": 2**62},
        {"value": b"v" * 3_000_000},
    ],
)
def test_a_record_comes_back_as_it_was(client: seglog.Client, name: str, fields: dict[str, Any]) -> None:
    topic = client.create_topic(name, partitions=3)
    partition, offset = topic.append(**fields)

    record = topic.read(partition, offset)
    assert own(record)._asdict() == {
        "key": None,
        "headers": (),
        "timestamp": record.timestamp,
        **fields,
        "offset": offset,
    }
    assert list(topic.records(partition)) == [record]
    if fields.get("key") is not None:
        assert topic.with_key(fields["key"]) == [record]


def test_keys_go_where_a_local_topic_puts_them(client: seglog.Client, name: str, tmp_path: Any) -> None:
    topic = client.create_topic(name, partitions=5)
    keys = [b"key-%d" % number for number in range(30)]
    with seglog.Topic.create(tmp_path / "local", partitions=5) as local:
        assert [topic.append(b"v", key=key) for key in keys] == [local.append(b"v", key=key) for key in keys]


def test_the_same_once_is_stored_once_and_another_payload_is_refused(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, partitions=2)
    first = topic.append(b"v", once="payment 17")
    assert topic.append(b"v", once="payment 17") == first
    with pytest.raises(seglog.OnceConflict):
        topic.append(b"w", once="payment 17")
    assert topic.info().records == 1
    for bad in ("", " x", "ü", "x" * 201, "a\r\nb"):
        with pytest.raises(seglog.InvalidArgument):
            topic.append(b"v", once=bad)


def test_durable_is_durable_when_it_is_answered(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    topic.append(b"v", ack="durable")
    assert topic.bounds()[0] == (0, 1, 1)
    with pytest.raises(seglog.InvalidArgument):
        topic.append(b"v", ack="soon")  # type: ignore[arg-type] # it is what is tested


# --- streams ----------------------------------------------------------------------------------------------------------


def test_a_value_is_streamed_from_pieces_and_from_files(client: seglog.Client, name: str, tmp_path: Any) -> None:
    topic = client.create_topic(name)
    file = tmp_path / "large"
    file.write_bytes(b"skipped" + bytes(range(256)) * 20_000)
    with file.open("rb") as opened:
        opened.seek(7)
        sources = [[b"a", b"", b"b" * 100_000], (piece for piece in (b"x", b"y")), opened, io.BytesIO(b"")]
        places = [topic.append_stream(source, key=b"k", headers=[("h", b"1")]) for source in sources]
    values = [topic.read(*place).value for place in places]
    assert values == [b"a" + b"b" * 100_000, b"xy", bytes(range(256)) * 20_000, b""]
    assert own(topic.read(*places[2])).headers == (("h", b"1"),)


def test_a_stream_that_fails_or_is_too_long_leaves_nothing(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)

    def failing() -> Any:
        yield b"x" * 300_000
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        topic.append_stream(failing())
    with pytest.raises(seglog.StreamOverflow):
        topic.append_stream((b"x" * 1000 for _ in range(100)), limit=50_000)
    for wrong in (b"bytes", "text", 7, ["text"]):
        with pytest.raises(seglog.InvalidType):
            topic.append_stream(wrong)
    assert topic.info().records == 0
    assert topic.append(b"next") == (0, 0)


# --- batches and ranges -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_string(), pa.binary_view()])
def test_a_batch_is_dealt_out_and_comes_back_in_order(client: seglog.Client, name: str, kind: Any) -> None:
    topic = client.create_topic(name, partitions=4)
    rows = 5000
    keys = pa.array([b"k%d" % (number % 50) for number in range(rows)]).cast(kind)
    values = pa.array([b"%d" % number for number in range(rows)]).cast(kind)
    offsets = topic.append_batch(pa.table({"value": values, "key": keys}), batch_bytes=20_000)

    assert sum(map(len, offsets.values())) == rows
    seen: dict[bytes, list[int]] = {}
    for partition, expected in offsets.items():
        found = list(topic.records(partition))
        assert [record.offset for record in found] == list(expected)
        for record in found:
            seen.setdefault(record.key or b"", []).append(int(record.value or b""))
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert sorted(number for numbers in seen.values() for number in numbers) == list(range(rows))


def test_a_batch_with_the_same_once_is_stored_once(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, partitions=3)
    data = pa.table({"value": [b"%d" % number for number in range(1000)]})
    first = topic.append_batch(data, once="load 1", batch_bytes=1000)
    assert topic.append_batch(data, once="load 1", batch_bytes=1000) == first
    assert topic.info().records == 1000


def test_an_empty_batch_and_what_is_no_batch(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    assert topic.append_batch(pa.table({"value": pa.array([], pa.binary())})) == {}
    with pytest.raises(seglog.InvalidType):
        topic.append_batch([b"v"])  # type: ignore[arg-type] # it is what is tested
    with pytest.raises(seglog.InvalidArgument):
        topic.append_batch(pa.table({"other": [b"v"]}))


def test_a_range_is_read_in_pages(client: seglog.Client, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seglog.client.flows.PAGE_RECORDS", 100)
    topic = client.create_topic(name)
    topic.append_batch(pa.table({"value": [b"%d" % number for number in range(1050)]}))
    assert [int(record.value or b"") for record in topic.records(0)] == list(range(1050))
    assert topic.to_arrow(0, 5, 250)["offset"].to_pylist() == list(range(5, 250))
    assert [batch.num_rows for batch in topic.batches(0, 900)] == [100, 50]
    assert topic.to_arrow(0, 7, 7).num_rows == 0
    assert topic.to_arrow(0, 1000, 5000).num_rows == 50, "a stop beyond the end means the end"
    with pytest.raises(seglog.InvalidArgument):
        next(topic.records(3))


def test_truncate_offsets_by_time_and_expire(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    for at in range(10):
        topic.append(b"v", timestamp=at * 1000)
    assert topic.offset_at(4500) == {0: 5}
    assert topic.offset_at(10**8) == {0: None}
    assert topic.truncate(0, 6) == 6
    assert topic.bounds()[0].next_offset == 6
    assert topic.expire() == {0: {"segments": 0}}


def test_delete_before_and_more_partitions(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    topic.append_batch(pa.table({"value": [b"%d" % number for number in range(10)]}))
    assert topic.delete_before(0, 7) == 7
    assert [record.value for record in topic.records(0)] == [b"7", b"8", b"9"]
    with pytest.raises(seglog.OffsetOutOfRange):
        topic.delete_before(0, 11)
    with pytest.raises(seglog.InvalidType):
        topic.delete_before(0, "1")  # type: ignore[arg-type] # it is what is tested
    assert client.add_partitions(name, 3).partitions == 3
    assert topic.append(b"x", partition=2) == (2, 0)
    with pytest.raises(seglog.InvalidArgument, match="has 3 partitions"):
        client.add_partitions(name, 3)
    with pytest.raises(seglog.TopicNotFound):
        client.add_partitions(f"{name}x", 3)


def test_compact_keeps_the_latest_of_each_key(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, config=LogConfig(retention=Retention(compact=True)))
    for number in range(20):
        topic.append(b"%d" % number, key=b"k%d" % (number % 2))
    assert set(topic.compact()) == {0}
    assert [record.value for record in topic.records(0)] == [b"18", b"19"]
    with pytest.raises(seglog.OffsetCompacted) as refused:
        topic.read(0, 3)
    assert refused.value.next_offset == 18
    with pytest.raises(seglog.KeyRequired):
        topic.append(b"without")


# --- following --------------------------------------------------------------------------------------------------------


def test_fetch_reads_several_partitions_and_says_where_to_go_on(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, partitions=2)
    for number in range(6):
        topic.append(b"%d" % number, partition=number % 2)
    batches, following = client.fetch({name: {0: 1, 1: 0}})
    assert {(batch.topic, batch.partition): batch.batch["value"].to_pylist() for batch in batches} == {
        (name, 0): [b"2", b"4"],
        (name, 1): [b"1", b"3", b"5"],
    }
    assert following == {name: {0: 3, 1: 3}}
    assert client.fetch(following, wait=0.01) == ([], following)
    with pytest.raises(seglog.OffsetOutOfRange) as refused:
        client.fetch({name: {0: 3, 1: 9}})
    assert (refused.value.topic, refused.value.partition) == (name, 1)  # type: ignore[attr-defined] # from the server


def test_following_goes_on_with_what_is_appended(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, partitions=2)
    topic.append(b"early", partition=1)
    tail = topic.follow(start="earliest")
    assert next(tail).value == b"early"
    topic.append(b"late", partition=0)
    record = next(tail)
    assert (record.topic, record.partition, record.offset, record.value) == (name, 0, 0, b"late")
    assert next(topic.follow(1, 0)).value == b"early"
    for wrong in ("middle", 3):
        with pytest.raises(seglog.InvalidArgument):
            next(topic.follow(start=wrong))


def test_workers_share_the_records_of_every_partition(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, partitions=2)
    for partition in range(2):
        topic.append_batch(pa.table({"value": [b"v"] * 30}), partition=partition)
    for number in range(4):
        found = islice(topic.follow(start="earliest", share=(number, 4)), len(range(number, 30, 4)) * 2)
        assert sorted((one.partition, one.offset) for one in found) == [
            (partition, offset) for partition in range(2) for offset in range(number, 30, 4)
        ]
    with pytest.raises(seglog.InvalidArgument):
        next(topic.follow(share=(4, 4)))


def test_a_setting_of_a_newer_server_is_shown_and_hides_no_topic() -> None:
    newer = {"name": "orders", "id": "0" * 32, "partitions": 1, "records": 0, "bytes": 0}
    config = {**LogConfig(segment_bytes=2048).to_json(), "tint": 3}
    retention = {**Retention(age=60).to_json(), "colour": "red", "unkeyed": "archive"}
    info = TopicInfo.from_json({**newer, "config": config, "retention": retention})
    assert info.config == LogConfig(segment_bytes=2048, retention=Retention(age=60))
    assert info.unknown == {"tint": 3, "retention.colour": "red", "retention.unkeyed": "archive"}
    beyond = TopicInfo.from_json({**newer, "config": {**config, "segment_overflow_bytes": 2**32 - 1}, "retention": {}})
    assert (beyond.config, beyond.unknown["segment_overflow_bytes"]) == (LogConfig(), 2**32 - 1)
    with pytest.raises(seglog.ConfigError, match="open it with a newer version"):
        LogConfig.from_json({**config, "retention": retention})  # a log is not opened without them


def test_an_older_server_is_named_as_the_reason() -> None:
    problem = {"detail": "there is nothing at this path", "error": "HttpProblem"}
    error = error_of(Answer(404, {}, json.dumps(problem).encode()))
    assert isinstance(error, seglog.errors.InvalidArgument)
    assert "older than this client" in str(error)
    lacks = {"detail": "there is no field 'policies' here; there are name, partitions", "error": "InvalidArgument"}
    error = error_of(Answer(422, {}, json.dumps(lacks).encode()))
    assert str(error).endswith("name, partitions: the server is older than this client, and must be upgraded")


def test_a_topic_of_an_older_server_has_the_policies_of_its_retention() -> None:
    older = {"name": "orders", "id": "0" * 32, "partitions": 1, "records": 0, "bytes": 0, "config": {}}
    info = TopicInfo.from_json({**older, "retention": {"age": 60, "copies": 2}})
    assert (info.policies, info.retention, info.unknown) == (seglog.Policies(copies=2), Retention(age=60), {})
