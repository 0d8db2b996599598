"""Whatever leader and copy do, each on its own: every consumer sees the latest record of every key, in order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import seglog
from seglog import LogConfig, MemoryStorage, Mirror, Retention
from seglog.replication.diff import diff
from seglog.replication.promote import promote

CONFIG = LogConfig(segment_bytes=512, retention=Retention(compact=True, delete_retention=0))
KEYS = st.sampled_from([b"a", b"b", b"c"])


class Copies(RuleBasedStateMachine):
    """A leader and a copy. Each compacts when it likes; the leader truncates; the mirror stops and starts."""

    @initialize()
    def begin(self) -> None:
        self.leader: Any = MemoryStorage()
        self.copy: Any = MemoryStorage()
        self.log = seglog.open(self.leader, CONFIG)
        self.mirror: Mirror | None = None
        self.compacted = [0, 0]  # where the leader and the copy ended at their last compaction
        self.appended = 0

    @rule(key=KEYS, count=st.integers(1, 12))
    def append(self, key: bytes, count: int) -> None:
        for _ in range(count):
            self.appended += 1
            self.log.append(b"%d" % self.appended, key=key)

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        self.log.append(None, key=key)

    @rule()
    def compact_the_leader(self) -> None:
        self.log.compact(roll=True)
        self.compacted[0] = self.log.next_offset

    @precondition(lambda self: self.mirror is not None)
    @rule()
    def compact_the_copy(self) -> None:
        log = next(iter(self.mirror._logs.values())).log
        log.compact(roll=True)
        self.compacted[1] = log.next_offset

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        # What a truncate below its own compaction leaves is not what was there: docs/replication.md
        lowest, end = max(self.log.lowest_offset, self.compacted[0]), self.log.next_offset
        lowest = min(lowest, end)
        self.log.truncate(lowest + int(share * (end - lowest)))

    @rule()
    def reopen_the_leader(self) -> None:
        self.log.close()
        self.log = seglog.open(self.leader)

    @precondition(lambda self: self.mirror is not None)
    @rule()
    def stop_the_mirror(self) -> None:
        self.mirror.close()
        self.mirror = None

    @rule()
    def copy_and_compare(self) -> None:
        self.mirror = self.mirror or Mirror(self.leader, self.copy)
        self.mirror.step()
        report = diff(self.leader, self.copy)
        assert report.same, report.differences
        assert not report.behind

    @rule()
    def promote_the_copy_and_turn_the_roles(self) -> None:
        self.copy_and_compare()
        self.mirror.close()
        self.mirror = None
        self.log.close()
        promote(self.copy)
        self.leader, self.copy = self.copy, self.leader
        self.compacted.reverse()
        self.log = seglog.open(self.leader)
        self.copy_and_compare()  # before the new leader truncates what the old one holds

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.copy_and_compare()
            self.mirror.close()
            self.log.close()
            assert seglog.verify(self.copy).ok


TestCopies = pytest.mark.no_cover(Copies.TestCase)
TestCopies.settings = settings(max_examples=15, stateful_step_count=15, deadline=None, phases=[Phase.generate])
