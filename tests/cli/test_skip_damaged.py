from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import seglog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAMAGED = (3, 4, 11, 19)
SOUND = [offset for offset in range(20) if offset not in DAMAGED]


@pytest.fixture
def damaged(path: Path) -> Path:
    """A log of 20 records in several segments, of which some have a flipped bit, the last one, too."""
    with seglog.open(path, seglog.LogConfig(segment_bytes=512)) as log:
        for number in range(20):
            log.append(b"value %02d " % number * 6, key=b"k")
    for offset in DAMAGED:
        for store in path.glob("*.store"):
            data = store.read_bytes()
            store.write_bytes(data.replace(b"value %02d " % offset * 6, b"VALUE %02d " % offset * 6))
    return path


def test_reading_stops_at_damage_and_goes_on_behind_it_if_asked_to(cli: Callable[..., Any], damaged: Path) -> None:
    stopped = cli("read", damaged, "--format", "%o\n")
    assert (stopped.code, stopped.text.split()) == (1, ["0", "1", "2"])
    gone_on = cli("read", damaged, "--format", "%o\n", "--skip-damaged")
    assert [int(offset) for offset in gone_on.text.split()] == SOUND
    assert gone_on.code == 1
    assert "4 damaged records left out (offsets 3, 4, 11, 19)" in gone_on.err


@pytest.mark.parametrize("kind", ["ndjson", "csv", "parquet"])
def test_an_export_leaves_damaged_records_out_if_asked_to(
    cli: Callable[..., Any], damaged: Path, kind: str, tmp_path: Path
) -> None:
    out = tmp_path / f"out.{kind}"
    assert cli("export", damaged, out).code == 1
    assert not out.exists()
    told = cli("export", damaged, out, "--skip-damaged")
    assert told.code == 1
    assert "4 damaged records left out" in told.err
    if kind == "parquet":
        assert pq.read_table(out)["offset"].to_pylist() == SOUND
    else:
        assert len(out.read_text().splitlines()) == len(SOUND) + (kind == "csv")


def test_a_sound_log_is_read_as_ever(cli: Callable[..., Any], path: Path) -> None:
    with seglog.open(path) as log:
        log.append(b"v")
    assert cli("read", path, "--skip-damaged").code == 0


def test_a_server_is_not_read_behind_damage(cli: Callable[..., Any], url: str) -> None:
    assert cli("read", f"{url}/default", "--skip-damaged").code == 2


@pytest.mark.parametrize("values", ["view", "binary"])
def test_batches_and_tables_go_on_behind_damage(damaged: Path, values: Any) -> None:
    with seglog.open(damaged, mode="r") as log:
        found: list[seglog.CorruptRecord] = []
        table = log.to_arrow(values=values, on_corrupt=found.append)
        assert table["offset"].to_pylist() == SOUND
        assert [error.offset for error in found] == list(DAMAGED)
        with pytest.raises(seglog.CorruptRecord):
            log.to_arrow()
