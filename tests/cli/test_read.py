from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seglog
from seglog.cli.selection import Selection, ranges
from seglog.cli.source import LocalSource, tail_start

if TYPE_CHECKING:
    from collections.abc import Callable

ALL_BYTES = bytes(range(256))
SECOND = 1_000_000


@pytest.fixture
def log(path: Any) -> Any:
    """Ten records in several segments: values v0..v9, a timestamp each second, in disorder at 4 and 5."""
    config = seglog.LogConfig(segment_bytes=512)
    with seglog.open(path, config) as log:
        for i in range(10):
            second = {4: 5, 5: 4}.get(i, i)
            log.append(b"v%d" % i + b"." * 100, key=b"k%d" % (i % 3), timestamp=second * SECOND)
        assert len(log.segments) > 2
    return path


def values(out: bytes) -> list[int]:
    return [int(line[1:2]) for line in out.splitlines()]


def offsets(out: bytes) -> list[int]:
    return [json.loads(line)["offset"] for line in out.splitlines()]


def test_one_record_is_exactly_its_bytes(cli: Callable[..., Any], path: Any) -> None:
    cli("append", path, stdin=ALL_BYTES)
    assert cli("read", path, 0).out == ALL_BYTES


def test_one_record_as_ndjson_is_whole(cli: Callable[..., Any], log: Any) -> None:
    for words in (("--format", "ndjson"), ("--json",)):
        shown = cli("read", log, 3, *words).json
        assert (shown["offset"], shown["timestamp"], shown["key"], shown["headers"]) == (
            3,
            3 * SECOND,
            "k0",
            [],
        )


def test_a_tombstone_has_no_bytes_and_that_is_said(cli: Callable[..., Any], path: Any) -> None:
    cli("append", path, "--tombstone", "--key", "k")
    shown = cli("read", path, 0)
    assert (shown.code, shown.out) == (0, b"")
    assert "tombstone" in shown.err
    assert cli("read", path, 0, "--json").json["value"] is None


def test_an_offset_that_is_not_there_is_exit_code_5(cli: Callable[..., Any], log: Any) -> None:
    ended = cli("read", log, 10, "--json")
    assert ended.code == 5
    told = json.loads(ended.err)
    assert (told["error"], told["offset"], told["next_offset"]) == ("OffsetOutOfRange", 10, 10)
    assert cli("read", log, "--start", 11).code == 5
    assert cli("read", log, "-11").code == 5
    assert cli("read", log, "1.5").code == 2


def test_a_range_is_its_values_line_by_line(cli: Callable[..., Any], log: Any) -> None:
    assert values(cli("read", log).out) == list(range(10))
    assert values(cli("read", log, "--start", 3, "--stop", 6).out) == [3, 4, 5]
    assert values(cli("read", log, "--start", 3, "--limit", 2).out) == [3, 4]
    assert values(cli("read", log, "--stop", 1000, "--start", 10).out) == []
    assert values(cli("read", log, "--start", 6, "--stop", 3).out) == []
    assert cli("read", log, "--limit", 0).out == b""


def test_values_may_be_told_apart_by_another_delimiter(cli: Callable[..., Any], path: Any) -> None:
    cli("append", path, "a\nb")
    cli("append", path, "c")
    assert cli("read", path, "--null").out == b"a\nb\0c\0"
    assert cli("read", path, "--delimiter", r"\t|").out == b"a\nb\t|c\t|"


def test_a_range_of_time_holds_exactly_its_records_however_disordered(cli: Callable[..., Any], log: Any) -> None:
    def shown(*words: object) -> list[int]:
        return offsets(cli("read", log, "--json", *words).out)

    assert shown("--from-time", 5 * SECOND) == [4, 6, 7, 8, 9]
    assert shown("--to-time", 5 * SECOND) == [0, 1, 2, 3, 5]
    assert shown("--from-time", "1970-01-01T00:00:02", "--to-time", "1970-01-01T00:00:05") == [2, 3, 5]
    assert shown("--from-time", 4 * SECOND, "--limit", 2) == [4, 5]
    assert shown("--from-time", 100 * SECOND) == []
    assert shown("--to-time", 0) == []


def test_a_range_by_time_ends_its_scan_where_no_segment_can_match(log: Any) -> None:
    with seglog.open(log, mode="r") as opened:
        source = LocalSource({0: opened}, "orders", partitioned=False)
        start, stop = ranges(source, Selection(from_time=SECOND, to_time=2 * SECOND))[0]
    assert start == 1
    assert stop < 10


def test_ranges_do_not_mix(cli: Callable[..., Any], log: Any) -> None:
    assert cli("read", log, "--start", 1, "--to-time", 5).code == 2
    assert cli("read", log, 1, "--limit", 5).code == 2


@pytest.mark.parametrize("words", [(), ("--start", 3, "--stop", 8), ("--from-time", 5 * SECOND), ("--limit", 4)])
def test_tables_hold_the_same_records(cli: Callable[..., Any], log: Any, words: tuple[object, ...]) -> None:
    expected = offsets(cli("read", log, "--json", *words).out)
    arrow = pa.ipc.open_stream(cli("read", log, "--format", "arrow", *words).out).read_all()
    parquet = pq.read_table(io.BytesIO(cli("read", log, "--format", "parquet", *words).out))
    for table in (arrow, parquet):
        assert table.column("offset").to_pylist() == expected
        assert table.schema.field("value").type == pa.binary()
        assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")


def test_one_record_may_be_a_table(cli: Callable[..., Any], log: Any) -> None:
    table = pa.ipc.open_stream(cli("read", log, 7, "--format", "arrow").out).read_all()
    assert table.column("offset").to_pylist() == [7]


def test_output_goes_to_a_file_that_is_never_overwritten_unasked(
    cli: Callable[..., Any], log: Any, tmp_path: Any
) -> None:
    file = tmp_path / "v0"
    assert cli("read", log, 0, "--output", file).out == b""
    first = file.read_bytes()
    assert first.startswith(b"v0")
    assert cli("read", log, 1, "--output", file).code == 2
    assert file.read_bytes() == first
    assert cli("read", log, 1, "--output", file, "--force").code == 0
    assert file.read_bytes().startswith(b"v1")


def test_reading_creates_nothing(cli: Callable[..., Any], path: Any) -> None:
    for words in (("read", path), ("read", path, 0), ("tail", path), ("info", path), ("verify", path)):
        assert cli(*words).code == 3, words
        assert not path.exists()


def test_reading_goes_on_while_another_writes(cli: Callable[..., Any], path: Any) -> None:
    with seglog.open(path) as log:
        log.append(b"v")
        assert cli("read", path).out == b"v\n"


def test_the_tail_is_the_last_records(cli: Callable[..., Any], log: Any) -> None:
    assert values(cli("tail", log, "-n", 3).out) == [7, 8, 9]
    assert values(cli("tail", log, "-n", 100).out) == list(range(10))
    assert values(cli("tail", log).out) == list(range(10))
    assert cli("tail", log, "-n", 0).out == b""
    assert offsets(cli("tail", log, "-n", 1, "--json").out) == [9]


def test_the_tail_of_an_empty_log_is_empty(cli: Callable[..., Any], path: Any) -> None:
    seglog.open(path).close()
    assert (cli("tail", path).code, cli("tail", path).out) == (0, b"")


def test_where_a_tail_starts_is_arithmetic_but_for_segments_with_gaps() -> None:
    def info(base: int, end: int, records: int | None = None) -> Any:
        full = records is None
        return seglog.SegmentInfo(
            base_offset=base,
            next_offset=end,
            bytes=1,
            records=end - base if records is None else records,
            tombstones=0,
            min_timestamp=None,
            max_timestamp=None,
            created=0,
            sealed_at=0,
            dense=full,
            name="x",
        )

    dense = [info(5, 10), info(10, 20)]
    assert tail_start(dense, 3, 20) == 17
    assert tail_start(dense, 12, 20) == 8
    assert tail_start(dense, 99, 20) == 5
    assert tail_start(dense, 3, 18) == 15
    assert tail_start([info(0, 100, 7), info(100, 200, 2)], 2, 200) == 100
    assert tail_start([info(0, 100, 7), info(100, 200, 2)], 3, 200) == 0
    assert tail_start([], 3, 0) == 0


def test_only_what_is_on_disk_is_shown_to_who_asks(cli: Callable[..., Any], path: Any) -> None:
    with seglog.open(path) as log:
        log.append(b"safe")
        log.sync()
        log.append(b"not yet")
        assert cli("read", path, "--durable").out == b"safe\n"
        assert cli("read", path).out == b"safe\nnot yet\n"


def test_workers_read_shares_of_a_log(cli: Callable[..., Any], log: Any) -> None:
    assert values(cli("read", log, "--share", "1/4").out) == [1, 5, 9]
    assert values(cli("tail", log, "--share", "0/2", "-n", 5).out) == [6, 8]
    for wrong in ("4/4", "1", "a/b", "-1/2"):
        assert cli("read", log, "--share", wrong).code == 2
