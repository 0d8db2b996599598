"""Verifying a log while its writer is at work, or after it died in the middle: an ordinary write is no damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.storage import LocalStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage

if TYPE_CHECKING:
    from pathlib import Path

BATCH = pa.table({"value": [b"y" * 1000] * 5000})  # some writes long


def test_a_batch_that_died_before_its_first_head_is_a_tail(scene: Any) -> None:
    scene.fill([b"first"])
    storage = FaultyStorage(LocalStorage(scene.path))
    log = seglog.open(storage)
    storage.fault = Fault(operations=frozenset({"pwrite"}), name=".store", at=3)
    with pytest.raises(Crashed):
        log.append_batch(BATCH)
    report = seglog.verify(scene.path)
    assert report.problems == ()
    assert report.tail_bytes > 0
    assert seglog.repair(scene.path, dry_run=True).actions == ()
    storage.crash()
    with seglog.open(scene.path) as log:
        assert not log.recovery.damaged
        assert log.next_offset == 1


def test_a_zeroed_head_among_durable_records_is_damage(scene: Any) -> None:
    scene.fill([b"value"] * 10)
    (place,) = [place for place in scene.places() if place.offset == 4]
    scene.overwrite(scene.file(), place.position, bytes(32))
    assert [problem.offset for problem in seglog.verify(scene.path).problems] == [4]


class Meanwhile(LocalStorage):
    """A storage beside which a writer works just before a file of the log is first opened, or in the middle of it."""

    def __init__(self, path: Path, before: str, work: Any) -> None:
        super().__init__(path)
        self._before, self._work = before, work

    def open(self, name: str, *, writable: bool = False) -> Any:
        if name.endswith(self._before) and self._work is not None:
            work, self._work = self._work, None
            work()
        return super().open(name, writable=writable)


def test_a_segment_that_expires_while_its_log_is_verified_is_not_missing(scene: Any) -> None:
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=1024))
    with seglog.open(scene.path, config) as log:
        for _ in range(20):
            log.append(b"v" * 100)

        def expire() -> None:
            for _ in range(20):
                log.append(b"v" * 100)

        report = seglog.verify(Meanwhile(scene.path, ".store", expire))
        assert report.problems == ()


@pytest.mark.parametrize("before", [".store", ".index", ".times"])
def test_a_segment_that_a_compaction_takes_away_while_its_log_is_verified_is_not_damaged(
    scene: Any, before: str
) -> None:
    config = seglog.LogConfig(segment_bytes=4096, retention=seglog.Retention(compact=True))
    with seglog.open(scene.path, config) as log:
        for number in range(400):
            log.append(b"%d" % number, key=b"%d" % (number % 37))
        report = seglog.verify(Meanwhile(scene.path, before, log.compact))
        assert report.problems == ()
        assert len(log.segments) < 10


def test_a_log_that_is_removed_while_it_is_verified_is_not_damaged(scene: Any) -> None:
    with seglog.open(scene.path, seglog.LogConfig(segment_bytes=512)) as log:
        for _ in range(20):
            log.append(b"v" * 100)
        report = seglog.verify(Meanwhile(scene.path, ".index", log.remove))
    assert report.problems == ()


def test_what_is_wrong_with_a_segment_is_told_although_both_manifests_are_lost(scene: Any) -> None:
    with seglog.open(scene.path, seglog.LogConfig(segment_bytes=512)) as log:
        for _ in range(20):
            log.append(b"v" * 100)
    for manifest in scene.path.glob("MANIFEST*"):
        manifest.unlink()
    for index in scene.path.glob("*.index"):
        index.unlink()
    assert {problem.kind for problem in seglog.verify(scene.path).problems} == {"manifest", "index"}
