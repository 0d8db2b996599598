"""Any changes of a log and of its snapshots: a state never has a record of another history, and lacks none.

Records that compaction or retention removed may be in a state that was computed before; so a state is compared record
by record with the present history of the log.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import seglog
from seglog import LogConfig, MemoryStorage, Retention, Snapshots
from seglog.record import Record

CONFIG = LogConfig(segment_bytes=512, retention=Retention(compact=True, delete_retention=0, bytes=4000))
KEPT = st.integers(1, 3)


class Everything:
    """A machine whose state is all that it has applied: (offset, value)."""

    def initial(self) -> list[Any]:
        return []

    def apply(self, state: list[Any], record: Record) -> list[Any]:
        state.append((record.offset, (record.value or b"").decode()))
        return state

    def encode(self, state: list[Any]) -> bytes:
        return json.dumps(state).encode()

    def decode(self, data: bytes) -> list[Any]:
        return [tuple(pair) for pair in json.loads(data)]


class Histories(RuleBasedStateMachine):
    """A log, what was ever appended to its present history, and a directory of snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.place, self.states = MemoryStorage(), MemoryStorage()
        self.log = seglog.open(self.place, CONFIG)
        self.history: dict[int, str] = {}
        self.number = 0
        self.last: Any = None

    @rule(count=st.integers(1, 12), keys=st.integers(1, 4))
    def append(self, count: int, keys: int) -> None:
        for _ in range(count):
            self.number += 1
            offset = self.log.append(b"%d" % self.number, key=b"%d" % (self.number % keys))
            self.history[offset] = str(self.number)

    @rule(count=st.integers(0, 20), more=st.integers(0, 25), keys=st.integers(1, 4))
    def truncate(self, count: int, more: int, keys: int) -> None:
        cut = max(self.log.lowest_offset, self.log.next_offset - count)
        self.log.truncate(cut)
        self.history = {offset: value for offset, value in self.history.items() if offset < cut}
        self.append(more, keys)

    @rule(how=st.sampled_from(["compact", "expire", "reopen"]))
    def care(self, how: str) -> None:
        if how == "compact":
            self.log.compact(roll=True)
        elif how == "expire":
            self.log.expire()
        else:
            self.log.close()
            self.log = seglog.open(self.place)

    @rule(pick=st.integers(0, 5), at=st.integers(0, 400))
    def damage(self, pick: int, at: int) -> None:
        names = sorted(self.states.names())
        if names:
            file = self.states.open(names[pick % len(names)], writable=True)
            byte = file.pread(1, at % file.size())
            file.pwrite(bytes([byte[0] ^ 4]), at % file.size())

    @rule(keep=KEPT, every=st.integers(1, 30))
    def replay(self, keep: int, every: int) -> None:
        self.check(None, snapshots=Snapshots(self.states, keep=keep, every=every))

    @rule(keep=KEPT, back=st.integers(0, 30))
    def replay_as_of(self, keep: int, back: int) -> None:
        stop = max(self.log.lowest_offset, self.log.next_offset - back)
        self.check(stop, snapshots=Snapshots(self.states, keep=keep))

    @rule(keep=KEPT)
    @precondition(lambda self: self.last is not None)
    def go_on(self, keep: int) -> None:
        try:
            self.check(None, start=self.last, snapshots=Snapshots(self.states, keep=keep))
        except seglog.LogTruncated:
            self.last = None

    def check(self, stop: int | None, **options: Any) -> None:
        try:
            found = seglog.replay(self.log, Everything(), stop=stop, **options)
        except seglog.OffsetOutOfRange:
            assert self.log.lowest_offset > 0, "the log begins at its first record"
            return
        state = dict(found.state)
        assert list(state) == sorted(state)
        assert state.items() <= self.history.items(), "records of another history"
        present = {record.offset for record in self.log.scan(stop=stop)}
        assert present <= state.keys(), "records are missing"
        if stop is None:
            self.last = found

    @invariant()
    def no_leftovers(self) -> None:
        assert all(name.endswith(".snapshot") for name in self.states.names())

    def teardown(self) -> None:
        self.log.close()


Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestHistories = pytest.mark.no_cover(Histories.TestCase)
