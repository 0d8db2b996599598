"""Times on the command line and in imported files: a bare number of seconds or milliseconds is refused with a hint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import seglog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECONDS, MILLISECONDS = 1_729_990_800, 1_729_990_800_123
MICROSECONDS = SECONDS * 1_000_000


def times_of(path: Path) -> list[int]:
    with seglog.open(path, mode="r") as log:
        return [record.timestamp for record in log.scan()]


@pytest.fixture
def log(path: Path) -> Path:
    with seglog.open(path) as log:
        for timestamp in (SECONDS, MILLISECONDS, MICROSECONDS, MICROSECONDS + 123_000):
            log.append(b"v", timestamp=timestamp, force_timestamp=True)
    return path


@pytest.mark.parametrize(
    ("given", "hint"), [(SECONDS, f"@{SECONDS} for seconds"), (MILLISECONDS, f"@{SECONDS}.123 for seconds")]
)
def test_a_time_to_read_from_says_how_to_write_it(cli: Callable[..., Any], log: Path, given: int, hint: str) -> None:
    for option in ("--from-time", "--to-time"):
        done = cli("read", log, option, given)
        assert done.code == 2
        assert "looks like" in done.err
        assert hint in done.err
        assert f"{given}us for microseconds" in done.err


def test_a_time_with_a_unit_is_taken_as_it_is(cli: Callable[..., Any], log: Path) -> None:
    found = {
        given: [
            json.loads(line)["offset"] for line in cli("read", log, "--format", "ndjson", "--from-time", given).lines
        ]
        for given in (f"{MILLISECONDS}us", f"@{SECONDS}.123", f"{SECONDS}us", f"{MICROSECONDS}")
    }
    assert list(found.values()) == [[1, 2, 3], [3], [0, 1, 2, 3], [2, 3]]


def test_append_forces_a_time_only_if_it_is_told_to(cli: Callable[..., Any], path: Path) -> None:
    done = cli("append", path, "v", "--timestamp", SECONDS)
    assert done.code == 2
    assert "looks like seconds" in done.err
    assert not path.exists()
    assert cli("append", path, "v", "--timestamp", SECONDS, "--force-timestamp").code == 0
    assert cli("append", path, "v", "--timestamp", "@1000").code == 0
    assert cli("append", path, "-", "--timestamp", f"{SECONDS}us", stdin=b"v").code == 0
    assert cli("append", path, "--lines", "--timestamp", "1970-01-01T01:00", stdin=b"v\n").code == 0
    assert times_of(path) == [SECONDS, 1_000_000_000, SECONDS, 3_600_000_000]
    assert cli("append", path, "v", "--force-timestamp").code == 2


@pytest.mark.parametrize("kind", ["ndjson", "csv", "arrow", "parquet"])
def test_an_export_of_forced_times_is_imported_again(
    cli: Callable[..., Any], log: Path, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / f"x.{kind}"
    assert cli("export", log, file).code == 0
    first = cli("import", tmp_path / "copy", file)
    if kind == "ndjson":  # the others have times with a unit
        assert first.code == 2
        assert f"line 1: {SECONDS} looks like seconds" in first.err
        assert "--force-timestamp" in first.err
        assert cli("import", tmp_path / "copy", file, "--force-timestamp").code == 0
    assert times_of(tmp_path / "copy") == times_of(log)


FILES: dict[str, Callable[[Path], Any]] = {
    "x.ndjson": lambda path: path.write_text(
        '{"value": "v", "timestamp": 5}\n{"value": "v", "timestamp": 1729990800}\n'
    ),
    "x.csv": lambda path: path.write_text("value,timestamp\nv,5\nv,1729990800\n"),
    "x.json": lambda path: path.write_text('{"timestamp": 5}\n{"timestamp": 1729990800}\n'),
    "x.arrow": lambda path: feather.write_feather(ROWS, path),
    "x.parquet": lambda path: pq.write_table(ROWS, path),
}
ROWS = pa.table({"value": [b"v", b"v"], "timestamp": pa.array([5, SECONDS], pa.int64())})


@pytest.mark.parametrize("name", FILES)
def test_seconds_in_a_file_are_refused_unless_they_are_forced(
    cli: Callable[..., Any], path: Path, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    FILES[name](file)
    options = ("--format", "json", "--timestamp-field", "timestamp") if name == "x.json" else ()
    refused = cli("import", path, file, *options)
    assert refused.code == 2
    assert "1729990800 looks like seconds" in refused.err
    assert cli("import", path, file, *options, "--force-timestamp").code == 0
    assert times_of(path) == [5, SECONDS]


def test_times_of_kcat_have_a_unit(cli: Callable[..., Any], path: Path) -> None:
    line = json.dumps({"topic": "t", "ts": 1_500_000, "key": None, "payload": "v"}).encode()
    assert cli("import", path, "-", "--format", "kcat", stdin=line).code == 0
    assert times_of(path) == [1_500_000_000]
