"""Tables of a catalog: `CREATE TABLE orders USING seglog OPTIONS (path '/logs/orders')`.

Spark 4.3 passes a Python data source the options of a table once, when the table is created and the source is asked for
its schema. A query or an INSERT gets the schema stored in the catalog, and no options. The catalog keeps the schema's
metadata, so the options are stored there, with the first column. Tokens are not: many users read a catalog.

For an INSERT Spark gives the columns of the table their metadata, unless the rows already have exactly the names and
types of the table: then it passes the rows with their own metadata, of another table or none. So column `topic` is
declared as varchar(n), n computed from the path: rows from anywhere else have another type, which Spark must adapt.

Pure: options and schemas in, options and schemas out.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql.types import StringType, StructField, StructType

from seglog.errors import InvalidArgument
from seglog.spark.option_values import canonical, local_path
from seglog.spark.read.options import NAMES as READ_NAMES
from seglog.spark.read.options import TABLE_CATALOG
from seglog.spark.write.options import CREATE_NAMES
from seglog.spark.write.options import TABLE_NAMES as WRITE_NAMES

KEY = "seglog.options"
_CREATED = "provider"  # Spark's own properties of a new table: provider, owner, location, comment, ...
_OPTION = "option."  # prefix of every option of OPTIONS (...) except path; TBLPROPERTIES have none
_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark stores such a type; in the plan it is a string
_REFUSED = {
    "token": "the catalog would show it; set SEGLOG_TOKEN instead",
    TABLE_CATALOG: "the catalog would show what it holds; use `seglog.spark.table`, or the warehouse's own catalog",
    "columns": "its columns are those of the source; select columns in the query",
}


def declared(options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of the table that Spark is creating, path absolute; None if it creates none.

    Raises InvalidArgument for an unknown option, for a token and for columns.
    """
    lower = {name.lower(): value for name, value in options.items()}
    if _CREATED not in lower:
        return None
    own = {name.removeprefix(_OPTION): value for name, value in lower.items() if name.startswith(_OPTION)}
    if "path" in lower and "url" not in own:
        own["path"] = lower["path"]
    names = dict.fromkeys((*READ_NAMES, *WRITE_NAMES, *CREATE_NAMES))
    given = canonical(own, names, "a table of format seglog")
    for name, reason in _REFUSED.items():
        if name in given:
            raise InvalidArgument(f"option {name} cannot be part of a table: {reason}")
    if "path" in given:
        given["path"] = str(Path(local_path(given)).absolute())
    return given


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema for the catalog, with the table's options except those that created the topic."""
    stored = {name: text for name, text in options.items() if name not in CREATE_NAMES}
    length = 2**16 + zlib.crc32(repr(sorted(stored.items())).encode()) % 2**30
    first, *others = schema.fields
    kept = [StructField(first.name, first.dataType, first.nullable, {KEY: stored})]
    for field in others:
        mark = {_VARCHAR: f"varchar({length})"} if isinstance(field.dataType, StringType) else None
        kept.append(StructField(field.name, field.dataType, field.nullable, mark))
    return StructType(kept)


def for_reading(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the table options that apply to reading."""
    return {name: text for name, text in stored.items() if name in READ_NAMES}


def for_writing(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the table options that apply to writing."""
    return {name: text for name, text in stored.items() if name in WRITE_NAMES}


def read_options(schema: StructType, own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a read: the table's that apply to reading, overridden by the query's."""
    return _over(for_reading(_stored(schema)), own)


def write_options(schema: StructType, own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a write: the table's that apply to writing, overridden by the query's."""
    return _over(for_writing(_stored(schema)), own)


def _stored(schema: StructType) -> dict[str, str]:
    return next((field.metadata[KEY] for field in schema.fields if KEY in field.metadata), {})


def _over(stored: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
    """Return both, `own` first; only `own` if it names a place: then the rows merely come from a table."""
    given = {name.lower() for name in own}
    if given & {"path", "url"}:
        return own
    return {**{name: text for name, text in stored.items() if name.lower() not in given}, **own}


def plain(schema: StructType) -> StructType:
    """Return the schema without metadata, as sources compare it."""
    return StructType([StructField(field.name, field.dataType, field.nullable) for field in schema.fields])
