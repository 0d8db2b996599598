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
from seglog.table.columns import FIXED

_NAMED = {str(kind): arrow for kind, arrow in FIXED.items()}
_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)")


def read_schema(path: str | os.PathLike[str]) -> pa.Schema:
    """Return the schema in a file.

    NAME.json is an object of names and of Iceberg's types, such as {"id": "long", "price": "decimal(10, 2)",
    "tags": ["string"], "customer": {"name": "string"}}. NAME.parquet and NAME.arrow have a schema of their own.

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
    return pa.schema(list(_struct(fields, str(file))))


def named_schema(text: str | None) -> Literal["infer"] | pa.Schema | None:
    """Return what an option names: "infer" or a file; None: nothing. InvalidArgument as `read_schema`."""
    if text is None:
        return None
    return "infer" if text == "infer" else read_schema(text)


def _struct(fields: dict[str, Any], where: str) -> pa.StructType:
    return pa.struct([(name, _type(one, f"{where}: {name}")) for name, one in fields.items()])


def _type(kind: Any, where: str) -> pa.DataType:
    if isinstance(kind, dict):
        return _struct(kind, where)
    if isinstance(kind, list) and len(kind) == 1:
        return pa.list_(_type(kind[0], f"{where}[]"))
    if isinstance(kind, str) and kind in _NAMED:
        return _NAMED[kind]
    decimal = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    if decimal is not None and 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1]):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    known = ", ".join(_NAMED)
    raise InvalidArgument(f"{where} is {kind!r}; choose {known}, decimal(P, S), [TYPE] or {{NAME: TYPE}}")
