"""Values as typed columns: nothing is lost, and what fits is what json.loads returns."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seglog.table.values import json_blocks
from seglog.table.values.decoded import decoded, from_json, from_json_exactly, typed
from seglog.table.values.fields import MOST_FIELDS, column_of, field_of, inferred, merged, usable
from seglog.table.values.json_blocks import Block

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["2020-01-01", "2020-01-01T00:00:00Z", "\ud800"])
)
NAMES = st.sampled_from(["a", "b", "c", "A", "value", "x.y", "", "value_key"])
TREES = st.recursive(
    LEAVES, lambda one: st.lists(one, max_size=3) | st.dictionaries(NAMES, one, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(NAMES, TREES, max_size=4).map(lambda one: json.dumps(one).encode())
ODD = st.sampled_from(
    [
        b"", b" ", b"{}", b"{ }", b"[1]", b"null", b' {"a":1}', b'{ "a" : 1 }', b'{\n"a":1\n}', b'{"a":1}{"a":2}',
        b'{"a":1}\n{"a":2}', b'{"a":[', b"]}", b'{"a":1', b',"b":2}', b'{"a":1},"b":{}', b'{"a":1,"a":"x"}',
        b'{"a":NaN}', b'{"b":Infinity}', b'{"a":1e400}', b'{"a":"\xff"}', b'{"\\u0061":1}', b'{"a":"x\ny"}',
        b'{"a":1,}',
        b'\xef\xbb\xbf{"a":1}', b'{"a":1}\x00', b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", b'{"c":' + b"9" * 30 + b"}",
    ]
)  # fmt: skip
VALUES = st.lists(st.none() | OBJECTS | ODD | st.binary(max_size=6), max_size=40)


def fits(value: Any, kind: pa.DataType) -> bool:
    """Whether a value of JSON is of an inferred type, without a loss."""
    if value is None:
        return True
    if pa.types.is_struct(kind):
        return isinstance(value, dict) and all(fits(value.get(field.name), field.type) for field in kind)
    if pa.types.is_list(kind):
        return isinstance(value, list) and all(fits(one, kind.value_type) for one in value)
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return isinstance(value, bool) and pa.types.is_boolean(kind)
    if kind == pa.int64():
        return isinstance(value, int) and -(2**63) <= value < 2**63
    if kind == pa.float64():
        return isinstance(value, int | float) and math.isfinite(value) and float(value) == value
    return isinstance(value, str) and value.encode(errors="replace").decode() == value


def same(value: Any, column: Any, kind: pa.DataType) -> bool:
    if value is None or column is None:
        return value is column
    if pa.types.is_struct(kind):
        return all(same(value.get(field.name), column[field.name], field.type) for field in kind)
    if pa.types.is_list(kind):
        return len(value) == len(column) and all(
            same(*pair, kind.value_type) for pair in zip(value, column, strict=True)
        )
    return bool(value == column)


class Misfit(Exception):
    """A value is not of a type."""


def fitting(value: Any, kind: pa.DataType) -> tuple[Any, bool]:
    """What a column shows of a value, and whether that is all of it: fields that do not fit are null."""
    if value is None:
        return None, True
    if pa.types.is_struct(kind) and isinstance(value, dict):
        shown, is_all = {}, True
        for field in kind:
            try:
                shown[field.name], fit = fitting(value.get(field.name), field.type)
            except Misfit:
                shown[field.name], fit = None, False
            is_all &= fit
        return shown, is_all
    if pa.types.is_list(kind) and isinstance(value, list):
        parts = [fitting(one, kind.value_type) for one in value]
        return [one for one, _ in parts], all(fit for _, fit in parts)
    if pa.types.is_nested(kind) or not fits(value, kind):
        raise Misfit
    return value, True


def check(values: list[bytes | None], fields: pa.StructType, block: Block) -> None:
    result = block.typed(fields)
    assert len(result.fields) == len(result.unfit) == len(values)
    for value, row, reason in zip(values, result.fields.to_pylist(), result.unfit.to_pylist(), strict=True):
        try:
            expected = None if value is None else json.loads(value.decode())
        except (ValueError, RecursionError):
            expected = "no JSON"
        if (expected is not None and not isinstance(expected, dict)) or (value is not None and expected is None):
            assert row is None, value
            assert reason is not None, value
            continue
        shown, is_all = fitting(expected, fields)
        assert (reason is None) == is_all, (value, reason)
        assert same(shown, row, fields), (value, row)


@given(VALUES, VALUES)
@example([b'{"a":1.5}'], [b'{"a":9007199254740993}', b'{"a":1e17}', b'{"a":[1]}'])
@example([b'{"a":[1]}'], [b'{"a":[', b"]}", b"{}{}"])
def test_a_typed_column_is_what_json_loads_returns_or_has_a_reason(
    first: list[bytes | None], then: list[bytes | None]
) -> None:
    fields = pa.struct([])
    for values in (first, then):
        block = Block(pa.array(values, pa.binary()))
        fields = merged(fields, block.found(fields, {}))
        check(values, fields, block)
        check(values, fields, Block(pa.array(values, pa.binary())))


@given(st.lists(OBJECTS | ODD, min_size=3, max_size=12), st.integers(0, 3))
def test_a_slice_of_an_array_is_read_as_the_same_rows(values: list[bytes], start: int) -> None:
    array = pa.array([None, *values], pa.binary()).slice(start)
    fields = Block(array).found(pa.struct([]), {})
    check(array.to_pylist(), fields, Block(array))


def test_one_row_that_does_not_fit_costs_a_few_rows_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [b'{"a":%d}' % number for number in range(10_000)]
    values[4321] = b'{"a":"text"}'
    read: list[bytes | None] = []

    def counted(some: list[bytes | None], decode: Any) -> Any:
        read.extend(some)
        return decoded(some, decode)

    monkeypatch.setattr(json_blocks, "decoded", counted)
    result = Block(pa.array(values, pa.binary())).typed(pa.struct([("a", pa.int64())]))
    assert result.unfit.to_pylist()[4321] == "a is a text, which does not fit int64"
    assert result.unfit.null_count == 9_999
    assert len(read) <= json_blocks.SMALLEST


def test_given_types_are_read_from_texts_and_numbers() -> None:
    fields = pa.struct(
        [("at", pa.timestamp("us", "UTC")), ("day", pa.date32()), ("price", pa.decimal128(10, 2)), ("n", pa.int32())]
    )
    rows = [
        b'{"at":"2026-01-02T03:04:05.678901+01:00","day":"2026-01-02","price":1.25,"n":1}',
        b'{"at":"2026-01-02T03:04:05","price":"1.25"}',
    ]
    odd = [b'{"n":3000000000}', b'{"price":1.255}', b'{"day":"2026-01-02T01:00:00"}', b'{"at":5}']
    for values in (rows, [*rows, *odd], [b" " + row for row in [*rows, *odd]]):
        result = Block(pa.array(values, pa.binary())).typed(fields)
        assert [reason is None for reason in result.unfit.to_pylist()] == [True, True, *[False] * (len(values) - 2)]
        first, second = result.fields.to_pylist()[:2]
        assert first["at"] == datetime(2026, 1, 2, 2, 4, 5, 678901, tzinfo=UTC)
        assert (first["day"], first["price"], first["n"]) == (date(2026, 1, 2), Decimal("1.25"), 1)
        assert (second["at"], second["price"]) == (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), Decimal("1.25"))


DATES = pa.struct(
    [
        ("d", pa.date32()),
        ("p", pa.decimal128(8, 2)),
        ("t", pa.timestamp("us", "UTC")),
        ("c", pa.struct([("d", pa.date32()), ("l", pa.list_(pa.decimal128(8, 2)))])),
    ]
)


@pytest.mark.parametrize(
    ("value", "fit"),
    [
        ('{"d":"2024-01-01"}', True),
        ('{"d":"2024-01-01T00:00:00Z"}', False),
        ('{"d":"2024-01-01 00:00:00"}', False),
        ('{"d":"0000-01-01"}', False),
        ('{"d":"9999-12-31"}', True),
        ('{"d":19723}', False),
        ('{"c":{"d":"2024-01-01"}}', True),
        ('{"c":{"d":"2024-01-01T00:00:00"}}', False),
        ('{"p":123456.78}', True),
        ('{"p":1234567}', False),
        ('{"p":"123456789012"}', False),
        ('{"p":123456789012}', False),
        ('{"c":{"l":[1,1234567]}}', False),
        ('{"t":"0000-01-01T00:00:00Z"}', False),
        ('{"t":"9999-12-31T23:59:59-01:00"}', False),
    ],
)
def test_the_reader_takes_no_value_that_python_refuses(value: str, *, fit: bool) -> None:
    alone = typed(decoded([value.encode()], from_json_exactly), DATES)
    assert (alone.unfit[0].as_py() is None) == fit
    for known in (None, DATES):
        block = Block(pa.array([value.encode(), b'{"d":"2024-02-03","p":1}'] * 100))
        if known is not None:
            block.found(known, {})
        result = block.typed(DATES)
        result.fields.validate(full=True)
        assert (result.unfit[0], result.fields[0]) == (alone.unfit[0], alone.fields[0])


def test_types_become_wider_only_as_iceberg_allows() -> None:
    known = pa.struct(
        [("a", pa.int32()), ("b", pa.float32()), ("c", pa.int64()), ("d", pa.struct([("e", pa.int32())]))]
    )
    found = pa.struct(
        [("a", pa.int64()), ("b", pa.float64()), ("c", pa.string()), ("d", pa.struct([("f", pa.string())]))]
    )
    assert merged(known, found) == pa.struct(
        [
            ("a", pa.int64()),
            ("b", pa.float64()),
            ("c", pa.int64()),
            ("d", pa.struct([("e", pa.int32()), ("f", pa.string())])),
        ]
    )


def test_int_becomes_long_when_a_value_needs_it() -> None:
    known = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int32()))])
    assert Block(pa.array([b'{"a":1,"b":[2]}'])).found(known, {}) == known
    assert merged(known, Block(pa.array([b'{"a":3000000000,"b":[2]}'])).found(known, {})).field("a").type == pa.int64()


def test_the_number_of_columns_is_limited() -> None:
    many = pa.struct([(f"f{number}", pa.int64()) for number in range(2 * MOST_FIELDS)])
    assert len(merged(pa.struct([]), many)) == MOST_FIELDS


@given(st.text())
def test_a_column_names_its_field(name: str) -> None:
    if field_of(name) == name:
        assert field_of(column_of(name)) == name


def test_fields_that_differ_in_case_only_are_one_column() -> None:
    left_out: dict[str, str] = {}
    names = pa.struct([("name", pa.string()), ("Name", pa.int64()), ("a b", pa.int64()), ("a.b", pa.int64())])
    kind = usable(names, left_out)
    assert left_out == {
        "Name": "another field differs in upper and lower case only",
        "a.b": "no column can have its name",
    }
    assert kind == pa.struct([("name", pa.string()), ("a b", pa.int64())])


def test_a_function_decodes_other_formats() -> None:
    def decode(value: bytes) -> Any:
        if value == b"bad":
            raise ValueError("not a message")
        return {"text": value.decode(), "raw": value, "at": datetime(2026, 1, 1), "tags": {"k": 1}}

    objects = decoded([b"one", None, b"bad"], decode)
    fields = inferred(objects, pa.struct([]), {})
    assert {field.name: field.type for field in fields} == {
        "text": pa.string(),
        "raw": pa.binary(),
        "at": pa.timestamp("us", "UTC"),
        "tags": pa.struct([("k", pa.int64())]),
    }
    mapped = pa.struct([("text", pa.string()), ("tags", pa.map_(pa.string(), pa.int32()))])
    result = typed(objects, mapped)
    assert result.fields.to_pylist() == [{"text": "one", "tags": [("k", 1)]}, None, None]
    assert result.unfit.to_pylist() == [None, None, "it cannot be decoded: ValueError: not a message"]


def test_json_is_read_as_the_standard_defines_it() -> None:
    failed = decoded([b"\xff", b"[" * 200_000], from_json)
    assert [type(one).__name__ for one in failed] == ["Failed"] * 2
    odd = [b'{"a":NaN}', b'{"a":-Infinity}']
    fields = pa.struct([("a", pa.float64())])
    reasons = ["a is NaN, which does not fit double", "a is -Infinity, which does not fit double"]
    assert Block(pa.array(odd)).typed(fields).unfit.to_pylist() == reasons
    assert typed(decoded(odd, from_json), fields).unfit.to_pylist() == reasons


def test_deeply_nested_values_are_no_danger_to_the_reader() -> None:
    values = pa.array([b'{"a":1}', b'{"a":2,"b":' + b"[" * 200_000 + b"]" * 200_000 + b"}"])
    block = Block(values)
    assert block.found(pa.struct([]), {}) == pa.struct([("a", pa.int64())])
    assert block.typed(pa.struct([("a", pa.int64())])).fields.to_pylist()[0] == {"a": 1}
