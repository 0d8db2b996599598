"""Every operation of a writer, in any order, compared with a dict; a concurrent reader and a tail check too."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import seglog
from seglog import LogConfig, Record, Retention

AGE = 1000
SECOND = 1_000_000

VALUES = st.one_of(st.none(), st.binary(max_size=12), st.integers(0, 500).map(lambda size: b"v" * size))
KEYS = st.one_of(st.none(), st.binary(max_size=5))
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=2).map(tuple)
TIMES = st.one_of(st.integers(0, 50), st.integers(-(2**63), 2**63 - 1))
RECORDS = st.builds(Record, st.just(0), TIMES, KEYS, VALUES, HEADERS)


class SourceFailed(Exception):
    """What a stream's source raises here."""


class LogMachine(RuleBasedStateMachine):
    """The log against `model` (offset -> record) and `next_offset`."""

    @initialize(
        segment_bytes=st.sampled_from([512, 700, 4096]),
        buffer_bytes=st.sampled_from([0, 0, 300]),
        flush_records=st.sampled_from([None, 1, 4]),
        initial_offset=st.sampled_from([0, 40]),
        open_segments_max=st.sampled_from([1, 64]),
        keep=st.sampled_from([None, None, 3000]),
    )
    def begin(self, keep: int | None, **options: Any) -> None:
        self.now, self.clock_went_back = 0, False
        self.storage = self.new_storage()
        self.config = LogConfig(
            **options, segment_age=AGE / 2, index_interval_bytes=64, retention=Retention(age=AGE, bytes=keep)
        )
        self.log = seglog.open(self.storage, self.config, clock=lambda: self.now)
        self.model: dict[int, Record] = {}
        self.written_at: dict[int, int] = {}
        self.lowest = self.next_offset = self.config.initial_offset
        self.reader = seglog.open(self.storage, mode="r")
        self.durable = seglog.open(self.storage, mode="r", expose="durable")
        self.follow()

    def new_storage(self) -> Any:
        return seglog.MemoryStorage()

    def follow(self) -> None:
        self.log.lowest_offset  # noqa: B018 - writes what is buffered, so that the reader sees it
        self.tail = self.reader.tail()
        self.cut_behind_tail = False

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            self.reader.close()
            self.durable.close()

    # --- writing ----------------------------------------------------------------------------------------------

    def wrote(self, record: Record) -> None:
        self.model[record.offset] = record
        self.written_at[record.offset] = self.now
        self.next_offset = record.offset + 1

    @rule(record=RECORDS)
    def append(self, record: Record) -> None:
        offset = self.log.append(
            record.value,
            key=record.key,
            timestamp=record.timestamp,
            force_timestamp=True,
            headers=record.headers,
            expected_offset=self.next_offset,
        )
        assert offset == self.next_offset
        self.wrote(record._replace(offset=offset))

    @rule(record=RECORDS, gap=st.sampled_from([0, 1, 5, 2**33]))
    def append_at(self, record: Record, gap: int) -> None:
        offset = self.next_offset + gap
        self.log.append_at(offset, record)
        self.wrote(record._replace(offset=offset))

    @rule(record=RECORDS, pieces=st.integers(1, 5))
    def append_stream(self, record: Record, pieces: int) -> None:
        value = record.value or b""
        chunks = [value[number::pieces] for number in range(pieces)]
        try:
            offset = self.log.append_stream(
                chunks, key=record.key, timestamp=record.timestamp, force_timestamp=True, headers=record.headers
            )
        except seglog.StreamOverflow:
            assert len(value) + 100 > self.config.store_limit - self.log.segments[-1].bytes
        else:
            self.wrote(record._replace(offset=offset, value=b"".join(chunks)))

    @rule(value=st.binary(max_size=50), limit=st.integers(0, 60))
    def append_stream_with_a_limit(self, value: bytes, limit: int) -> None:
        try:
            offset = self.log.append_stream([value[:9], value[9:]], timestamp=5, limit=limit)
        except seglog.StreamOverflow as error:
            assert len(value) > limit == error.limit
        else:
            assert len(value) <= limit
            self.wrote(Record(offset, 5, None, value))

    @rule(chunks=st.lists(st.binary(max_size=100), max_size=5))
    def append_stream_that_fails(self, chunks: list[bytes]) -> None:
        def source() -> Any:
            yield from chunks
            raise SourceFailed

        try:
            self.log.append_stream(source())
        except (SourceFailed, seglog.StreamOverflow):
            return
        raise AssertionError("its source failed")

    @rule(records=st.lists(RECORDS, max_size=30))
    def append_batch(self, records: list[Record]) -> None:
        headers = [[{"key": key, "value": value} for key, value in record.headers] for record in records]
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        table = pa.table(
            {
                "value": pa.array([record.value for record in records], pa.binary()),
                "key": pa.array([record.key for record in records], pa.binary()),
                "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
                "headers": pa.array(headers, kind),
            }
        )
        offsets = self.log.append_batch(table, force_timestamp=True)
        assert offsets == range(self.next_offset, self.next_offset + len(records))
        for offset, record in zip(offsets, records, strict=True):
            self.wrote(record._replace(offset=offset))

    @rule()
    def append_what_is_too_large(self) -> None:
        with pytest.raises(seglog.RecordTooLarge):
            self.log.append(b"v" * self.config.store_limit)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        self.catch_up()
        cut = self.lowest + round(share * min(self.next_offset - self.lowest, 200))
        self.log.truncate(cut)
        for offset in [offset for offset in self.model if offset >= cut]:
            del self.model[offset]
        if cut < self.next_offset:
            self.cut_behind_tail |= cut < self.tail.position
            self.next_offset = cut

    @rule()
    def sync(self) -> None:
        self.log.sync()
        assert self.log.durable_offset == self.next_offset

    @rule(seconds=st.sampled_from([1, AGE // 2, AGE, -AGE]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds * SECOND
        self.clock_went_back |= seconds < 0

    @rule()
    def expire(self) -> None:
        self.log.expire()
        self.catch_up()
        assert not [one for one in self.log.segments[:1] if one.sealed_at and self.now - one.sealed_at >= AGE * SECOND]

    @rule()
    def close_and_open_again(self) -> None:
        self.log.close()
        self.log = seglog.open(self.storage, clock=lambda: self.now)
        assert self.log.recovery.clean
        assert self.log.config == self.config
        assert self.log.durable_offset == self.next_offset

    @rule()
    def read_anew(self) -> None:
        self.reader.close()
        self.reader = seglog.open(self.storage, mode="r")
        self.follow()

    # --- looking ----------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Adopt what retention deleted: whole segments, oldest first, and by age only those old enough."""
        lowest = self.log.lowest_offset
        assert lowest >= self.lowest
        self.lowest = lowest
        for offset in [offset for offset in self.model if offset < lowest]:
            old_enough = self.now - self.written_at[offset] >= AGE * SECOND
            assert old_enough or self.clock_went_back or self.config.retention.bytes is not None
            del self.model[offset]

    @invariant()
    def the_log_is_the_model(self) -> None:
        if not hasattr(self, "log"):
            return
        self.catch_up()
        expected = list(self.model.values())
        assert list(self.log.scan()) == expected
        assert self.log.next_offset == self.next_offset
        assert self.log.durable_offset <= self.next_offset
        assert list(self.reader.scan()) == expected
        assert (self.reader.lowest_offset, self.reader.next_offset) == (self.lowest, self.next_offset)
        durable = list(self.durable.scan())
        assert durable == expected[: len(durable)]
        assert len(durable) == len([offset for offset in self.model if offset < self.log.durable_offset])

    @rule(data=st.data())
    def read(self, data: Any) -> None:
        self.catch_up()
        for log in (self.log, self.reader):
            for offset in self.model:
                assert log.read(offset) == self.model[offset]
            if self.model:
                near = data.draw(st.sampled_from(sorted(self.model))) + data.draw(st.integers(-2, 2))
                later = [record for offset, record in self.model.items() if offset >= near]
                if self.lowest <= near < self.next_offset and near not in self.model:
                    with pytest.raises(seglog.OffsetCompacted) as caught:
                        log.read(near)
                    if later:
                        assert near < caught.value.next_offset <= later[0].offset
                elif near not in self.model:
                    with pytest.raises(seglog.OffsetOutOfRange):
                        log.read(near)
                if 0 <= near <= self.next_offset:
                    assert list(log.scan(near)) == later
                    assert log.to_arrow(near).column("offset").to_pylist() == [record.offset for record in later]
                    assert log.to_arrow(near).column("value").to_pylist() == [record.value for record in later]

    @rule(time=TIMES)
    def offset_at(self, time: int) -> None:
        self.catch_up()
        expected = next((offset for offset, record in self.model.items() if record.timestamp >= time), None)
        for log in (self.log, self.reader):
            assert log.offset_at(time, force_timestamp=True) == expected

    @rule()
    def follow_on(self) -> None:
        self.catch_up()
        position = self.tail.position
        try:
            records = self.tail.poll(10**6)
        except seglog.OffsetOutOfRange:
            assert position < self.lowest
        except seglog.LogTruncated:
            nobody_can_tell = all(offset >= position for offset in self.model)  # by no record before it
            assert self.cut_behind_tail or nobody_can_tell
        else:
            assert not self.cut_behind_tail
            assert records == [record for offset, record in self.model.items() if offset >= position]
            return
        self.follow()

    @precondition(lambda self: self.next_offset < 2**35)
    @rule()
    def verify(self) -> None:
        report = self.log.verify()
        assert report.ok, report.problems
        assert report.records == len(self.model)


class LocalMachine(LogMachine):
    """The same on the file system."""

    def new_storage(self) -> Any:
        self.directory = Path(tempfile.mkdtemp())
        return seglog.LocalStorage(self.directory / "orders")

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "directory"):
            shutil.rmtree(self.directory)


CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]
TestInMemory = pytest.mark.no_cover(LogMachine.TestCase)
TestInMemory.settings = settings(max_examples=60, stateful_step_count=40, suppress_health_check=CHECKS)
TestOnDisk = pytest.mark.no_cover(LocalMachine.TestCase)
TestOnDisk.settings = settings(max_examples=10, stateful_step_count=30, suppress_health_check=CHECKS)
