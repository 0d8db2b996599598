"""A writer whose directory is removed, moved or replaced while it has the log open: it stops and harms nothing."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig, LogPoisoned
from seglog.format.store import decode_header
from seglog.log.staging import Stage
from seglog.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = LogConfig(segment_bytes=512, retention=seglog.Retention(compact=True))
KEYED = {"key": b"k"}


def stale_writer(path: Path) -> seglog.Log:
    """Open a log with records in several segments, and put another log into its place."""
    stale = seglog.open(path, SMALL)
    for number in range(20):
        stale.append(b"stale-%d" % number, **KEYED)
    stale.sync()
    shutil.rmtree(path)
    return stale


def put_another(path: Path) -> None:
    with seglog.open(path, SMALL) as other:
        for number in range(100):
            other.append(b"other-%d" % number, key=b"%d" % number)
        other.pin("follower", 30)
        other.truncate(90)


def tree(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def append_until_it_rolls(log: seglog.Log) -> None:
    for _ in range(100):
        log.append(b"x" * 200, **KEYED)


def publish(log: seglog.Log) -> None:
    log.publish([], query="q", batch=0)


CALLS: dict[str, Callable[[seglog.Log], Any]] = {
    "sync": lambda log: log.sync(),
    "roll": append_until_it_rolls,
    "append_batch": lambda log: [log.append_batch({"value": [b"v" * 300], "key": [b"k"]}) for _ in range(9)],
    "truncate": lambda log: log.truncate(5),
    "compact": lambda log: log.compact(roll=True),
    "publish": publish,
    "alter": lambda log: log.alter(retention=seglog.Retention(compact=True, bytes=99)),
    "repair": lambda log: log.repair(),
    "pin": lambda log: log.pin("follower", 3),
    "unpin": lambda log: log.unpin("follower"),
    "remove": lambda log: log.remove(),
    "close": lambda log: (log.append(b"not durable", **KEYED), log.close()),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_stale_writer_is_refused_and_the_log_in_its_place_stays_as_it_is(path: Path, call: str) -> None:
    stale = stale_writer(path)
    put_another(path)
    before = tree(path)
    if call == "append_batch":
        rows = pa.table({"value": [b"v" * 300], "key": [b"k"]})
        with pytest.raises(LogPoisoned, match="replaced"):
            for _ in range(9):
                stale.append_batch(rows)
    else:
        with pytest.raises(LogPoisoned, match="replaced"):
            CALLS[call](stale)
    assert tree(path) == before
    with pytest.raises((LogPoisoned, seglog.LogClosed)):
        for _ in range(2):  # nothing more is acknowledged
            stale.append(b"late", **KEYED)
            stale.sync()
    stale.close()
    assert tree(path) == before
    with seglog.open(path) as other:
        assert other.recovery.clean
        assert [record.value for record in other.scan()] == [b"other-%d" % number for number in range(90)]


def test_a_writer_whose_directory_was_removed_acknowledges_no_sync(path: Path) -> None:
    stale = stale_writer(path)
    stale.append(b"lost", **KEYED)
    with pytest.raises(LogPoisoned, match="removed"):
        stale.sync()
    assert isinstance(stale.failure, LogPoisoned)
    stale.close()
    assert not path.exists()


def test_an_append_that_must_be_durable_is_refused_once_the_directory_was_replaced(path: Path) -> None:
    durable = seglog.open(path, LogConfig(flush_records=1))
    durable.append(b"first")
    shutil.rmtree(path)
    seglog.open(path).close()
    with pytest.raises(LogPoisoned):
        durable.append(b"second")
    durable.close()


def test_expiry_of_a_stale_writer_unlinks_nothing_of_the_other_log(path: Path) -> None:
    config = LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=600))
    stale = seglog.open(path, LogConfig(segment_bytes=512))
    for _ in range(10):
        stale.append(b"v" * 200)
    shutil.rmtree(path)
    with seglog.open(path, LogConfig(segment_bytes=512)) as other:
        for _ in range(10):
            other.append(b"o" * 200)
    before = tree(path)
    with pytest.raises(LogPoisoned):
        stale.alter(retention=config.retention)
    with pytest.raises(LogPoisoned):
        stale.expire()
    assert tree(path) == before
    stale.close()


def test_files_that_a_reader_held_when_they_were_removed_are_not_looked_for_in_the_other_log(path: Path) -> None:
    small = LogConfig(segment_bytes=512)
    stale = seglog.open(path, small)
    for _ in range(10):
        stale.append(b"v" * 200)
    view = stale.view()  # keeps the files that the truncate retires
    stale.truncate(0)
    shutil.rmtree(path)
    with seglog.open(path, small) as other:
        for _ in range(10):
            other.append(b"o" * 200)
    before = tree(path)
    del view
    with pytest.raises(LogPoisoned):
        stale.expire()
    assert tree(path) == before
    stale.close()


def test_a_manifest_that_was_copied_over_an_open_log_stops_the_writer_before_it_is_overwritten(path: Path) -> None:
    other_path = path.with_name("other")
    with seglog.open(other_path, LogConfig(segment_bytes=512)) as other:
        other.append(b"other")
    with seglog.open(path, LogConfig(segment_bytes=512)) as log:
        log.append(b"v" * 300)
        shutil.copy(other_path / "MANIFEST", path / "MANIFEST")
        before = (path / "MANIFEST").read_bytes()
        with pytest.raises(LogPoisoned, match="MANIFEST"):
            log.append(b"v" * 300)
        assert (path / "MANIFEST").read_bytes() == before


def test_a_manifest_that_was_only_touched_or_copied_back_stops_nobody(path: Path) -> None:
    with seglog.open(path, LogConfig(segment_bytes=512)) as log:
        log.append(b"v" * 300)
        kept = path.with_name("kept")
        shutil.copy(path / "MANIFEST", kept)
        (path / "MANIFEST").unlink()
        shutil.copy(kept, path / "MANIFEST")
        (path / "MANIFEST").touch()
        log.append(b"v" * 300)
        assert len(log.segments) == 2


def test_a_stage_for_a_removed_log_is_not_published_into_the_other_one(path: Path) -> None:
    stale = seglog.open(path)
    with Stage(LocalStorage(path), "q-0") as stage:
        stage.append_batch(pa.table({"value": [b"staged"]}))
        staged = stage.finish()
    shutil.rmtree(path)
    seglog.open(path).close()
    before = tree(path)
    with pytest.raises(LogPoisoned):
        stale.publish(staged, query="q", batch=0)
    assert tree(path) == before
    stale.close()


def test_a_repair_of_a_log_whose_manifest_another_one_replaced_does_not_report_success(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = stale_writer(path)
    put_another(path)
    expected = [b"other-%d" % number for number in range(90)]
    for check in ("check", "check_manifest"):  # as a version without them did
        monkeypatch.setattr(f"seglog.log.locks.ownership.Ownership.{check}", lambda *_: None)
    with suppress(seglog.SeglogError):
        append_until_it_rolls(stale)
    with suppress(seglog.SeglogError):
        stale.close()
    monkeypatch.undo()
    assert "other log" in {problem.kind for problem in seglog.verify(path).problems}
    before = tree(path)
    assert seglog.repair(path).left
    assert {name for name, data in tree(path).items() if before.get(name) != data} <= {"LOCK"}
    with seglog.open(path, mode="r") as log:
        log_id = log.view().manifest.log_id
    for store in path.glob("*.store"):  # as the report advises
        if decode_header(store.read_bytes()[:64], str(store)).log_id == log_id:  # type: ignore[union-attr] # sound
            store.unlink()
    (path / "MANIFEST").unlink()
    (path / "MANIFEST.prev").unlink()
    assert not seglog.repair(path).left
    with seglog.open(path) as other:
        assert [record.value for record in other.scan()][:90] == expected
