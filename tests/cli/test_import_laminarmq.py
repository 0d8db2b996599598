from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seglog
from seglog.cli.commands.import_laminarmq import METADATA_HEADER, batches
from seglog.log.laminarmq import open_laminarmq
from tests.laminarmq_samples import CLOSED, DATA, Told, files_of, kept_when_killed, put, segment_of, told
from tests.waiting import HANG_SECONDS


def held(path: Any) -> Told:
    with seglog.open(path, mode="r") as log:
        return [(record.offset, dict(record.headers).get(METADATA_HEADER, b""), record.value) for record in log.scan()]


@pytest.mark.parametrize("name", CLOSED)
def test_a_log_keeps_its_offsets_its_values_and_its_metadata(cli: Callable[..., Any], path: Any, name: str) -> None:
    assert cli("import", path, DATA / name).code == 0
    assert held(path) == told(name)
    with seglog.open(path, mode="r") as log:
        source = open_laminarmq(DATA / name)
        assert (log.lowest_offset, log.next_offset) == (source.lowest_offset, source.next_offset)
    assert cli("verify", path).code == 0


def test_the_program_says_what_it_did(path: Any) -> None:
    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "seglog", "import", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)

    done = run(path, DATA / "killed-store-ahead", "--format", "laminarmq", "--segment-bytes", "4KiB")
    assert (done.returncode, done.stdout[:48]) == (0, "imported 511 records as offsets 0 to 510, all co")
    assert done.stderr.startswith("seglog: laminarmq: torn: ")
    assert held(path) == kept_when_killed()
    again = json.loads(run(path, DATA / "killed-store-ahead", "--json").stdout)
    assert (again["records"], again["held"], again["next_offset"], again["torn_bytes"]) == (0, 511, 511, 1546)


@pytest.mark.parametrize("count", [1, 7, 8, 29, 30])
def test_an_import_goes_on_behind_what_is_there(cli: Callable[..., Any], path: Any, count: int) -> None:
    source = open_laminarmq(DATA / "plain")
    with seglog.open(path) as log:
        for batch in batches(source, 0, count):
            log.append_batch(batch)
    done = cli("import", path, DATA / "plain", "--json").json
    assert (done["records"], done["held"], done["first_offset"]) == (30 - count, count, count)
    assert held(path) == told("plain")


@pytest.mark.parametrize("count", [4, 5, 8])
def test_an_import_goes_on_behind_a_gap_as_well(cli: Callable[..., Any], path: Any, count: int) -> None:
    files = files_of("cut-at-base-reopened")
    cli("import", path, put({**files, "100.index": files["100.index"][: 32 + 16 * count]}, path.parent / "before"))
    assert len(held(path)) == count
    assert cli("import", path, DATA / "cut-at-base-reopened").code == 0
    assert held(path) == told("cut-at-base-reopened")


@pytest.mark.proof
@pytest.mark.parametrize("written", [1, 10_000_000, 25_000_000])
def test_an_import_that_is_killed_goes_on_when_it_is_run_again(path: Path, tmp_path: Path, written: int) -> None:
    values = [b"%0100d" % n for n in range(200_000)]
    source = put(segment_of(values), tmp_path / "source")
    command = [sys.executable, "-m", "seglog", "import", str(path), str(source), "--segment-bytes", "4MiB", "--json"]
    with subprocess.Popen(command) as program:
        while program.poll() is None and sum(store.stat().st_size for store in path.glob("*.store")) <= written:
            pass
        program.kill()
    assert program.returncode == -signal.SIGKILL
    done = json.loads(subprocess.run(command, capture_output=True, timeout=HANG_SECONDS, check=True).stdout)
    assert done["records"] + done["held"] == len(values)
    assert [value for _, _, value in held(path)] == values


def test_a_log_that_has_gone_on_by_itself_is_left_as_it_is(cli: Callable[..., Any], path: Any) -> None:
    cli("import", path, DATA / "plain")
    cli("append", path, "more")
    assert cli("import", path, DATA / "plain", "--json").json["records"] == 0
    assert len(held(path)) == 31


@pytest.mark.parametrize("other", ["truncated", "cut-at-base-rolled"])
def test_a_log_of_other_records_takes_none(cli: Callable[..., Any], path: Any, other: str) -> None:
    cli("import", path, DATA / other)
    before = held(path)
    ended = cli("import", path, DATA / "plain")
    assert (ended.code, held(path)) == (2, before)
    assert "import into a new log" in ended.err


def test_a_log_that_ends_before_the_source_begins_takes_none(cli: Callable[..., Any], path: Any) -> None:
    cli("append", path, "first")
    ended = cli("import", path, DATA / "expired")
    assert ended.code == 2
    assert "continues at 1, laminarmq's log starts at 23" in ended.err
    assert len(held(path)) == 1


def test_all_before_a_damaged_record_goes_in_and_the_damage_is_told(cli: Callable[..., Any], path: Any) -> None:
    files = files_of("plain")
    files["16.store"] = files["16.store"][:100] + b"?" + files["16.store"][101:]
    source = put(files, path.parent / "damaged")
    for note in ("17 records appended before that: offsets 0 to 16", "0 records appended before that"):
        ended = cli("import", path, source, "--json")
        assert ended.code == 1
        error = json.loads(ended.err)
        assert (error["error"], error["offset"], error["path"]) == ("CorruptRecord", 17, f"{source}/16.store")
        assert note in error["message"]
        assert held(path) == told("plain")[:17]


def test_a_source_that_is_damaged_from_the_start_leaves_no_log_behind(cli: Callable[..., Any], path: Any) -> None:
    source = put({**files_of("plain"), "0.store": b"\xff" * 300}, path.parent / "damaged")
    assert cli("import", path, source).code == 1
    assert not path.exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([DATA], 3),
        ([DATA / "none", "--format", "laminarmq"], 3),
        ([DATA / "plain", "--format", "ndjson"], 6),
        ([DATA / "plain", "--initial-offset", 5], 2),
        ([DATA / "plain", "--key-column", "k"], 2),
        ([DATA / "plain", "--key-separator", "="], 2),
    ],
)
def test_what_cannot_be_leaves_no_log_behind(cli: Callable[..., Any], path: Path, words: list[Any], code: int) -> None:
    assert cli("import", path, *words).code == code
    assert not path.exists()


def test_a_log_of_ours_is_not_taken_for_one_of_laminarmqs(cli: Callable[..., Any], path: Any) -> None:
    cli("append", path, "x")
    assert cli("import", path.parent / "copy", path).code == 3


def test_a_batch_ends_where_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seglog.log.laminarmq.READ_BYTES", 100)
    found = list(batches(open_laminarmq(DATA / "plain"), 0))
    assert max(batch.num_rows for batch in found) < 10
    values = [value for batch in found for value in batch.column("value").to_pylist()]
    assert values == [value for _, _, value in told("plain")]
