"""Whether a reader's position is still in the history that it read: no missed truncate, and no false alarm."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seglog
from seglog import LogConfig, LogReplaced, LogTruncated, MemoryStorage, Record, Retention
from seglog.errors import StorageError
from seglog.format.cuts import MOST, Cuts
from seglog.log import catalog
from seglog.log.appends.group import Draft
from seglog.log.follower import LogFollower
from seglog.log.history import was_cut
from seglog.testing.faulty import Fault, FaultyStorage
from seglog.testing.internals import active_of, lock_of

if TYPE_CHECKING:
    from pathlib import Path

KEYED = LogConfig(segment_bytes=512, retention=Retention(compact=True))


def fill(log: Any, count: int, text: str = "v") -> None:
    for _ in range(count):
        log.append(f"{text}-{log.next_offset}".encode(), key=b"k%d" % (log.next_offset % 7))


# --- another log at the same path -----------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["follow", "tail", "read", "scan", "to_arrow", "next_offset", "pin"])
def test_a_reader_does_not_go_on_in_another_log_at_the_same_path(path: Path, read: str) -> None:
    with seglog.open(path) as log:
        fill(log, 100, "old")
    reader = seglog.open(path, mode="r")
    following = reader.follow(98, timeout=0)
    tail = reader.tail(98)
    assert [next(following).value, next(following).value] == [b"old-98", b"old-99"]
    tail.poll()
    shutil.rmtree(path)
    with seglog.open(path) as log:
        fill(log, 120, "new")
    calls = {
        "follow": lambda: next(following),
        "tail": tail.poll,
        "read": lambda: reader.read(100),
        "scan": lambda: list(reader.scan(100)),
        "to_arrow": lambda: reader.to_arrow(100),
        "next_offset": lambda: reader.next_offset,
        "pin": lambda: reader.pin("follower", 3),
    }
    for _ in range(2):
        with (
            pytest.raises(LogReplaced, match="another one was created")
            if read != "follow"
            else pytest.raises((LogReplaced, StopIteration))
        ):
            calls[read]()
    reader.close()
    with seglog.open(path, mode="r") as again:
        assert again.read(100).value == b"new-100"
        assert again.pins == {}


# --- truncates --------------------------------------------------------------------------------------------------------


def test_a_truncate_above_a_follower_and_a_compaction_do_not_disturb_it(path: Path) -> None:
    with seglog.open(path, KEYED) as log:
        fill(log, 50)
        with seglog.open(path, mode="r") as reader:
            tail, expired = reader.tail(50), reader.tail(20)
            fill(log, 150)
            log.truncate(150)
            fill(log, 50)
            log.compact(roll=True)
            assert tail.poll()[-1].offset == expired.poll()[-1].offset == log.next_offset - 1
            log.truncate(160)
            with pytest.raises(LogTruncated):
                tail.poll()


def test_a_reader_gets_the_present_record_of_an_offset_that_was_truncated_since(path: Path) -> None:
    with seglog.open(path) as log, seglog.open(path, mode="r") as reader:
        fill(log, 10, "old")
        assert reader.read(7).value == b"old-7"
        log.truncate(5)
        fill(log, 5, "new")
        assert reader.read(7).value == b"new-7"


def test_a_reader_reads_a_structure_again_that_changed_while_it_was_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, changes = LogFollower._load, [5]

    def race(reader: LogFollower) -> Any:
        if changes:
            log.truncate(changes.pop())
            raise seglog.CorruptLog("a store is missing")
        return load(reader)

    with seglog.open(path) as log, seglog.open(path, mode="r") as reader:
        fill(log, 10)
        monkeypatch.setattr(LogFollower, "_load", race)
        log.truncate(8)
        assert reader.next_offset == 5
        assert not changes


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 12)),
            st.tuples(st.just("truncate"), st.integers(0, 60)),
            st.tuples(st.sampled_from(["compact", "expire", "open again", "look", "crash"]), st.just(0)),
        ),
        max_size=25,
    )
)
def test_a_position_counts_as_cut_exactly_if_a_record_before_it_was_replaced(steps: list[tuple[str, int]]) -> None:
    storage = MemoryStorage()
    log = seglog.open(storage, LogConfig(segment_bytes=512, retention=Retention(compact=True)))
    born: list[int] = []  # the step in which the record of each offset was appended
    known = [(0, log.view().trace_of(0), [])]
    for step, (what, number) in enumerate(steps):
        if what == "append":
            fill(log, number)
            born += [step] * number
        elif what == "truncate":
            at = min(max(number, log.lowest_offset), len(born))
            log.truncate(at)
            del born[at:]
        elif what == "compact":
            log.compact(roll=True)
        elif what == "expire":
            log.alter(retention=Retention(compact=True, bytes=600))
            log.expire()
            log.alter(retention=Retention(compact=True))
        elif what == "look":
            known += [(at, log.view().trace_of(at), born[:at]) for at in range(log.lowest_offset, len(born) + 1, 3)]
        else:
            if what == "crash":  # the appended records exist, but nothing proves that they were synced
                active_of(log).write_buffer()
                lock_of(log).release()
            else:
                log.close()
            log = seglog.open(storage)
        assert log.next_offset == len(born)
        for at, trace, before in known:
            assert was_cut(trace, log.view().trace_of(at)) == (born[:at] != before), (at, trace)
    log.close()


def test_where_an_earlier_version_truncated_without_a_note_the_file_decides(path: Path) -> None:
    with seglog.open(path, LogConfig(segment_bytes=512)) as log:
        fill(log, 30)
        early, late = log.view().trace_of(10), log.view().trace_of(30)
        log.truncate(20)
        fill(log, 20)
    lines = (path / "MANIFEST").read_bytes().splitlines(keepends=True)
    header = json.loads(lines[0])
    for name in ("cuts", "cuts_from", "boot"):
        del header[name]
    from xxhash import xxh64_intdigest  # noqa: PLC0415 - for this one file

    body = json.dumps(header).encode() + b"\n" + b"".join(lines[1:-1])
    (path / "MANIFEST").write_bytes(body + b'{"check":"%016x"}\n' % xxh64_intdigest(body))
    with seglog.open(path, mode="r") as log:
        assert log.view().manifest.cuts == Cuts(1)
        assert not was_cut(early, log.view().trace_of(10))
        assert was_cut(late, log.view().trace_of(30))


def test_cuts_are_bounded_and_none_is_missed() -> None:
    cuts, seen = Cuts(), [(0, 10 * number, Cuts()) for number in range(200)]
    for epoch in range(1, 200):
        cuts = cuts.with_cut(epoch, 10 * epoch)
        seen.append((epoch, 10 * epoch + 5, cuts))
    assert len(cuts.entries) == MOST
    for epoch, offset, then in seen:
        below = any(epoch < later < 200 and 10 * later < offset for later in range(1, 200))
        assert (cuts.epoch_at(offset) != then.epoch_at(offset)) >= below
    recent = [(epoch, offset, then) for epoch, offset, then in seen if epoch > 150]
    assert all(cuts.epoch_at(offset) == then.epoch_at(offset) for _, offset, then in recent)


# --- openings that may have lost records ---------------------------------------------------------------------------


@pytest.fixture
def left_open(path: Path) -> Any:
    """A log whose writer died with 10 synced records and 5 more that readers saw; what a reader knew of offset 15."""
    log = seglog.open(path)
    fill(log, 10)
    log.sync()
    fill(log, 5)
    known = log.view().trace_of(15)
    kept = path.with_name("kept")
    shutil.copytree(path, kept)
    log.close()
    return kept, known


@pytest.mark.parametrize("cut", [0, 7, 150])
def test_what_was_read_beyond_the_records_that_survived_counts_as_cut(left_open: Any, cut: int) -> None:
    path, known = left_open
    (store,) = path.glob("*.store")
    with store.open("r+b") as file:
        file.truncate(store.stat().st_size - cut)
    with seglog.open(path) as log:
        survived = log.next_offset
        assert survived == {0: 15, 7: 14, 150: 11}[cut]
        within, beyond = log.view().trace_of(survived), 15
        fill(log, 20, "new")
        assert was_cut(known, log.view().trace_of(beyond)) == (survived < 15)
        assert not was_cut(within, log.view().trace_of(survived))


def test_after_a_restart_of_the_machine_what_left_no_trace_counts_as_cut(
    left_open: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, known = left_open
    with seglog.open(path) as log:
        log.truncate(10)
        log.close()
    synced = json.loads((path / "MANIFEST").read_bytes().splitlines()[0])["epoch"]
    for module in (catalog, seglog.log.opening):
        monkeypatch.setattr(module, "boot_id", lambda: "another run")
    for _ in range(2):  # once a run, not at every opening
        with seglog.open(path) as log:
            assert log.view().manifest.epoch == synced + 1
    assert was_cut(known, seglog.open(path, mode="r").view().trace_of(15))


def test_an_orderly_close_begins_no_epoch(path: Path) -> None:
    for _ in range(3):
        with seglog.open(path) as log:
            fill(log, 3)
            assert log.view().manifest.epoch == 0


def test_on_a_full_disk_a_log_that_was_not_closed_opens_and_notes_the_epoch_later(left_open: Any) -> None:
    path, _ = left_open
    storage = FaultyStorage(seglog.LocalStorage(path))
    storage.fault = Fault(operations=frozenset({"create", "pwrite"}), name="tmp/MANIFEST", error=28, forever=True)
    with seglog.open(storage) as log:
        assert log.next_offset == 15
        storage.fault = None
        log.truncate(15)
        log.expire()
        log.alter(retention=Retention(bytes=10**9))
    with seglog.open(path, mode="r") as reader:
        assert reader.view().manifest.cuts.entries == ((1, 15),)


APPENDS = {
    "append": lambda log: log.append(b"new"),
    "append_each": lambda log: log.append_each([Draft(b"new")]),
    "append_at": lambda log: log.append_at(log.next_offset + 1, Record(0, 0, None, b"new")),
    "append_stream": lambda log: log.append_stream([b"new"]),
    "append_batch": lambda log: log.append_batch(pa.table({"value": [b"new"]})),
}


@pytest.mark.parametrize("how", APPENDS)
@pytest.mark.parametrize("buffer_bytes", [0, 4096])
def test_on_a_full_disk_nothing_is_appended_in_an_epoch_that_is_not_noted(
    left_open: Any, how: str, buffer_bytes: int
) -> None:
    path, _ = left_open
    storage = FaultyStorage(seglog.LocalStorage(path))
    full = Fault(operations=frozenset({"create", "pwrite"}), name="tmp/MANIFEST", error=28, forever=True)
    with seglog.open(path, LogConfig(buffer_bytes=buffer_bytes)):
        pass
    store = next(path.glob("*.store"))
    store.write_bytes(store.read_bytes() + b"torn")
    storage.fault = full
    with seglog.open(storage) as log:
        outcome: Any = None
        try:
            outcome = APPENDS[how](log)
        except StorageError as error:
            outcome = [error]
        assert isinstance(outcome[0], StorageError)
        assert log.next_offset == 15
        assert log.read(14).value == b"v-14"
        storage.fault = None
        APPENDS[how](log)
        epoch = log.view().manifest.epoch
        with seglog.open(path, mode="r") as reader:  # before anything of the new epoch can be lost
            assert reader.view().manifest.epoch == epoch > 0


def test_two_openings_after_a_crash_on_a_full_disk_give_no_epoch_twice(left_open: Any) -> None:
    path, _ = left_open
    storage = FaultyStorage(seglog.LocalStorage(path))
    storage.fault = Fault(operations=frozenset({"create", "pwrite"}), name="tmp/MANIFEST", error=28, forever=True)
    log = seglog.open(storage)
    storage.fault = None
    fill(log, 5, "seen")
    known, crashed = log.view().trace_of(20), path.with_name("crashed")
    shutil.copytree(path, crashed)
    log.close()
    store = next(crashed.glob("*.store"))
    with store.open("r+b") as file:
        file.truncate(store.stat().st_size - 100)  # what a power loss took
    with seglog.open(crashed) as log:
        assert log.next_offset < 20
        fill(log, 10, "new")
        assert was_cut(known, log.view().trace_of(20))


FULL = Fault(operations=frozenset({"create", "pwrite"}), name="tmp/MANIFEST", error=28, forever=True)


@pytest.mark.parametrize("ends", ["killed", "closed", "after refused changes"])
def test_an_epoch_that_was_never_installed_is_begun_again_and_meanwhile_nobody_saw_it(
    left_open: Any, ends: str
) -> None:
    path, beyond = left_open
    store = next(path.glob("*.store"))
    with store.open("r+b") as file:
        file.truncate(store.stat().st_size - 150)  # the crash took records that a reader had seen
    storage = FaultyStorage(seglog.LocalStorage(path))
    storage.fault = FULL
    log = seglog.open(storage)
    assert log.next_offset == 11
    seen = log.view().trace_of(11)
    if ends == "after refused changes":
        for change in (lambda: log.truncate(5), lambda: log.append(b"v")):
            with pytest.raises(StorageError):
                change()
        log.sync()
    if ends == "killed":
        storage.crash()
    else:
        log.close()
    with seglog.open(path) as log:
        fill(log, 20, "new")
        assert was_cut(beyond, log.view().trace_of(15)), "records were lost that a reader had seen"
        assert not was_cut(seen, log.view().trace_of(11)), "what the opening served is still there"
        log.truncate(3)
        assert was_cut(seen, log.view().trace_of(11)), "an epoch was given twice"
    with seglog.open(path) as log:
        assert log.view().manifest.epoch == 2, "an orderly close begins no epoch"
