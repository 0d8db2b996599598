"""The fields of single values, by the schema that a topic's table has: what a console shows of a record.

A value is read as a round of the table would read it (`values.json_blocks`), so both find the same values unfit. A
schema whose values a function decodes is known, but no function is called: it belongs to the program that has it.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from time import monotonic
from typing import Any

import pyarrow as pa
from pyarrow import types

from seglog.errors import LogNotFound, StorageError, TopicNotFound
from seglog.table.columns import columns_of, iceberg_type
from seglog.table.typer import SCHEMA_PROPERTY, is_read_as_json
from seglog.table.values.fitting import Units
from seglog.table.values.json_blocks import Block
from seglog.table.warehouse import opened

FRESH_SECONDS = 30.0
ANSWER_SECONDS = 10.0  # of a catalog
MOST_LOOKUPS = 4  # at a time; those that a catalog never answers stay
MOST_KNOWN = 1000  # topics
MOST_FIELDS = 1000  # of a value, with the elements of its arrays
MOST_TEXT = 1000  # characters of a field
NO_FUNCTION = "a function decodes the values of this topic's table, and this server runs none"


@dataclass(frozen=True, slots=True)
class FieldOfValue:
    """A field, after the one that contains it.

    Attributes:
        name: Its name, or its number in an array.
        depth: How many fields contain it.
        type: As Iceberg names it; "struct" or "list" for one that contains others.
        value: As text, its beginning if it is long; None if it is absent or contains others.
    """

    name: str
    depth: int
    type: str
    value: str | None


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """A value by its schema.

    Attributes:
        schema: "inferred" or "given"; None: there is none.
        fields: The first of its fields.
        complete: Whether these are all, with all of their text.
        unfit: Why the value, or some of its fields, which have no value then, do not fit; None if all do.
    """

    schema: str | None
    fields: list[FieldOfValue]
    complete: bool
    unfit: str | None


@dataclass(frozen=True, slots=True)
class _Schema:
    schema: str
    is_json: bool
    fields: pa.StructType
    units: Units

    def decoded(self, value: bytes | None) -> DecodedValue:
        if not self.is_json:
            return self.unfit(NO_FUNCTION)
        [row], [reason] = Block(pa.array([value], pa.binary())).typed(self.fields, self.units)
        unfit = str(reason) if reason.is_valid else None
        if not row.is_valid and unfit is not None:
            return self.unfit(unfit)
        found = [] if value is None else list(islice(_fields(row, 0), MOST_FIELDS + 1))
        cut = len(found) > MOST_FIELDS or any(one.value and len(one.value) > MOST_TEXT for one in found)
        return DecodedValue(self.schema, [_short(one) for one in found[:MOST_FIELDS]], not cut, unfit)

    def unfit(self, reason: str) -> DecodedValue:
        return DecodedValue(self.schema, [], complete=True, unfit=reason)


class _Lookup:
    """A lookup on a thread of its own, which does not keep the process: a catalog may never answer."""

    def __init__(self, look_up: Callable[[], _Schema | None]) -> None:
        self._ends = monotonic() + ANSWER_SECONDS
        self._found: Future[_Schema | None] = Future()
        threading.Thread(target=self._run, args=(look_up,), name="seglog-schema", daemon=True).start()

    def _run(self, look_up: Callable[[], _Schema | None]) -> None:
        try:
            self._found.set_result(look_up())
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            self._found.set_exception(error)

    def result(self) -> _Schema | None:
        """Wait for what was found. Raises StorageError if the catalog did not answer in time, at once if it is late."""
        try:
            return self._found.result(max(0.0, self._ends - monotonic()))
        except TimeoutError:
            raise _unanswered() from None


def _unanswered() -> StorageError:
    return StorageError(
        errno.ETIMEDOUT, f"the catalog of the tables did not answer within {ANSWER_SECONDS:g} s; is it running?"
    )


class ValueSchemas:
    """The schemas of the tables of a warehouse. Safe for threads."""

    def __init__(self, place: str | os.PathLike[str], catalog: dict[str, str] | None = None) -> None:
        """place, catalog: of the warehouse, which need not exist yet; see `seglog.table.sync`."""
        self._place, self._catalog = os.fspath(place), catalog
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, _Schema | None]] = {}
        self._lookups: dict[str, _Lookup] = {}

    def decode(self, topic: str, value: bytes | None, size: int) -> DecodedValue:
        """Return a value by the schema of a topic's table. size: of the whole value, of which `value` may be a part.

        Raises:
            CorruptLog, StorageError: The table cannot be read, or its catalog does not answer.
        """
        schema = self._schema(topic)
        if schema is None:
            return DecodedValue(None, [], complete=True, unfit=None)
        if value is not None and size > len(value):
            return schema.unfit(f"it has {size} bytes, and values of up to {len(value)} are decoded here")
        return schema.decoded(value)

    def _schema(self, topic: str) -> _Schema | None:
        """Return the schema of a topic's table, looked up again after some seconds."""
        with self._lock:
            at, known = self._known.get(topic, (float("-inf"), None))
            if monotonic() - at < FRESH_SECONDS:
                return known
            lookup = self._lookups.get(topic)
            if lookup is None:
                if len(self._lookups) >= MOST_LOOKUPS:
                    raise _unanswered()
                lookup = self._lookups[topic] = _Lookup(lambda: self._look_up(topic))
        return lookup.result()

    def _look_up(self, topic: str) -> _Schema | None:
        """Look up a schema and keep it; the only lookup of this topic."""
        try:
            found = self._looked_up(topic)
            with self._lock:
                self._known.pop(topic, None)
                self._known[topic] = (monotonic(), found)
                if len(self._known) > MOST_KNOWN:
                    del self._known[next(iter(self._known))]
        finally:
            with self._lock:
                del self._lookups[topic]
        return found

    def _looked_up(self, topic: str) -> _Schema | None:
        try:
            with opened(f"{self._place}/{topic}", self._catalog) as table:
                columns = columns_of(table.schema(), table.properties)
                recorded = table.properties.get(SCHEMA_PROPERTY)
                is_json = is_read_as_json(table)
        except (LogNotFound, TopicNotFound):  # no round has made it yet
            return None
        if recorded is None or not columns.has_typed:
            return None
        return _Schema("inferred" if recorded == "infer" else "given", is_json, columns.typed, columns.units)


def _fields(row: Any, depth: int) -> Iterator[FieldOfValue]:
    """Yield the fields of a struct or the elements of a list, each with what it contains."""
    named = row.items() if types.is_struct(row.type) else ((str(number), one) for number, one in enumerate(row))
    for name, one in named:
        kind = one.type
        if types.is_struct(kind) or types.is_list(kind):
            yield FieldOfValue(name, depth, "struct" if types.is_struct(kind) else "list", None)
            if one.is_valid:
                yield from _fields(one, depth + 1)
        else:
            yield FieldOfValue(name, depth, str(iceberg_type(kind, name)), _text(one) if one.is_valid else None)


def _text(leaf: Any) -> str:
    if types.is_binary(leaf.type):
        data = leaf.as_py()
        try:
            return str(data.decode())
        except UnicodeDecodeError:
            return str(data.hex(" "))
    try:
        return str(leaf.cast(pa.string()).as_py())
    except pa.ArrowException:  # a map, in a column of another program
        return str(leaf.as_py())


def _short(field: FieldOfValue) -> FieldOfValue:
    if field.value is None or len(field.value) <= MOST_TEXT:
        return field
    return FieldOfValue(field.name, field.depth, field.type, field.value[:MOST_TEXT])
