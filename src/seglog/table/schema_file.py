"""Read the schema of values from a file: of JSON, or the schema of a Parquet or Arrow file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from seglog.errors import InvalidArgument
from seglog.table.columns import FIXED, UNITS

_NAMED = {str(kind): arrow for kind, arrow in FIXED.items()}
_TIME = re.compile(r"(timestamp|timestamptz)\((s|ms|us|ns)\)")
_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)")


def read_schema(path: str | os.PathLike[str]) -> pa.Schema:
    """Return the schema in a file.

    NAME.json is an object of names and of Iceberg's types, such as {"id": "long", "price": "decimal(10, 2)",
    "tags": ["string"], "customer": {"name": "string"}, "labels": {"*": "string"}}: the last one is a map. A time that
    may be a number since 1970 has its unit, such as "timestamptz(ms)". NAME.parquet and NAME.arrow have a schema of
    their own.

    Raises:
        InvalidArgument: If the file cannot be read as such.
    """
    file = Path(path)
    try:
        if file.suffix == ".parquet":
            return pq.read_schema(file)
        if file.suffix in (".arrow", ".feather", ".ipc"):
            with pa.OSFile(os.fspath(file)) as source:
                return pa.ipc.open_file(source).schema
        fields = json.loads(file.read_bytes())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InvalidArgument(f"{file} has no schema: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidArgument(
            f'{file} has no schema: it must be an object of names and types, such as {{"id": "long"}}'
        )
    units: dict[str, str] = {}
    return pa.schema(list(_struct(fields, str(file), "", units)), {UNITS: json.dumps(units)})


def named_schema(text: str | None) -> Literal["infer"] | pa.Schema | None:
    """Return what an option names: "infer" or a file; None: nothing. InvalidArgument as `read_schema`."""
    if text is None:
        return None
    return "infer" if text == "infer" else read_schema(text)


def _struct(fields: dict[str, Any], file: str, where: str, units: dict[str, str]) -> pa.StructType:
    names = {name: f"{where}.{name}" if where else name for name in fields}
    return pa.struct([(name, _type(one, file, names[name], units)) for name, one in fields.items()])


def _type(kind: Any, file: str, where: str, units: dict[str, str]) -> pa.DataType:
    if isinstance(kind, dict) and list(kind) == ["*"]:
        return pa.map_(pa.string(), _type(kind["*"], file, f"{where}.*", units))
    if isinstance(kind, dict):
        return _struct(kind, file, where, units)
    if isinstance(kind, list) and len(kind) == 1:
        return pa.list_(_type(kind[0], file, f"{where}[]", units))
    if isinstance(kind, str) and kind in _NAMED:
        return _NAMED[kind]
    time = _TIME.fullmatch(kind) if isinstance(kind, str) else None
    if time is not None:
        units[where] = time[2]
        return _NAMED[time[1]]
    decimal = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    if decimal is not None and 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1]):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    known = ", ".join(_NAMED)
    raise InvalidArgument(
        f"{file}: {where} is {kind!r}; choose {known}, decimal(P, S), timestamptz(UNIT) with the unit s, ms, us or ns, "
        '[TYPE], {NAME: TYPE} or {"*": TYPE}'
    )
