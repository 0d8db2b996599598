"""What is printed and what is read: format strings, tables, CSV, filters, times, JSON of others, compression."""

from __future__ import annotations

import base64
import gzip
import io
import json
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seglog
from seglog.cli import record_formats
from seglog.record import Record
from seglog.terminal import units
from tests.cli.peaks import with_peak

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli = Callable[..., Any]

SECOND = 1_000_000


@pytest.fixture
def log(path: Any) -> Any:
    """Six records, of which one is a tombstone and one no text."""
    with seglog.open(path) as log:
        for number in range(4):
            value = json.dumps({"qty": number, "user": {"name": "Ann" if number % 2 else "Bob"}}).encode()
            log.append(value, key=b"k%d" % (number % 2), timestamp=number * SECOND, headers=[("n", b"%d" % number)])
        log.append(None, key=b"k0", timestamp=4 * SECOND)
        log.append(b'\xff,"\n', timestamp=5 * SECOND)
    return path


def test_a_format_string_prints_fields_as_kcat_does(cli: Cli, log: Any) -> None:
    shown = cli("read", log, "-n", 2, "--format", r"%t %p %o %k/%K %S %T %u %d %h %%\n")
    size = len(json.dumps({"qty": 0, "user": {"name": "Bob"}}))
    assert shown.text.splitlines() == [
        f"orders 0 0 k0/2 {size} 0 0 1970-01-01T00:00:00Z n=0 %",
        f"orders 0 1 k1/2 {size} 1000 1000000 1970-01-01T00:00:01Z n=1 %",
    ]
    assert cli("tail", log, "-n", 2, "--format", r"%o:%S:%K:%s\0").out == b'4:-1:2:\x005:4:-1:\xff,"\n\x00'
    for wrong in ("%q", r"%s\q", "%", "nothing"):
        assert cli("read", log, "--format", wrong).code == 2


def test_a_table_is_for_people_and_shows_no_byte_that_a_terminal_obeys(cli: Cli, log: Any) -> None:
    lines = cli("read", log, "--format", "table").text.splitlines()
    assert lines[0].split() == ["offset", "time", "key", "value"]
    assert lines[2].split()[:3] == ["1", "1970-01-01T00:00:01Z", "k1"]
    assert lines[5].endswith("(tombstone)")
    assert lines[6].endswith(r"\xff," + '"' + r"\n")
    assert record_formats.preview(b"\x1b[31mred", 20) == r"\x1b[31mred"
    assert record_formats.preview(b"a" * 100, 10) == "a" * 9 + "~"


def test_csv_comes_back_unchanged_by_import(cli: Cli, log: Any, tmp_path: Any) -> None:
    file = tmp_path / "orders.csv"
    assert cli("read", log, "--format", "csv", "--output", file).code == 0
    assert file.read_bytes().splitlines()[0] == b"offset,timestamp,key,value,headers,tombstone"
    assert cli("import", tmp_path / "again", file).code == 0
    with seglog.open(log, mode="r") as one, seglog.open(tmp_path / "again", mode="r") as other:
        assert list(one.scan()) == list(other.scan())
    assert cli("read", log, "5", "--format", "csv").out.endswith(b'Z,,"\xff,""\n",,\n')


def test_records_are_chosen_by_key_by_text_and_by_json_path(cli: Cli, log: Any) -> None:
    def offsets(*words: str) -> list[int]:
        shown = cli("read", log, "--format", r"%o\n", *words)
        assert shown.code == 0, shown.err
        return [int(line) for line in shown.lines]

    assert offsets("--key", "k0") == [0, 2, 4]
    assert offsets("--text", "Ann") == [1, 3]
    assert offsets("--where", "@.qty > 1") == [2, 3]
    assert offsets("--where", "@.qty > 0 && @.user.name == 'Bob'") == [2]
    assert offsets("--where", "$.user.name") == [0, 1, 2, 3]
    assert offsets("--where", "$.nothing") == []
    assert offsets("--key", "k1", "--where", "@.qty == 3", "-n", "1") == [3]
    assert offsets("--text", "Ann", "-n", "1") == [1]
    ended = cli("read", log, "--where", "qty >")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    table = cli("read", log, "--text", "Ann", "--format", "arrow").out
    assert pa.ipc.open_stream(table).read_all().column("offset").to_pylist() == [1, 3]


def test_a_negative_start_counts_from_the_end(cli: Cli, log: Any) -> None:
    def offsets(*words: object) -> list[int]:
        return [int(line) for line in cli("read", log, "--format", r"%o\n", *words).lines]

    assert offsets("--start", -2) == [4, 5]
    assert offsets("--start", -99, "-n", 1) == [0]
    assert offsets("--stop", -4) == [0, 1]
    assert offsets("--start", -3, "--stop", -1) == [3, 4]
    assert offsets("-1") == [5]
    assert offsets("-6") == [0]
    assert cli("read", log, "-7").code == 5


def test_the_last_records_of_a_compacted_log_are_counted_not_computed(cli: Cli, path: Any) -> None:
    config = seglog.LogConfig(retention=seglog.Retention(compact=True))
    with seglog.open(path, config) as log:
        for number in range(100):
            log.append(b"%d" % number, key=b"%d" % (number % 3 if number < 90 else number))
        log.compact(roll=True)
    assert cli("read", path, "--start", -11).lines == [b"89", *(b"%d" % number for number in range(90, 100))]
    assert cli("tail", path, "-n", 11).lines[0] == b"89"


NOW = 1_714_564_800 * SECOND  # 2024-05-01T12:00:00Z


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("1h ago", NOW - 3600 * SECOND),
        ("1h30m ago", NOW - 5400 * SECOND),
        ("today", NOW - 43_200 * SECOND),
        ("yesterday", NOW - 129_600 * SECOND),
        ("@1714564800", NOW),
        ("@1.5", 1_500_000),
        ("1714564800000000", NOW),
        ("2024-05-01T12:00:00Z", NOW),
        ("2024-05-01T14:00+02:00", NOW),
    ],
)
def test_a_time_may_be_relative_to_now(text: str, expected: int) -> None:
    assert units.parse_moment(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "ago", "soon", "1x ago", "-1h ago", "@", "@1e3", "9" * 5000])
def test_a_moment_that_is_unclear_is_refused(text: str) -> None:
    with pytest.raises(units.ArgumentTypeError):
        units.parse_moment(text, NOW)


def test_records_of_the_last_hour_are_read(cli: Cli, path: Any) -> None:
    cli("append", path, "old", "--timestamp", "2h ago")
    cli("append", path, "new")
    assert cli("read", path, "--from-time", "1h ago").lines == [b"new"]
    assert cli("read", path, "--to-time", "1h ago").lines == [b"old"]


@given(st.integers(min_value=0, max_value=2**50))
def test_a_size_is_printed_as_it_is_typed(size_bytes: int) -> None:
    assert units.parse_size(units.typed_size(size_bytes)) == size_bytes


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_is_printed_as_it_is_typed(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert units.parse_duration(units.typed_duration(seconds)) == pytest.approx(seconds, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("seconds", "text"), [(604_800.0, "7d"), (5400, "1h30m"), (0.5, "0.5s"), (0, "0s"), (90, "1m30s")]
)
def test_durations_are_the_ones_people_type(seconds: float, text: str) -> None:
    assert units.typed_duration(seconds) == text
    assert (units.typed_size(2**30), units.typed_size(1000), units.typed_size(0)) == ("1 GiB", "1000 B", "0 B")


# --- import ---------------------------------------------------------------------------------------------------------


def kept(path: Any) -> list[Record]:
    with seglog.open(path, mode="r") as log:
        return list(log.scan())


def test_json_objects_are_imported_as_rows_with_a_key_field(cli: Cli, path: Any, tmp_path: Any) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(
        '{"id": 1, "user": {"id": "ann"}, "at": 5}\n\n{"id": 2, "user": {"id": null}, "at": "1970-01-01T00:00:01Z"}\n'
    )
    assert cli("import", path, file, "--key-field", "user.id", "--timestamp-field", "at").code == 0
    first, second = kept(path)
    assert first[1:4] == (5, b"ann", b'{"id": 1, "user": {"id": "ann"}, "at": 5}')
    assert second[1:3] == (SECOND, None)
    assert cli("import", path, file, "--format", "json", "--key-field", "id", "--value-field", "user").code == 0
    assert kept(path)[2][2:4] == (b"1", b'{"id":"ann"}')
    for wrong in (["--key-field", "nothing"], ["--key-field", "id", "--timestamp-field", "user"]):
        ended = cli("import", path, file, *wrong)
        assert ended.code == 2
        assert "line 1" in ended.err
    assert cli("import", path, "-", "--format", "json", stdin=b"[1]\n").code == 2
    assert cli("import", path, "-", "--format", "csv", "--key-field", "id", stdin=b"value\n1\n").code == 2
    assert len(kept(path)) == 4


def test_what_kcat_writes_is_imported(cli: Cli, path: Any) -> None:
    lines = [
        {
            "topic": "orders",
            "partition": 0,
            "offset": 5,
            "tstype": "create",
            "ts": 1714564800000,
            "broker": 1,
            "headers": ["source", "web", "empty", None],
            "key": "k",
            "payload": "v",
        },
        {"topic": "orders", "partition": 0, "offset": 6, "key": None, "payload": None},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert cli("import", path, "-", "--format", "kcat", stdin=text).code == 0
    first, second = kept(path)
    assert first == (0, NOW, b"k", b"v", (("source", b"web"), ("empty", None)))
    assert second[2:4] == (None, None)
    for wrong in (b"{}", b'{"payload": "v", "headers": ["a"]}', b'{"payload": "v", "ts": 1e300}', b"1", b"{"):
        ended = cli("import", path, "-", "--format", "kcat", stdin=wrong)
        assert ended.code == 2, wrong
        assert "line 1" in ended.err


def test_what_kafka_connect_writes_is_imported(cli: Cli, path: Any) -> None:
    lines = [
        {"schema": {"type": "struct"}, "payload": {"id": 7, "name": "Ann"}},
        {"schema": {"type": "struct"}, "payload": {"id": 8, "name": "Bob"}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert cli("import", path, "-", "--format", "connect", "--key-field", "id", stdin=text).code == 0
    assert [record[2:4] for record in kept(path)] == [
        (b"7", b'{"id":7,"name":"Ann"}'),
        (b"8", b'{"id":8,"name":"Bob"}'),
    ]
    plain = b'{"schema": {"type": "string"}, "payload": "text"}\n{"schema": null, "payload": null}\n'
    assert cli("import", path, "-", "--format", "connect", stdin=plain).code == 0
    assert [record.value for record in kept(path)[2:]] == [b"text", None]
    assert cli("import", path, "-", "--format", "connect", stdin=b'{"id": 1}\n').code == 2


def compressed(kind: str, data: bytes) -> bytes:
    if kind == "gzip":
        return gzip.compress(data)
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_compressed_input_is_recognised_from_a_file_and_from_a_pipe(
    kind: str, cli: Cli, path: Any, tmp_path: Any
) -> None:
    lines = b"".join(b'{"value":"%d"}\n' % number for number in range(5000))
    data = compressed(kind, lines)
    file = tmp_path / ("x.ndjson.gz" if kind == "gzip" else "x.jsonl.zst")
    file.write_bytes(data)
    assert cli("import", path, file).code == 0
    assert cli("import", path, "-", "--format", "ndjson", stdin=data).code == 0
    assert cli("import", path, "-", "--format", "csv", stdin=compressed(kind, b"key,value\nk,v\n")).code == 0
    with seglog.open(path, mode="r") as log:
        assert (len(log), log.read(9999).value, log.read(10_000).key) == (10_001, b"4999", b"k")
    file.write_bytes(data[:-20])
    ended = cli("import", path, file, "--json")
    assert ended.code == 2
    assert "truncated" in json.loads(ended.err)["message"]


# --- long values ----------------------------------------------------------------------------------------------------


@given(st.sampled_from([b"\xff" * 7, 'é\n"\\\x01'.encode(), b"abc", "𝄞".encode()]), st.integers(1, 60))
def test_a_long_value_is_written_piece_by_piece_as_it_would_be_whole(unit: bytes, count: int) -> None:
    value = unit * count
    sink = io.BytesIO()
    record_formats.write_json_bytes(value, sink, piece=12)
    found = json.loads(sink.getvalue())
    assert (base64.b64decode(found["base64"]) if isinstance(found, dict) else found.encode()) == value


def test_a_long_value_is_printed_like_any_other(cli: Cli, path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_formats, "LONG", 10)
    value = ('"value":"",' * 200_000).encode()
    with seglog.open(path) as log:
        log.append(value, key=b'"value":"",', headers=[("h", b"1")])
    assert cli("read", path, 0).out == value
    told = cli("read", path, "--format", "ndjson").json
    assert (told["value"].encode(), told["key"], told["headers"][0]["value"]) == (value, '"value":"",', "1")


@pytest.mark.proof
def test_a_huge_value_takes_no_more_than_twice_its_size_to_export(path: Any) -> None:
    size = 300 * 1024 * 1024
    with seglog.open(path) as log:
        log.append_stream(b"x" * (1 << 20) for _ in range(size >> 20))
    began = time.monotonic()
    code, peak = with_peak("export", path, "-", "--quiet")
    assert code == 0
    print(f"{peak / size:.2f} times the value, {time.monotonic() - began:.1f} s")
    assert peak < 2 * size + 200 * 1024 * 1024
