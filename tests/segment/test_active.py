"""The active segment: one by one, in batches or streamed, the same records are the same bytes, sealed or recovered."""

from __future__ import annotations

import errno
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seglog.arrow.convert import ArrowBatch
from seglog.errors import LogPoisoned, LogReadOnly, StorageError
from seglog.format.codec import encode_headers
from seglog.format.manifest import SegmentEntry
from seglog.record import Record
from seglog.segment import active_index, batches, write_buffer
from seglog.segment.active import ActiveSegment, Growth, create_segment
from seglog.segment.recovery import TailRecovery
from seglog.segment.sealed import dense_entries, open_sealed
from seglog.storage import MemoryStorage, Storage
from seglog.testing.faulty import Fault, FaultyStorage


def started(storage: Storage | None = None, *, dense: bool = True, buffer_bytes: int = 0) -> ActiveSegment:
    if storage is None:
        storage = MemoryStorage()
        storage.make(["tmp"])
    entry = SegmentEntry(base_offset=1000, file=1, salt=77, created=0, dense=dense)
    store = create_segment(storage, entry, log_id=5)
    return ActiveSegment.start(storage, entry, store, interval=64, growth=Growth(buffer_bytes))


def storage_of(active: ActiveSegment) -> Storage:
    return active._index._storage


def add(active: ActiveSegment, records: list[Record]) -> None:
    for record in records:
        active.append(record.offset, record.timestamp, record.key, record.value, encode_headers(record.headers))


def add_batch(active: ActiveSegment, records: list[Record]) -> None:
    columns = {
        "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "headers": pa.array(
            [[{"key": name, "value": value} for name, value in record.headers] for record in records],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    }
    if records:
        active.append_batch(ArrowBatch.prepare(pa.table(columns), now=0), 0, len(records))


def files(active: ActiveSegment) -> dict[str, bytes]:
    storage: Any = storage_of(active)
    return {name: storage.open(name).pread(size, 0) for name, size in storage.sizes().items()}


PROPERTY = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@PROPERTY
@given(data=st.data())
def test_single_appends_batches_and_streams_give_the_same_bytes(
    workshop: Any, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    """Whatever the pieces that a batch is encoded in."""
    monkeypatch.setattr(batches, "PIECE_BYTES", data.draw(st.sampled_from([64, 300, 2**21])))
    monkeypatch.setattr(write_buffer, "KERNELS_FROM_ROWS", data.draw(st.sampled_from([1, 1000])))
    records = data.draw(workshop.records(dense=True))
    cut = data.draw(st.integers(0, len(records)))
    single, batched, streamed, buffered = started(), started(), started(), started(buffer_bytes=200)
    add(single, records)
    add_batch(batched, records[:cut])
    add_batch(batched, records[cut:])
    add(buffered, records)
    for record in records:
        if record.value is None:
            add(streamed, [record])
        else:
            chunks = [record.value[at : at + 7] for at in range(0, len(record.value), 7)]
            limits = {"record_limit": 10**6, "value_limit": None}
            streamed.append_stream(chunks, record.timestamp, record.key, record.headers, **limits)
    entries = [active.seal(9) for active in (single, batched, streamed, buffered)]
    assert entries[0] == entries[1] == entries[2] == entries[3]
    assert files(single) == files(batched) == files(streamed) == files(buffered)


@PROPERTY
@given(data=st.data())
def test_records_with_gaps_between_them_may_wait_to_be_written(workshop: Any, data: st.DataObject) -> None:
    records = data.draw(workshop.records(dense=False))
    written, held_back = started(dense=False), started(dense=False, buffer_bytes=200)
    add(written, records)
    add(held_back, records)
    assert held_back.size == written.size
    assert held_back.next_offset == written.next_offset
    assert written.seal(9) == held_back.seal(9)
    assert files(written) == files(held_back)


@PROPERTY
@given(data=st.data())
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "with gaps"])
def test_lookups_made_anew_are_those_that_were_written(workshop: Any, dense: bool, data: st.DataObject) -> None:
    active = started(dense=dense)
    records = data.draw(workshop.records(dense=dense))
    add(active, records)
    entry, before = active.seal(9), files(active)
    for name in before:
        if not name.endswith(".store") and (dense or not name.endswith(".index")):
            storage_of(active).unlink(name)
    reader = open_sealed(storage_of(active), entry, interval=64, heal=True)
    assert [reader.read(record.offset) for record in records] == records
    reader.offset_at(0)
    assert files(active) == before


@PROPERTY
@given(data=st.data())
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "with gaps"])
def test_a_recovered_segment_goes_on_as_if_nothing_had_happened(
    workshop: Any, dense: bool, data: st.DataObject
) -> None:
    records = data.draw(workshop.records(dense=dense))
    cut = data.draw(st.integers(0, len(records)))
    whole, crashed = started(dense=dense), started(dense=dense)
    add(whole, records)
    add(crashed, records[:cut])
    recovery = TailRecovery(storage_of(crashed), crashed.entry, 64)
    recovered = recovery.run()
    assert recovery.events == []
    add(recovered, records[cut:])
    assert recovered.seal(9) == whole.seal(9)
    assert files(recovered) == files(whole)


def test_entries_of_damaged_records_are_zero(workshop: Any) -> None:
    made = workshop.store([Record(1000 + number, 0, None, b"value") for number in range(5)])
    sound = dense_entries(made.store, made.rules, end=made.end, next_offset=1005)
    made.store.pwrite(b"!", made.positions[2] + 34)
    made.store.pwrite(b"!", made.positions[4] + 34)
    entries = dense_entries(made.store, made.rules, end=made.end, next_offset=1005)
    assert entries == sound[:32] + bytes(16) + sound[48:64] + bytes(16)


def test_an_index_is_written_now_and_then_though_nobody_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active_index, "WRITE_EVERY_BYTES", 200)
    active = started()
    add(active, [Record(1000 + number, 0, None, b"x" * 18) for number in range(10)])
    assert storage_of(active).open(active.entry.name("index")).size() == 16 + 16 * 8


def test_a_lookup_that_cannot_be_written_is_no_reason_to_refuse_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active_index, "WRITE_EVERY_BYTES", 1)
    memory = MemoryStorage()
    memory.make(["tmp"])
    faulty = FaultyStorage(memory)
    active = started(faulty)
    faulty.fault = Fault(name=".index", error=errno.ENOSPC, forever=True)
    records = [Record(1000 + number, 0, None, b"x") for number in range(5)]
    add(active, records)
    active.mark_durable(1003)
    assert [active.reader.read(record.offset) for record in records] == records
    faulty.fault = None
    active.mark_durable(1005)
    assert storage_of(active).open(active.entry.name("index")).size() == 16 + 16 * 5


@pytest.mark.parametrize("buffer_bytes", [0, 10])
def test_a_failed_append_leaves_the_size_it_found(buffer_bytes: int) -> None:
    memory = MemoryStorage()
    memory.make(["tmp"])
    faulty = FaultyStorage(memory)
    active = started(faulty, buffer_bytes=buffer_bytes)
    add(active, [Record(1000, 0, None, b"x")])
    size = memory.sizes()[active.entry.name()]
    faulty.fault = Fault(name=".store", error=errno.ENOSPC, keep=0.5)
    with pytest.raises(StorageError):
        add(active, [Record(1001, 0, None, b"y" * 100)])
    assert memory.sizes()[active.entry.name()] == size
    assert active.reader.next_offset == 1001


def test_a_rollback_that_fails_is_poison() -> None:
    memory = MemoryStorage()
    memory.make(["tmp"])
    faulty = FaultyStorage(memory)
    active = started(faulty)
    faulty.fault = Fault(name=".store", error=errno.EIO, forever=True)
    with pytest.raises(LogPoisoned):
        add(active, [Record(1000, 0, None, b"x")])


def test_the_files_of_a_parent_take_nothing_from_a_child() -> None:
    active = started()
    active.leave_to_parent()
    for call in (lambda: add(active, [Record(1000, 0, None, b"x")]), active.datasync):
        with pytest.raises(LogReadOnly):
            call()
