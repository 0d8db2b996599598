"""Single values by the schema of a topic's table: the same fields, and the same reasons, as the table has."""

from __future__ import annotations

import json
import socket
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.errors import StorageError
from seglog.table import value_schemas
from seglog.table.value_schemas import MOST_FIELDS, MOST_LOOKUPS, MOST_TEXT, NO_FUNCTION, DecodedValue, ValueSchemas
from tests.waiting import NEVER_SECONDS

if TYPE_CHECKING:
    from pathlib import Path
ORDER = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("customer", pa.struct([("name", pa.string()), ("vip", pa.bool_())])),
    ]
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A topic with one record."""
    with seglog.Topic.create(tmp_path / "orders", partitions=1) as topic:
        topic.append(b'{"id": 7, "name": "ann"}')
        topic.sync()
    return tmp_path


def synced(place: Path, **options: Any) -> ValueSchemas:
    seglog.table.sync(place / "orders", place / "warehouse", active=True, **options)
    return ValueSchemas(place / "warehouse")


def decode(schemas: ValueSchemas, value: bytes | None) -> DecodedValue:
    return schemas.decode("orders", value, len(value or b""))


def rows(found: DecodedValue) -> list[tuple[int, str, str, str | None]]:
    assert found.unfit is None
    return [(one.depth, one.name, one.type, one.value) for one in found.fields]


def test_without_a_table_or_with_one_that_has_no_types_there_is_no_schema(place: Path) -> None:
    assert decode(ValueSchemas(place / "warehouse"), b"{}").schema is None
    assert decode(synced(place), b"{}") == DecodedValue(None, [], complete=True, unfit=None)


def test_an_inferred_schema_shows_its_fields_with_their_types(place: Path) -> None:
    schemas = synced(place, schema="infer")
    found = decode(schemas, b'{"id": 12345678901234567, "name": "bo", "other": 1}')
    assert (found.schema, found.complete) == ("inferred", True)
    assert rows(found) == [(0, "id", "long", "12345678901234567"), (0, "name", "string", "bo")]
    assert rows(decode(schemas, b'{"name": null}')) == [(0, "id", "long", None), (0, "name", "string", None)]
    assert rows(decode(schemas, None)) == []


def test_a_given_schema_shows_nested_fields_and_every_type(place: Path) -> None:
    schemas = synced(place, schema=ORDER)
    value = {
        "id": 7,
        "price": 9.5,
        "at": "2026-11-25T10:00:00Z",
        "day": "2026-11-25",
        "raw": "text",
        "tags": ["a", None],
        "customer": {"name": "<b>ann</b>", "vip": True},
    }
    found = decode(schemas, json.dumps(value).encode())
    assert found.schema == "given"
    assert rows(found) == [
        (0, "id", "long", "7"),
        (0, "price", "decimal(10, 2)", "9.50"),
        (0, "at", "timestamptz", "2026-11-25 10:00:00.000000Z"),
        (0, "day", "date", "2026-11-25"),
        (0, "raw", "binary", "text"),
        (0, "tags", "list", None),
        (1, "0", "string", "a"),
        (1, "1", "string", None),
        (0, "customer", "struct", None),
        (1, "name", "string", "<b>ann</b>"),
        (1, "vip", "boolean", "true"),
    ]


@pytest.mark.parametrize("value", [b'{"id": "eight"}', b"no json", b"\xff\x00", b"[1]", b'{"id": 1e400}', b""])
def test_a_value_that_does_not_fit_has_the_reason_that_the_table_has(place: Path, value: bytes) -> None:
    with seglog.Topic.open(place / "orders") as topic:
        topic.append(value)
        topic.sync()
    schemas = synced(place, schema=ORDER)
    table = pa.Table.from_batches(list(_scan(place)))
    [reason] = table.filter(pa.compute.equal(table["value"], pa.scalar(value)))["unfit"].to_pylist()
    assert reason
    shown = decode(schemas, value)
    assert (shown.schema, shown.complete, shown.unfit) == ("given", True, reason)
    assert all(field.value is None for field in shown.fields)
    assert bool(shown.fields) == value.startswith(b"{")


def _scan(place: Path) -> Any:
    from seglog.table.warehouse import opened  # noqa: PLC0415 - needs pyiceberg

    with opened(place / "warehouse" / "orders") as table:
        yield from table.scan().to_arrow().to_batches()


def test_no_function_is_called(place: Path) -> None:
    called: list[bytes] = []

    def values(value: bytes) -> dict[str, Any]:
        called.append(value)
        return {"id": Decimal(1)}

    schemas = synced(place, schema=pa.schema([("id", pa.int64())]), values=values)
    called.clear()
    assert decode(schemas, b"any").unfit == NO_FUNCTION
    assert called == []


def test_what_is_shown_has_a_limit(place: Path) -> None:
    schemas = synced(place, schema=ORDER)
    many = decode(schemas, json.dumps({"tags": ["x"] * 2 * MOST_FIELDS}).encode())
    assert (len(many.fields), many.complete) == (MOST_FIELDS, False)
    long = decode(schemas, json.dumps({"tags": ["y" * 2 * MOST_TEXT]}).encode())
    assert long.fields[6].value == "y" * MOST_TEXT
    assert not long.complete
    assert schemas.decode("orders", b'{"id"', 1_000_000).unfit == (
        "it has 1000000 bytes, and values of up to 5 are decoded here"
    )


def test_a_catalog_that_never_answers_is_reported_and_keeps_no_caller(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_schemas, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the system accepts, nobody reads
        catalog = {"type": "rest", "uri": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        schemas = ValueSchemas(place / "warehouse", catalog)
        for number in range(MOST_LOOKUPS + 1):  # the last one has no thread
            with pytest.raises(StorageError, match="did not answer"):
                schemas.decode(f"orders-{number}", b"{}", 2)
        monkeypatch.setattr(value_schemas, "ANSWER_SECONDS", NEVER_SECONDS)
        for _ in range(100):  # the lookup is late already
            with pytest.raises(StorageError, match="did not answer"):
                schemas.decode("orders-0", b"{}", 2)
