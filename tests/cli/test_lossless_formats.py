"""Each format carries every record there and back, or refuses those that it cannot carry."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seglog
from seglog.record import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALL_BYTES = bytes(range(256))
VALUES = (None, b"", b"text", ALL_BYTES, b'a "quoted", b\r\nc\nd\r', b" spaces ", b'""', b"true", "größe".encode())
KEYS = (None, b"", b"k", ALL_BYTES)
HEADERS = ((), (("a", b"1"), ("a", None), ("", b""), ("\N{SNOWMAN},\n", ALL_BYTES)))
YEAR_1, YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999
TIMES = (MIN_TIMESTAMP, YEAR_1 - 1, YEAR_1, -1, 0, 1, 1_700_000_000_000_000, YEAR_9999, YEAR_9999 + 1, MAX_TIMESTAMP)
EARLIER = b"offset,timestamp,key,value,headers\n"


@pytest.fixture
def log(path: Path) -> Path:
    with seglog.open(path) as log:
        for key, value, headers in product(KEYS, VALUES, HEADERS):
            log.append(value, key=key, headers=headers, timestamp=7)
        for timestamp in TIMES:
            log.append(b"v", timestamp=timestamp)
    return path


def records(path: Path) -> list[Any]:
    with seglog.open(path, mode="r") as log:
        return list(log.scan())


@pytest.mark.parametrize("command", ["export", "read"])
@pytest.mark.parametrize("kind", ["ndjson", "csv", "arrow", "parquet"])
def test_every_record_goes_there_and_back(
    cli: Callable[..., Any], log: Path, tmp_path: Path, kind: str, command: str
) -> None:
    file, copy = tmp_path / f"x.{kind}", tmp_path / "copy"
    written = ("export", log, file) if command == "export" else ("read", log, "--format", kind, "--output", file)
    assert cli(*written).code == 0
    assert cli("import", copy, file).code == 0
    assert records(copy) == records(log)


def test_a_topic_goes_through_csv(cli: Callable[..., Any], tmp_path: Path) -> None:
    with seglog.Topic.create(tmp_path / "one", partitions=3) as topic:
        for number in range(30):
            topic.append(None if number % 5 == 0 else b"%d" % number, key=b"%d" % (number % 7))
    seglog.Topic.create(tmp_path / "other", partitions=3).close()
    assert cli("export", tmp_path / "one", tmp_path / "x.csv").code == 0
    assert (tmp_path / "x.csv").read_bytes().startswith(b"partition,offset,timestamp,key,value,headers,tombstone\n")
    assert cli("import", tmp_path / "other", tmp_path / "x.csv").code == 0
    for number in range(3):
        assert records(tmp_path / "other" / str(number)) == records(tmp_path / "one" / str(number))


@pytest.mark.parametrize(
    ("record", "what"),
    [({"key": b"k"}, "a key"), ({"key": b""}, "a key"), ({"headers": [("h", b"1")]}, "headers")],
)
def test_lines_refuse_what_they_cannot_hold_unless_they_may_lose_it(
    cli: Callable[..., Any], path: Path, tmp_path: Path, record: dict[str, Any], what: str
) -> None:
    with seglog.open(path) as log:
        log.append(b"a")
        log.append(b"b", **record)
    refused = cli("export", path, tmp_path / "x.txt")
    assert refused.code == 2
    assert f"offset 1 has {what}" in refused.err
    assert "--lossy" in refused.err
    assert not (tmp_path / "x.txt").exists()
    assert cli("export", path, tmp_path / "x.txt", "--lossy").code == 0
    assert (tmp_path / "x.txt").read_bytes() == b"a\nb\n"


def test_lines_refuse_a_tombstone_in_any_case(cli: Callable[..., Any], path: Path, tmp_path: Path) -> None:
    with seglog.open(path) as log:
        log.append(None)
    refused = cli("export", path, tmp_path / "x.txt", "--lossy")
    assert refused.code == 2
    assert "offset 0 is a tombstone" in refused.err


def test_csv_of_an_earlier_version_is_refused_where_it_does_not_show_tombstones(
    cli: Callable[..., Any], path: Path, tmp_path: Path
) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(EARLIER + b'0,5,k,v,"[[""h"", null]]"\n1,5,k,"",\n')
    assert cli("import", path, file).code == 0
    assert [(one.value, one.headers) for one in records(path)] == [(b"v", (("h", None),)), (b"", ())]
    file.write_bytes(EARLIER + b"0,5,k,v,\n1,5,k,,\n")
    refused = cli("import", path, file)
    assert refused.code == 2
    assert "row 2 has no value" in refused.err
    assert len(records(path)) == 2
    assert cli("import", path, file, "--lossy").code == 0
    assert [one.value for one in records(path)[2:]] == [b"v", b""]


def test_csv_of_other_programs_keeps_an_empty_cell_as_an_empty_value(
    cli: Callable[..., Any], path: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_bytes(b"key,value\na,\n,b\n")
    assert cli("import", path, tmp_path / "x.csv").code == 0
    assert [(one.key, one.value) for one in records(path)] == [(b"a", b""), (None, b"b")]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (b"v,[],true", "is 'true', but the row has a value"),
        (b"v,[],yes", "must be 'true', 'false' or empty"),
        (b"v,a=1,", "is not a JSON array of"),
        (b'v,"[[1, ""a""]]",', "is not a JSON array of"),
        (b'v,"[[""\\ud800"", ""a""]]",', "is not a JSON array of"),
        (b'v,"[[""a"", {""base64"": 3}]]",', "is not a JSON array of"),
        (b"v,7,", "is not a JSON array of"),
    ],
)
def test_csv_with_cells_that_mean_nothing_is_refused(
    cli: Callable[..., Any], path: Path, tmp_path: Path, row: bytes, why: str
) -> None:
    (tmp_path / "x.csv").write_bytes(b"value,headers,tombstone\nfirst,[],false\n" + row + b"\n")
    refused = cli("import", path, tmp_path / "x.csv")
    assert refused.code == 2
    assert "row 2" in refused.err
    assert why in refused.err
    assert not path.exists() or records(path) == []
    if "JSON" in why:
        assert cli("import", path, tmp_path / "x.csv", "--lossy").code == 0
        assert [(one.value, one.headers) for one in records(path)] == [(b"first", ()), (b"v", ())]


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_a_table_whose_headers_are_none_is_refused_unless_they_may_be_lost(
    cli: Callable[..., Any], path: Path, tmp_path: Path, kind: str
) -> None:
    table, file = pa.table({"value": ["v"], "headers": ["a=1"]}), tmp_path / f"x.{kind}"
    if kind == "parquet":
        pq.write_table(table, file)
    else:
        with pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    refused = cli("import", path, file)
    assert refused.code == 2
    assert "'headers'" in refused.err
    assert "--lossy" in refused.err
    assert cli("import", path, file, "--lossy").code == 0
    assert [one.value for one in records(path)] == [b"v"]
