"""Publishing beside all else that happens to a log: readers, retention, truncates, dead stages."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.log.opening import storage_at
from seglog.log.staging import KEPT_US, Stage, StagedSegment, age_out, remove_stages
from seglog.testing.faulty import Fault, FaultyStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
OLD = [b"old %d" % number for number in range(7)]
NEW = [b"new %02d " % number * 4 for number in range(30)]


def staged_in(place: Any, values: Sequence[bytes], *, batch: str = "q-0", **named: Any) -> list[StagedSegment]:
    with Stage(storage_at(place), batch, **named) as stage:
        stage.append_batch(pa.table({"value": values, "timestamp": pa.array([0] * len(values))}))
        return stage.finish()


def filled(place: Any, config: seglog.LogConfig | None = SMALL, **named: Any) -> seglog.Log:
    log = seglog.open(place, config, **named)
    for value in OLD:
        log.append(value, timestamp=0)
    return log


def values_of(log: seglog.Log) -> list[bytes | None]:
    return [record.value for record in log.scan()]


# --- readers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [0, 7], ids=["empty", "with records"])
@pytest.mark.parametrize("expose", ["appended", "durable"])
def test_a_reader_follows_through_publications(place: Any, old: int, expose: Any) -> None:
    with seglog.open(place, SMALL) as log, seglog.open(place, mode="r", expose=expose) as reader:
        for value in OLD[:old]:
            log.append(value)
        log.sync()
        tail, got = reader.tail(0), []
        got += [record.value for record in tail.poll()]
        for batch in range(3):
            log.publish(staged_in(place, NEW, batch=f"q-{batch}"), query="q", batch=batch)
            assert (reader.next_offset, reader.durable_offset) == (log.next_offset,) * 2
            got += [record.value for record in tail.poll()]
            log.append(b"between")
            log.sync()
        got += [record.value for record in tail.poll()]
        assert got == [*OLD[:old], *[*NEW, b"between"] * 3] == values_of(reader)


def test_a_reader_in_another_process_sees_whole_batches_only(path: Path, process: Callable[..., Any]) -> None:
    with filled(path) as log:
        reader = process(path)
        assert reader("log.next_offset") == "7"
        for batch in range(5):
            log.publish(staged_in(path, NEW, batch=f"q-{batch}"), query="q", batch=batch)
            assert reader("(log.next_offset, log.published('q'))") == repr((37 + 30 * batch, batch))
        assert reader("[r.value for r in log.scan()]") == repr([*OLD, *NEW * 5])
        assert reader("log.verify().problems") == "()"


def test_an_iteration_under_way_is_not_disturbed(place: Any) -> None:
    with filled(place) as log:
        records = log.scan()
        batches = log.batches()
        first = next(records)
        log.publish(staged_in(place, NEW), query="q", batch=0)
        assert [first.value, *(record.value for record in records)] == OLD
        assert [value for batch in batches for value in batch.column("value").to_pylist()] == OLD


def test_threads_that_read_and_append_meanwhile_see_every_batch_whole(
    path: Path, together: Callable[..., None]
) -> None:
    ended = threading.Event()
    with filled(path) as log:

        def publish() -> None:
            for batch in range(12):
                log.publish(staged_in(path, NEW[:10], batch=f"q-{batch}"), query="q", batch=batch)
            ended.set()

        def append() -> None:
            while not ended.is_set():
                log.append(b"single")

        def read() -> None:
            while not ended.is_set():
                seen = [value for value in values_of(log) if value != b"single"]
                assert seen[:7] == OLD
                assert seen[7:] == NEW[:10] * ((len(seen) - 7) // 10)

        together(publish, append, read)
        seen = values_of(log)
        assert [value for value in seen if value != b"single"] == [*OLD, *NEW[:10] * 12]
        starts = [place for place, value in enumerate(seen) if value == NEW[0]]
        assert all(seen[start : start + 10] == NEW[:10] for start in starts), "a batch stands in one piece"
        assert log.verify().ok


# --- what else changes the structure --------------------------------------------------------------------------------


def test_retention_by_size_counts_what_was_published(place: Any) -> None:
    with filled(place, seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=1000))) as log:
        assert log.publish(staged_in(place, NEW), query="q", batch=0) == range(7, 37)
        assert 7 < log.lowest_offset < 30
        assert values_of(log) == NEW[log.lowest_offset - 7 :]
        assert log.verify().ok


def test_retention_by_age_counts_from_the_publication_not_from_the_staging(place: Any, clock: Any) -> None:
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(age=3600))
    with filled(place, config, clock=clock) as log:
        staged = staged_in(place, NEW, clock=clock)
        clock.advance(3000)
        log.publish(staged, query="q", batch=0)
        clock.advance(3000)
        log.expire()
        assert values_of(log)[-30:] == NEW
        clock.advance(1000)
        log.expire()
        assert (log.lowest_offset, log.next_offset, values_of(log)) == (37, 37, [])


@pytest.mark.parametrize("cut", [0, 3, 7, 8, 20, 36, 37])
def test_a_truncate_cuts_published_segments_like_any_other(place: Any, cut: int) -> None:
    everything = [*OLD, *NEW]
    with filled(place) as log:
        log.publish(staged_in(place, NEW), query="q", batch=0)
        log.truncate(cut)
        assert values_of(log) == everything[:cut]
        assert log.append(b"after") == cut
        log.publish(staged_in(place, NEW, batch="q-1"), query="q", batch=1)
    with seglog.open(place) as log:
        assert values_of(log) == [*everything[:cut], b"after", *NEW]
        assert [log.read(offset).value for offset in range(log.next_offset)] == values_of(log)
        assert log.verify().ok


def test_a_lost_manifest_is_rebuilt_with_the_published_segments_in_it(path: Path) -> None:
    with filled(path) as log:
        log.publish(staged_in(path, NEW), query="q", batch=0)
        log.append(b"last")
    for name in ("MANIFEST", "MANIFEST.prev"):
        (path / name).unlink()
    with seglog.open(path) as log:
        assert values_of(log) == [*OLD, *NEW, b"last"]


# --- stages ---------------------------------------------------------------------------------------------------------


def names_in_stages(place: Any) -> list[str]:
    storage = storage_at(place)
    return [
        f"{batch}/{stage}/{name}"
        for batch in storage.names("staging")
        for stage in storage.names(f"staging/{batch}")
        for name in storage.names(f"staging/{batch}/{stage}")
        if name.endswith(".store")
    ]


def test_a_stage_that_is_not_finished_leaves_nothing(place: Any) -> None:
    filled(place).close()
    with Stage(storage_at(place), "q-0") as stage:
        stage.append_batch(pa.table({"value": NEW}))
    with pytest.raises(KeyError), Stage(storage_at(place), "q-0") as stage:
        stage.append_batch(pa.table({"value": NEW}))
        raise KeyError
    with Stage(storage_at(place), "q-0") as stage:
        assert stage.finish() == []
    assert names_in_stages(place) == []


def test_an_error_after_finish_leaves_what_was_promised(place: Any) -> None:
    """Whoever publishes within the context may meet an error after the batch was committed: it needs its stage."""
    with filled(place) as log:
        with pytest.raises(KeyError), Stage(storage_at(place), "q-0") as stage:
            stage.append_batch(pa.table({"value": NEW}))
            staged = stage.finish()
            raise KeyError
        log.publish(staged, query="q", batch=0)
        assert values_of(log) == [*OLD, *NEW]


def test_finishing_twice_is_refused_and_harms_nothing(place: Any) -> None:
    with filled(place) as log:
        with Stage(storage_at(place), "q-0") as stage:
            stage.append_batch(pa.table({"value": NEW}))
            staged = stage.finish()
            for refused in (stage.finish, lambda: stage.append_batch(pa.table({"value": NEW}))):
                with pytest.raises(seglog.InvalidArgument, match="is finished or failed"):
                    refused()
        log.publish(staged, query="q", batch=0)
        assert values_of(log) == [*OLD, *NEW]


def test_a_record_that_fits_no_segment_is_refused_by_its_row_and_the_stage_goes_on(place: Any) -> None:
    with filled(place) as log, Stage(storage_at(place), "q-0") as stage:
        stage.append_batch(pa.table({"value": NEW[:2]}))
        limit = seglog.LogConfig(segment_bytes=512).store_limit
        with pytest.raises(seglog.RecordTooLarge, match="row 1") as caught:
            stage.append_batch(pa.table({"value": [b"x", b"y" * limit, b"z"]}))
        assert caught.value.row == 1
        stage.append_batch(pa.table({"value": NEW[2:]}))
        log.publish(stage.finish(), query="q", batch=0)
        assert values_of(log) == [*OLD, *NEW]


def test_a_stage_of_a_log_that_is_compacted_by_key_takes_no_record_without_one(place: Any) -> None:
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(compact=True))
    with seglog.open(place, config) as log, Stage(storage_at(place), "q-0") as stage:
        with pytest.raises(seglog.errors.KeyRequired, match="row 1"):
            stage.append_batch(pa.table({"value": NEW[:3], "key": [b"a", None, b"c"]}))
        stage.append_batch(pa.table({"value": NEW[:3], "key": [b"a", b"", b"c"]}))
        log.publish(stage.finish(), query="q", batch=0)
        assert values_of(log) == NEW[:3]


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", ".hidden", "nul\0"])
def test_a_batch_whose_name_cannot_be_a_directory_is_refused(place: Any, name: str) -> None:
    filled(place).close()
    with pytest.raises(seglog.InvalidArgument, match="name a batch"):
        Stage(storage_at(place), name)


def test_there_is_no_stage_where_there_is_no_log(path: Path) -> None:
    with pytest.raises(seglog.SeglogError):
        Stage(storage_at(path), "q-0")
    assert not path.exists()


def test_a_stage_that_a_dead_process_left_disturbs_nobody(path: Path, script: Callable[..., str]) -> None:
    filled(path).close()
    script(
        "import os, sys, pyarrow, seglog\n"
        "from seglog.log.staging import Stage\n"
        "stage = Stage(seglog.LocalStorage(sys.argv[1]), 'q-0')\n"
        "stage.append_batch(pyarrow.table({'value': [b'x' * 100] * 50}))\n"
        "os._exit(0)\n",
        path,
    )
    left = names_in_stages(path)
    assert len(left) > 5
    with seglog.open(path) as log:
        assert log.recovery.clean
        log.publish(staged_in(path, NEW), query="q", batch=0)
        assert values_of(log) == [*OLD, *NEW]
        assert list((path / "quarantine").iterdir()) == []
        assert set(left) <= set(names_in_stages(path)), "it ages out, and not before"


def test_stages_age_out_when_every_one_of_a_batch_is_old(place: Any, clock: Any) -> None:
    filled(place).close()
    storage = storage_at(place)
    staged_in(place, NEW, batch="old", clock=clock)
    staged_in(place, NEW, batch="both", clock=clock)
    clock.now += KEPT_US
    age_out(storage, clock())
    assert {name.partition("/")[0] for name in names_in_stages(place)} == {"old", "both"}
    staged_in(place, NEW, batch="both", clock=clock)
    clock.now += 1
    age_out(storage, clock())
    assert {name.partition("/")[0] for name in names_in_stages(place)} == {"both"}
    remove_stages(storage, "both")
    assert names_in_stages(place) == []


def test_a_stray_file_among_the_stages_disturbs_nobody(path: Path, clock: Any) -> None:
    with filled(path) as log:
        staged = staged_in(path, NEW)
        (path / "staging" / ".DS_Store").write_bytes(b"x")
        (path / "staging" / "q-0" / ".DS_Store").write_bytes(b"x")
        (path / "00000000000000000007-99.store").write_bytes(b"somebody put it here" * 10)
        age_out(storage_at(path), clock())
        log.publish(staged, query="q", batch=0)
    with seglog.open(path) as log:
        assert values_of(log) == [*OLD, *NEW]


def test_a_stage_that_is_being_begun_is_not_taken_for_an_old_one(path: Path, clock: Any) -> None:
    """Between the batch's directory and the stage's there is a moment in which the batch has no stage."""
    filled(path).close()
    cleaned: list[bool] = []

    class Beside(seglog.LocalStorage):
        def _make_one(self, directory: Path) -> None:
            super()._make_one(directory)
            if directory.name == "q-0" and not cleaned:
                age_out(seglog.LocalStorage(path), clock())
                cleaned.append(not directory.exists())

    with Stage(Beside(path), "q-0", clock=clock) as stage:
        age_out(storage_at(path), clock())
        stage.append_batch(pa.table({"value": NEW}))
        age_out(storage_at(path), clock())
        staged = stage.finish()
    assert cleaned == [True]
    with seglog.open(path) as log:
        log.publish(staged, query="q", batch=0)
        assert values_of(log) == [*OLD, *NEW]


def test_a_task_that_still_writes_does_not_stop_those_who_clean_up(path: Path) -> None:
    filled(path).close()

    class Beside(seglog.LocalStorage):
        def _leaves(self, directory: str) -> list[str]:
            found = super()._leaves(directory)
            (path / directory / "late").write_bytes(b"a task that nobody waits for")
            return found

    staged_in(path, NEW)
    remove_stages(Beside(path), "q-0")
    remove_stages(storage_at(path), "q-0")
    assert list((path / "staging").iterdir()) == []


@pytest.mark.parametrize("operation", ["pwrite", "datasync"])
def test_a_stage_that_met_an_error_cannot_be_published_in_part(path: Path, operation: str) -> None:
    filled(path).close()
    faulty = FaultyStorage(seglog.LocalStorage(path))
    with Stage(faulty, "q-0") as stage:
        stage.append_batch(pa.table({"value": NEW[:5]}))
        faulty.fault = Fault(operations=frozenset({operation}), name=".store", at=3, error=errno.EIO)
        with pytest.raises(OSError, match=r"failed|error"):
            stage.append_batch(pa.table({"value": NEW}))
        for refused in (stage.finish, lambda: stage.append_batch(pa.table({"value": NEW}))):
            with pytest.raises(seglog.InvalidArgument, match="finished or failed"):
                refused()
    assert names_in_stages(path) == []


def test_the_stage_of_a_compaction_that_died_goes_with_an_opening_a_day_later(path: Path, clock: Any) -> None:
    filled(path).close()
    staged_in(path, NEW, batch="compact-0123", clock=clock)
    staged_in(path, NEW, batch="q-0", clock=clock)
    clock.now += KEPT_US + 1
    seglog.open(path, clock=clock).close()
    assert {name.partition("/")[0] for name in names_in_stages(path)} == {"q-0"}, "a topic may still need that one"
