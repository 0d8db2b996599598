"""Keys and values as objects: serializers of topics, brokers and consumers, and what a bad one costs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seglog
from seglog.serializers import JSON, STRING, Serializer
from seglog.topic.partitioner import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEAVES = st.none() | st.booleans() | st.integers() | st.text()
BOTH: dict[str, Any] = {
    "key_serializer": STRING,
    "value_serializer": JSON,
    "key_deserializer": STRING,
    "value_deserializer": JSON,
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[seglog.Broker]:
    with seglog.Broker(tmp_path) as broker:
        broker.create_topic("orders", partitions=3)
        yield broker


def refuse(given: Any) -> Any:
    raise ZeroDivisionError("refused")


# --- what is stored, and what comes back ---------------------------------------------------------------------------


def test_a_topic_stores_the_serialized_bytes_and_returns_objects(tmp_path: Path) -> None:
    with seglog.Topic.create(tmp_path / "orders", partitions=4, **BOTH) as orders:
        number, offset = orders.append({"qty": 3, "at": "Zürich"}, key="order-19")
        stored = orders.partition(number).read(offset)
        assert (stored.key, stored.value) == (b"order-19", '{"at":"Zürich","qty":3}'.encode())
        assert number == orders.route("order-19") == partition_of(b"order-19", 4)
        read = orders.read(number, offset)
        assert (read.key, read.value, read.offset) == ("order-19", {"qty": 3, "at": "Zürich"}, offset)
        assert [record.value for record in orders.records(number)] == [{"qty": 3, "at": "Zürich"}]
        assert orders.append_stream([b'{"qty"', b":4}"], key="order-19") == (number, offset + 1)
        assert orders.read(number, offset + 1).value == {"qty": 4}
    with seglog.Topic.open(tmp_path / "orders", mode="r") as raw:
        assert raw.read(number, offset).value == stored.value
    with seglog.Topic.open(tmp_path / "orders", mode="r", value_deserializer=len) as counted:
        assert counted.read(number, offset).value == len(stored.value or b"")


def test_null_is_never_serialized(broker: seglog.Broker) -> None:
    calls: dict[str, Any] = dict.fromkeys(BOTH, refuse)
    orders = broker.topic("orders", **calls)
    number, offset = orders.append(None)
    assert orders.read(number, offset)[2:4] == (None, None)
    with broker.consumer("g", ["orders"], key_deserializer=refuse, value_deserializer=refuse) as consumer:
        assert [(record.key, record.value) for record in consumer.poll()] == [(None, None)]


def test_one_topic_has_objects_with_different_serializers(broker: seglog.Broker) -> None:
    raw, text = broker.topic("orders"), broker.topic("orders", value_serializer=STRING)
    assert text is not raw
    assert broker.topic("orders") is raw
    assert text.append("a", partition=0) == (0, 0)
    assert raw.append(b"b", partition=0) == (0, 1)
    assert text.with_serializers(value_deserializer=STRING).read(0, 1).value == "b"
    text.close()
    assert raw.closed
    assert broker.topic("orders").append(b"c", partition=0) == (0, 2)


def test_batches_logs_and_writers_keep_bytes(broker: seglog.Broker) -> None:
    orders = broker.topic("orders", **BOTH)
    orders.append({"a": 1}, partition=0)
    assert orders.partition(0).to_arrow().column("value").to_pylist() == [b'{"a":1}']
    with broker.consumer("g", ["orders"], value_deserializer=refuse) as consumer:
        assert consumer.poll_batches()[0].batch.column("value").to_pylist() == [b'{"a":1}']


@settings(max_examples=100)
@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_returns_what_it_was_given(value: Any) -> None:
    try:
        data = JSON.serialize(value)
    except UnicodeEncodeError:  # a lone surrogate is no text
        return
    assert JSON.deserialize(data) == value


def test_equal_objects_are_equal_keys() -> None:
    assert JSON.serialize({"a": 1, "b": 2}) == JSON.serialize({"b": 2, "a": 1}) == b'{"a":1,"b":2}'
    for unequal_to_itself in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            JSON.serialize(unequal_to_itself)
    assert repr((JSON, STRING)) == "(JSON, STRING)"
    assert isinstance(JSON, Serializer)


# --- what a serializer may do wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("serializer", "said"),
    [
        (refuse, "ZeroDivisionError: refused"),
        (lambda value: "text", "returned str, not bytes"),
        (lambda value: None, "returned NoneType, not bytes"),
        (STRING, "must be str, not int"),
    ],
)
@pytest.mark.parametrize("field", ["key", "value"])
def test_a_serializer_that_fails_stores_nothing(broker: seglog.Broker, serializer: Any, said: str, field: str) -> None:
    orders = broker.topic("orders", **{f"{field}_serializer": serializer})
    record: dict[str, Any] = {"value": b"v", "key": b"k", field: 5}
    with pytest.raises(seglog.SerializationError, match=said) as caught:
        orders.append(record["value"], key=record["key"], partition=1, once="a")
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 1, None)
    assert (caught.value.field, caught.value.record) == (field, None)
    assert all(len(orders.partition(number)) == 0 for number in range(3))
    broker.topic("orders").append(b"v", key=b"k", once="a", partition=1)


def test_other_kinds_of_bytes_become_bytes(broker: seglog.Broker) -> None:
    orders = broker.topic("orders", value_serializer=bytearray, key_serializer=memoryview)
    number, offset = orders.append([1, 2], key=b"k")
    assert broker.topic("orders").read(number, offset)[2:4] == (b"k", b"\1\2")


@pytest.mark.parametrize("wrong", [5, "JSON", b"", object(), [JSON]])
@pytest.mark.parametrize("name", BOTH)
def test_what_is_no_serializer_is_refused_before_anything_happens(tmp_path: Path, name: str, wrong: Any) -> None:
    options: dict[str, Any] = {name: wrong}
    with pytest.raises(seglog.InvalidType, match=name):
        seglog.Topic.create(tmp_path / "orders", partitions=1, **options)
    assert not (tmp_path / "orders").exists()


def test_a_record_that_cannot_be_deserialized_is_seen_raw_and_skipped(broker: seglog.Broker) -> None:
    raw = broker.topic("orders")
    for value in (b'{"n":0}', b'{"n":1}', b"bad", b'{"n":3}', b"\xff", b'{"n":5}'):
        raw.append(value, partition=1)
    raw.append(b'{"n":6}', partition=2)
    with broker.consumer("g", ["orders"], value_deserializer=JSON) as consumer:
        seen: list[int] = []
        bad: list[bytes] = []
        for _ in range(20):
            try:
                records = consumer.poll()
            except seglog.SerializationError as error:
                consumer.commit()
                assert broker.groups.committed("g")["orders"].get(1, 0) == error.offset, "never beyond a bad record"
                assert (error.topic, error.partition, error.field) == ("orders", 1, "value")
                bad.append(error.record.value)
                consumer.seek(error.topic, error.partition or 0, (error.offset or 0) + 1)
            else:
                seen += [record.value["n"] for record in records]
        assert sorted(seen) == [0, 1, 3, 5, 6]
        assert [n for n in seen if n != 6] == [0, 1, 3, 5]
        assert bad == [b"bad", b"\xff"]
    orders = broker.topic("orders", value_deserializer=JSON)
    with pytest.raises(seglog.SerializationError, match="offset 2 in partition 1 of topic 'orders'"):
        orders.read(1, 2)
    with pytest.raises(seglog.SerializationError) as caught:
        list(orders.records(1))
    assert [record.value["n"] for record in orders.records(1, (caught.value.offset or 0) + 1, 4)] == [3]


def test_a_busy_partition_does_not_hide_a_bad_record_of_another_one(broker: seglog.Broker) -> None:
    raw = broker.topic("orders")
    raw.append(b"bad", partition=1)
    with (
        broker.consumer("g", ["orders"], value_deserializer=JSON) as consumer,
        pytest.raises(seglog.SerializationError),
    ):
        for _ in range(5):
            raw.append(b"0", partition=0)
            raw.append(b"2", partition=2)
            consumer.poll()


def test_an_interrupted_deserializer_loses_no_record(broker: seglog.Broker) -> None:
    raw = broker.topic("orders")
    for number in range(10):
        raw.append(b"%d" % number, partition=number % 3)
    interrupted = []

    def load(data: bytes) -> Any:
        if data == b"5" and not interrupted:
            interrupted.append(data)
            raise KeyboardInterrupt
        return json.loads(data)

    with broker.consumer("g", ["orders"], value_deserializer=load) as consumer:
        with pytest.raises(KeyboardInterrupt):
            consumer.poll()
        consumer.commit()
        assert not any(broker.groups.committed("g").get("orders", {}).values())
        assert sorted(record.value for record in consumer.poll()) == list(range(10))


def test_a_truncate_is_noticed_after_a_bad_record_was_given_back(broker: seglog.Broker) -> None:
    raw = broker.topic("orders")
    for value in (b"0", b"1", b"bad"):
        raw.append(value, partition=0)
    with broker.consumer("g", ["orders"], value_deserializer=JSON) as consumer:
        assert [record.value for record in consumer.poll()] == [0, 1]
        raw.partition(0).truncate(1)
        raw.append(b"9", partition=0)
        raw.append(b"9", partition=0)
        with pytest.raises(seglog.LogTruncated):
            consumer.poll()
