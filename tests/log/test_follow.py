"""Following a log live: `tail` takes what has come, `follow` waits for more."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Any

import pytest

import seglog
from seglog import LogConfig
from seglog.testing.internals import storage_of
from tests.waiting import HANG_SECONDS

MODES = ["a", "r"]


@pytest.fixture(params=MODES)
def pair(request: Any, place: Any) -> Any:
    """A writer, and who follows: the writer itself, or a reader."""
    with seglog.open(place, LogConfig(segment_bytes=512)) as writer:
        if request.param == "a":
            yield writer, writer
        else:
            with seglog.open(place, mode="r") as reader:
                yield writer, reader


def test_a_tail_gives_no_more_bytes_than_asked_for_but_in_one_record(pair: Any) -> None:
    writer, follower = pair
    sizes = [40, 40, 300, 10, 90, 1, 40]
    for size in sizes:
        writer.append(b"v" * size)
    tail, found = follower.tail(0), []
    while records := tail.poll(size=100):
        found.append([len(record.value) for record in records])
    assert found == [[40, 40], [300], [10, 90], [1, 40]]


def test_a_tail_gives_what_has_come_and_no_more(pair: Any) -> None:
    writer, follower = pair
    writer.append(b"old")
    tail = follower.tail()
    assert tail.poll() == []
    for count in (1, 3, 20):
        for _ in range(count):
            writer.append(b"v" * 50)
        assert len(tail.poll()) == count
        assert tail.poll() == []
        assert tail.position == writer.next_offset


def test_a_tail_takes_as_many_as_asked_for(pair: Any) -> None:
    writer, follower = pair
    for _ in range(10):
        writer.append(b"v" * 80)
    tail = follower.tail(2)
    assert [[record.offset for record in tail.poll(3)] for _ in range(4)] == [[2, 3, 4], [5, 6, 7], [8, 9], []]


@pytest.mark.parametrize("most", [1, 3, 100])
def test_a_tail_hands_out_what_stands_before_damage_and_then_raises(pair: Any, most: int) -> None:
    writer, follower = pair
    for number in range(5):
        writer.append(b"value %d" % number)
    writer.sync()
    store = storage_of(writer).open(writer.segments[0].name, writable=True)
    store.pwrite(b"X", store.pread(store.size(), 0).index(b"value 3"))
    tail, seen = follower.tail(0), []
    while len(seen) < 3:
        seen += [record.value for record in tail.poll(most)]
    assert seen == [b"value 0", b"value 1", b"value 2"]
    for _ in range(3):
        with pytest.raises(seglog.CorruptRecord) as caught:
            tail.poll(most)
        assert caught.value.offset == 3


@pytest.mark.parametrize("most", [1, 2, 100])
def test_a_tail_is_not_led_past_a_record_by_one_that_was_moved_before_it(place: Any, most: int) -> None:
    """In a segment with gaps it verifies there, and looks as if compaction had taken those between."""
    with seglog.open(place, LogConfig(segment_bytes=4096)) as log:
        for offset in (1, 3, 5, 7):
            log.append_at(offset, seglog.Record(offset, 0, None, b"value %d" % offset))
        log.truncate(7)  # seals the segment
        log.append(b"next")
        store = storage_of(log).open(log.segments[-2].name, writable=True)
        first, length = 64, (store.size() - 64) // 4
        records = [store.pread(length, first + number * length) for number in range(3)]
        store.pwrite(records[0] + records[2] + records[1], first)
        tail, seen = log.tail(0), []
        with pytest.raises(seglog.CorruptRecord):
            while True:
                seen += [record.offset for record in tail.poll(most)]
        assert seen in ([1], [1, 5])


def test_following_gives_what_is_there_and_ends_after_its_timeout(pair: Any) -> None:
    writer, follower = pair
    for _ in range(30):
        writer.append(b"v" * 50)
    assert [record.offset for record in follower.follow(7, timeout=0)] == list(range(7, 30))
    assert list(follower.follow(timeout=0.001)) == []


def test_following_waits_for_what_comes(pair: Any, together: Any) -> None:
    writer, follower = pair
    started = threading.Event()
    seen: list[int] = []

    def follow() -> None:
        started.set()
        seen.extend(record.offset for record in islice(follower.follow(0, timeout=HANG_SECONDS), 200))

    def write() -> None:
        started.wait()
        for _ in range(200):
            writer.append(b"v" * 50)

    together(follow, write)
    assert seen == list(range(200))


def test_many_follow_one_writer(pair: Any, together: Any) -> None:
    writer, follower = pair
    seen: list[list[int]] = [[] for _ in range(4)]

    def follow(into: list[int]) -> Any:
        return lambda: into.extend(record.offset for record in islice(follower.follow(0, timeout=HANG_SECONDS), 100))

    together(*(follow(into) for into in seen), lambda: [writer.append(b"v" * 50) for _ in range(100)])
    assert seen == [list(range(100))] * 4


def test_following_ends_with_an_error_where_the_log_was_cut(pair: Any) -> None:
    writer, follower = pair
    for _ in range(10):
        writer.append(b"v")
    records = follower.follow(0, timeout=HANG_SECONDS)
    assert [next(records).offset for _ in range(10)] == list(range(10))
    writer.truncate(5)
    with pytest.raises(seglog.LogTruncated):
        next(records)


@pytest.mark.parametrize("gap", [0, 1, 5, 2**33])
def test_a_cut_is_told_where_the_log_went_on_behind_a_gap(pair: Any, gap: int) -> None:
    """The offset read last is now in a gap that a follower of a compacted log left."""
    writer, follower = pair
    for _ in range(2):
        writer.append(b"v")
    tail = follower.tail(0)
    assert len(tail.poll()) == 2
    writer.truncate(1)
    writer.append_at(1 + gap, seglog.Record(0, 0, None, b"new"))
    with pytest.raises(seglog.LogTruncated):
        tail.poll()


def test_following_ends_with_an_error_where_the_log_is_closed(pair: Any) -> None:
    writer, follower = pair
    writer.append(b"v")
    records = follower.follow(0, timeout=HANG_SECONDS)
    assert next(records).offset == 0
    follower.close()
    with pytest.raises(seglog.LogClosed):
        next(records)


@pytest.mark.parametrize(("cut", "told"), [(5, True), (10, False)])
def test_a_cut_below_what_was_read_is_told_also_when_all_that_was_read_has_expired_since(
    place: Any, clock: Any, cut: int, told: bool
) -> None:
    """Cut, rewritten and expired up to the follower's position: the offsets match, the history does not."""
    config = LogConfig(segment_bytes=512, retention=seglog.Retention(age=60))
    with seglog.open(place, config, clock=clock) as writer:
        for _ in range(10):
            writer.append(b"v" * 57)
        tail, untouched = writer.tail(0), writer.tail(0)
        assert len(tail.poll()) == 10
        if told:
            writer.truncate(cut)
        for _ in range(15 - writer.next_offset):
            writer.append(b"n" * 57)
        clock.advance(60)
        writer.append(b"n")
        writer.expire()
        assert writer.lowest_offset == 10
        with pytest.raises(seglog.OffsetOutOfRange):
            untouched.poll()
        if told:
            with pytest.raises(seglog.LogTruncated):
                tail.poll()
        else:
            assert [record.offset for record in tail.poll()] == [10, 11, 12, 13, 14, 15]


def test_who_has_read_nothing_yet_does_not_care_about_a_cut(pair: Any) -> None:
    writer, follower = pair
    tail = follower.tail(0)
    for _ in range(10):
        writer.append(b"old")
    writer.truncate(0)
    writer.append(b"new")
    assert [record.value for record in tail.poll()] == [b"new"]


def test_workers_share_the_records_of_a_log_without_asking_each_other(pair: Any) -> None:
    writer, follower = pair
    for number in range(40):
        writer.append(b"%d" % number)
    shares = [[record.offset for record in follower.follow(0, timeout=0, share=(number, 3))] for number in range(3)]
    assert shares == [list(range(number, 40, 3)) for number in range(3)]
    assert [record.offset for record in follower.follow(7, timeout=0, share=(0, 1))] == list(range(7, 40))


def test_a_share_ends_when_no_record_of_any_share_comes(pair: Any) -> None:
    writer, follower = pair
    writer.append(b"of the first")
    assert list(follower.follow(0, timeout=0.01, share=(1, 2))) == []


@pytest.mark.parametrize(
    ("share", "error", "words"),
    [
        ((3, 3), seglog.InvalidArgument, "0 <= i < n"),
        ((-1, 3), seglog.InvalidArgument, "0 <= i < n"),
        ((0, 0), seglog.InvalidArgument, "0 <= i < n"),
        ((True, 3), seglog.InvalidType, "must be an int"),
        ((0.0, 3), seglog.InvalidType, "must be an int"),
        ((0, 1, 2), seglog.InvalidType, "such as"),
        ("01", seglog.InvalidType, "such as"),
        (1, seglog.InvalidType, "such as"),
    ],
)
def test_a_share_that_makes_no_sense_is_rejected(share: Any, error: type[Exception], words: str) -> None:
    with seglog.open(seglog.MemoryStorage()) as log, pytest.raises(error, match=words):
        log.follow(share=share)
