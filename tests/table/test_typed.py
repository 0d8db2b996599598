"""Tables with typed columns, as other programs see them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from datetime import time as clock
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.types import LongType

import seglog
from seglog import Log, Topic
from seglog.cli import main
from seglog.errors import InvalidArgument
from seglog.record import EPOCH
from seglog.table import TableReport, TableSync, sync
from seglog.table.describe import describe
from seglog.table.merging import FEWEST
from seglog.table.schema_file import read_schema
from tests.conftest import Served
from tests.table.conftest import Shop, files


class Orders:
    """A log of JSON and its table."""

    def __init__(self, log: Log, place: Path, warehouse: Path) -> None:
        self.log, self.place, self.warehouse = log, place, warehouse
        self.catalog = None

    def append(self, *values: dict[str, Any] | bytes | None, key: bytes | None = None) -> None:
        for value in values:
            self.log.append(json.dumps(value).encode() if isinstance(value, dict) else value, key=key)
        self.log.sync()

    def sync(self, **options: Any) -> TableReport:
        return sync(self.place, self.warehouse, active=True, **options)[0]

    def table(self, name: str = "orders") -> Table:
        return SqlCatalog("seglog", uri=f"sqlite:///{self.warehouse}/catalog.db").load_table(f"seglog.{name}")

    def rows(self, *columns: str, name: str = "orders") -> list[tuple[Any, ...]]:
        found = self.table(name).scan(selected_fields=("offset", *columns)).to_arrow().sort_by("offset")
        return [tuple(row[one] for one in columns) for row in found.to_pylist()]

    def values(self) -> list[bytes | None]:
        return [row[0] for row in self.rows("value")]


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Orders]:
    with seglog.open(tmp_path / "orders") as log:
        yield Orders(log, tmp_path / "orders", tmp_path / "warehouse")


def test_fields_of_json_become_columns_and_values_stay(orders: Orders) -> None:
    values = [{"id": 1, "price": 1.5}, {"id": 2, "tags": ["a"]}, b"not JSON", None, {"id": "three"}, {"offset": 7}]
    orders.append(*values)
    report = orders.sync(schema="infer")
    assert (report.records, report.unfit) == (6, 2)
    assert orders.values() == [record.value for record in orders.log.scan()]
    assert orders.rows("id", "price", "tags", "value_offset", "unfit") == [
        (1, 1.5, None, None, None),
        (2, None, ["a"], None, None),
        (None, None, None, None, "it is not a JSON object"),
        (None, None, None, None, None),
        (None, None, None, None, "id is a text, which does not fit int64"),
        (None, None, None, 7, None),
    ]


def test_later_fields_become_columns_too_and_a_table_keeps_its_schema(orders: Orders) -> None:
    orders.append({"id": 1, "customer": {"name": "a"}})
    orders.sync(schema="infer")
    orders.append({"id": 2, "customer": {"name": "b", "age": 5}, "items": [{"n": 1}]})
    orders.sync()
    orders.append({"id": 3, "items": [{"n": 1, "m": "x"}]})
    assert orders.sync().unfit == 0
    assert orders.rows("id", "customer", "items") == [
        (1, {"name": "a", "age": None}, None),
        (2, {"name": "b", "age": 5}, [{"n": 1, "m": None}]),
        (3, None, [{"n": 1, "m": "x"}]),
    ]
    schemas = [one.schema_id for one in orders.table().snapshots()]
    assert len(set(schemas)) == 3
    assert next(describe(orders.warehouse)).typed == ["id", "customer", "items"]


def test_a_given_schema_reads_only_its_fields_and_may_grow_and_widen(orders: Orders) -> None:
    orders.append({"id": 1, "price": 1.5, "other": 1}, {"id": 3_000_000_000, "price": 2.5})
    orders.sync(schema=pa.schema([("id", pa.int32()), ("price", pa.float32())]))
    assert orders.rows("id", "price", "unfit")[1] == (None, 2.5, "id is an integer, which does not fit int32")
    orders.append({"id": 3_000_000_000, "price": 1e300, "note": "x"})
    wider = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("note", pa.large_string())])
    assert orders.sync(schema=wider).unfit == 0
    assert orders.rows("id", "price", "note")[2] == (3_000_000_000, 1e300, "x")
    orders.append({"id": 4, "other": 5})
    assert orders.sync(schema=pa.schema([("id", pa.int32())])).unfit == 0
    assert [field.name for field in orders.table().schema().fields[6:]] == ["unfit", "id", "price", "note"]
    with pytest.raises(InvalidArgument, match="id is int64, not string"):
        orders.sync(schema=pa.schema([("id", pa.string())]))


def test_a_function_decodes_values_and_is_asked_for_again(orders: Orders) -> None:
    def decode(value: bytes) -> dict[str, Any]:
        name, _, count = value.partition(b":")
        return {"name": name.decode(), "count": int(count)}

    orders.append(b"a:1", b"b:2", b"c")
    assert orders.sync(schema="infer", values=decode).unfit == 1
    assert orders.rows("name", "count") == [("a", 1), ("b", 2), (None, None)]
    orders.append(b"d:4")
    with pytest.raises(InvalidArgument, match="give it as values="):
        orders.sync()
    orders.sync(values=decode)
    assert orders.rows("name", "count")[3] == ("d", 4)


AVRO = fastavro.parse_schema(
    {
        "type": "record",
        "name": "order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
            {"name": "opens", "type": {"type": "int", "logicalType": "time-millis"}},
        ],
    }
)


def test_avro_keeps_decimals_and_a_field_that_no_column_can_have_is_named(
    orders: Orders, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        sink = io.BytesIO()
        price = Decimal(f"{10**number}.50")
        order = {"id": number, "day": date(2026, 1, 2), "price": price, "opens": clock(8, number)}
        fastavro.schemaless_writer(sink, AVRO, order)
        orders.append(sink.getvalue())
    report = orders.sync(schema="infer", values=lambda value: fastavro.schemaless_reader(io.BytesIO(value), AVRO))
    assert report.unfit == 0
    assert orders.rows("id", "day", "price") == [
        (number, date(2026, 1, 2), Decimal(f"{10**number}.50")) for number in range(3)
    ]
    assert report.left_out == {"opens": "no column can have its type"}
    assert "table orders: no column for opens: no column can have its type" in caplog.text


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


def test_a_time_that_its_zone_moves_out_of_the_years_does_not_fit(orders: Orders) -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.int64())])
    before_all = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    orders.append(b"any")
    assert orders.sync(schema=schema, values=lambda _value: {"at": before_all, "id": 1}).unfit == 1
    assert orders.rows("at", "id") == [(None, 1)]


def test_a_field_that_does_not_fit_leaves_the_others_of_its_row(orders: Orders) -> None:
    orders.append({"id": 1, "customer": {"name": "a", "age": 5}, "tags": ["x"], "lines": [{"n": 1, "m": 2}]})
    orders.append({"id": "b", "customer": {"name": "b", "age": "old"}, "tags": ["y", 7], "lines": [{"n": 3, "m": "z"}]})
    assert orders.sync(schema="infer").unfit == 1
    *fields, reason = orders.rows("id", "customer", "tags", "lines", "unfit")[1]
    assert fields == [None, {"name": "b", "age": None}, None, [{"n": 3, "m": None}]]
    assert reason == (
        "id is a text, which does not fit int64; customer.age is a text, which does not fit int64; "
        "tags[] is an integer, which does not fit string; lines[].m is a text, which does not fit int64"
    )


def test_an_object_of_many_keys_is_a_map(orders: Orders) -> None:
    orders.append({"id": 1, "stock": {f"item-{number}.x": number for number in range(1500)}})
    orders.append({"id": 2, "stock": {"other": 1.5}}, {"id": 3, "stock": {"bad": "text"}}, {"id": 4})
    report = orders.sync(schema="infer")
    assert (report.unfit, report.left_out) == (1, {})
    assert orders.rows("id", "stock") == [
        (1, [(f"item-{number}.x", number) for number in range(1500)]),
        (2, [("other", 1.5)]),
        (3, None),
        (4, None),
    ]
    orders.append({"id": 5, "stock": {"a.b": 7}, "more": "x"})
    assert orders.sync().unfit == 0
    assert orders.rows("id", "stock", "more")[4] == (5, [("a.b", 7)], "x")
    assert duckdb.execute(
        "SELECT stock['other'] FROM read_parquet(?) WHERE id = 2", [files(orders.warehouse, "orders")]
    )


def test_fields_in_a_map_without_a_column_are_named(orders: Orders) -> None:
    orders.append({"m": {f"k{number}": {"a": 1} for number in range(300)}, "l": [{"a": 1}]})
    assert orders.sync(schema="infer").left_out == {}
    other_case = "another field differs in upper and lower case only"
    orders.append({"m": {"q": {"A": 7}, "x.y": {"a": 8, "b.c": 9}}, "l": [{"A": 7}]})
    report = orders.sync()
    assert (report.unfit, report.left_out) == (
        0,
        {"m.*.A": other_case, "m.*.b.c": "no column can have its name", "l[].A": other_case},
    )
    assert orders.rows("m")[1] == ([("q", {"a": None}), ("x.y", {"a": 8})],)
    orders.append({"m": {"q": {f"z{number}": number for number in range(300)}}, "n": {"in": {"a": "x"}}})
    reason = "it has more than 200 fields now, and was no map when it got its column"
    assert orders.sync().left_out == {"m.*": reason}
    orders.append({"o": {f"z{number}": number if number % 2 else "x" for number in range(1500)}})
    assert orders.sync().left_out == {"o": "its fields (1,500) are too many for what is left of 1000 columns"}


def test_keys_that_differ_in_every_value_become_a_map_at_once(orders: Orders) -> None:
    orders.append(*({"id": number, "by": {f"k{number}": {"n": number}}} for number in range(400)))
    assert orders.sync(schema="infer").unfit == 0
    assert orders.rows("by") == [([(f"k{number}", {"n": number})],) for number in range(400)]


def test_fields_without_a_column_are_named(orders: Orders, caplog: pytest.LogCaptureFixture) -> None:
    odd = {"a.b": 1, "ID": 2, "deep": json.loads("[" * 40 + "1" + "]" * 40), "none": None}
    orders.append({"id": 1, **odd, **{f"f{number}": number for number in range(1500)}})
    report = orders.sync(schema="infer")
    assert len(orders.table().schema().fields) == 6 + 1 + 1000
    assert len(report.left_out) == 504
    assert {"a.b", "ID", "f1499"} < report.left_out.keys()
    assert "none" not in report.left_out
    assert "and 496 more: there are 1000 typed columns" in caplog.text
    assert json.loads(orders.values()[0] or b"") == {
        "id": 1,
        **odd,
        **{f"f{number}": number for number in range(1500)},
    }


def test_numbers_are_times_in_the_unit_that_the_schema_has(orders: Orders, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(
        '{"s": "timestamptz(s)", "ms": "timestamptz(ms)", "us": "timestamp(us)", "ns": "timestamptz(ns)", '
        '"c": {"at": ["timestamptz(ms)"]}, "none": "timestamptz"}'
    )
    number = 1_767_323_045_678_901_999
    times = {"s": number // 10**9, "ms": number // 10**6, "us": number // 1000, "ns": number}
    orders.append({**times, "c": {"at": [-1]}}, {"ms": -1, "ns": -1, "s": 0}, {"none": 5, "ms": 10**18, "s": 1})
    orders.append({"s": 1.5, "ms": "2026-01-02T03:04:05.678901999Z", "none": "2026-01-02T03:04:05.1234567891+01:00"})
    assert orders.sync(schema=read_schema(file)).unfit == 1
    whole = datetime(2026, 1, 2, 3, 4, 5, 0, UTC)
    before = datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)
    at = whole.replace(microsecond=678_901)
    first, second, third, fourth = orders.rows("s", "ms", "us", "ns", "c", "none", "unfit")
    assert first[:4] == (whole, whole.replace(microsecond=678_000), at.replace(tzinfo=None), at)
    assert first[4:] == ({"at": [before]}, None, None)
    assert second[:4] == (EPOCH, before, None, before.replace(microsecond=999_999))
    assert third[:2] == (EPOCH + timedelta(seconds=1), None)
    assert third[6] == (
        "ms is an integer, which does not fit timestamp[us, tz=UTC]; "
        "none is an integer, which does not fit timestamp[us, tz=UTC] without a unit"
    )
    assert fourth[:2] == (EPOCH + timedelta(seconds=1.5), at)
    assert fourth[5] == datetime(2026, 1, 2, 2, 4, 5, 123_456, UTC)
    orders.append(times)
    assert orders.sync().unfit == 0, "a table keeps the units"
    assert orders.rows("s", "ms", "us", "ns")[4] == first[:4]


def test_a_unit_of_a_table_is_for_times_only(orders: Orders) -> None:
    schema = pa.schema([("t", pa.timestamp("us", "UTC")), ("n", pa.int64())], {"seglog.units": '{"t": "ms"}'})
    orders.append({"t": 1000, "n": 1000})
    orders.sync(schema=schema)
    with orders.table().transaction() as change:
        change.set_properties({"seglog.units": '{"t": "ms", "n": "ms", "m": "s"}'})
    orders.append({"t": 1000, "n": 1000})
    orders.sync()
    assert orders.rows("t", "n") == [(EPOCH + timedelta(seconds=1), 1000)] * 2
    with orders.table().transaction() as change:
        change.set_properties({"seglog.units": "ms"})
    with pytest.raises(InvalidArgument, match=r"the table has seglog\.units"):
        orders.sync()


def test_a_decimal_with_too_many_digits_is_null_with_its_reason(orders: Orders) -> None:
    orders.append({"id": 1, "price": 1234567}, {"id": 2, "price": 123456})
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(8, 2))])
    assert orders.sync(schema=schema).unfit == 1
    reason = "price is an integer, which does not fit decimal128(8, 2)"
    assert orders.rows("id", "price", "unfit") == [(1, None, reason), (2, Decimal("123456.00"), None)]


def test_the_newest_values_are_typed_too(orders: Orders) -> None:
    for number in range(30):
        orders.append({"id": number}, key=b"k%d" % (number % 3))
        if number % 10 == 9:
            sync(orders.place, orders.warehouse, active=True, latest=True, schema="infer")
    orders.append({"id": 99, "note": "new"}, key=b"k0")
    sync(orders.place, orders.warehouse, active=True, latest=True)
    assert orders.rows("id", "note", name="orders_latest") == [(28, None), (29, None), (99, "new")]


def test_a_truncate_and_merged_files_keep_typed_columns(orders: Orders) -> None:
    for number in range(FEWEST):
        orders.append({"id": number, f"f{number}": number}, {"id": -number})
        report = orders.sync(schema="infer")
    assert report.merged > 0
    assert len(files(orders.warehouse, "orders")) == 1
    orders.log.truncate(2 * FEWEST - 1)
    orders.append({"id": 100})
    assert orders.sync().deleted == 1
    expected = [json.loads(record.value or b"") for record in orders.log.scan()]
    assert orders.rows("id", "f0", "f7") == [(one["id"], one.get("f0"), one.get("f7")) for one in expected]


def test_a_table_without_typed_columns_gets_them_for_new_rows(orders: Orders) -> None:
    orders.append({"id": 1})
    orders.sync()
    orders.append({"id": 2})
    orders.sync(schema="infer")
    assert orders.rows("id", "unfit") == [(None, None), (2, None)]
    assert len(orders.values()) == 2


def test_every_engine_sees_typed_columns_and_skips_files_by_them(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # polars warns that its own planner is not installed
    for round_ in range(4):
        orders.append(
            *({"id": 100 * round_ + number, "name": f"n{round_}", "c": {"x": round_}} for number in range(50))
        )
        orders.sync(schema="infer")
    table = orders.table()
    assert len(list(table.scan(row_filter="id >= 300").plan_files())) == 1
    assert len(list(table.scan(row_filter="name = 'n1'").plan_files())) == 1
    assert table.scan(row_filter="id >= 300").to_arrow().num_rows == 50
    assert polars.scan_iceberg(table).filter(polars.col("id") >= 300).select(polars.len()).collect().item() == 50
    paths = files(orders.warehouse, "orders")
    query = "SELECT count(*), sum(id), min(c.x) FROM read_parquet(?) WHERE id >= 300"
    assert duckdb.execute(query, [paths]).fetchall() == [(50, sum(range(300, 350)), 3)]
    for path in paths:  # pyiceberg writes no bounds of nested fields to manifests; their files have them
        group = pa.parquet.ParquetFile(path).metadata.row_group(0)
        found = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
        assert found["c.x"].statistics.has_min_max


def test_a_column_of_another_program_is_filled_from_then_on(orders: Orders) -> None:
    orders.append({"id": 1, "note": 5})
    orders.sync(schema=pa.schema([("id", pa.int64())]))
    with orders.table().update_schema() as update:
        update.add_column("note", LongType())
        update.rename_column("id", "number")
    orders.append({"number": 2, "note": 6})
    orders.sync()
    assert orders.rows("number", "note") == [(1, None), (2, 6)]
    orders.log.truncate(1)
    orders.sync()
    assert orders.rows("number", "note") == [(1, None)]


def test_wrong_schemas_are_refused(orders: Orders, tmp_path: Path) -> None:
    for schema, text in (
        (pa.schema([("a.b", pa.int64())]), "name of a column"),
        (pa.schema([("a", pa.duration("s"))]), "duration"),
        (pa.schema([("a", pa.map_(pa.int64(), pa.int64()))]), "JSON has not"),
        (pa.schema([("a", pa.timestamp("us", "UTC"))], {"seglog.units": '{"a": "h"}'}), "unit 'h'"),
        (pa.schema([("a", pa.int64())], {"seglog.units": '{"a": "ms"}'}), "unit for 'a', which is no timestamp"),
        (pa.schema([("a", pa.timestamp("us"))], {"seglog.units": '{"b": "ms"}'}), "unit for 'b'"),
        (pa.schema([("a", pa.list_(pa.timestamp("us")))], {"seglog.units": '{"a": "ms"}'}), "unit for 'a'"),
        *(
            (pa.schema([("a", pa.timestamp("us"))], {"seglog.units": units}), "no JSON object such as")
            for units in (b"ms", b"\xff", b"[1]", b'["ms"]', b'{"a": 1}', b'{"a": ["ms"]}')
        ),
        (pa.schema([("a", pa.struct([]))]), "a has no fields: name them"),
        (pa.schema([("a", pa.map_(pa.string(), pa.list_(pa.struct([]))))]), r"a\.\*\[\] has no fields"),
        ("guess", "give 'infer'"),
    ):
        with pytest.raises(InvalidArgument, match=text):
            orders.sync(schema=schema)
    with pytest.raises(InvalidArgument, match="values="):
        orders.sync(values="json")
    for content in ('{"t": {}}', '{"t": {"*": {}}}'):
        (tmp_path / "schema.json").write_text(content)
        with pytest.raises(InvalidArgument, match=r"t(\.\*)? has no fields"):
            orders.sync(schema=read_schema(tmp_path / "schema.json"))
    for content in ("[1]", "{", '{"a": "decimal(3, 5)"}', '{"a": "word"}', '{"a": ["int", "int"]}'):
        (tmp_path / "schema.json").write_text(content)
        with pytest.raises(InvalidArgument, match=r"schema\.json"):
            read_schema(tmp_path / "schema.json")


def test_the_command_takes_a_file_and_shows_what_does_not_fit(
    orders: Orders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"id": "long", "price": "decimal(10, 2)", "at": "timestamptz", "c": {"t": ["string"]}}')
    orders.append({"id": 1, "price": 1.25, "at": "2026-01-01T00:00:00Z", "c": {"t": ["x"]}}, {"id": 1.5})
    assert main(["table", "sync", str(orders.place), str(orders.warehouse), "--all", "--schema", str(file)]) == 0
    assert "2 records added in 1 file" in (said := capsys.readouterr().out)
    assert "1 value unfit" in said
    assert main(["table", "info", str(orders.warehouse)]) == 0
    assert "4 typed columns (1 value unfit)" in capsys.readouterr().out
    pa.parquet.write_table(pa.table({"id": [1]}), tmp_path / "schema.parquet")
    assert read_schema(tmp_path / "schema.parquet").field("id").type == pa.int64()


def test_a_server_types_the_tables_of_its_topics(serve: Callable[..., Served], tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    served = serve(
        "--table", str(warehouse), "--table-interval", "1h", "--table-all", "--table-latest", "--table-schema", "infer"
    )
    with seglog.Client(served.url) as client:
        orders = client.create_topic("orders", partitions=1)
        for number in range(5):
            orders.append(b'{"id":%d}' % number, key=b"k", ack="durable")
    served.stop()  # makes a last round
    with Topic.open(served.root / "orders", mode="r") as topic:
        seen = Orders(topic.partition(0), served.root, warehouse)
        assert seen.rows("id") == [(number,) for number in range(5)]
        assert seen.rows("id", name="orders_latest") == [(4,)]


def test_a_table_gets_the_current_text_about_unfit(orders: Orders) -> None:
    orders.append({"id": 1})
    orders.sync(schema="infer")
    current = orders.table().schema().find_field("unfit").doc
    for doc, then in (("why the value has no typed columns; null: it has", current), ("of someone", "of someone")):
        with orders.table().update_schema() as update:
            update.update_column("unfit", doc=doc)
        orders.append({"id": 2})
        orders.sync()
        assert orders.table().schema().find_field("unfit").doc == then
    assert orders.rows("id") == [(1,), (2,), (2,)]


def test_an_interrupted_change_of_columns_is_completed_by_the_next_round(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.append({"id": 1})
    with monkeypatch.context() as patch:
        patch.setattr("seglog.table.warehouse.commit", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
        with pytest.raises(seglog.errors.StorageError):
            orders.sync(schema="infer")
    assert orders.rows("id") == []
    orders.append({"id": 2, "more": 1})
    orders.sync()
    assert orders.rows("id", "more") == [(1, None), (2, 1)]


def test_partitions_of_a_topic_share_the_columns(shop: Shop) -> None:
    for number in range(20):
        shop.topic.append(json.dumps({"id": number, f"p{number % 4}": 1}).encode(), key=b"%d" % number)
    shop.topic.sync()
    with TableSync(shop.place, shop.warehouse, active=True, schema="infer") as tables:
        (report,) = tables.step()
    assert (report.records, report.unfit) == (20, 0)
    assert shop.rows() == shop.records()
