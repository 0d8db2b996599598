"""A compacted log against a dict: whatever is appended, rolled, compacted, reopened, no key's latest value is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import seglog
from seglog import LogConfig, Retention
from seglog.compaction.plan import NEVER, considered_to, make_plan
from seglog.compaction.rewrite import rewrite
from seglog.log.staging import compaction_batch, stage_directory
from seglog.storage import LocalStorage, Storage, Subdirectory
from seglog.testing.faulty import Crashed, Fault, FaultyStorage

KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"key of more than sixteen bytes", b"d" * 40])
VALUES = st.none() | st.binary(max_size=80)
DAY = 86_400_000_000
PROGRAM = Path(__file__).parent / "programs" / "reader.py"


Row = tuple[int, bytes | None, bytes | None]


class Here:
    """A reader in this process."""

    def __init__(self, storage: Storage) -> None:
        self._log = seglog.open(storage, mode="r")
        self._begun: Iterator[seglog.Record] = iter(())

    def scan(self) -> list[Row]:
        return [(one.offset, one.key, one.value) for one in self._log.scan()]

    def begin(self, count: int) -> list[Row]:
        self._begun = self._log.scan()
        return [(one.offset, one.key, one.value) for one in islice(self._begun, count)]

    def finish(self) -> list[Row]:
        return [(one.offset, one.key, one.value) for one in self._begun]

    def close(self) -> None:
        self._begun = iter(())
        self._log.close()


class Elsewhere:
    """The same in another process, which serves one log after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _ask(self, command: str, argument: Any = None) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([command, argument]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def _rows(self, command: str, argument: Any = None) -> list[Row]:
        hexed = self._ask(command, argument)
        parts = [(offset, [None if part is None else bytes.fromhex(part) for part in row]) for offset, *row in hexed]
        return [(offset, key, value) for offset, (key, value) in parts]

    def opened(self, path: str) -> Elsewhere:
        self._ask("open", path)
        return self

    def scan(self) -> list[Row]:
        return self._rows("scan")

    def begin(self, count: int) -> list[Row]:
        return self._rows("begin", count)

    def finish(self) -> list[Row]:
        return self._rows("finish")

    def close(self) -> None:
        self._ask("close")


class CompactedLog(RuleBasedStateMachine):
    """model: offset -> (key, value) of every record ever appended and not cut; what compaction may do is derived."""

    @initialize(
        segment_bytes=st.sampled_from([512, 700, 4096]),
        dedupe_bytes=st.sampled_from([1024, 2**20]),
        lag=st.sampled_from([0, 5]),
        delete_retention=st.sampled_from([0, 10]),
    )
    def begin(self, segment_bytes: int, dedupe_bytes: int, lag: int, delete_retention: int) -> None:
        retention = Retention(
            compact=True, dedupe_bytes=dedupe_bytes, min_compaction_lag=lag, delete_retention=delete_retention
        )
        self.config = LogConfig(
            segment_bytes=segment_bytes, segment_age=1, index_interval_bytes=64, retention=retention
        )
        self.now = DAY
        self.storage = self.new_storage()
        self.faulty = FaultyStorage(self.storage)
        self.model: dict[int, tuple[bytes, bytes | None]] = {}
        self.log = self.open()
        self.compacted_to = self.taken_to = 0
        self.reader = self.new_reader()
        self.begun: list[Row] = []

    def new_storage(self) -> Storage:
        return seglog.MemoryStorage()

    def new_reader(self) -> Any:
        return Here(self.storage)

    def open(self) -> seglog.Log:
        return seglog.open(self.faulty, self.config, clock=lambda: self.now)

    @rule(key=KEYS, value=VALUES)
    def append(self, key: bytes, value: bytes | None) -> None:
        self.model[self.log.append(value, key=key, timestamp=len(self.model))] = (key, value)

    @rule(rows=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=30))
    def append_batch(self, rows: list[tuple[bytes, bytes | None]]) -> None:
        table = pa.table(
            {
                "key": pa.array([row[0] for row in rows], pa.binary()),
                "value": pa.array([row[1] for row in rows], pa.binary()),
            }
        )
        self.model.update(zip(self.log.append_batch(table), rows, strict=True))

    @rule(seconds=st.sampled_from([2, 4, 11]))
    def seal(self, seconds: int) -> None:
        self.now += seconds * 1_000_000
        self.log.expire()

    @rule()
    def compact(self) -> None:
        report = self.log.compact()
        assert report.damaged == ()
        self.compacted_to = max(self.compacted_to, report.end)

    @rule()
    def compact_twice(self) -> None:
        self.compact()
        names = [one.name for one in self.log.segments]
        if self.config.retention.delete_retention:
            assert self.log.compact().rounds == 0
            assert [one.name for one in self.log.segments] == names

    @rule(data=st.data(), pinned=st.sampled_from([0, 5, NEVER]))
    def compact_some(self, data: Any, pinned: int) -> None:
        """Clean only some segments, any that a schedule may choose, with a follower at any position."""
        manifest = self.log.view().manifest
        sources = make_plan(manifest, self.now).sources
        first_dirty = min((one.base_offset for one in sources if one.cleaned_to is None), default=self.log.next_offset)
        starts = {first_dirty, *(considered_to(one) for one in sources if considered_to(one) < first_dirty)}
        start = data.draw(st.sampled_from(sorted(starts)))
        passed = {
            one.file
            for one in sources
            if considered_to(one) < start or ((one.next_offset or 0) <= start and data.draw(st.booleans()))
        }
        plan = make_plan(manifest, self.now, pinned=pinned, passed=frozenset(passed))
        before = self.kept()
        directory = stage_directory(compaction_batch(), self.now)
        stage = Subdirectory(self.faulty, directory)
        stage.make([])
        self.log.finish_compaction(plan, rewrite(plan, self.faulty, stage), directory)
        self.taken_to = max(self.taken_to, plan.end)
        gone = {at for at, (_, value) in before.items() if value is None and at >= pinned} - self.kept().keys()
        assert all(self.latest(self.model[at][0]) != at for at in gone)

    def latest(self, key: bytes) -> int:
        return max(at for at, (other, _) in self.model.items() if other == key)

    @rule()
    def compact_as_scheduled(self) -> None:
        self.taken_to = max(self.taken_to, self.log.plan_compaction(generational=True).end)
        self.log.compact(generational=True)

    @rule(at=st.integers(1, 60), keep=st.sampled_from([0.0, 0.5, 1.0]))
    def compact_and_die(self, at: int, keep: float) -> None:
        end = self.log.plan_compaction().end
        self.faulty.fault = Fault(at=at, keep=keep)
        try:
            self.compact()
        except Crashed:
            self.faulty = FaultyStorage(self.storage)
            self.log = self.open()
            assert self.log.recovery.clean
        else:
            self.compacted_to = max(self.compacted_to, end)
        self.faulty.fault = None

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = self.open()
        assert self.log.recovery.clean

    @precondition(lambda self: len(self.model) > 3)
    @rule(data=st.data())
    def truncate(self, data: Any) -> None:
        end = self.log.next_offset
        offset = data.draw(st.integers(max(end - 3, self.compacted_to, self.taken_to), end))
        self.log.truncate(offset)
        self.model = {at: row for at, row in self.model.items() if at < offset}

    @rule(count=st.integers(0, 5))
    def a_reader_begins(self, count: int) -> None:
        begun = self.reader.begin(count)
        rows: list[Row] = [(at, *row) for at, row in self.kept().items()]
        assert begun == rows[:count]
        self.begun = rows[count:]

    @rule()
    def it_goes_on_where_it_was_whatever_happened_since(self) -> None:
        assert self.reader.finish() == self.begun
        self.begun = []

    def kept(self) -> dict[int, tuple[bytes, bytes | None]]:
        return {one.offset: (one.key, one.value) for one in self.log.scan() if one.key is not None}

    @invariant()
    def what_is_there_was_appended_there(self) -> None:
        kept = self.kept()
        assert kept.items() <= self.model.items()
        assert list(kept) == sorted(kept)

    @invariant()
    def the_latest_value_of_every_key_is_there(self) -> None:
        kept = self.kept()
        latest = {key: (at, value) for at, (key, value) in self.model.items()}
        for key, (at, value) in latest.items():
            if value is not None:
                assert kept[at] == (key, value)
        state = dict(kept.values())
        live = {key: value for key, value in state.items() if value is not None}
        assert live == {key: value for key, (_, value) in latest.items() if value is not None}

    @invariant()
    def before_the_cleanable_end_every_key_is_there_once(self) -> None:
        keys = [key for at, (key, _) in self.kept().items() if at < self.compacted_to]
        assert len(keys) == len(set(keys))

    @invariant()
    def the_end_is_where_it_was_and_the_reader_sees_the_same(self) -> None:
        assert self.log.next_offset == max(self.model, default=self.log.next_offset - 1) + 1
        assert self.reader.scan() == [(at, *row) for at, row in self.kept().items()]

    @invariant()
    def all_of_it_verifies(self) -> None:
        assert self.log.verify().ok

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.reader.close()
            self.log.close()


TestCompactedLog = pytest.mark.no_cover(CompactedLog.TestCase)
TestCompactedLog.settings = settings(max_examples=100, stateful_step_count=30)


@pytest.mark.no_cover
def test_a_compacted_log_on_disk_with_its_reader_in_another_process(tmp_path: Path) -> None:
    with Elsewhere() as reader:
        names = count()

        class OnDisk(CompactedLog):
            def new_storage(self) -> Storage:
                return LocalStorage(tmp_path / str(next(names)))

            def new_reader(self) -> Any:
                return reader.opened(self.storage.path)

        few = settings(max_examples=20, stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow])
        run_state_machine_as_test(OnDisk, settings=few)
