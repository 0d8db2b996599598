"""Values that do not fit the columns of a table, and fields without a column: what is null, and what says so."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

from seglog.errors import InvalidArgument
from seglog.record import EPOCH
from seglog.table.schema_file import read_schema
from tests.table.conftest import Orders, files


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
