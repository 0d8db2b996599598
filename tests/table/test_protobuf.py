"""Messages of Protobuf in a table: its recipe in docs/table.md, field by field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from seglog.record import EPOCH
from tests.table.conftest import Orders

TIMESTAMP = ".google.protobuf.Timestamp"


def visit_type() -> Any:
    """The class of a message with a field of each kind."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="visit.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    file.enum_type.add(name="Way").value.extend(
        descriptor_pb2.EnumValueDescriptorProto(name=name, number=number) for number, name in enumerate(("WEB", "APP"))
    )
    visit = file.message_type.add(name="Visit")
    entry = visit.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    seen = visit.nested_type.add(name="SeenEntry")
    seen.options.map_entry = True
    seen.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    seen.field.add(name="value", number=2, type=kinds.TYPE_MESSAGE, type_name=TIMESTAMP, label=kinds.LABEL_OPTIONAL)
    for number, (name, kind, of, label) in enumerate(
        [
            ("user_id", kinds.TYPE_INT64, None, kinds.LABEL_OPTIONAL),
            ("is_new", kinds.TYPE_BOOL, None, kinds.LABEL_OPTIONAL),
            ("raw", kinds.TYPE_BYTES, None, kinds.LABEL_OPTIONAL),
            ("way", kinds.TYPE_ENUM, ".shop.Way", kinds.LABEL_OPTIONAL),
            ("at", kinds.TYPE_MESSAGE, TIMESTAMP, kinds.LABEL_OPTIONAL),
            ("pages", kinds.TYPE_INT64, None, kinds.LABEL_REPEATED),
            ("counts", kinds.TYPE_MESSAGE, ".shop.Visit.CountsEntry", kinds.LABEL_REPEATED),
            ("referrer", kinds.TYPE_MESSAGE, ".shop.Visit", kinds.LABEL_OPTIONAL),
            ("seen", kinds.TYPE_MESSAGE, ".shop.Visit.SeenEntry", kinds.LABEL_REPEATED),
            ("times", kinds.TYPE_MESSAGE, TIMESTAMP, kinds.LABEL_REPEATED),
        ],
        1,
    ):
        visit.field.add(name=name, number=number, type=kind, type_name=of, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Visit"))


def test_a_message_of_protobuf_keeps_its_integers_and_its_defaults(orders: Orders) -> None:
    visit = visit_type()
    full = visit(user_id=2**53 + 1, is_new=True, raw=b"\x00\xff", way=1, pages=[1, 0], counts={"a": 0, "b.c": 2**40})
    full.at.FromJsonString("2026-01-02T03:04:05.678901999Z")
    full.referrer.user_id = 7
    orders.append(full.SerializeToString(), visit().SerializeToString(), visit(way=9).SerializeToString())
    report = orders.sync(schema="infer", values=visit.FromString)
    assert (report.unfit, report.left_out) == (0, {})
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert orders.rows("user_id", "is_new", "raw", "way", "at", "pages") == [
        (2**53 + 1, True, b"\x00\xff", "APP", at, [1, 0]),
        (0, False, b"", "WEB", None, []),
        (0, False, b"", "9", None, []),
    ]
    assert [dict(counts) for (counts,) in orders.rows("counts")] == [{"a": 0, "b.c": 2**40}, {}, {}]
    assert [row and row["user_id"] for (row,) in orders.rows("referrer")] == [7, None, None]


def test_an_invalid_timestamp_of_protobuf_leaves_the_other_fields_of_its_row(orders: Orders) -> None:
    visit = visit_type()
    far, year_10000, good = {"seconds": 10**15}, {"seconds": 253_402_300_800}, {"seconds": 1}
    nanos = {"nanos": 2 * 10**9}
    visits = [visit(user_id=number, at=at) for number, at in enumerate([far, nanos, year_10000, good, good, good])]
    visits[4].seen["a"].seconds = 1
    visits[4].seen["b"].seconds = 10**15
    visits[5].times.add(**good)
    visits[5].times.add(**nanos)
    visits.append(visit(user_id=6, referrer=visit(user_id=1, at=year_10000)))
    orders.append(*(one.SerializeToString() for one in visits))
    assert orders.sync(schema="infer", values=visit.FromString).unfit == 6
    second = EPOCH + timedelta(seconds=1)
    assert orders.rows("user_id", "at") == list(enumerate([None] * 3 + [second] * 3 + [None]))
    assert [seen for (seen,) in orders.rows("seen")] == [[], [], [], [], None, [], []]
    assert [times for (times,) in orders.rows("times")] == [[], [], [], [], [], None, []]
    assert orders.rows("referrer")[6][0]["user_id"] == 1
    reasons = [reason for (reason,) in orders.rows("unfit")]
    text = "is a Timestamp outside the years 1 to 9999, or with invalid nanos, which does not fit timestamp[us, tz=UTC]"
    assert reasons[:4] == [f"at {text}"] * 3 + [None]
    assert [(reason or "").split()[0] for reason in reasons[4:]] == ["seen.*", "times[]", "referrer.at"]
