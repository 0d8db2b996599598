"""Records of many callers, appended together: each gets what it would get alone, for fewer writes and one sync."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seglog
from seglog import LogConfig
from seglog.log.appends.group import RUN_BYTES, Draft
from seglog.testing.faulty import Fault, FaultyStorage

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = LogConfig(segment_bytes=512, segment_overflow_bytes=256, index_interval_bytes=64)
DRAFTS = st.builds(
    Draft,
    st.none() | st.binary(max_size=400) | st.sampled_from(["text", b"v" * 2000]),
    st.none() | st.binary(max_size=20) | st.just(7),
    st.integers(-5, 5) | st.sampled_from([2**63, 1_729_990_800]),
    st.sampled_from([(), [("h", b"x")], [("h", "not bytes")], 5]),
    st.none() | st.integers(-1, 30) | st.just("soon"),
    st.booleans(),
)


def one_by_one(log: seglog.Log, drafts: Sequence[Draft]) -> list[Any]:
    outcomes: list[Any] = []
    for draft in drafts:
        try:
            outcomes.append(log.append(**draft._asdict()))
        except seglog.SeglogError as error:
            outcomes.append(error)
    return outcomes


def told(outcomes: Sequence[Any]) -> list[Any]:
    return [outcome if isinstance(outcome, int) else (type(outcome), outcome.args) for outcome in outcomes]


def shape(log: seglog.Log) -> list[tuple[int, int, int]]:
    return [(one.base_offset, one.records, one.bytes) for one in log.segments]


@given(groups=st.lists(st.lists(DRAFTS, max_size=12), max_size=4), keys=st.booleans(), buffer=st.sampled_from([0, 300]))
def test_each_gets_what_it_would_get_alone(groups: list[list[Draft]], keys: bool, buffer: int) -> None:
    config = LogConfig(
        segment_bytes=512, segment_overflow_bytes=256, buffer_bytes=buffer, retention=seglog.Retention(compact=keys)
    )
    with seglog.open(seglog.MemoryStorage(), config) as log, seglog.open(seglog.MemoryStorage(), config) as alone:
        for drafts in groups:
            log.append(b"v", key=b"k", timestamp=0)
            alone.append(b"v", key=b"k", timestamp=0)
            assert told(log.append_each(drafts)) == told(one_by_one(alone, drafts))
        assert list(log.scan()) == list(alone.scan())
        assert shape(log) == shape(alone)
        assert log.verify().ok


def test_a_group_is_one_write_and_one_sync(watched: Any) -> None:
    syncs: list[str] = []
    with seglog.open(watched, LogConfig(flush_records=1)) as log:
        watched.on_sync = syncs.append
        assert log.append_each([Draft(b"v")] * 10) == list(range(10))
        assert (log.durable_offset, len(syncs)) == (10, 1)
        log.append(b"v")
        assert len(syncs) == 2


def test_a_write_that_fails_takes_all_that_were_in_it_and_no_other() -> None:
    storage = FaultyStorage(seglog.MemoryStorage())
    with seglog.open(storage, CONFIG) as log:
        storage.fault = Fault(operations=frozenset({"pwrite"}), name=".store", error=errno.ENOSPC)
        outcomes = log.append_each([Draft(b"v" * 100)] * 9)
        failed = [type(outcome) for outcome in outcomes if not isinstance(outcome, int)]
        assert set(failed) == {seglog.StorageError} and 2 <= len(failed) < 9
        taken = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert taken == list(range(9 - len(failed))) == [record.offset for record in log.scan()]
        assert log.append(b"next") == len(taken)


def test_more_than_one_write_takes_is_written_in_pieces(place: Any) -> None:
    values = [b"%04d" % number * 4000 for number in range(40)]
    with seglog.open(place) as log:
        assert sum(map(len, values)) > 2 * RUN_BYTES
        assert log.append_each([Draft(value) for value in values]) == list(range(40))
        assert [record.value for record in log.scan()] == values


def test_a_reader_appends_nothing(place: Any) -> None:
    with seglog.open(place) as log:
        log.append(b"v")
    with seglog.open(place, mode="r") as reader, pytest.raises(seglog.LogReadOnly):
        reader.append_each([Draft(b"v")])
