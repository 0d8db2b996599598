"""Rows of a table with the typed columns of their values; the table gets the columns that it lacks."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pyiceberg.table import Table

from seglog.errors import InvalidArgument
from seglog.table.columns import UNITS, Columns, columns_of, iceberg_type, time_paths, units_in, usual_type
from seglog.table.evolution import evolve
from seglog.table.schema import UNFIT
from seglog.table.values.decoded import Decode, Typed, decoded, typed
from seglog.table.values.fields import (
    MOST_FIELDS,
    LeftOut,
    can_be_column,
    column_of,
    inferred,
    lacking,
    merged,
    without_column,
)
from seglog.table.values.fitting import Units
from seglog.table.values.json_blocks import Block
from seglog.table.values.json_blocks import is_json as is_json_type

SCHEMA_PROPERTY = "seglog.schema"  # "infer" or "given"
VALUES_PROPERTY = "seglog.values"  # "json" or "function"
DECODED_ROWS = 8192  # at a time, of a function

SHOWN_NAMES = 5
_LOG = logging.getLogger("seglog.table")

Values = Literal["json"] | Decode


@dataclass(frozen=True, slots=True)
class Typing:
    """How values become typed columns. schema: "infer", or their fields; None: as the table was made."""

    schema: Literal["infer"] | pa.Schema | None = None
    values: Values | None = None

    def __post_init__(self) -> None:
        if not (self.schema is None or self.schema == "infer" or isinstance(self.schema, pa.Schema)):
            raise InvalidArgument(f"schema is {self.schema!r}; give 'infer' or a pyarrow.Schema")
        if not (self.values is None or self.values == "json" or callable(self.values)):
            raise InvalidArgument(f"values is {self.values!r}; give 'json' or a function of bytes")
        if isinstance(self.schema, pa.Schema):
            _check(self.fields, is_json=not callable(self.values))
            if no_times := self.units.keys() - set(time_paths(self.fields)):
                raise InvalidArgument(f"the schema has a unit for {min(no_times)!r}, which is no timestamp in it")

    @property
    def units(self) -> Units:
        """The units of a schema that was given."""
        given = self.schema.metadata if isinstance(self.schema, pa.Schema) else None
        return units_in((given or {}).get(UNITS.encode(), b"{}"), "the schema")

    @property
    def fields(self) -> pa.StructType:
        """The fields of a schema that was given."""
        return usual_type(pa.struct(list(self.schema or ())))


def _check(fields: pa.StructType, *, is_json: bool) -> None:
    for field in fields:
        if not can_be_column(field.name):
            raise InvalidArgument(f"the schema's {field.name!r} cannot be the name of a column in every engine")
        iceberg_type(field.type, field.name)
        if is_json and not is_json_type(field.type):
            raise InvalidArgument(f"the schema's {field.name} is {field.type}, which JSON has not; give a function")


def is_read_as_json(table: Table) -> bool:
    """Return whether the values of a typed table are JSON. Else a function decodes them."""
    return bool(table.properties.get(VALUES_PROPERTY, "json") == "json")


class Typer:
    """Types the rows of one table during one round."""

    def __init__(self, table: Table, typing: Typing) -> None:
        """Give the table the columns of a schema. A table that has none stays so, without `typing.schema`."""
        self._table = table
        recorded = table.properties.get(SCHEMA_PROPERTY)
        self._infers = typing.schema == "infer" or (typing.schema is None and recorded == "infer")
        self._values = typing.values or table.properties.get(VALUES_PROPERTY, "json")
        self.is_typed = typing.schema is not None or recorded is not None
        if not self.is_typed and typing.values is not None:
            raise InvalidArgument("values= needs a schema: schema='infer', or a pyarrow.Schema")
        if self.is_typed and not callable(self._values) and self._values != "json":
            raise InvalidArgument(
                f"values of the table {table.name()[-1]} are decoded by a function: give it as values="
            )
        self._properties = {
            SCHEMA_PROPERTY: "infer" if self._infers else "given",
            VALUES_PROPERTY: "function" if callable(self._values) else "json",
        }
        self.left_out: LeftOut = {}
        self.columns = columns_of(table.schema(), table.properties)
        units = {**self.columns.units, **typing.units}
        if units:
            self._properties[UNITS] = json.dumps(units)
        if isinstance(typing.schema, pa.Schema):
            self._adopt(typing.fields)
        elif self.is_typed:
            self._evolve(self.columns.typed)

    def _adopt(self, wanted: pa.StructType) -> None:
        fields = merged(self.columns.typed, wanted)
        refused = lacking(fields, wanted)
        if refused:
            raise InvalidArgument(
                f"the table {self._table.name()[-1]} cannot have this schema: {'; '.join(refused)}. A column keeps its "
                f"type, except that it may become wider, and there are {MOST_FIELDS} at most; use another name"
            )
        self._evolve(fields)

    def _evolve(self, fields: pa.StructType) -> None:
        evolve(self._table, fields, self._properties)
        self.columns = columns_of(self._table.schema(), self._table.properties)

    def typed(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows with the typed columns of their values."""
        if not self.is_typed:
            yield from rows
            return
        for batch in rows:
            if callable(self._values):
                for start in range(0, batch.num_rows, DECODED_ROWS):
                    yield self._by_function(batch.slice(start, DECODED_ROWS), self._values)
            else:
                yield self._by_reader(batch)

    def _by_reader(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        block = Block(rows.column("value"))
        if self._infers:
            self._learn(block.found(self.columns.typed, self.left_out))
        return with_typed(rows, block.typed(self.columns.typed, self.columns.units), self.columns)

    def _by_function(self, rows: pa.RecordBatch, decode: Callable[[bytes], Any]) -> pa.RecordBatch:
        objects = decoded(rows.column("value").to_pylist(), decode)
        if self._infers:
            self._learn(inferred(objects, self.columns.typed, self.left_out))
        return with_typed(rows, typed(objects, self.columns.typed, self.columns.units), self.columns)

    def _learn(self, found: pa.StructType) -> None:
        fields = merged(self.columns.typed, found)
        if fields != self.columns.typed:
            self._evolve(fields)
        self.left_out.update(without_column(fields, found))

    def warn_of_left_out(self) -> None:
        """Log once in this process which fields of values have no column, and why."""
        for reason in dict.fromkeys(self.left_out.values()):
            names = [name for name, why in self.left_out.items() if why == reason]
            more = f" and {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else ""
            _warn(
                f"table {self._table.name()[-1]}: no column for {', '.join(names[:SHOWN_NAMES])}{more}: {reason}; "
                "column value has every value as it is"
            )


@functools.lru_cache(maxsize=1000)
def _warn(text: str) -> None:
    _LOG.warning(text)


def with_typed(rows: pa.RecordBatch, values: Typed, columns: Columns) -> pa.RecordBatch:
    """Return rows with the columns of a table."""
    parts = values.fields.flatten()
    named = {column_of(field.name): part for field, part in zip(columns.typed, parts, strict=True)}
    named[UNFIT] = values.unfit
    own = dict(zip(rows.schema.names, rows.columns, strict=True))
    arrays = [own[field.name] if field.name in own else named[field.name].cast(field.type) for field in columns.arrow]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.arrow)
