"""What a log that is closed or dropped holds on to, and how many descriptors a long one takes."""

from __future__ import annotations

import gc
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig
from seglog.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Only reference counts free what is dropped."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def descriptors(path: Path) -> int:
    """How many files below a directory this process has open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - links, not paths
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(f"{path}/")  # noqa: PTH115 - as above
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return found


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc here")  # noqa: PTH112 - one look


@needs_proc
@pytest.mark.usefixtures("no_collection")
def test_a_closed_writer_keeps_no_file_open(path: Path) -> None:
    log = seglog.open(path, LogConfig(segment_bytes=512))
    for _ in range(10):
        log.append(b"v" * 100)
    assert len(list(log.scan())) == 10
    log.close()
    assert descriptors(path) == 0


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    ("config", "interval"),
    [
        (LogConfig(flush_records=1), None),
        (LogConfig(flush_interval=0.01), 0.01),
        (LogConfig(flush_interval=0.01), None),
    ],
)
def test_a_writer_dropped_without_close_gives_the_lock_back(
    path: Path, config: LogConfig, interval: float | None, until: Any
) -> None:
    log = seglog.open(path, config)
    log.alter(flush_interval=interval)
    log.append(b"v")
    del log

    def lock_is_free() -> bool:
        try:
            seglog.open(path).close()
        except seglog.LogLocked:
            return False
        return True

    until(lock_is_free)
    until(lambda: not any(thread.name == "seglog-flush" for thread in threading.enumerate()))


def test_a_scan_that_has_begun_goes_on_after_its_log_was_closed(path: Path) -> None:
    log = seglog.open(path)
    for _ in range(10):
        log.append(b"v")
    scan = log.scan()
    next(scan)
    log.close()
    assert len(list(scan)) == 9


@needs_proc
def test_a_table_of_many_small_segments_takes_few_descriptors(path: Path) -> None:
    with seglog.open(path, LogConfig(segment_bytes=512, open_segments_max=8)) as log:
        for _ in range(100):
            log.append(b"y" * 200)
        assert len(log.segments) == 100
        table = log.to_arrow()
        assert table.num_rows == 100
        assert descriptors(path) < 30


def test_a_log_whose_manifests_are_lost_does_not_begin_again_at_zero(path: Path) -> None:
    with seglog.open(path) as log:
        log.append_at(1000, Record(1000, 1, None, b"v"))
        log.truncate(1000)
    (path / "MANIFEST").unlink()
    (path / "MANIFEST.prev").unlink()
    with seglog.open(path) as log:
        assert [event.kind for event in log.recovery.events] == ["manifest"]
        assert log.next_offset == 1000
