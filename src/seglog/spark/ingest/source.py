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
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

FORMATS = ("csv", "json", "parquet", "orc", "text", "table")
PARSED = ("csv", "json")
MALFORMED, REASON = "_corrupt_record", "_corrupt_reason"
MARKS = "seglog.malformed"  # in the metadata of column MALFORMED: the format; a source's own column has another meaning
_MODES = ("FAILFAST", "PERMISSIVE")
_CORRUPT = "columnNameOfCorruptRecord"
_UNUSED = "_seglog_corrupt_record"
_PARSED = "_seglog_parsed"
_MORE = "more text follows its first JSON value"
_ELEMENT = "an element of the array is malformed"
ARRAY = r"^\s*\["
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
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - as above

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
    found = _with_schema(spark.read.format(kind).options(**options).option(_CORRUPT, _UNUSED), schema).load(
        list(sources)
    )
    columns = _own_columns(found.schema, ", ".join(sources))
    if columns.names:
        marked = StructType([*columns, StructField(MALFORMED, StringType())])
        rows = spark.read.format(kind).options(**options).option(_CORRUPT, MALFORMED).schema(marked).load(list(sources))
        reason = _reason(kind, options, columns)
    else:  # empty files, or each row is {}
        rows, reason = found.select(functions.lit(None).cast("string").alias(MALFORMED)), functions.lit(None)
    reason = reason.cast("string")
    if mode == "FAILFAST":
        rows = rows.where(_or_raise(reason))
    else:
        used = [f"isnull({_quoted(name)})" for name in rows.columns]
        rows = rows.where(f"monotonically_increasing_id() >= 0 OR {' OR '.join(used)}").withColumn(REASON, reason)
    if kind == "json":
        more = _with_more_text(spark, sources, options)
        if mode == "FAILFAST":
            more = more.where(_or_raise(functions.lit(_MORE)))
        else:
            more = more.withColumn(REASON, functions.lit(f"{_MORE}, which is read as a row"))
        rows = rows.unionByName(more, allowMissingColumns=True)
    return rows.drop(MALFORMED) if mode == "FAILFAST" else rows.withMetadata(MALFORMED, {MARKS: kind})


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


def _with_more_text(spark: SparkSession, sources: Sequence[str], options: Mapping[str, str]) -> DataFrame:
    """Return the rows of JSON that go on after a first value, as column MALFORMED: Spark ignores what follows it.

    The same files are read as text. A row is a value and no more if an object and an array around it end where they
    should: the object with a second field, the array with one element.
    """
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    given = {name.lower(): value for name, value in options.items()}
    whole = given.get("multiline", "false").lower() == "true"
    rows = spark.read.options(**options).option("wholetext", whole).format("text").load(list(sources))
    text = functions.col(rows.columns[0])
    encoding = given.get("encoding", given.get("charset", "UTF-8"))
    if encoding.upper() not in ("UTF-8", "UTF8"):
        text = functions.decode(text.cast("binary"), encoding)
    rows = rows.select(text.alias(MALFORMED))
    around = functions.concat(functions.lit('{"row":['), functions.col(MALFORMED), functions.lit('\n],"end":1}'))
    found = functions.from_json(around, "row ARRAY<STRING>, end INT", options)
    ends = functions.transform(
        functions.array(found), lambda one: one["end"].isNotNull() & (functions.size(one["row"]) < 2)
    )
    fields, elements = (
        functions.from_json(MALFORMED, type_, options).isNotNull() for type_ in ("MAP<STRING, STRING>", "ARRAY<STRING>")
    )
    return rows.where(~functions.coalesce(ends[0], functions.lit(False)) & (fields | elements))


def _reason(kind: str, options: Mapping[str, str], columns: StructType) -> Column:
    """Return why a row is malformed, null if it is not: its text is parsed as columns of text, without their types.

    It is one SQL text, as each call of Spark takes a while and there may be hundreds of columns. The parsed row is the
    variable of a lambda: so it is parsed once.
    """
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    given = ", ".join(f"{_literal(name)}, {_literal(value)}" for name, value in options.items())
    if kind == "csv":
        schema = ", ".join(f"{_quoted(name)} STRING" for name in columns.names)
        rest = _literal(f"it does not have the {len(columns)} columns {', '.join(columns.names)}")
    else:
        schema = "MAP<STRING, STRING>"
        rest = f"if({_PARSED} IS NULL, 'it is not a JSON object', 'a field has another type')"
    labels = {field.name: _literal(f"{field.name} is not {field.dataType.simpleString()}: ") for field in columns}
    wrong = [
        f"CASE WHEN {_quoted(name)} IS NULL THEN concat({label}, {_PARSED}[{_literal(name)}]) END"
        for name, label in labels.items()
    ]
    text = f"from_{kind}({MALFORMED}, {_literal(schema)}, map({given}))"
    found = f"transform(array({text}), {_PARSED} -> coalesce({', '.join([*wrong, rest])}))[0]"
    array = f"WHEN {MALFORMED} RLIKE {_literal(ARRAY)} THEN {_literal(_ELEMENT)}" if kind == "json" else ""
    return functions.expr(f"CASE WHEN {MALFORMED} IS NULL THEN NULL {array} ELSE {found} END")


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


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
