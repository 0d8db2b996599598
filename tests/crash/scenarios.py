"""What the proofs put a log through: each scenario makes a log, and then does one thing to it, opening included."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch

import seglog
from seglog.format import manifest_changes
from seglog.log.catalog import read_manifest, write_manifest
from seglog.log.journal import read_file
from seglog.log.repair.repair import repair_storage
from seglog.log.staging import Stage
from seglog.storage import Storage
from seglog.testing.faulty import FaultyStorage
from seglog.testing.ledger import Ledger, table
from seglog.testing.power_loss import Step, ticking

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
ROOMY = seglog.LogConfig(segment_bytes=4096, index_interval_bytes=64)
EACH = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64, flush_records=1)
BUFFERED = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64, buffer_bytes=200)
ALLOCATING = replace(ROOMY, flush_records=1, allocate_bytes=700)
ALLOCATING_BUFFERED = replace(BUFFERED, allocate_bytes=400)
EXPIRING = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=600))
ROLLING = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=2000))
KEYED = seglog.LogConfig(
    segment_bytes=512, index_interval_bytes=64, retention=seglog.Retention(compact=True, delete_retention=0)
)
COMPRESSED = replace(SMALL, compression="zstd")
COMPRESSED_KEYED = replace(KEYED, compression="lz4")
KEYS = (b"a", b"b", b"c", b"d")


class Scenario(NamedTuple):
    """prepare: makes the log that each run begins with, all of it durable; run: what is under proof.

    Both open the log themselves, and tell the ledger of every call before it begins and after it has returned.
    """

    name: str
    prepare: Step
    run: Step


def opened(storage: Storage, ledger: Ledger, config: seglog.LogConfig | None = None) -> seglog.Log:
    """Open the log: what is found is what is known, and opening has made it durable."""
    log = seglog.open(storage, config, clock=ticking())
    ledger.settle(log)
    assert log.durable_offset == log.next_offset, "opening makes durable what it serves"
    return log


def nothing(storage: Storage, ledger: Ledger) -> None:
    """No log at all."""


def filled(config: seglog.LogConfig, records: int = 12, *, keys: bool = False) -> Step:
    """Return a step that makes a log of so many records, synced and closed."""

    def prepare(storage: Storage, ledger: Ledger) -> None:
        with opened(storage, ledger, config) as log:
            for number in range(records):
                ledger.append(log, key=KEYS[number % 3] if keys else None, tombstone=keys and number % 7 == 5)
            ledger.sync(log)

    return prepare


def create(storage: Storage, ledger: Ledger) -> None:
    with opened(storage, ledger, SMALL) as log:
        ledger.append(log, 2)


def append_and_sync(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.append(log, 2)
    ledger.sync(log)
    ledger.append(log, 3)
    ledger.sync(log)


def append_long(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    for size in (700, 30, 1300):
        ledger.append(log, size=size)
    ledger.sync(log)


def append_each_durable(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.append(log, 12)


def left_with_space(storage: Storage, ledger: Ledger) -> None:
    """A process that died had allocated space."""
    filled(ALLOCATING, 2)(storage, ledger)
    dying = FaultyStorage(storage)
    log = opened(dying, ledger)
    ledger.append(log, 3)
    dying.crash()


def stop_allocating(storage: Storage, ledger: Ledger) -> None:
    """The config does not name the space any more that the log has."""
    log = opened(storage, ledger, replace(ALLOCATING, allocate_bytes=0))
    ledger.append(log, 2)
    ledger.close(log)
    log = opened(storage, ledger)
    ledger.append(log, 2)


def allocate_again(storage: Storage, ledger: Ledger) -> None:
    """The space that the log has is used; some writes are longer than that."""
    log = opened(storage, ledger)
    assert log.recovery.clean
    ledger.append(log, size=900)
    ledger.append_each(log, 3, size=300)
    ledger.append_batch(log, 4)
    ledger.append(log, 2)


def append_buffered(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.append(log, 9)
    ledger.sync(log)
    ledger.append(log, 3)


def append_for_many(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.append_each(log, 12, size=80)
    ledger.append(log)
    ledger.append_each(log, 3)


def append_stream(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.append(log)
    ledger.append_stream(log, size=90)
    ledger.sync(log)
    ledger.append_stream(log, size=400)
    ledger.append(log)


def append_batch(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.append_batch(log, 4)
    ledger.sync(log)
    ledger.append_batch(log, 5)


def append_large_batch(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.append_batch(log, 17, pieces=True)
    ledger.append(log)


def roll(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    before = len(log.segments)
    ledger.append(log, 12)
    assert len(log.segments) >= before + 2
    assert log.durable_offset >= log.segments[-1].base_offset, "a roll makes what it seals durable"


def truncate_to(share: float) -> Step:
    """Return a step that cuts a log at a share of its records, and goes on."""

    def truncate(storage: Storage, ledger: Ledger) -> None:
        log = opened(storage, ledger)
        ledger.append(log, 2)
        ledger.truncate(log, int(ledger.next_offset * share))
        ledger.append(log, 2)

    return truncate


def expire(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger, EXPIRING)
    start = ledger.known.start
    ledger.expire(log)
    assert ledger.known.start > start
    ledger.append(log)


def delete_before_middle(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.append(log, 3)
    ledger.delete_before(log, ledger.next_offset - 2)  # in the active segment, after what is durable
    ledger.append(log, 2)
    ledger.delete_before(log, ledger.next_offset)
    ledger.append(log)


def compact(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    before = len(ledger.known.records)
    ledger.compact(log, roll=True)
    assert len(ledger.known.records) < before
    ledger.append(log, key=b"a")
    ledger.append(log, key=b"b", tombstone=True)
    ledger.compact(log, roll=True)
    ledger.append(log, key=b"d")


def compress(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    before = log.size
    ledger.compress(log)
    assert log.size < before
    ledger.append(log, 9, size=60)
    ledger.compress(log)
    ledger.truncate(log, ledger.next_offset - 14)  # inside a compressed segment
    ledger.append(log, 5)
    ledger.compress(log)


def compress_and_compact(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.compress(log)
    ledger.compact(log, roll=True)
    ledger.compress(log)
    ledger.append(log, key=b"a")


def decompress(storage: Storage, ledger: Ledger) -> None:
    with opened(storage, ledger) as log:
        ledger.compress(log)
        ledger.close(log)
    with opened(storage, ledger, replace(SMALL, compression="lz4")) as log:
        ledger.compress(log)
        ledger.close(log)
    log = opened(storage, ledger, replace(SMALL, compression="none"))
    ledger.compress(log)
    ledger.append(log)


def publish(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.append(log)
    records = [ledger.make() for _ in range(14)]
    with Stage(storage, "q-0") as stage:
        stage.append_batch(table(records))
        staged = stage.finish()
    ledger.publish(log, staged, records)
    ledger.append(log)


def close(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.append(log, 2)
    ledger.close(log)
    with opened(storage, ledger) as log:
        assert log.recovery.clean
        ledger.append(log)


def reopen(storage: Storage, ledger: Ledger) -> None:
    opened(storage, ledger).close()


def alter(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    log.alter(retention=seglog.Retention(bytes=10_000))
    ledger.append(log)
    log.pin("reader", 3)
    log.unpin("reader")
    ledger.append(log)


def changed(config: seglog.LogConfig, records: int = 30, *, keys: bool = False) -> Step:
    """Return a step that makes a log whose MANIFEST has changes after its base."""

    def prepare(storage: Storage, ledger: Ledger) -> None:
        filled(config, records, keys=keys)(storage, ledger)
        file = read_file(storage)
        assert file is not None
        assert file.changes > 0

    return prepare


def roll_and_expire(storage: Storage, ledger: Ledger) -> None:
    """The retention is that of the log already, so that no change is needed but rolls and expiries."""
    log = opened(storage, ledger)
    start = ledger.known.start
    ledger.append(log, 8)
    ledger.expire(log)
    assert ledger.known.start > start


def rolls_with_little_space_for_changes(storage: Storage, ledger: Ledger) -> None:
    """MANIFEST is written anew in between, because there would be more changes than may follow a base."""
    with patch.object(manifest_changes, "LEAST_BYTES", 4 * 1024):
        roll(storage, ledger)


def tear(storage: Storage) -> None:
    """Leave a change in MANIFEST of which only a part was written."""
    file = storage.open("MANIFEST", writable=True)
    size = file.size()
    line = file.pread(size, 0).splitlines(keepends=True)[-1]
    file.pwrite(line[: len(line) // 2], size)
    file.datasync()


def torn(storage: Storage, ledger: Ledger) -> None:
    changed(SMALL)(storage, ledger)
    tear(storage)


def half(storage: Storage, ledger: Ledger) -> None:
    """Leave only one copy of the last change."""
    changed(SMALL)(storage, ledger)
    file = storage.open("MANIFEST", writable=True)
    line = file.pread(file.size(), 0).splitlines(keepends=True)[-1]
    file.truncate(file.size() - len(line) // 3)
    file.datasync()


def of_an_earlier_version(storage: Storage, ledger: Ledger) -> None:
    """Make a log whose MANIFEST has the format that no changes may follow."""
    filled(SMALL)(storage, ledger)
    manifest = read_manifest(storage)
    assert manifest is not None
    write_manifest(storage, manifest, open_ended=False)
    assert b'"format": 1' in storage.open("MANIFEST").pread(20, 0)


def without_lookups(storage: Storage, ledger: Ledger) -> None:
    filled(SMALL)(storage, ledger)
    for name in storage.names():
        if name.endswith((".index", ".times", ".offsets")):
            storage.unlink(name)


def remake_lookups(storage: Storage, ledger: Ledger) -> None:
    with opened(storage, ledger) as log:
        assert log.offset_at(0) == 0
        ledger.append(log)


def damaged_lookups(storage: Storage, ledger: Ledger) -> None:
    filled(SMALL)(storage, ledger)
    for name in storage.names():
        if name.endswith(".index"):
            file = storage.open(name, writable=True)
            file.pwrite(b"\xff" * 7, file.size() - 9)


def repair(storage: Storage, ledger: Ledger) -> None:
    with suppress(seglog.LogLocked):
        repair_storage(storage, clock=ticking())
    with opened(storage, ledger) as log:
        ledger.append(log)


SCENARIOS = [
    Scenario("create", nothing, create),
    Scenario("append and sync", filled(ROOMY, 3), append_and_sync),
    Scenario("append across blocks", filled(ROOMY, 2), append_long),
    Scenario("append, each durable", filled(EACH, 2), append_each_durable),
    Scenario("append, buffered", filled(BUFFERED, 2), append_buffered),
    Scenario("append, space allocated", filled(ALLOCATING, 2), append_and_sync),
    Scenario("append, buffered, space allocated", filled(ALLOCATING_BUFFERED, 2), append_buffered),
    Scenario("append and open again, space allocated", left_with_space, allocate_again),
    Scenario("append a batch, space allocated", filled(ALLOCATING, 2), append_batch),
    Scenario("append a stream, space allocated", filled(ALLOCATING, 2), append_stream),
    Scenario("roll, space allocated", filled(replace(SMALL, allocate_bytes=400), 2), roll),
    Scenario("truncate, space allocated", filled(replace(SMALL, allocate_bytes=400), 14), truncate_to(0.4)),
    Scenario("stop allocating", left_with_space, stop_allocating),
    Scenario("append for many callers", filled(SMALL, 2), append_for_many),
    Scenario("append for many callers, each durable", filled(EACH, 2), append_for_many),
    Scenario("append a stream", filled(ROOMY, 2), append_stream),
    Scenario("append a batch", filled(ROOMY, 3), append_batch),
    Scenario("append a batch of many segments", filled(SMALL, 2), append_large_batch),
    Scenario("roll", filled(SMALL, 3), roll),
    Scenario("truncate to nothing", filled(SMALL), truncate_to(0)),
    Scenario("truncate across segments", filled(SMALL, 14), truncate_to(0.4)),
    Scenario("truncate within the active segment", filled(ROOMY), truncate_to(0.8)),
    Scenario("expire", filled(SMALL, 20), expire),
    Scenario("delete before an offset", filled(SMALL, 14), delete_before_middle),
    Scenario("compact", filled(KEYED, 18, keys=True), compact),
    Scenario("compress", filled(COMPRESSED, 16), compress),
    Scenario("compress and compact", filled(COMPRESSED_KEYED, 18, keys=True), compress_and_compact),
    Scenario("decompress", filled(COMPRESSED, 12), decompress),
    Scenario("publish", filled(SMALL, 3), publish),
    Scenario("close", filled(SMALL, 3), close),
    Scenario("reopen", filled(SMALL), reopen),
    Scenario("alter retention, pin", filled(SMALL), alter),
    Scenario("make lookups anew", without_lookups, remake_lookups),
    Scenario("repair", damaged_lookups, repair),
    Scenario("roll, appended to MANIFEST", changed(SMALL), roll),
    Scenario("publish, appended to MANIFEST", changed(SMALL), publish),
    Scenario("expire, appended to MANIFEST", changed(ROLLING), roll_and_expire),
    Scenario("compact, appended to MANIFEST", changed(KEYED, 40, keys=True), compact),
    Scenario("compress, appended to MANIFEST", changed(COMPRESSED, 40), compress),
    Scenario("truncate after changes of MANIFEST", changed(SMALL), truncate_to(0.6)),
    Scenario("delete before an offset after changes of MANIFEST", changed(SMALL), delete_before_middle),
    Scenario("alter retention after changes of MANIFEST", changed(SMALL), alter),
    Scenario("reopen after changes of MANIFEST", changed(SMALL), reopen),
    Scenario("replace a base with changes", changed(SMALL), rolls_with_little_space_for_changes),
    Scenario("roll after a torn change", torn, roll),
    Scenario("roll after half a change", half, roll),
    Scenario("roll with a MANIFEST of an earlier version", of_an_earlier_version, roll),
]


# --- any operations, in any order ----------------------------------------------------------------------------------

CONFIGS = [SMALL, ROOMY, EACH, BUFFERED, EXPIRING, KEYED, COMPRESSED, COMPRESSED_KEYED, ALLOCATING, ALLOCATING_BUFFERED]


def any_steps(config: seglog.LogConfig, seed: int, calls: int = 7) -> Step:
    """Return a step of calls drawn by a seed."""

    def run(storage: Storage, ledger: Ledger) -> None:
        source, log = random.Random(seed), opened(storage, ledger, config)
        for _ in range(source.randrange(1, calls)):
            source.choice(_calls(config))(log, ledger, source)
            if source.random() < 0.1:
                if source.random() < 0.5:
                    ledger.close(log)
                else:
                    ledger.died()
                del log
                log = opened(storage, ledger)

    return run


Call = Callable[[seglog.Log, Ledger, random.Random], None]


def _calls(config: seglog.LogConfig) -> list[Call]:
    calls: list[Call] = [
        lambda log, ledger, source: ledger.append(
            log, source.randrange(1, 5), key=source.choice(KEYS), size=source.choice([0, 20, 200, 600])
        ),
        lambda log, ledger, source: ledger.append_batch(
            log, source.randrange(1, 6), key=source.choice(KEYS), pieces=True
        ),
        lambda log, ledger, source: ledger.append_batch(log, source.randrange(6, 20), key=b"k", pieces=True),
        lambda log, ledger, source: ledger.append_each(
            log, source.randrange(1, 9), key=source.choice(KEYS), size=source.choice([0, 20, 200])
        ),
        lambda log, ledger, source: ledger.sync(log),
        lambda log, ledger, source: ledger.truncate(
            log, source.randrange(max(ledger.known.start, ledger.next_offset - 9), ledger.next_offset + 1)
        ),
        lambda log, ledger, source: ledger.delete_before(log, source.randrange(ledger.next_offset + 1)),
    ]
    if config.retention.compact:
        calls += [
            lambda log, ledger, source: ledger.append(log, key=source.choice(KEYS), tombstone=True),
            lambda log, ledger, source: ledger.compact(log, roll=source.random() < 0.7),
        ]
    else:
        calls += [lambda log, ledger, source: ledger.append_stream(log, size=source.choice([0, 30, 150]))]
    if config.compression != "none":
        calls += [lambda log, ledger, source: ledger.compress(log)]
    if config.retention.bytes is not None:
        calls += [lambda log, ledger, source: ledger.expire(log)]
    return calls
