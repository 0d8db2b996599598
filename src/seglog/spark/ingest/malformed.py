"""Which rows of CSV and JSON are malformed, and why; what becomes of them.

Spark reads a malformed row as nulls. `source` gives it two columns: MALFORMED has its text, REASON why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from seglog.errors import InvalidArgument
from seglog.spark.jobs.failures import behind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

MALFORMED, REASON = "_corrupt_record", "_corrupt_reason"
MARKS = "seglog.malformed"  # in the metadata of column MALFORMED: the format; a source's own column has another meaning
MORE = "more text follows its first JSON value"
_PARSED = "_seglog_parsed"
_ELEMENT = "an element of the array is malformed"
_ARRAY = r"^\s*\["
_SHOWN = 200  # characters of a row in an error
_ADVICE = "keep such rows apart with --reject DIR, or store what fits of them with --option mode=PERMISSIVE"

# --- finding them -----------------------------------------------------------------------------------------------------


def reason_of(kind: str, options: Mapping[str, str], columns: StructType) -> Column:
    """Return why a row is malformed, null if it is not: its text is parsed as columns of text, without their types.

    It is one SQL text, as each call of Spark takes a while and there may be hundreds of columns. The parsed row is the
    variable of a lambda: so it is parsed once.
    """
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    given = ", ".join(f"{_literal(name)}, {_literal(value)}" for name, value in options.items())
    if kind == "csv":
        schema = ", ".join(f"{quoted(name)} STRING" for name in columns.names)
        rest = _literal(f"it does not have the {len(columns)} columns {', '.join(columns.names)}")
    else:
        schema = "MAP<STRING, STRING>"
        rest = f"if({_PARSED} IS NULL, 'it is not a JSON object', 'a field has another type')"
    labels = {field.name: _literal(f"{field.name} is not {field.dataType.simpleString()}: ") for field in columns}
    wrong = [
        f"CASE WHEN {quoted(name)} IS NULL THEN concat({label}, {_PARSED}[{_literal(name)}]) END"
        for name, label in labels.items()
    ]
    text = f"from_{kind}({MALFORMED}, {_literal(schema)}, map({given}))"
    found = f"transform(array({text}), {_PARSED} -> coalesce({', '.join([*wrong, rest])}))[0]"
    array = f"WHEN {MALFORMED} RLIKE {_literal(_ARRAY)} THEN {_literal(_ELEMENT)}" if kind == "json" else ""
    return functions.expr(f"CASE WHEN {MALFORMED} IS NULL THEN NULL {array} ELSE {found} END")


def with_more_text(spark: SparkSession, sources: Sequence[str], options: Mapping[str, str]) -> DataFrame:
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


def or_raise(reason: Column) -> Column:
    """Return true for a row that is not malformed; else it raises, in a form that `jobs.failures` recognizes."""
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    text = functions.format_string(
        f"\nseglog.errors.InvalidArgument: %s: a row is malformed: %s, in %s; {_ADVICE}\n",
        functions.input_file_name(),
        *(
            functions.substring(functions.translate(one, "\n\r", "  "), 1, _SHOWN)
            for one in (reason, functions.col(MALFORMED))
        ),
    )
    return functions.when(functions.col(MALFORMED).isNull(), True).otherwise(
        functions.raise_error(text).cast("boolean")
    )


# --- what becomes of them ---------------------------------------------------------------------------------------------


def marks(rows: DataFrame) -> str | None:
    """Return the format of the files whose malformed rows `read_source` has marked, None for rows without marks."""
    found = [field.metadata.get(MARKS) for field in rows.schema if field.name == MALFORMED]
    return found[0] if found else None


def shortened(rows: DataFrame) -> DataFrame:
    """Return rows without most of the text of a long array: each of its elements has all of it."""
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    if marks(rows) != "json":
        return rows
    text = functions.col(MALFORMED)
    long = text.rlike(_ARRAY) & (functions.length(text) > _SHOWN)
    begin = functions.concat(functions.substring(text, 1, _SHOWN), functions.lit("..."))
    return rows.withColumn(MALFORMED, functions.when(long, begin).otherwise(text))


def set_apart(rows: DataFrame, reject: str) -> tuple[DataFrame, int]:
    """Write the malformed rows to a directory; return the others, and the number of those written."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - an optional dependency
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - as above

    kind = marks(rows)
    if kind is None:
        raise InvalidArgument(
            "the rows do not show which are malformed, so none can be rejected: read csv or json by read_source, with "
            "the option mode=PERMISSIVE"
        )
    seen = Observation()
    reason = functions.col(REASON) if REASON in rows.columns else functions.lit("it is malformed")
    malformed = rows.where(functions.col(MALFORMED).isNotNull()).select(
        functions.input_file_name().alias("file"), functions.col(MALFORMED).alias("row"), reason.alias("reason")
    )
    if kind == "json":  # all rows of an array have its text
        one = functions.when(functions.col("row").rlike(_ARRAY), 0).otherwise(functions.monotonically_increasing_id())
        malformed = malformed.withColumn("one", one).dropDuplicates().drop("one")
    try:
        malformed.observe(seen, functions.count(functions.lit(1)).alias("rows")).write.mode("error").json(reject)
    except AnalysisException as error:
        if error.getCondition() == "PATH_ALREADY_EXISTS":
            raise InvalidArgument(f"{reject} exists; name a new directory for the malformed rows") from error
        raise
    except Exception as error:  # noqa: BLE001 - raised again, or what it has inside
        reraise(error, f"delete {reject}, which has a part of the malformed rows, before you run this again")
    return rows.where(functions.col(MALFORMED).isNull()).drop(MALFORMED, REASON), seen.get["rows"]


def reraise(error: Exception, note: str | None) -> NoReturn:
    """Raise what Spark's error has inside (see `behind`), with a note if there is one."""
    found = behind(error)
    if note is not None:
        found.add_note(note)
    raise found from (None if found is error else error)


def quoted(name: str) -> str:
    """Return a column's name in SQL."""
    return f"`{name.replace('`', '``')}`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
