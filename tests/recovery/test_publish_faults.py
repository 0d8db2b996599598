"""Staging and publishing, and a process or a medium that fails at any call: all of a batch is there or nothing of it,
and published again it is there once.
"""

from __future__ import annotations

import errno
import subprocess
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.log.staging import Stage, StagedSegment, remove_stages
from seglog.storage import LocalStorage
from seglog.testing.faulty import SYNCING, WRITING, Crashed, Fault, FaultyStorage
from seglog.testing.internals import storage_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
BUFFERED = seglog.LogConfig(segment_bytes=512, buffer_bytes=400)
REFUSABLE = WRITING - SYNCING
ROWS = 14  # three segments


def fill(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log, 12)
    log.sync()


def nothing(log: seglog.Log, ledger: Any) -> None:
    """A log without records."""


def stage(storage: Any, values: list[bytes], batch: str = "q-0") -> list[StagedSegment]:
    with Stage(storage, batch) as one:
        one.append_batch(pa.table({"value": values}))
        return one.finish()


class Publication:
    """A batch staged in the template, and how it is published."""

    def __init__(self, laboratory: Any, *, before: int = 0) -> None:
        first = laboratory.known.next_offset + before
        self.values = [laboratory.known.value(first + number) for number in range(ROWS)]
        self.staged = stage(LocalStorage(laboratory.template), self.values)
        assert len(self.staged) == 3
        self.before = before

    def __call__(self, log: seglog.Log, ledger: Any) -> None:
        if self.before and log.next_offset < ledger.next_offset + self.before and log.published("q") is None:
            ledger.append(log, self.before)
        ledger.appending(*self.values)
        log.publish(self.staged, query="q", batch=0)
        ledger.done()

    def check_later(self, path: Path, ledger: Any, content_of: Any) -> int | None:
        """The stage is forgotten first: what was published stays, what was not never comes. Returns how many came."""
        remove_stages(LocalStorage(path), "q-0")
        with seglog.open(path) as log:
            found = content_of(log)
            assert found in ledger.possible
            assert not log.recovery.damaged, log.recovery.events
        return len(self.values) if found[1][-ROWS:] == tuple(self.values) else None

    def check(self, path: Path, ledger: Any, content_of: Any, *, lookups: bool = True) -> bool:
        """All or nothing is there; published again it is there once. Returns whether it was there before."""
        with seglog.open(path) as log:
            found = content_of(log)
            assert found in ledger.possible
            assert not log.recovery.damaged
            there = bool(found[1][-ROWS:] == tuple(self.values))
            assert (log.published("q") == 0) == there
            again = log.publish(self.staged, query="q", batch=0)
            assert again == (None if there else range(len(found[1]), len(found[1]) + ROWS))
            whole = found if there else (found[0], (*found[1], *self.values))
            assert content_of(log) == whole
            assert [problem for problem in log.verify().problems if lookups or problem.kind != "index"] == []
            remove_stages(LocalStorage(path), "q-0")
            log.append(b"and on")
        with seglog.open(path) as log:
            assert log.recovery.clean, log.recovery.events
            assert content_of(log) == (whole[0], (*whole[1], b"and on"))
            assert {file.name for file in path.glob("*.store")} == {segment.name for segment in log.segments}
            assert list((path / "quarantine").iterdir()) == []
        return there


@pytest.mark.parametrize("keep", [0.0, pytest.param(0.6, marks=pytest.mark.no_cover)])
@pytest.mark.parametrize("before", [nothing, fill])
def test_a_crash_at_any_call_of_publish_leaves_all_or_nothing(
    laboratory: Any, content_of: Any, before: Callable[..., None], keep: float
) -> None:
    laboratory.prepare(before, SMALL)
    publication = Publication(laboratory)
    runs = laboratory.runs(publication, Fault(keep=keep))
    outcomes = [publication.check(run.path, run.ledger, content_of) for run in runs]
    commit = outcomes.index(True)
    assert 20 < commit < len(outcomes) - 1
    assert outcomes == [False] * commit + [True] * (len(outcomes) - commit), "one call is the commit"


def test_a_crash_at_any_call_of_the_opening_after_that_leaves_the_same(
    laboratory: Any, content_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping_links = ["cp", "-a"]  # two names of one file, as the crash leaves them, stay that in every copy
    monkeypatch.setattr("shutil.copytree", lambda *places: subprocess.run([*keeping_links, *places], check=True))
    laboratory.prepare(fill, SMALL)
    publication = Publication(laboratory)
    storage = FaultyStorage(LocalStorage(laboratory.template))
    log = seglog.open(storage)
    storage.fault = Fault(operations=frozenset({"rename"}), name="MANIFEST", at=2)
    with pytest.raises(Crashed):
        log.publish(publication.staged, query="q", batch=0)
    manifest = seglog.open(laboratory.template, mode="r")
    assert len(list(laboratory.template.glob("*.store"))) == len(manifest.segments) + 4, "three staged, one new"
    for run in laboratory.runs(nothing, Fault(), opening=True):
        assert not publication.check(run.path, run.ledger, content_of)


@pytest.mark.parametrize("error", [errno.ENOSPC, pytest.param(errno.EIO, marks=pytest.mark.no_cover)])
@pytest.mark.parametrize("before", [nothing, fill])
def test_a_medium_that_refuses_any_call_of_publish_leaves_all_or_nothing_and_the_writer_goes_on(
    laboratory: Any, content_of: Any, before: Callable[..., None], error: int
) -> None:
    laboratory.prepare(before, SMALL)
    publication = Publication(laboratory)
    for run in laboratory.runs(publication, Fault(operations=REFUSABLE, error=error, keep=0.5)):
        run.storage.fault = None
        if run.error is not None:
            assert isinstance(run.error, seglog.StorageError)
            assert content_of(run.log) == run.ledger.content
            names = {segment.name for segment in run.log.segments}
            left = {file.name for file in run.path.glob("*.store")} - names
            assert len(left) <= 1, "what had joined already is taken back, but for what the medium refuses to remove"
        run.log.close()
        publication.check(run.path, run.ledger, content_of, lookups=False)


def test_records_appended_after_a_refused_publication_come_before_the_batch(laboratory: Any, content_of: Any) -> None:
    laboratory.prepare(fill, BUFFERED)
    publication = Publication(laboratory, before=2)
    for run in laboratory.runs(publication, Fault(operations=REFUSABLE, name=".store", error=errno.ENOSPC)):
        run.storage.fault = None
        if run.error is not None:
            assert run.log.append(b"between") == run.ledger.next_offset
            assert run.log.publish(publication.staged, query="q", batch=0) is not None
            assert content_of(run.log)[1][-ROWS - 1 :] == (b"between", *publication.values)
        run.log.close()
        with seglog.open(run.path) as log:
            assert log.recovery.clean
            assert log.verify().ok


def test_wherever_a_sync_of_publish_fails_the_writer_stops_and_nothing_acknowledged_is_lost(
    laboratory: Any, content_of: Any
) -> None:
    laboratory.prepare(fill, SMALL)
    publication = Publication(laboratory)
    for run in laboratory.runs(publication, Fault(operations=SYNCING, error=errno.EIO)):
        if run.storage.struck:
            assert isinstance(run.error, seglog.LogPoisoned)
            with pytest.raises(seglog.LogPoisoned):
                run.log.append(b"never")
            with pytest.raises(seglog.LogPoisoned):
                run.log.publish(publication.staged, query="q", batch=0)
        run.storage.crash()
        publication.check(run.path, run.ledger, content_of)


def test_retention_that_fails_behind_a_publication_does_not_undo_it(laboratory: Any, content_of: Any) -> None:
    keep = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=1200))
    laboratory.prepare(fill, keep)
    publication = Publication(laboratory)
    for run in laboratory.runs(publication, Fault(operations=REFUSABLE, error=errno.ENOSPC)):
        run.storage.crash()
        with seglog.open(run.path) as log:
            log.publish(publication.staged, query="q", batch=0)
            log.expire()
            assert log.next_offset == 12 + ROWS
            start, values = content_of(log)
            assert values == tuple(run.ledger.value(offset) for offset in range(start, 12 + ROWS))
            assert start > 5
            assert log.verify().ok


def written(storage: FaultyStorage) -> list[str]:
    """Return the calls that write to disk, in order, without those for derived files."""
    calls = [
        call for call in storage.calls if call.operation in WRITING and not call.name.endswith((".index", ".times"))
    ]
    storage.calls = []
    return [f"{call.operation} {call.name}".strip() for call in calls]


def test_publish_syncs_the_old_records_and_the_names_of_the_new_before_the_manifest_that_joins_them(scene: Any) -> None:
    scene.fill([b"old"], SMALL)
    storage = FaultyStorage(LocalStorage(scene.path))
    log = seglog.open(storage)
    log.append(b"not synced")
    staged = stage(LocalStorage(scene.path), [b"x" * 100] * 5)
    written(storage)
    log.publish(staged, query="q", batch=0)
    calls = written(storage)
    last = f"{7:020d}-4.store"
    assert calls[:9] == [
        f"datasync {0:020d}-1.store",
        *(f"{what} {2:020d}-2.store" for what in ["link"]),
        *(f"{what} {5:020d}-3.store" for what in ["link"]),
        *(f"{what} {last}" for what in ("create", "pwrite", "datasync")),
        "sync_directory",
        "create tmp/MANIFEST",
        "pwrite tmp/MANIFEST",
    ]
    assert calls[-3:] == ["rename MANIFEST", "sync_directory", "pwrite MANIFEST.prev"]


def test_a_replay_is_recognised_only_by_a_manifest_whose_name_is_on_the_medium(
    laboratory: Any, content_of: Any
) -> None:
    """Who died between the rename and the sync left a publication that a power cut may still take back. A replay that
    is recognised is acknowledged, so that its sender forgets it.
    """
    laboratory.prepare(fill, SMALL)
    publication = Publication(laboratory)
    storage = FaultyStorage(LocalStorage(laboratory.template))
    log = seglog.open(storage)
    storage.fault = Fault(operations=frozenset({"sync_directory"}), at=2)
    with pytest.raises(Crashed):
        log.publish(publication.staged, query="q", batch=0)
    storage = FaultyStorage(LocalStorage(laboratory.template))
    log = seglog.open(storage)
    written(storage)
    assert log.publish(publication.staged, query="q", batch=0) is None
    assert written(storage) == ["sync_directory"]
    assert content_of(log)[1][-ROWS:] == tuple(publication.values)
    storage.fault = Fault(operations=SYNCING, error=errno.EIO)
    with pytest.raises(seglog.LogPoisoned):
        log.publish(publication.staged, query="q", batch=0)
    log.close()


# --- writing a stage ------------------------------------------------------------------------------------------------


def staging(values: list[bytes], kept: list[list[StagedSegment]]) -> Callable[[seglog.Log, Any], None]:
    """Return an operation that stages beside the open log, on the same failing medium."""

    def operation(log: seglog.Log, ledger: Any) -> None:
        kept.append(stage(storage_of(log), values))

    return operation


@pytest.mark.parametrize("fault", [Fault(keep=0.5), Fault(error=errno.ENOSPC, keep=0.5), Fault(error=errno.EIO)])
def test_a_crash_or_a_refusal_at_any_call_of_staging_touches_nothing_of_the_log(
    laboratory: Any, content_of: Any, check_survivor: Any, fault: Fault
) -> None:
    laboratory.prepare(fill, SMALL)
    values = [laboratory.known.value(12 + number) for number in range(ROWS)]
    kept: list[list[StagedSegment]] = []
    for number, run in enumerate(laboratory.runs(staging(values, kept), fault)):
        run.storage.crash()
        if kept:
            with seglog.open(run.path) as log:
                assert log.publish(kept.pop(), query="q", batch=0) == range(12, 12 + ROWS)
            run.ledger.appending(*values)
            run.ledger.done()
        else:
            assert run.error is not None
            assert fault.error is None or number < 3 or not list((run.path / "staging" / "q-0").iterdir())
        check_survivor(run.path, run.ledger, lookups=False)
        assert list((run.path / "quarantine").iterdir()) == []


def test_no_staged_segment_is_handed_out_before_it_and_its_name_are_on_the_medium(scene: Any) -> None:
    scene.fill([b"old"], SMALL)
    storage = FaultyStorage(LocalStorage(scene.path))
    staged = stage(storage, [b"x" * 100] * 9)
    calls = [f"{call.operation} {call.name}" for call in storage.calls if call.operation in WRITING]
    for one in staged:
        store = f"{one.directory}/{one.entry.name()}"
        puts = [place for place, call in enumerate(calls) if call == f"pwrite {store}"]
        assert (
            calls.index(f"create {store}")
            < puts[-1]
            < max(place for place, call in enumerate(calls) if call == f"datasync {store}")
        )
    above = ["staging/q-0", "staging", ""]  # another task may have made these, and died before it synced their names
    assert calls[-4:] == [f"sync_directory {name}" for name in (staged[0].directory, *above)]


def test_a_publish_that_was_cut_short_never_joins_once_its_stage_is_gone(laboratory: Any, content_of: Any) -> None:
    """Its stores remain with all their records; without the stage they look like the log's own."""
    laboratory.prepare(fill, SMALL)
    publication = Publication(laboratory)
    for run in laboratory.runs(publication, Fault()):
        run.storage.crash()
        joined = publication.check_later(run.path, run.ledger, content_of)
        assert joined in (None, len(publication.values))
