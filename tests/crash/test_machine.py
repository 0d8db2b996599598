"""Anything a writer may do, in any order, while processes die, the power is cut and bytes rot: a log and a keyed log
against a ledger.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
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
from seglog.log.repair.repair import repair_storage
from seglog.testing.crash_states import present
from seglog.testing.disk import Disk
from seglog.testing.disk_storage import DiskStorage
from seglog.testing.ledger import Ledger, content_of
from seglog.testing.power_loss import ticking
from tests.crash.scenarios import KEYED, KEYS, SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.config import Compression
    from tests.proofs import Tell

SIZES = st.sampled_from([0, 20, 90, 300, 600])


class LogMachine(RuleBasedStateMachine):
    """A log on a disk whose power may be cut."""

    config = SMALL
    keys: st.SearchStrategy[bytes | None] = st.sampled_from([None, *KEYS])

    @initialize(flush=st.sampled_from([None, 1, 3]))
    def begin(self, flush: int | None) -> None:
        self.config = seglog.LogConfig(
            segment_bytes=512, index_interval_bytes=64, flush_records=flush, retention=self.config.retention
        )
        self.ledger = Ledger()
        self.start(Disk(recording=True))

    def start(self, disk: Disk) -> None:
        """Open the log on a disk; what the ledger does not expect there raises."""
        self.disk, self.storage = disk, DiskStorage(disk)
        self.log = seglog.open(self.storage, self.config, clock=ticking())
        self.ledger.settle(self.log)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()

    # --- what a writer does -------------------------------------------------------------------------------------

    @rule(key=keys, size=SIZES, records=st.integers(1, 3))
    def append(self, key: bytes | None, size: int, records: int) -> None:
        self.ledger.append(self.log, records, key=key or self.a_key, size=size)

    @rule(key=keys, size=SIZES, records=st.integers(1, 9))
    def append_each(self, key: bytes | None, size: int, records: int) -> None:
        self.ledger.append_each(self.log, records, key=key or self.a_key, size=size)

    @rule(key=keys, records=st.integers(1, 12))
    def append_batch(self, key: bytes | None, records: int) -> None:
        self.ledger.append_batch(self.log, records, key=key or self.a_key, pieces=True)

    @rule(size=st.sampled_from([0, 20, 90, 200]))
    def append_stream(self, size: int) -> None:
        self.ledger.append_stream(self.log, size=size, key=self.a_key)

    @rule()
    def sync(self) -> None:
        self.ledger.sync(self.log)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        self.ledger.truncate(self.log, max(self.ledger.known.start, self.ledger.next_offset - back))

    @rule(codec=st.sampled_from(["lz4", "zstd", "none", None]))
    def compress(self, codec: Compression | None) -> None:
        self.ledger.compress(self.log, codec)

    @rule()
    def close_and_open(self) -> None:
        self.log.close()
        self.ledger.begin(self.ledger.known)
        self.start(self.disk)
        assert self.log.recovery.clean

    # --- what befalls it ----------------------------------------------------------------------------------------

    @rule()
    def kill(self) -> None:
        """The process dies: all that was written stays."""
        self.log = None
        self.ledger.begin(self.ledger.known)
        self.start(self.disk)

    @rule(seed=st.integers(0, 2**32))
    def cut_the_power(self, seed: int) -> None:
        """Any part of what was not synced is lost."""
        self.log = None
        left = present(self.disk).any_state(random.Random(seed))
        self.ledger.died()
        self.start(Disk(left.image, recording=True))

    @precondition(lambda self: len(self.log.segments) > 1)
    @rule(seed=st.integers(0, 2**32))
    def let_a_lookup_rot(self, seed: int) -> None:
        """A bit of something derived flips: it costs nothing."""
        self.log.close()
        source = random.Random(seed)
        lookups = (".index", ".times", ".offsets", ".blocks")
        sizes = {name: size for name, size in self.storage.sizes().items() if name.endswith(lookups) and size}
        for name in source.sample(sorted(sizes), min(1, len(sizes))):
            self.flip(name, source, sizes[name])
        self.ledger.begin(self.ledger.known)
        self.start(self.disk)

    @precondition(lambda self: len(self.log.segments) > 1)
    @rule(seed=st.integers(0, 2**32))
    def let_a_record_rot_and_repair(self, seed: int) -> None:
        """A bit of a sealed store flips: an error there, all else stays, and is there after a repair, too.

        In a compressed store a bit costs a block, which these segments have one of.
        """
        source = random.Random(seed)
        segment = source.choice(self.log.segments[:-1])
        is_compressed = self.storage.identity(segment.name.replace(".store", ".blocks")) is not None
        self.log.close()
        self.flip(segment.name, source, segment.bytes)  # bytes that a truncate left after them belong to no record
        within = {
            one.offset for one in self.ledger.known.records if segment.base_offset <= one.offset < segment.next_offset
        }
        with seglog.open(self.storage, clock=ticking()) as log:
            damaged = {offset for offset in sorted(within) if not self.is_sound(log, offset)}
            assert len(damaged) <= 1 or is_compressed, damaged
        assert not seglog.open(self.storage, mode="r").verify().ok
        repair_storage(self.storage, clock=ticking())
        known = self.ledger.known
        left = tuple(record for record in known.records if record.offset not in damaged)
        self.ledger.begin(replace(known, records=left, loose=known.loose - damaged))
        self.start(self.disk)
        assert self.log.verify().ok

    def is_sound(self, log: seglog.Log, offset: int) -> bool:
        """Whether a record is there as it was; an error is no answer, a wrong record would be one."""
        try:
            found = log.read(offset)
        except seglog.CorruptRecord:
            return False
        assert found in self.ledger.known.records
        return True

    def flip(self, name: str, source: random.Random, size: int) -> None:
        """Flip a bit among the first `size` bytes of a file."""
        file = self.storage.open(name, writable=True)
        position = source.randrange(size)
        file.pwrite(bytes([file.pread(1, position)[0] ^ 1 << source.randrange(8)]), position)
        file.datasync()

    # --- what holds always --------------------------------------------------------------------------------------

    @property
    def a_key(self) -> bytes | None:
        return None

    @invariant()
    def it_holds_what_is_known(self) -> None:
        if getattr(self, "log", None) is not None:
            found = content_of(self.log)
            assert (found.start, found.records, found.next_offset) == (
                self.ledger.known.start,
                self.ledger.known.records,
                self.ledger.known.next_offset,
            )


class KeyedMachine(LogMachine):
    """A log that keeps the latest record per key."""

    config = KEYED

    @property
    def a_key(self) -> bytes | None:
        return KEYS[0]

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: bytes) -> None:
        self.ledger.append(self.log, key=key, tombstone=True)

    @rule(roll=st.booleans())
    def compact(self, roll: bool) -> None:
        self.ledger.compact(self.log, roll=roll)


def run(kind: type[LogMachine], examples: int, steps: int, seed: int) -> None:
    """Run a machine on examples drawn from a seed; a failure is reported with the shortest steps to it."""
    bounds = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seeded(seed)(type(kind.__name__, (kind,), {})), settings=bounds)


def one_round(seed: int, root: Path) -> dict[str, int]:
    """Run both machines on 50 examples each of up to 50 steps."""
    for kind in (LogMachine, KeyedMachine):
        run(kind, 50, 50, seed)
    return {"examples": 100, "violations": 0}


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", [LogMachine, KeyedMachine])
def test_whatever_befalls_a_log_it_holds_what_is_known(kind: type[LogMachine]) -> None:
    run(kind, 10, 20, seed=0)


@pytest.mark.proof
@pytest.mark.parametrize("kind", [LogMachine, KeyedMachine])
@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_befalls_a_log_in_a_long_life_it_holds_what_is_known(
    kind: type[LogMachine], seed: int, tell: Tell
) -> None:
    run(kind, 100, 50, seed)
    tell("machines", kind=f"{kind.__name__}, seed {seed}", examples=100, violations=0)
