"""Rows of CSV and JSON that cannot be read as rows: the ingest job fails at them, counts them or keeps them apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from seglog.errors import InvalidArgument
from seglog.spark.ingest import __main__ as program
from seglog.spark.ingest import create_topic, ingest, read_source
from seglog.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "id INT, name STRING, n INT"
CSV = {  # a row of a file with COLUMNS, and why it is malformed
    "1,a,1": None,
    "2,b": "it does not have the 3 columns id, name, n",
    "3,c,3,x": "it does not have the 3 columns id, name, n",
    "x,100%,4": "id is not int: x",
    "5,e,": None,
    "6,f,99999999999": "n is not int: 99999999999",
}
JSON = {
    '{"id": 1, "name": "a"}': None,
    '{"id":': "it is not a JSON object",
    '{"id": "x", "name": "b"}': "id is not int: x",
    "5": "it is not a JSON object",
    "plain": "it is not a JSON object",
    '{"id": 2.5, "n": null}': "id is not int: 2.5",
    '{"name": "c", "other": 1}': None,
}
FILES = {"csv": ["id,name,n", *CSV], "json": [*JSON]}
REASONS = {"csv": CSV, "json": JSON}


@pytest.fixture(params=["csv", "json"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(kind: str, tmp_path: Path) -> Path:
    path = tmp_path / f"orders.{kind}"
    path.write_text("\n".join(FILES[kind]) + "\n")
    return path


@pytest.fixture
def topic(tmp_path: Path) -> Path:
    create_topic(tmp_path / "orders", 1)
    return tmp_path / "orders"


def values(path: Path) -> list[dict[str, Any]]:
    with Topic.open(path, mode="r") as topic:
        return [json.loads(record.value or b"") for record in topic.partition(0).scan()]


def malformed(kind: str) -> dict[str, str]:
    return {row: reason for row, reason in REASONS[kind].items() if reason is not None}


def rejects(path: Path) -> dict[str, str]:
    lines = [json.loads(line) for part in path.glob("part-*") for line in part.read_text().splitlines()]
    assert all(line["file"].startswith("file:///") for line in lines)
    return {line["row"]: line["reason"] for line in lines}


def test_with_a_schema_a_malformed_row_ends_the_run_and_nothing_is_stored(
    spark: SparkSession, kind: str, file: Path, topic: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = [str(topic), str(file), "--format", kind, "--schema", COLUMNS]
    for value in ("to_json(struct(*))", "cast(id AS string)"):  # Spark parses only the columns that are used
        assert program.main([*words, "--value", value]) == 2
        told = capfdbinary.readouterr().err.decode()
        assert f"orders.{kind}: a row is malformed: " in told
        assert any(reason in told for reason in malformed(kind).values())
        assert "--reject DIR" in told
        assert "--option mode=PERMISSIVE" in told
    assert values(topic) == []


def test_reject_keeps_malformed_rows_with_the_reason_and_the_others_are_stored(
    spark: SparkSession, kind: str, file: Path, topic: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = [str(topic), str(file), "--format", kind, "--schema", COLUMNS, "--run", "may"]
    assert program.main([*words, "--json", "--reject", str(tmp_path / "rejected")]) == 0
    told = json.loads(capfdbinary.readouterr().out)
    bad = malformed(kind)
    assert (told["records"], told["malformed"], told["rejected"]) == (len(REASONS[kind]) - len(bad), 0, len(bad))
    assert rejects(tmp_path / "rejected") == bad
    assert [row.get("name") for row in values(topic)] == (["a", "e"] if kind == "csv" else ["a", "c"])
    assert program.main([*words, "--reject", str(tmp_path / "rejected")]) == 0, "the run is stored already"
    assert program.main([*words[:-1], "june", "--reject", str(tmp_path / "rejected")]) == 2
    assert b"rejected exists" in capfdbinary.readouterr().err


def test_permissive_rows_are_stored_with_their_text_and_counted(
    spark: SparkSession, kind: str, file: Path, topic: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = [str(topic), str(file), "--format", kind, "--schema", COLUMNS, "--option", "MODE=permissive"]
    assert program.main(words) == 0
    bad = malformed(kind)
    assert f"{len(bad)} records of malformed rows".encode() in capfdbinary.readouterr().err
    found = values(topic)
    assert len(found) == len(REASONS[kind])
    stored = {row["_corrupt_record"]: row["_corrupt_reason"] for row in found if "_corrupt_record" in row}
    assert stored == bad


@pytest.mark.parametrize("expression", ["to_json(struct(*))", "coalesce(id, 'none')"])
def test_malformed_rows_of_an_inferred_schema_are_counted_whatever_columns_are_used(
    spark: SparkSession, kind: str, file: Path, topic: Path, tmp_path: Path, expression: str
) -> None:
    rows = read_source(spark, [str(file)], kind)
    expected = 2 if kind == "csv" else 3
    kept = ingest(spark, rows, topic, value=expression)
    assert (kept.records, kept.malformed, kept.rejected) == (len(REASONS[kind]), expected, 0)
    apart = ingest(spark, rows, topic, value=expression, order_by="id", reject=tmp_path / "rejected")
    assert (apart.records, apart.malformed, apart.rejected) == (len(REASONS[kind]) - expected, 0, expected)
    assert len(rejects(tmp_path / "rejected")) == expected


def test_a_field_of_an_object_that_no_expression_uses_is_checked(
    spark: SparkSession, topic: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "customer": {"name": "a", "age": "old"}}\n')
    rows = read_source(
        spark, [str(tmp_path / "a.json")], "json", schema="id INT, customer STRUCT<name STRING, age INT>"
    )
    with pytest.raises(InvalidArgument, match=r"a field has another type, in .*old.*--reject DIR"):
        ingest(spark, rows, topic, value="customer.name")


def test_a_header_that_is_not_the_schemas_is_an_error(
    spark: SparkSession, topic: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "a.csv").write_text("name,id\n1,2\n")
    words = [str(topic), str(tmp_path / "a.csv"), "--schema", "id STRING, name STRING"]
    assert program.main(words) == 2
    assert b"CSV header does not conform to the schema" in capfdbinary.readouterr().err
    assert program.main([*words, "--option", "enforceSchema=true"]) == 0
    assert values(topic) == [{"id": "1", "name": "2"}]


def test_what_cannot_be_rejected_is_one_clear_error(spark: SparkSession, topic: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n1\n")
    with pytest.raises(InvalidArgument, match=r"mode is DROPMALFORMED; .*--reject DIR"):
        read_source(spark, [str(path)], "csv", {"mode": "dropmalformed"})
    with pytest.raises(InvalidArgument, match="parquet has its own"):
        read_source(spark, [str(path)], "parquet", schema="id INT")
    with pytest.raises(InvalidArgument, match="columnNameOfCorruptRecord must be _corrupt_record"):
        read_source(spark, [str(path)], "csv", {"columnNameOfCorruptRecord": "bad"})
    with pytest.raises(InvalidArgument, match="do not show which are malformed"):
        ingest(spark, spark.range(3), topic, reject=tmp_path / "rejected")
    (tmp_path / "b.json").write_text('{"id": 1, "_corrupt_record": "mine"}\n')
    with pytest.raises(InvalidArgument, match="give the column another name"):
        read_source(spark, [str(tmp_path / "b.json")], "json")
    (tmp_path / "c.json").write_text("neither\nnor\n")
    with pytest.raises(InvalidArgument, match="no row that could be read"):
        read_source(spark, [str(tmp_path / "c.json")], "json")
    for name in ("_corrupt_reason", "_Corrupt_Record"):
        (tmp_path / "d.csv").write_text(f"id,{name},n\n1,mine,7\n")
        with pytest.raises(InvalidArgument, match=f"{name} is for malformed rows"):
            read_source(spark, [str(tmp_path / "d.csv")], "csv")
    for schema in ("id INT NOT NULL", "id STRUCT<a: INT NOT NULL>"):
        with pytest.raises(InvalidArgument, match="id is NOT NULL"):
            read_source(spark, [str(path)], "json", schema=schema)
    rows = read_source(spark, [str(path)], "csv")
    with pytest.raises(Exception, match="no") as caught:
        ingest(spark, rows, topic, key="raise_error('no')", reject=tmp_path / "rejected")
    assert "delete it before you run this again" in caught.value.__notes__[0]
    assert values(topic) == []


def test_text_after_the_first_value_of_a_line_of_json_is_not_lost(
    spark: SparkSession, topic: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    good = [
        '{"id": 1, "name": "a"} ',
        "",
        '[{"id": 2}, {"id": 3, "name": "},{"}]',
        "\t",
        "[]",
        '{"id": 4, "name": "]}"}',
    ]
    more = [
        '{"id":5}{"id":6}',
        '{"id":7} xx',
        '{"id":8},',
        '{"id":9}]',
        '{"id":10}}',
        '{"id":11},"end":1',
        '[{"id":12}] 3',
    ]
    (tmp_path / "a.json").write_text("\n".join(good) + "\n")
    words = [str(topic), str(tmp_path / "a.json"), "--format", "json"]
    assert program.main([*words, "--schema", "id INT, name STRING"]) == 0
    assert [row["id"] for row in values(topic)] == [1, 2, 3, 4]
    for number, line in enumerate(more[:2]):
        (tmp_path / "b.json").write_text(line + "\n")
        assert program.main([str(topic), str(tmp_path / "b.json"), *words[2:], "--schema", "id INT"]) == 2, number
        assert b"a row is malformed: more text follows its first JSON value" in capfdbinary.readouterr().err
    (tmp_path / "a.json").write_text("\n".join([*good, *more]) + "\n")
    assert program.main([*words, "--reject", str(tmp_path / "rejected")]) == 0
    assert {*rejects(tmp_path / "rejected")} == {*more}
    (tmp_path / "c.json").write_text('{"id": 1}\n{"id": 2}\n')  # not one value, as multiLine says it is
    rows = read_source(spark, [str(tmp_path / "c.json")], "json", {"multiLine": "true"})
    assert ingest(spark, rows, topic).malformed == 1


def test_a_malformed_array_is_kept_once(spark: SparkSession, topic: Path, tmp_path: Path) -> None:
    text = "[" + ",\n".join(f'{{"id": {number}}}' for number in range(300)) + ',\n{"id": "x"}]\n'
    (tmp_path / "a.json").write_text(text)
    rows = read_source(
        spark, [str(tmp_path / "a.json")], "json", {"multiLine": "true", "mode": "PERMISSIVE"}, schema="id INT"
    )
    found = ingest(spark, rows, topic, reject=tmp_path / "rejected")
    assert (found.records, found.rejected) == (0, 1)
    assert rejects(tmp_path / "rejected") == {text: "an element of the array is malformed"}
    assert ingest(spark, rows, topic).malformed == 301
    assert max(len(row["_corrupt_record"]) for row in values(topic)) < 250


@pytest.mark.parametrize(("text", "kind", "count"), [("", "csv", 0), ("", "json", 0), ("{}\n{}\n", "json", 2)])
def test_a_file_without_columns_has_rows_that_are_not_malformed(
    spark: SparkSession, topic: Path, tmp_path: Path, text: str, kind: str, count: int
) -> None:
    (tmp_path / "a").write_text(text)
    words = [str(topic), str(tmp_path / "a"), "--format", kind]
    assert program.main(words) == 0
    assert values(topic) == [{}] * count
    assert program.main([*words, "--reject", str(tmp_path / "rejected")]) == 0
    assert values(topic) == [{}] * (2 * count)


def test_a_row_is_parsed_once_however_many_columns_there_are(spark: SparkSession, tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(100)]
    (tmp_path / "a.csv").write_text(f"{','.join(names)}\n1,2\n")
    (tmp_path / "a.json").write_text(json.dumps(dict.fromkeys(names, 1)) + "\n")
    for kind in ("csv", "json"):
        rows = read_source(spark, [str(tmp_path / f"a.{kind}")], kind)
        plan = rows._jdf.queryExecution().optimizedPlan().toString()
        assert plan.count("from_csv(" if kind == "csv" else "from_json(StructField") <= 1
        assert len(plan) < 100_000


def test_columns_of_other_formats_may_have_the_names(spark: SparkSession, topic: Path, tmp_path: Path) -> None:
    spark.sql("SELECT 1 AS id, 'mine' AS _corrupt_record").write.parquet(str(tmp_path / "a"))
    rows = read_source(spark, [str(tmp_path / "a")], "parquet")
    assert ingest(spark, rows, topic).malformed == 0
    assert values(topic) == [{"id": 1, "_corrupt_record": "mine"}]
    with pytest.raises(InvalidArgument, match="do not show which are malformed"):
        ingest(spark, rows, topic, reject=tmp_path / "rejected")


def test_names_with_percent_signs(spark: SparkSession, topic: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"s": {"10%d": 1}}\n{"s": 5}\n')
    rows = read_source(
        spark, [str(tmp_path / "a.json")], "json", {"mode": "PERMISSIVE"}, schema="s STRUCT<`10%d`: INT>"
    )
    assert ingest(spark, rows, topic, reject=tmp_path / "rejected").records == 1
    assert rejects(tmp_path / "rejected") == {'{"s": 5}': "s is not struct<10%d:int>: 5"}


def test_rejects_that_cannot_be_written_are_named_in_the_error(
    spark: SparkSession, topic: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\nx\n")
    rows = read_source(spark, [str(tmp_path / "a.csv")], "csv", {"mode": "PERMISSIVE"}, schema="id INT")
    failing = rows.where("raise_error('no') IS NULL OR id > 0")
    with pytest.raises(Exception, match="no") as caught:
        ingest(spark, failing, topic, reject=tmp_path / "rejected")
    assert "rejected, which has a part of the malformed rows" in caught.value.__notes__[0]


def test_rejects_inside_the_topic_are_refused_whatever_form_the_url_has(
    spark: SparkSession, topic: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    rows = read_source(spark, [str(tmp_path / "a.csv")], "csv")
    for place in (f"file:{topic}/r", f"file://{topic}/r", f"file://localhost{topic}/r", f"{topic}/r"):
        with pytest.raises(InvalidArgument, match="inside one another"):
            ingest(spark, rows, topic, reject=place)
