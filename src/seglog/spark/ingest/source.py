"""Read the rows of files or of a table, and mark what cannot be read as a row.

Spark reads a malformed row of CSV or JSON as nulls. Here the row has its text in column MALFORMED and the reason in
column REASON, or it ends the read. Spark parses only the columns that a query uses, so a condition on every row uses
all of them: whether a row is malformed does not depend on the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMATS = ("csv", "json", "parquet", "orc", "text", "table")
PARSED = ("csv", "json")
MALFORMED, REASON = "_corrupt_record", "_corrupt_reason"
_MODES = ("FAILFAST", "PERMISSIVE")
_CORRUPT = "columnNameOfCorruptRecord"
SHOWN = 200  # characters of a row in an error
_ADVICE = "keep such rows apart with --reject DIR, or store what fits of them with --option mode=PERMISSIVE"


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

    Args:
        spark: The session.
        sources: Files, directories, or one table's name.
        kind: The format.
        options: Those of Spark's reader; for csv header is true by default. `mode` is PERMISSIVE, or FAILFAST, the
            default with a schema: a malformed row raises when it is read, and there are no further columns.
        schema: The columns of csv or json, such as "id BIGINT, name STRING"; default: Spark infers them.

    Raises:
        InvalidArgument: the format or the mode is unknown, several tables are named, a schema is given for another
            format, or the files have no rows or a column `_corrupt_record`.
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
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - an optional dependency

    mode = _take(options, "mode", "PERMISSIVE" if schema is None else "FAILFAST").upper()
    if mode not in _MODES:
        raise InvalidArgument(f"mode is {mode}; it must be PERMISSIVE or FAILFAST: --reject DIR leaves out such rows")
    if _take(options, _CORRUPT, MALFORMED) != MALFORMED:
        raise InvalidArgument(f"option {_CORRUPT} must be {MALFORMED}")
    if kind == "csv":
        defaults = {"header": "true"} if schema is None else {"header": "true", "enforceSchema": "false"}
        given = {name.lower() for name in options}
        options |= {name: value for name, value in defaults.items() if name.lower() not in given}
    options["mode"] = "PERMISSIVE"
    reader = spark.read.format(kind).options(**options).option(_CORRUPT, REASON)  # to see a column named MALFORMED
    found = (reader if schema is None else reader.schema(schema)).load(list(sources)).schema
    columns = StructType([field for field in found if field.name != REASON])
    if not columns:
        raise InvalidArgument(f"{', '.join(sources)}: there is no row that could be read")
    if MALFORMED in columns.names:
        raise InvalidArgument(f"{', '.join(sources)}: {MALFORMED} is for malformed rows; give the column another name")
    marked = StructType([*columns, StructField(MALFORMED, StringType())])
    rows = spark.read.format(kind).options(**options).option(_CORRUPT, MALFORMED).schema(marked).load(list(sources))
    reason = _reason(kind, options, columns)
    if mode == "FAILFAST":
        return rows.where(_or_raise(reason)).drop(MALFORMED)
    used = [f"isnull({_quoted(name)})" for name in marked.names]
    return rows.where(f"monotonically_increasing_id() >= 0 OR {' OR '.join(used)}").withColumn(REASON, reason)


def _take(options: dict[str, str], name: str, default: str) -> str:
    """Remove an option, whose name may have any case, and return its value."""
    for given in [one for one in options if one.lower() == name.lower()]:
        default = options.pop(given)
    return default


def _reason(kind: str, options: Mapping[str, str], columns: StructType) -> Column:
    """Return why a row is malformed, null if it is not: its text is parsed as columns of text, without their types."""
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    if kind == "csv":
        texts = functions.from_csv(MALFORMED, ", ".join(f"{_quoted(name)} STRING" for name in columns.names), options)
        rest = functions.lit(f"it does not have the {len(columns)} columns {', '.join(columns.names)}")
    else:
        texts = functions.from_json(MALFORMED, "MAP<STRING, STRING>", options)
        rest = functions.when(texts.isNull(), "it is not a JSON object").otherwise("a field has another type")
    wrong = [
        functions.when(
            functions.col(_quoted(field.name)).isNull() & texts[field.name].isNotNull(),
            functions.format_string(
                f"{_escaped(field.name)} is not {field.dataType.simpleString()}: %s", texts[field.name]
            ),
        )
        for field in columns
    ]
    return functions.when(functions.col(MALFORMED).isNotNull(), functions.coalesce(*wrong, rest))


def _or_raise(reason: Column) -> Column:
    """Return true for a row that is not malformed; else it raises, in a form that `jobs.failures` recognizes."""
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    text = functions.format_string(
        f"\nseglog.errors.InvalidArgument: %s: a row is malformed: %s, in %s; {_ADVICE}\n",
        functions.input_file_name(),
        *(
            functions.substring(functions.translate(one, "\n\r", "  "), 1, SHOWN)
            for one in (reason, functions.col(MALFORMED))
        ),
    )
    return functions.when(functions.col(MALFORMED).isNull(), True).otherwise(
        functions.raise_error(text).cast("boolean")
    )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _escaped(name: str) -> str:
    return name.replace("%", "%%")
