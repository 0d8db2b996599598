"""`--hold`: what is read is copied first, so that nothing that happens while it is written makes it expire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import seglog
from seglog.cli import held
from seglog.log import leases
from tests.snapshots import CHANGES, filled, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def compacted_before_output(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, bytes | None]]]:
    """A log that no lease keeps, and whose files are replaced once the first batch of a command was read."""
    monkeypatch.setattr(leases, "_take", lambda *_: None)
    with filled(path) as log:
        was = state(log)
        real = held._copied

        def copied(*arguments: Any) -> Any:
            found = real(*arguments)
            CHANGES["superseded and compacted"](log)
            return found

        monkeypatch.setattr(held, "_copied", copied)
        yield was


def test_a_held_read_prints_the_log_as_it_was_whatever_happens_meanwhile(
    cli: Callable[..., Any], path: Path, compacted_before_output: list[tuple[int, bytes | None]]
) -> None:
    told = cli("read", path, "--format", "ndjson", "--hold")
    assert told.code == 0, told.err
    rows = [json.loads(line) for line in told.text.splitlines()]
    assert [(row["offset"], row["key"].encode()) for row in rows] == compacted_before_output


def test_a_held_export_writes_the_log_as_it_was(
    cli: Callable[..., Any], path: Path, tmp_path: Path, compacted_before_output: list[tuple[int, bytes | None]]
) -> None:
    assert cli("export", path, tmp_path / "out.parquet", "--hold").code == 0
    table = pq.read_table(tmp_path / "out.parquet")
    assert list(zip(table["offset"].to_pylist(), table["key"].to_pylist(), strict=True)) == compacted_before_output


def test_a_held_read_shows_what_any_read_shows(cli: Callable[..., Any], path: Path) -> None:
    with seglog.open(path) as log:
        assert cli("read", path, "--hold").text == ""
        log.append(b"value", key=b"k", headers=[("h", b"1")], timestamp=5)
        log.append(None, key=b"k")
    for options in ([], ["--start", "1"], ["--format", "csv"]):
        assert cli("read", path, "--hold", *options).out == cli("read", path, *options).out
