"""The configuration: validated once, stored with the log, used again; and what each size and duration means."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import ConfigError, LogConfig, Policies, Retention, settings

if TYPE_CHECKING:
    from pathlib import Path

BAD_CONFIG: dict[str, list[object]] = {
    "segment_bytes": [511, 0, -1, 2**32, 1024.0, "1 GiB", None, True],
    "segment_overflow_bytes": [-1, 2**32, 0.5, "much"],
    "segment_age": [0, -1, float("nan"), float("inf"), "1 h", True, timedelta(0), timedelta(seconds=-1)],
    "index_interval_bytes": [63, 2**31 + 1, 4096.0, None],
    "buffer_bytes": [-1, 2**30 + 1, 1.0, None],
    "flush_records": [0, -1, 1.0, "all"],
    "flush_interval": [0, -0.1, float("inf"), "1 s"],
    "initial_offset": [-1, 2**63 - 1, 0.0, None],
    "open_segments_max": [0, -1, 1.5, None],
    "retention": [None, {"bytes": 5}, 5],
    "compression": ["gzip", "", "ZSTD", None, 1, []],
    "allocate_bytes": [-1, 2**20 + 1, 1.0, None, "64 KiB"],
}

BAD_RETENTION: dict[str, list[object]] = {
    "bytes": [-1, 1.5, "1 GiB", True],
    "age": [-1, float("nan"), float("inf"), "7 days", timedelta(seconds=-1)],
    "compact": [1, None, "yes"],
    "delete_retention": [-1, float("inf"), "1 h", None],
    "min_compaction_lag": [-1, "1 h", None],
    "max_compaction_lag": [-1, "1 h"],
    "min_dirty_ratio": [-0.1, 1.1, "half", None, True, float("nan")],
    "dedupe_bytes": [1023, 0, 1.5, None],
    "unkeyed": ["drop", None, True, []],
    "after": ["archive", None, True, []],
    "expire": [0, 1, "no"],
    "age_from": ["created", None, True],
}

BAD_POLICIES: dict[str, list[object]] = {
    "copies": [-1, 101, 1.5, None, True],
    "timestamps": ["LogAppendTime", None, True],
    "batch_bytes": [-1, 1.5, True, "1MiB"],
    "timestamp_ahead": [-1, "1 h", True],
    "timestamp_behind": [-1, float("nan")],
    "kafka_configs": ["flush.ms=1", ["flush.ms"], {"flush.ms": 1}, {1: "1"}, True],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD_CONFIG.items() for value in values])
def test_a_config_out_of_bounds_is_refused_by_the_options_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        LogConfig(**{name: value})
    assert isinstance(caught.value, seglog.SeglogError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_RETENTION.items() for value in values]
)
def test_a_retention_out_of_bounds_is_refused_by_the_options_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"retention\.{name}") as caught:
        Retention(**{name: value})
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_POLICIES.items() for value in values]
)
def test_policies_out_of_bounds_are_refused_by_the_options_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"policies\.{name}"):
        Policies(**{name: value})


def test_every_option_is_tried_out_of_bounds() -> None:
    assert {field.name for field in dataclasses.fields(LogConfig)} == set(BAD_CONFIG)
    assert {field.name for field in dataclasses.fields(Retention)} == {*BAD_RETENTION, "_moved"}
    assert {field.name for field in dataclasses.fields(Policies)} == set(BAD_POLICIES)


def test_positions_are_32_bits_wide() -> None:
    with pytest.raises(ConfigError, match="positions are 32 bits wide"):
        LogConfig(segment_bytes=2**31, segment_overflow_bytes=2**31)
    assert LogConfig(segment_bytes=2**31, segment_overflow_bytes=2**31 - 1).store_limit == 2**32 - 1
    assert LogConfig(segment_bytes=2**32 - 1).segment_overflow_bytes == 0


def test_an_unknown_option_is_an_error_that_names_it() -> None:
    with pytest.raises(TypeError, match="segment_byte"):
        LogConfig(segment_byte=1024)  # type: ignore[call-arg] # the unknown option is the test
    with pytest.raises(TypeError, match="days"):
        Retention(days=7)  # type: ignore[call-arg] # as above
    with pytest.raises(ConfigError, match="segment_byte"):
        LogConfig.from_json({"segment_byte": 1024})


def test_a_config_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        LogConfig().segment_bytes = 512  # type: ignore[misc] # frozen is the test
    with pytest.raises(TypeError):
        LogConfig(1024)  # type: ignore[call-arg] # keyword only is the test


def test_the_bounds_themselves_are_accepted() -> None:
    config = LogConfig(segment_bytes=512, segment_overflow_bytes=0, index_interval_bytes=64, initial_offset=2**63 - 2)
    assert (config.store_limit, config.initial_offset) == (512, 2**63 - 2)
    assert Retention(bytes=0, age=0, min_dirty_ratio=1, dedupe_bytes=1024).age == 0.0


def test_a_duration_is_seconds_or_a_timedelta() -> None:
    assert LogConfig(segment_age=timedelta(minutes=2)) == LogConfig(segment_age=120)
    assert LogConfig(flush_interval=timedelta(milliseconds=5)).flush_interval == 0.005
    assert Retention(age=timedelta(days=7)).age == 7 * 86400.0
    assert Retention(age=1.5).age_us == 1_500_000
    assert Retention(max_compaction_lag=timedelta(hours=1)).max_compaction_lag == 3600.0


EVERYTHING = LogConfig(
    segment_bytes=1000,
    segment_overflow_bytes=77,
    segment_age=timedelta(hours=1),
    index_interval_bytes=128,
    buffer_bytes=4096,
    flush_records=100,
    flush_interval=3600.0,
    initial_offset=40,
    open_segments_max=3,
    retention=Retention(bytes=10**6, age=86400, compact=True, delete_retention=5, max_compaction_lag=9.5),
    allocate_bytes=500,
)


def test_a_config_is_stored_with_its_log_and_used_again(place: Any) -> None:
    with seglog.open(place, EVERYTHING) as log:
        assert log.config == EVERYTHING
        log.append(b"v", key=b"k")
    for mode in ("a", "r"):
        with seglog.open(place, mode=mode) as log:
            assert log.config == EVERYTHING


def test_reopening_with_another_config_changes_it_and_keeps_the_records(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512, initial_offset=7)) as log:
        for i in range(20):
            log.append(b"%d" % i * 20)
        before, segments = list(log.scan()), log.segments[:-1]
    with seglog.open(place, LogConfig(segment_bytes=4096, retention=Retention(age=60))) as log:
        assert log.config == LogConfig(segment_bytes=4096, retention=Retention(age=60), initial_offset=7)
        assert (list(log.scan()), log.segments[:-1]) == (before, segments)
        log.append(b"v" * 3000)
    with seglog.open(place) as log:
        assert log.config.segment_bytes == 4096
        assert [record.offset for record in log.scan()] == list(range(7, 28))


def test_a_reader_sees_the_new_config(place: Any) -> None:
    with seglog.open(place):
        pass
    with seglog.open(place, mode="r") as reader:
        with seglog.open(place, LogConfig(segment_bytes=4096)):
            pass
        assert reader.config.segment_bytes == 4096


def test_the_first_offset_is_chosen_when_a_log_is_made(path: Path, contents: Any) -> None:
    with seglog.open(path, LogConfig(initial_offset=40)) as log:
        log.append(b"v")
    before = contents(path)
    with pytest.raises(ConfigError, match="initial_offset is 41, but the log began at 40"):
        seglog.open(path, LogConfig(initial_offset=41))
    assert contents(path) == before
    for same in (LogConfig(initial_offset=40), LogConfig()):
        with seglog.open(path, same) as log:
            assert (log.config.initial_offset, log.lowest_offset, log.next_offset) == (40, 40, 41)


def test_the_last_offset_is_the_end_of_a_log(place: Any) -> None:
    last = 2**63 - 2
    with seglog.open(place, LogConfig(initial_offset=last)) as log:
        assert log.append(b"v") == last
        assert log.to_arrow().column("offset").to_pylist() == [last]
        with pytest.raises(seglog.OffsetOutOfRange):
            log.append(b"w")
        with pytest.raises(seglog.OffsetOutOfRange):
            log.append_stream([b"w"])
        with pytest.raises(seglog.OffsetOutOfRange):
            log.append_batch(log.to_arrow())
        assert [record.value for record in log.scan()] == [b"v"]


# --- buffer_bytes ------------------------------------------------------------------------------------------------


def test_a_buffer_holds_single_appends_until_it_is_full(path: Path) -> None:
    with seglog.open(path, LogConfig(buffer_bytes=1000)) as log, seglog.open(path, mode="r") as reader:
        for i in range(10):
            assert log.append(b"v" * 68) == i  # 100 bytes a record
        assert (log.next_offset, reader.next_offset, reader.size) == (10, 0, 64)
        log.append(b"v" * 68)
        assert (log.next_offset, reader.next_offset, reader.size) == (11, 10, 1064)


def test_a_record_longer_than_the_buffer_is_written_at_once(path: Path) -> None:
    with seglog.open(path, LogConfig(buffer_bytes=1000)) as log, seglog.open(path, mode="r") as reader:
        log.append(b"short")
        log.append(b"v" * 1000)
        assert [record.value for record in reader.scan()] == [b"short", b"v" * 1000]


def test_an_append_that_the_medium_refuses_leaves_the_buffer_as_it_was(watched: Any) -> None:
    def no_space(path: str) -> None:
        if path.endswith(".store"):
            raise seglog.StorageError(28, "No space left on device", path)

    with seglog.open(watched, LogConfig(buffer_bytes=100)) as log:
        log.append(b"first" * 8)
        watched.on_write, free = no_space, watched.on_write
        for _ in range(3):
            with pytest.raises(seglog.StorageError):
                log.append(b"refused" * 8)
            assert log.next_offset == 1
        watched.on_write = free
        assert log.append(b"second" * 8) == 1
        assert [record.value for record in log.scan()] == [b"first" * 8, b"second" * 8]


@pytest.mark.parametrize("call", ["read", "scan", "to_arrow", "append_stream", "sync", "truncate", "segments", "size"])
def test_whoever_reads_or_writes_otherwise_writes_the_buffer_first(path: Path, call: str) -> None:
    calls: dict[str, Any] = {
        "read": lambda log: log.read(0).value == b"a",
        "scan": lambda log: [record.value for record in log.scan()] == [b"a", b"b"],
        "to_arrow": lambda log: log.to_arrow().num_rows == 2,
        "append_stream": lambda log: log.append_stream([b"c"]) == 2,
        "sync": lambda log: log.sync() is None and log.durable_offset == 2,
        "truncate": lambda log: log.truncate(1) is None and log.next_offset == 1,
        "segments": lambda log: log.segments[-1].records == 2,
        "size": lambda log: log.size == 64 + 33 + 33,
    }
    with seglog.open(path, LogConfig(buffer_bytes=10_000)) as log, seglog.open(path, mode="r") as reader:
        log.append(b"a")
        log.append(b"b")
        assert reader.next_offset == 0
        assert calls[call](log)
        assert reader.next_offset == log.next_offset


def test_a_buffer_is_written_when_the_log_closes_or_rolls(place: Any) -> None:
    with seglog.open(place, LogConfig(buffer_bytes=10_000, segment_bytes=512)) as log:
        for i in range(23):
            log.append(b"%d" % i * 20)
    with seglog.open(place, mode="r") as log:
        assert [record.value for record in log.scan()] == [b"%d" % i * 20 for i in range(23)]
        assert len(log.segments) > 2


KILLED = """
import os, signal, sys, seglog
log = seglog.open(sys.argv[1], seglog.LogConfig(buffer_bytes=int(sys.argv[2])))
for i in range(10):
    log.append(b"v" * 68)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("buffer_bytes", "survive"), [(0, 10), (300, 9), (10_000, 0)])
def test_kill_9_loses_what_is_buffered_and_no_more(path: Path, script: Any, buffer_bytes: int, survive: int) -> None:
    with pytest.raises(AssertionError, match="-9 == 0"):
        script(KILLED, path, buffer_bytes)
    with seglog.open(path) as log:
        assert log.recovery.clean
        assert log.next_offset == survive
        assert log.append(b"next") == survive


DURATIONS = ["segment_age", "flush_interval"]
RETENTION_DURATIONS = ["age", "delete_retention", "min_compaction_lag", "max_compaction_lag"]
NO_SECONDS: list[Any] = [1e305, 1e12, float("inf"), float("nan"), -1.0, -0.5, 10**400, 10**5000, 1e-300]


@pytest.mark.parametrize("value", [*NO_SECONDS, timedelta.max, "7d", True, [], b"1"], ids=range(14))
def test_a_duration_that_no_clock_can_hold_is_refused_before_it_is_stored(value: Any) -> None:
    for name in DURATIONS:
        with pytest.raises(ConfigError, match=name):
            LogConfig(**{name: value})
    for name in RETENTION_DURATIONS:
        with pytest.raises(ConfigError, match=name):
            Retention(**{name: value})


@pytest.mark.parametrize(
    "value",
    [10**400, 10**5000, 2**63, -1, 1.5, float("nan"), "1GB", True, None, [], {}],
    ids=range(11),
)
def test_a_size_or_count_of_any_kind_that_cannot_be_is_refused_by_its_name(value: Any) -> None:
    names = ["segment_bytes", "index_interval_bytes", "buffer_bytes", "initial_offset", "open_segments_max"]
    names += ["allocate_bytes"]
    names += [] if value is None else ["segment_overflow_bytes", "flush_records"]
    for name in names:
        with pytest.raises(ConfigError, match=name):
            LogConfig(**{name: value})
    for name in ["dedupe_bytes", *([] if value is None else ["bytes"])]:
        with pytest.raises(ConfigError, match=name):
            Retention(**{name: value})
    if value is not True:
        for name in ("compact", "unkeyed", "min_dirty_ratio"):
            with pytest.raises(ConfigError, match=name):
                Retention(**{name: value})
    with pytest.raises(ConfigError, match="retention"):
        LogConfig(retention=value)


def test_the_greatest_and_the_least_durations_work(tmp_path: Any) -> None:
    for seconds in (settings.MIN_SECONDS, settings.MAX_SECONDS, timedelta(days=36_525)):
        retention = Retention(age=seconds, delete_retention=seconds)
        kept = LogConfig(segment_age=seconds, flush_interval=seconds, retention=retention, segment_bytes=512)
        path = tmp_path / str(seconds)
        with seglog.open(path, kept) as log:
            for number in range(20):
                log.append(b"%d" % number * 20)
            assert log.expire() >= 0
        with seglog.open(path) as log:
            assert log.config == kept
            log.append(b"more")


def test_a_log_whose_stored_durations_are_beyond_the_bounds_opens_and_rolls(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # as an earlier version stored them
        patch.setattr(settings, "MAX_SECONDS", 1e308)
        retention = Retention(age=1e305, delete_retention=1e305)
        stored = LogConfig(segment_bytes=512, retention=retention, flush_interval=1e12)
        with seglog.open(tmp_path / "log", dataclasses.replace(stored, flush_interval=None)):
            pass
        values = stored.to_json()
    with seglog.open(tmp_path / "log") as log:
        for number in range(20):
            log.append(b"%d" % number * 20)
        assert len(log.segments) > 1
        assert log.config.retention.age == settings.MAX_SECONDS
    assert LogConfig.from_json({**values, "segment_age": 1e305}).flush_interval == settings.MAX_SECONDS
    for wrong in (None, 5, [], {"retention": None}, {"retention": 5}, {"retention": []}, {"nothing": 1}):
        with pytest.raises(ConfigError):
            LogConfig.from_json(wrong)  # type: ignore[arg-type]


def test_opening_a_log_with_another_option_keeps_those_that_are_not_given(place: Any) -> None:
    seglog.open(place, EVERYTHING).close()
    with seglog.open(place, LogConfig(flush_records=1, retention=Retention(age=60))) as log:
        kept = dataclasses.replace(EVERYTHING.retention, age=60)
        assert log.config == dataclasses.replace(EVERYTHING, flush_records=1, retention=kept)
    with seglog.open(place, LogConfig(retention=Retention(bytes=None, compact=False))) as log:
        assert (log.config.retention.bytes, log.config.retention.compact) == (None, False)
        assert log.config.flush_records == 1
    with seglog.open(place, LogConfig()) as log:
        assert log.config.retention.age == 60
        log.alter(retention=Retention(bytes=5))
        assert (log.config.retention.age, log.config.retention.bytes) == (60, 5)


def test_the_overflow_follows_the_segment_size_unless_it_was_chosen(place: Any) -> None:
    seglog.open(place, LogConfig(segment_bytes=1000)).close()
    with seglog.open(place, LogConfig(segment_bytes=4000)) as log:
        assert log.config.segment_overflow_bytes == 2000
    seglog.open(place, LogConfig(segment_overflow_bytes=7)).close()
    with seglog.open(place, LogConfig(segment_bytes=2000)) as log:
        assert (log.config.segment_bytes, log.config.segment_overflow_bytes) == (2000, 7)


def test_a_config_knows_what_was_given_in_copies_and_in_other_processes_too() -> None:
    config = LogConfig(flush_records=1, retention=Retention(age=60))
    for again in (pickle.loads(pickle.dumps(config)), copy.copy(config), copy.deepcopy(config)):  # noqa: S301 - our own bytes
        assert (again, hash(again), repr(again)) == (config, hash(config), repr(config))
        assert again.given().keys() == {"flush_records", "retention"}
        assert again.retention.given() == {"age": 60.0}
    assert LogConfig(flush_records=None).given() == {"flush_records": None}
