from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.cli import main
from tests.damage import flip

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def log(path: Any) -> Any:
    with seglog.open(path, seglog.LogConfig(segment_bytes=512)) as log:
        for i in range(20):
            log.append(b"v%02d" % i + b"." * 100)
    return path


@pytest.fixture
def damaged(log: Any) -> Any:
    """One byte of a value in the first, sealed segment is another."""
    store = min(log.glob("*.store"))
    flip(store, store.read_bytes().index(b"v01.....") + 1)
    return log


def files(path: Any) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_whole_log_verifies(cli: Callable[..., Any], log: Any) -> None:
    shown = cli("verify", log)
    assert (shown.code, shown.err) == (0, "")
    assert shown.text.startswith("ok: 20 records")
    assert cli("verify", log, "--quiet").out == b""
    told = cli("verify", log, "--json").json
    assert (told["ok"], told["problems"], told["records"]) == (True, [], 20)


def test_damage_is_listed_and_is_exit_code_1(cli: Callable[..., Any], damaged: Any) -> None:
    shown = cli("verify", damaged)
    assert shown.code == 1
    assert "offset 1" in shown.text
    assert ".store" in shown.text
    told = cli("verify", damaged, "--json")
    assert told.code == 1
    assert any(problem["offset"] == 1 for problem in told.json["problems"])


def test_a_damaged_record_is_one_line_that_says_where(cli: Callable[..., Any], damaged: Any) -> None:
    ended = cli("read", damaged, 1, "--json")
    assert ended.code == 1
    told = json.loads(ended.err)
    assert (told["error"], told["offset"]) == ("CorruptRecord", 1)
    assert told["position"] > 0
    assert cli("read", damaged, 2).code == 0


def test_repair_shows_what_it_would_do_and_does_not_do_it(cli: Callable[..., Any], damaged: Any) -> None:
    before = files(damaged)
    shown = cli("repair", damaged, "--dry-run")
    assert shown.code == 1
    assert "would be done" in shown.text
    assert files(damaged) == before


def test_repair_asks_and_without_a_terminal_it_refuses(
    cli: Callable[..., Any], damaged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(damaged)
    refused = cli("repair", damaged)
    assert refused.code == 2
    assert "--yes" in refused.err
    monkeypatch.setattr("seglog.terminal.output.confirmed", lambda _question, *, yes: yes)
    assert cli("repair", damaged).code == 1
    assert files(damaged) == before


def test_repair_sets_damage_aside_and_the_log_verifies(cli: Callable[..., Any], damaged: Any) -> None:
    shown = cli("repair", damaged, "--yes")
    assert shown.code == 0, shown
    assert "done:" in shown.text
    assert cli("verify", damaged).code == 0
    with seglog.open(damaged, mode="r") as log:
        kept = [record.value[:3] for record in log.scan()]
    assert b"v00" in kept
    assert b"v19" in kept
    assert any("quarantine" in name for name in files(damaged))


def test_a_whole_log_needs_no_repair(cli: Callable[..., Any], log: Any) -> None:
    before = files(log)
    assert cli("repair", log).text == "nothing to repair\n"
    assert cli("repair", log, "--json").json["actions"] == []
    assert files(log) == before


def test_truncate_drops_what_stands_behind(cli: Callable[..., Any], log: Any) -> None:
    assert cli("truncate", log, 5).code == 2  # nobody can be asked
    assert cli("truncate", log, 5, "--yes").text == "deleted 15 offsets; the next offset is 5\n"
    assert cli("append", log, "new").out == b"5\n"
    assert cli("truncate", log, 6, "--json").json == {"next_offset": 6, "dropped": 0}
    assert cli("truncate", log, 7, "--yes").code == 5


def test_truncate_and_expire_never_make_a_log(cli: Callable[..., Any], path: Any) -> None:
    assert cli("truncate", path, 0, "--yes").code == 3
    assert cli("expire", path).code == 3
    assert not path.exists()


def test_a_no_changes_nothing(cli: Callable[..., Any], log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return "n\n"

    before = files(log)
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert main(["truncate", str(log), "5"]) == 1
    assert files(log) == before


def test_expire_drops_what_retention_lets_go(cli: Callable[..., Any], log: Any) -> None:
    assert cli("expire", log).text == "deleted 0 segments, 0 B\n"
    cli("append", log, "v", "--retention-bytes", "1KiB")
    planned = cli("expire", log, "--dry-run", "--json").json
    assert planned["segments"] > 0
    with seglog.open(log, mode="r") as before:
        assert before.lowest_offset == 0
    done = cli("expire", log, "--json").json
    assert done == {**planned, "dry_run": False}
    with seglog.open(log, mode="r") as after:
        assert after.lowest_offset > 0


def test_expire_by_age_waits_for_the_age(cli: Callable[..., Any], log: Any) -> None:
    cli("append", log, "v", "--retention-age", "1h")
    assert cli("expire", log, "--json").json["segments"] == 0
    cli("append", log, "v", "--retention-age", "1ms")
    time.sleep(0.01)
    assert cli("expire", log, "--json").json["segments"] > 0
