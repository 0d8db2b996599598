from __future__ import annotations

import gzip
import io
import json
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import seglog
from seglog.cli import file_batches
from seglog.format import lines
from tests.cli.peaks import with_peak

if TYPE_CHECKING:
    from collections.abc import Callable

ALL_BYTES = bytes(range(256))


@pytest.fixture
def log(path: Any) -> Any:
    """Records of every shape."""
    with seglog.open(path) as log:
        log.append(b"text", key=b"k", timestamp=5)
        log.append(ALL_BYTES, key=ALL_BYTES, timestamp=-5, headers=[("a", b"\xff"), ("a", None), ("", b"")])
        log.append(None, key=b"", timestamp=2**62)
        log.append(b"", timestamp=0)
        log.append(b'{"base64": "AA=="}', timestamp=1)
    return path


def records(path: Any) -> list[Any]:
    with seglog.open(path, mode="r") as log:
        return list(log.scan())


@pytest.mark.parametrize("suffix", ["ndjson", "jsonl", "csv", "arrow", "parquet"])
def test_what_is_exported_is_imported_unchanged(cli: Callable[..., Any], log: Any, tmp_path: Any, suffix: str) -> None:
    file, copy = tmp_path / f"x.{suffix}", tmp_path / "copy"
    assert cli("export", log, file).text.startswith("exported 5 records")
    assert cli("import", copy, file).text.startswith("imported 5 records as offsets 0 to 4")
    assert records(copy) == records(log)


@pytest.mark.parametrize("kind", ["ndjson", "csv", "arrow"])
def test_a_log_goes_through_a_pipe_unchanged(cli: Callable[..., Any], log: Any, tmp_path: Any, kind: str) -> None:
    sent = cli("export", log, "-", "--format", kind)
    assert "exported 5 records" in sent.err
    assert cli("import", tmp_path / "copy", "-", "--format", kind, stdin=sent.out).code == 0
    assert records(tmp_path / "copy") == records(log)


def test_an_import_goes_behind_what_is_there(cli: Callable[..., Any], log: Any, tmp_path: Any) -> None:
    cli("export", log, tmp_path / "x.parquet", "--start", 1, "--limit", 2)
    told = cli("import", log, tmp_path / "x.parquet", "--json").json
    assert (told["records"], told["first_offset"], told["next_offset"]) == (2, 5, 7)
    assert [record[1:] for record in records(log)[5:]] == [record[1:] for record in records(log)[1:3]]


def test_lines_are_values(cli: Callable[..., Any], path: Any, tmp_path: Any) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes(b"a\n\nb\xff")
    assert cli("import", path, file).code == 0
    assert [record.value for record in records(path)] == [b"a", b"", b"b\xff"]
    assert cli("export", path, "-", "--format", "lines").out == b"a\n\nb\xff\n"


def test_lines_may_carry_keys(cli: Callable[..., Any], path: Any) -> None:
    cli("import", path, "-", "--format", "lines", "--key-separator", "=", stdin=b"a=1\nb=2=3\n")
    assert [record[2:4] for record in records(path)] == [(b"a", b"1"), (b"b", b"2=3")]


def test_lines_never_hide_a_newline_or_a_tombstone(cli: Callable[..., Any], path: Any, tmp_path: Any) -> None:
    for offset, words in enumerate((("a\nb",), ("--tombstone", "--key", "k"))):
        cli("append", path, *words)
        ended = cli("export", path, tmp_path / "x.txt", "--start", offset)
        assert ended.code == 2
        assert f"offset {offset}" in ended.err
        assert sorted(tmp_path.iterdir()) == [path]


def test_csv_is_text_as_it_stands(cli: Callable[..., Any], path: Any, tmp_path: Any) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(
        b'\xef\xbb\xbfid,body,at,other\r\n007,"two\nlines, and a comma",2024-05-01T12:00:00Z,1\r\n'
        b',,1714564800000001,x\r\n"",\xff,,1.5\r\n'
    )
    columns = ("--key-column", "id", "--value-column", "body", "--timestamp-column", "at")
    before = seglog.system_clock() if hasattr(seglog, "system_clock") else 0
    ended = cli("import", path, file, *columns)
    assert ended.code == 0, ended
    first, second, third = records(path)
    assert first[1:4] == (1_714_564_800_000_000, b"007", b"two\nlines, and a comma")
    assert second[1:4] == (1_714_564_800_000_001, None, b"")
    assert third[2:4] == (b"", b"\xff")
    assert third.timestamp > before


def test_csv_takes_key_value_and_timestamp_by_their_names(cli: Callable[..., Any], path: Any) -> None:
    cli("import", path, "-", "--format", "csv", stdin=b"timestamp,key,value\n7,k,v\n")
    assert records(path) == [(0, 7, b"k", b"v", ())]


def test_csv_without_rows_is_no_records(cli: Callable[..., Any], path: Any) -> None:
    assert cli("import", path, "-", "--format", "csv", stdin=b"value\n").text.startswith("imported 0 records in")


@pytest.mark.parametrize("write", [pq.write_table, feather.write_feather])
def test_tables_of_others_come_in(cli: Callable[..., Any], path: Any, tmp_path: Any, write: Any) -> None:
    moment = datetime(2024, 5, 1, 12, tzinfo=UTC)
    table = pa.table(
        {
            "id": pa.array([7, None], pa.int32()),
            "name": pa.array(["x", None]).dictionary_encode(),
            "when": pa.array([moment, None], pa.timestamp("ns")),
            "headers": pa.array(["not", "headers"]),
        }
    )
    file = tmp_path / "x.feather"
    write(table, file)
    kind = "arrow" if write is not pq.write_table else "parquet"
    columns = ("--key-column", "id", "--value-column", "name", "--timestamp-column", "when")
    ended = cli("import", path, file, "--format", kind, *columns, "--lossy")
    assert ended.code == 0, ended
    first, second = records(path)
    assert first == (0, 1_714_564_800_000_000, b"7", b"x", ())
    assert second[2:4] == (None, None)


@pytest.mark.parametrize(
    ("kind", "data", "words", "why"),
    [
        ("ndjson", b"{}\n", (), 'line 1 has no "value"'),
        ("csv", b"a,b\n1,2\n", (), "no column 'value'"),
        ("csv", b"value,value\n1,2\n", (), "more than one column"),
        ("csv", b"value\n1\n", ("--key-column", "id"), "no column 'id'"),
        ("csv", b"value,x\n1\n", (), "cannot be read"),
        ("csv", b"value,timestamp\n1,soon\n", (), "not a time"),
        ("arrow", b"nonsense" * 20, (), "the arrow input cannot be read"),
        ("parquet", b"nonsense" * 20, (), "cannot be read"),
        ("ndjson", b"", ("--value-column", "x"), "no columns"),
        ("csv", b"value\n1\n", ("--key-separator", ":"), "--format lines"),
    ],
)
def test_a_file_that_is_wrong_from_the_start_leaves_no_log_behind(
    cli: Callable[..., Any], path: Any, kind: str, data: bytes, words: tuple[str, ...], why: str
) -> None:
    ended = cli("import", path, "-", "--format", kind, *words, stdin=data)
    assert ended.code == 2, ended
    assert why in ended.err
    assert ended.err.count("\n") == 1
    assert not path.exists()


@pytest.mark.parametrize(
    ("column", "moments_us"),
    [
        (pa.array([1, -1], pa.int32()), [1, -1]),
        (pa.array([1, 2], pa.date32()), [86_400_000_000, 172_800_000_000]),
        (pa.array(["7", "1970-01-01T00:00:01"], pa.large_string()), [7, 1_000_000]),
        (pa.array([1, 2], pa.timestamp("s", tz="Asia/Tokyo")), [1_000_000, 2_000_000]),
        (pa.array([1.5, 2.5]), None),
    ],
)
def test_a_column_of_times_may_be_written_in_many_ways(
    cli: Callable[..., Any], path: Any, tmp_path: Any, column: Any, moments_us: list[int] | None
) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"value": ["a", "b"], "timestamp": column}), file)
    ended = cli("import", path, file)
    if moments_us is None:
        assert ended.code == 2
        assert "column 'timestamp' has type double" in ended.err
    else:
        assert [record.timestamp for record in records(path)] == moments_us


def test_values_that_are_no_bytes_are_refused_by_the_name_of_their_column(
    cli: Callable[..., Any], path: Any, tmp_path: Any
) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"price": [1.5]}), file)
    ended = cli("import", path, file, "--value-column", "price")
    assert ended.code == 2
    assert "column 'price' has type double" in ended.err
    assert not path.exists()


def test_an_arrow_stream_that_is_cut_short_is_told_from_a_whole_one(
    cli: Callable[..., Any], log: Any, tmp_path: Any
) -> None:
    whole = cli("export", log, "-", "--format", "arrow").out
    ended = cli("import", tmp_path / "copy", "-", "--format", "arrow", stdin=whole[: len(whole) // 2])
    assert ended.code == 2, ended
    assert ended.err.count("\n") == 1


def test_an_import_that_stops_says_how_many_records_went_in(
    cli: Callable[..., Any], path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_batches, "BATCH_RECORDS", 2)
    lines = [b'{"value": "v"}'] * 5 + [b"oops"]
    ended = cli("import", path, "-", stdin=b"\n".join(lines))
    assert ended.code == 2
    assert "line 6" in ended.err
    assert "4 records appended before that: offsets 0 to 3" in ended.err
    assert len(records(path)) == 4


def test_a_file_that_is_not_there_is_exit_code_3(cli: Callable[..., Any], path: Any, tmp_path: Any) -> None:
    ended = cli("import", path, tmp_path / "missing.ndjson")
    assert ended.code == 3
    assert "missing.ndjson" in ended.err
    assert not path.exists()
    assert cli("export", path, tmp_path / "x.ndjson").code == 3
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_does_not_say_what_it_is_needs_a_format(cli: Callable[..., Any], log: Any, tmp_path: Any) -> None:
    assert cli("import", log, tmp_path / "x.dat").code == 2
    assert cli("export", log, tmp_path / "x.dat").code == 2
    assert cli("export", log, tmp_path / "x.dat", "--format", "ndjson").code == 0


def test_an_export_that_fails_leaves_no_half_file(
    cli: Callable[..., Any], log: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.ndjson"
    file.write_text("old")

    def broken(_record: object) -> bytes:
        raise OSError(28, "No space left on device", "x.ndjson")

    monkeypatch.setattr("seglog.cli.record_formats.encode_record", broken)
    ended = cli("export", log, file, "--force")
    assert ended.code == 6
    assert ended.err == "seglog: x.ndjson: No space left on device\n"
    assert file.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == [log, file]


def test_an_export_overwrites_only_when_told(cli: Callable[..., Any], log: Any, tmp_path: Any) -> None:
    file = tmp_path / "x.ndjson"
    file.write_text("old")
    link = tmp_path / "link.ndjson"
    link.symlink_to(file)
    assert cli("export", log, file).code == 2
    assert file.read_text() == "old"
    assert cli("export", log, link, "--force").code == 0
    assert link.is_symlink()
    assert len(file.read_text().splitlines()) == 5
    assert cli("export", log, tmp_path, "--format", "ndjson", "--force").code == 2


def test_a_device_is_written_not_replaced(cli: Callable[..., Any], log: Any) -> None:
    assert cli("export", log, "/dev/null", "--format", "arrow", "--force").code == 0


def test_quiet_is_quiet_and_json_is_json(cli: Callable[..., Any], log: Any, tmp_path: Any) -> None:
    assert cli("export", log, tmp_path / "a.ndjson", "--quiet").out == b""
    assert cli("export", log, tmp_path / "b.ndjson", "--json").json["records"] == 5
    shown = cli("export", log, "-", "--quiet")
    assert shown.err == ""
    assert [json.loads(line)["offset"] for line in shown.lines] == [0, 1, 2, 3, 4]


def test_a_bar_is_shown_on_a_terminal_only(
    cli: Callable[..., Any], log: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert cli("import", tmp_path / "a", "-", stdin=b'{"value": "v"}').err == ""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    cli("export", log, tmp_path / "x.parquet")
    cli("import", tmp_path / "b", tmp_path / "x.parquet")
    cli("verify", tmp_path / "b")
    for word in ("export", "import", "verify"):
        assert word in screen.getvalue()


def test_batches_are_bounded_by_bytes_and_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_batches, "BATCH_BYTES", 1000)
    monkeypatch.setattr(file_batches, "BATCH_RECORDS", 10)

    def rows(lines: bytes) -> list[int]:
        source = file_batches.open_source(
            io.BytesIO(lines), "lines", file_batches.Columns(), delimiter=b"\n", key_separator=None
        )
        return [batch.num_rows for batch in source.batches]

    assert rows(b"x\n" * 25) == [10, 10, 5]
    assert rows((b"x" * 600 + b"\n") * 3) == [2, 1]


@pytest.mark.parametrize("suffix", ["lines", "jsonl", "csv", "ndjson"])
def test_an_endless_line_is_refused_before_all_of_it_is_read(
    suffix: str,
) -> None:
    class Endless(io.RawIOBase):
        """Bytes without a line end, of which a reader must not want many."""

        read_bytes = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            Endless.read_bytes += len(buffer)
            assert Endless.read_bytes < 300_000_000
            buffer[:] = b" " * len(buffer)
            return len(buffer)

    kind = {"jsonl": "json"}.get(suffix, suffix)
    file = io.BufferedReader(Endless())
    with pytest.raises(seglog.InvalidArgument, match=r"line 1 has more than 268435456 bytes|no header line"):
        source = file_batches.open_source(file, kind, file_batches.Columns(), delimiter=b"\n", key_separator=None)
        list(source.batches)


def test_a_line_may_have_as_many_bytes_as_an_option_allows(cli: Callable[..., Any], tmp_path: Any) -> None:
    file = tmp_path / "x.lines.gz"
    file.write_bytes(gzip.compress(b"a\n" + b"b" * 3_000_000 + b"\n" + b"c" * 3_000_000))
    told = cli("import", tmp_path / "no", file, "--line-bytes", "1MiB")
    assert told.code != 0
    assert "line 2 has 3000000 bytes, and 1048576 are read; check" in told.err
    assert "--line-bytes to that number" in told.err
    told = cli("import", tmp_path / "no", file, "--line-bytes", "10")
    assert "line 2 has more than 40 bytes, and 10 are read; check" in told.err
    assert "--line-bytes beyond that number" in told.err
    assert cli("import", tmp_path / "exact", file, "--line-bytes", "3000000").text.startswith("imported 3 records")
    assert cli("import", tmp_path / "log", file).text.startswith("imported 3 records")


def test_the_error_for_a_long_line_of_an_export_names_the_size_with_which_it_can_be_imported(
    cli: Callable[..., Any], tmp_path: Any, monkeypatch: Any
) -> None:
    value = bytes(range(256)) * 16 * 1024  # 4 MiB, not text: base64
    with seglog.open(tmp_path / "log") as log:
        log.append(b"before")
        log.append(value, key=b"k")
        log.append(b"after")
    file = tmp_path / "x.ndjson"
    assert cli("export", tmp_path / "log", file).code == 0
    monkeypatch.setattr(file_batches, "LINE_BYTES", 2 * 1024 * 1024)
    told = cli("import", tmp_path / "copy", file)
    needed = re.search(r"line 2 has (\d+) bytes", told.err)
    assert needed is not None
    assert cli("import", tmp_path / "copy", file, "--line-bytes", needed[1]).code == 0
    with seglog.open(tmp_path / "copy") as copy:
        assert [record.value for record in copy.scan()] == [b"before", value, b"after"]


@pytest.mark.parametrize(("delimiter", "size"), [(b"\n", 3_000_000), (b"<end>", 2**20 + 4), (b"<end>", 2 * 2**20 - 2)])
def test_the_size_of_a_long_line_is_counted_whatever_ends_it(delimiter: bytes, size: int) -> None:
    stream = io.BytesIO(b"short" + delimiter + b"x" * size + delimiter + b"rest")
    with pytest.raises(seglog.InvalidArgument, match=f"line 2 has {size} bytes"):
        list(lines.split(stream, delimiter, 2**19))


@pytest.mark.proof
def test_an_import_of_a_line_of_a_gigabyte_from_a_megabyte_takes_little_memory(tmp_path: Any) -> None:
    file = tmp_path / "x.lines.gz"
    with gzip.open(file, "wb", 1) as target:
        for _ in range(1200):
            target.write(bytes(2**20))
    assert file.stat().st_size < 10_000_000
    code, peak = with_peak("import", tmp_path / "log", file)
    assert code not in (0, -9)
    assert peak < 600_000_000
