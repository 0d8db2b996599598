"""Tables with typed columns, as other programs see them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import date
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
from pyiceberg.types import LongType

import seglog
from seglog import Topic
from seglog.cli import main
from seglog.errors import InvalidArgument
from seglog.table import TableSync, sync
from seglog.table.describe import describe
from seglog.table.merging import FEWEST
from seglog.table.schema_file import read_schema
from tests.conftest import Served
from tests.table.conftest import Orders, Shop, files


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
