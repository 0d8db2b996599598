"""What the server keeps for reads of several pages, without a server."""

from __future__ import annotations

import errno

import pytest

import seglog
from seglog.server.runtime.disk_space import Space
from seglog.server.runtime.snapshots import NEW, Snapshots
from tests.snapshots import CHANGES, filled


@pytest.fixture
def log(tmp_path):
    with filled(tmp_path / "log") as log:
        yield log


def keep(kept, log, start, stop):
    """Keep the present view, as a page that ends at `start` does."""
    view = log.view()
    kept.keep(log, view, start, stop, str(view._snapshot_of(start, stop)))


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_views_of_a_log_that_was_closed_are_dropped_and_disturb_no_other(log, tmp_path):
    kept = Snapshots(60, 10**9)
    other = filled(tmp_path / "other")
    keep(kept, other, 5, 20)
    other.close()
    keep(kept, log, 5, 20)
    assert kept.bytes() == 0
    kept.drop_old()
    assert len(kept) == 1


def test_what_is_too_large_is_given_up_and_its_files_go(log):
    clock = Clock()
    kept = Snapshots(60, 1000, clock)
    keep(kept, log, 5, 20)
    CHANGES["superseded and compacted"](log)
    assert kept.bytes() > 1000
    clock.now = 2
    keep(kept, log, 45, 50)
    assert kept.bytes() <= 1000
    assert len(kept) == 1


def test_no_reader_keeps_a_view_for_ever(log):
    clock = Clock()
    kept = Snapshots(60, 10**9, clock)
    for clock.now in range(0, 610, 30):
        keep(kept, log, 5, 20)
        kept.drop_old()
        assert len(kept) == (clock.now <= 600)


def test_two_reads_of_one_range_without_snapshots_are_not_mixed(log):
    kept = Snapshots(60, 10**9)
    keep(kept, log, 15, 40)
    CHANGES["superseded and compacted"](log)
    keep(kept, log, 15, 40)
    with pytest.raises(seglog.SnapshotExpired):
        kept.begin(log, 15, 40, "")
    assert kept.begin(log, 15, 40, "") is None, "and a new read begins"
    assert kept.begin(log, 15, 40, NEW) is None


def test_an_end_after_the_logs_is_its_end(log):
    kept, view = Snapshots(60, 10**9), log.view()
    token = str(view._snapshot_of(15, 1000))
    kept.drop_all()
    assert kept.begin(log, 15, 1000, token) == (log.view(), view.next_offset)


def test_a_full_disk_ends_what_is_kept(log):
    kept = Snapshots(60, 10**9)
    space = Space(lambda: 0, kept.drop_all)
    keep(kept, log, 5, 20)
    space.failed("orders", OSError(errno.EIO, "another fault"))
    assert len(kept) == 1
    space.failed("orders", OSError(errno.ENOSPC, "no space left"))
    assert len(kept) == 0
