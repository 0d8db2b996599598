from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import seglog
from seglog import Log, LogConfig, Retention
from seglog.table import latest, sync
from seglog.table.describe import describe
from seglog.table.latest import LatestRound
from seglog.table.rounds import Round
from tests.table.conftest import stored

Newest = dict[bytes, tuple[int, bytes]]


def newest(log: Log) -> Newest:
    found: dict[bytes, tuple[int, bytes | None]] = {}
    for record in log.scan():
        if record.key is not None:
            found[record.key] = (record.offset, record.value)
    return {key: (offset, value) for key, (offset, value) in found.items() if value is not None}


def rows(warehouse: Path) -> Newest:
    found = stored(warehouse, "log_latest")
    result = {row[3]: (row[1], row[4]) for row in found}
    assert len(result) == len(found)
    return result  # type: ignore[return-value] # checked by the comparison


def synchronize(place: Path, warehouse: Path, **options: Any) -> None:
    sync(place, warehouse, active=True, latest=True, **options)


@pytest.mark.parametrize("chunk", [1, 1 << 30], ids=["many chunks", "one chunk"])
def test_the_table_holds_the_newest_value_of_each_key_after_each_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(latest, "CHUNK_BYTES", chunk)
    chance = random.Random(1)
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    config = LogConfig(segment_bytes=8192, retention=Retention(compact=True))
    with seglog.open(place, config) as log:
        for round_ in range(4):
            for _ in range(150):
                value = None if chance.random() < 0.2 else chance.randbytes(20)
                log.append(value, key=b"k%d" % chance.randrange(40))
            log.sync()
            if round_ == 2:
                log.compact()
            synchronize(place, warehouse)
            assert rows(warehouse) == newest(log)


def test_a_truncate_brings_earlier_values_back(tmp_path: Path) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place) as log:
        for value in (b"1", b"2"):
            for key in (b"a", b"b"):
                log.append(value, key=key)
        log.append(None, key=b"a")
        log.append(b"without a key")
        log.sync()
        synchronize(place, warehouse)
        assert rows(warehouse) == {b"b": (3, b"2")}
        log.truncate(3)
        synchronize(place, warehouse)
        assert rows(warehouse) == newest(log) == {b"a": (2, b"2"), b"b": (1, b"1")}
        log.truncate(0)
        synchronize(place, warehouse)
        assert rows(warehouse) == {}


def test_a_round_without_new_records_commits_nothing(tmp_path: Path) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place) as log:
        log.append(b"v", key=b"k")
    synchronize(place, warehouse)
    reports = sync(place, warehouse, active=True, latest=True)
    assert [(one.table, one.records, one.files) for one in reports] == [("log", 0, 0), ("log_latest", 0, 0)]


def test_snapshots_of_the_newest_records_are_forgotten_earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    assert LatestRound.keeps < Round.keeps
    monkeypatch.setattr(LatestRound, "keeps", timedelta(0))
    with seglog.open(place) as log:
        for number in range(3):
            log.append(b"%d" % number, key=b"k")
            log.sync()
            synchronize(place, warehouse)
    assert [one.snapshots for one in describe(warehouse)] == [3, 1]
