"""Scenarios that only faults are about: settings that meet, logs that need recovery, and reading by all its ways.

They stand beside those of `scenarios`, which say what a scenario is.
"""

from __future__ import annotations

from dataclasses import replace

import seglog
from seglog.log.repair.repair import repair_storage
from seglog.storage import Storage
from seglog.testing.faulty import FaultyStorage
from seglog.testing.ledger import Ledger, Outcome
from seglog.testing.power_loss import ticking
from tests.crash.scenarios import SMALL, Scenario, filled, opened

BOTH = replace(SMALL, flush_records=1, buffer_bytes=200)
GAPPED = replace(SMALL, segment_bytes=1024)


def append_both(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    ledger.append(log, 6)


def append_gaps(storage: Storage, ledger: Ledger) -> None:
    """Records of another log, with gaps in their offsets."""
    log = opened(storage, ledger)
    for skipped in (0, 3, 0, 7):
        record = ledger.make()._replace(offset=ledger.next_offset + skipped)
        known = ledger.known
        end = record.offset + 1
        gap_only = replace(known, next_offset=record.offset)  # opened before the record is written
        ledger.begin(gap_only, Outcome(known.start, (*known.records, record), end, known.loose))
        log.append_at(record.offset, record)
        ledger.done(log)
    ledger.sync(log)


def torn(storage: Storage, ledger: Ledger) -> None:
    """A process that died during an append, with records after the last sync."""
    filled(SMALL, 6)(storage, ledger)
    dying = FaultyStorage(storage)
    log = opened(dying, ledger)
    ledger.append(log, 2)
    name = log.segments[-1].name
    dying.crash()
    store = storage.open(name, writable=True)
    store.pwrite(b"half of a record, and no head" * 3, store.size())


def recover(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    assert [event.kind for event in log.recovery.events] == ["torn"]
    ledger.append(log)


def without_manifest(storage: Storage, ledger: Ledger) -> None:
    filled(SMALL, 10)(storage, ledger)
    storage.unlink("MANIFEST")


def repair_manifest(storage: Storage, ledger: Ledger) -> None:
    repair_storage(storage, clock=ticking())
    ledger.append(opened(storage, ledger))


def read_all(storage: Storage, ledger: Ledger) -> None:
    """Every way of reading, on a log whose lookups are there; a refusal is never taken for damage."""
    log = opened(storage, ledger)
    records = ledger.known.records
    assert log.to_arrow(values="binary")["value"].to_pylist() == [record.value for record in records]
    assert log.offset_at(records[5].timestamp) == records[5].offset
    assert log.records_from(0) == len(records)
    assert {one.kind for one in log.verify().problems} <= {"index", "refused"}
    ledger.append(log)


def follow(storage: Storage, ledger: Ledger) -> None:
    """A reader beside the writer, through a roll and an expiry of what it holds."""
    log = opened(storage, ledger)
    with seglog.open(storage, mode="r", clock=ticking()) as reader:
        for _ in range(3):
            assert tuple(reader.scan()) == ledger.known.records
            ledger.append(log, 4)
        assert reader.next_offset == ledger.next_offset
        assert reader.read(ledger.next_offset - 1) == ledger.known.records[-1]


def pull_back_a_pin(storage: Storage, ledger: Ledger) -> None:
    log = opened(storage, ledger)
    log.pin("reader", 10)
    ledger.truncate(log, 5)
    assert max(log.pins["reader"], log.pins["reader"]) <= 5, "one read may be refused: then it holds everything"
    ledger.append(log)


def rotten(storage: Storage, ledger: Ledger) -> None:
    """One record of a sealed segment is damaged: it may go, and nothing else."""
    filled(SMALL, 14)(storage, ledger)
    with seglog.open(storage) as log:
        first = log.segments[0]
    store = storage.open(first.name, writable=True)
    place = store.pread(store.size(), 0).index(ledger.known.records[2].value or b"")
    store.pwrite(b"!", place)
    records = tuple(record for record in ledger.known.records if record.offset != 2)
    ledger.standing = replace(ledger.standing, possible=(replace(ledger.known, records=records),))


def salvage(storage: Storage, ledger: Ledger) -> None:
    """What the system refuses to read is not judged, and so not repaired: that is for the next repair."""
    report = repair_storage(storage, clock=ticking())
    if any(action.kind == "salvage" for action in report.actions):
        ledger.append(opened(storage, ledger))


MORE = [
    Scenario("append, each durable, buffered", filled(BOTH, 2), append_both),
    Scenario("append with gaps", filled(GAPPED, 3), append_gaps),
    Scenario("recover a torn end", torn, recover),
    Scenario("read everything", filled(SMALL, 14), read_all),
    Scenario("follow", filled(SMALL, 5), follow),
    Scenario("pull back a pin", filled(SMALL, 12), pull_back_a_pin),
]
BROKEN = [
    Scenario("repair a lost manifest", without_manifest, repair_manifest),
    Scenario("repair a damaged record", rotten, salvage),
]
"""Logs that an operator repairs: where the repair is cut short, it is made again before the log is opened."""
