"""Read the rows of files or of a table, and mark what cannot be read as a row.

Spark reads a malformed row of CSV or JSON as nulls. Here the row has its text in column MALFORMED and the reason in
column REASON, or it ends the read. Spark parses only the columns that a query uses, so a condition on every row uses
all of them: whether a row is malformed does not depend on the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument
from seglog.spark.ingest.malformed import MALFORMED, MARKS, MORE, REASON, or_raise, quoted, reason_of, with_more_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

FORMATS = ("csv", "json", "parquet", "orc", "text", "table")
PARSED = ("csv", "json")
_MODES = ("FAILFAST", "PERMISSIVE")
_CORRUPT = "columnNameOfCorruptRecord"
_UNUSED = "_seglog_corrupt_record"


def read_source(
    spark: SparkSession,
    sources: Sequence[str],
    kind: str,
    options: Mapping[str, str] | None = None,
    schema: str | StructType | None = None,
) -> DataFrame:
    """Return the rows of files (csv, json, parquet, orc, text) or of one table of the catalog (table).

    Rows of csv and json have two more columns: `_corrupt_record` is the text of a malformed row (of a wrong number of
    columns, with a value of another type, or that cannot be parsed), `_corrupt_reason` why; both are null in others.
    A row of json that goes on after its first value is there twice: as that value, and as a malformed row. The rows of
    an array are malformed if one of them is.

    Args:
        spark: The session.
        sources: Files, directories, or one table's name.
        kind: The format.
        options: Those of Spark's reader; for csv header is true by default. `mode` is PERMISSIVE, or FAILFAST, the
            default with a schema: a malformed row raises when it is read, and there are no further columns.
        schema: The columns of csv or json, such as "id BIGINT, name STRING"; default: Spark infers them.

    Raises:
        InvalidArgument: the format or the mode is unknown, several tables are named, a schema is given for another
            format, a column is NOT NULL, which Spark does not check, no row of the files can be read, or they have a
            column `_corrupt_record` or `_corrupt_reason`.
    """
    if kind not in FORMATS:
        raise InvalidArgument(f"format is {kind!r}; it must be one of {', '.join(FORMATS)}")
    if kind in PARSED:
        return _parsed(spark, sources, kind, dict(options or {}), schema)
    if schema is not None:
        raise InvalidArgument(f"a schema is for {' and '.join(PARSED)}; {kind} has its own")
    if kind == "table":
        if len(sources) != 1:
            raise InvalidArgument(f"{len(sources)} tables are named; ingest them one by one")
        return spark.read.options(**(options or {})).table(sources[0])
    return spark.read.format(kind).options(**(options or {})).load(list(sources))


def _parsed(
    spark: SparkSession, sources: Sequence[str], kind: str, options: dict[str, str], schema: str | StructType | None
) -> DataFrame:
    mode = _mode(options, schema)
    if kind == "csv":
        defaults = {"header": "true"} if schema is None else {"header": "true", "enforceSchema": "false"}
        given = {name.lower() for name in options}
        options |= {name: value for name, value in defaults.items() if name.lower() not in given}
    options["mode"] = "PERMISSIVE"
    rows, reason = _with_reasons(spark, sources, kind, options, schema)
    more = with_more_text(spark, sources, options) if kind == "json" else None
    if mode == "FAILFAST":
        return _refusing(rows, reason, more)
    return _marking(rows, reason, more).withMetadata(MALFORMED, {MARKS: kind})


def _mode(options: dict[str, str], schema: str | StructType | None) -> str:
    """Take the mode out of the options, and return it."""
    mode = _take(options, "mode", "PERMISSIVE" if schema is None else "FAILFAST").upper()
    if mode not in _MODES:
        raise InvalidArgument(f"mode is {mode}; it must be PERMISSIVE or FAILFAST: --reject DIR leaves out such rows")
    if _take(options, _CORRUPT, MALFORMED) != MALFORMED:
        raise InvalidArgument(f"option {_CORRUPT} must be {MALFORMED}")
    return mode


def _with_reasons(
    spark: SparkSession, sources: Sequence[str], kind: str, options: dict[str, str], schema: str | StructType | None
) -> tuple[DataFrame, Column]:
    """Return the rows with column MALFORMED, and the expression of why a row is malformed."""
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - as above

    reader = spark.read.format(kind).options(**options)
    found = _with_schema(reader.option(_CORRUPT, _UNUSED), schema).load(list(sources))
    columns = _own_columns(found.schema, ", ".join(sources))
    if not columns.names:  # empty files, or each row is {}
        none = functions.lit(None).cast("string")
        return found.select(none.alias(MALFORMED)), none
    marked = StructType([*columns, StructField(MALFORMED, StringType())])
    reader = spark.read.format(kind).options(**options)
    rows = reader.option(_CORRUPT, MALFORMED).schema(marked).load(list(sources))
    return rows, reason_of(kind, options, columns).cast("string")


def _refusing(rows: DataFrame, reason: Column, more: DataFrame | None) -> DataFrame:
    """Return the rows; reading a malformed one raises. more: see `with_more_text`."""
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    rows = rows.where(or_raise(reason))
    if more is not None:
        rows = rows.unionByName(more.where(or_raise(functions.lit(MORE))), allowMissingColumns=True)
    return rows.drop(MALFORMED)


def _marking(rows: DataFrame, reason: Column, more: DataFrame | None) -> DataFrame:
    """Return the rows with column REASON; a condition uses all columns, see above. more: see `with_more_text`."""
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    used = [f"isnull({quoted(name)})" for name in rows.columns]
    rows = rows.where(f"monotonically_increasing_id() >= 0 OR {' OR '.join(used)}").withColumn(REASON, reason)
    if more is not None:
        reason = functions.lit(f"{MORE}, which is read as a row")
        rows = rows.unionByName(more.withColumn(REASON, reason), allowMissingColumns=True)
    return rows


def _with_schema(reader: DataFrameReader, schema: str | StructType | None) -> DataFrameReader:
    from pyspark.sql.types import StructType  # noqa: PLC0415 - an optional dependency

    if schema is None:
        return reader
    columns = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    for field in columns:
        if '"nullable":false' in field.json():  # of the field or of one inside it
            raise InvalidArgument(f"{field.name} is NOT NULL in the schema; leave it out, Spark does not check it")
    return reader.schema(columns)


def _own_columns(found: StructType, files: str) -> StructType:
    """Return the columns of files, without the one that Spark adds to infer those of malformed rows."""
    from pyspark.sql.types import StructType  # noqa: PLC0415 - an optional dependency

    columns = StructType([field for field in found if field.name != _UNUSED])
    for name in columns.names:
        if name.lower() in (MALFORMED, REASON):
            raise InvalidArgument(f"{files}: {name} is for malformed rows; give the column another name")
    if found.names and not columns.names:
        raise InvalidArgument(f"{files}: there is no row that could be read")
    return columns


def _take(options: dict[str, str], name: str, default: str) -> str:
    """Remove an option, whose name may have any case, and return its value."""
    for given in [one for one in options if one.lower() == name.lower()]:
        default = options.pop(given)
    return default
