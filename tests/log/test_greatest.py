"""The greatest record a log takes, by every way in; one byte more is refused before it is written, or rolled back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def by_append(log: seglog.Log, values: list[bytes]) -> None:
    for value in values:
        log.append(value)


def by_batch(log: seglog.Log, values: list[bytes]) -> None:
    log.append_batch(pa.table({"value": pa.array(values, pa.binary())}))


GREATEST = 512 + 256 - 64 - 32  # segment_bytes + segment_overflow_bytes - file header - record head


def a_small_log(place: Any) -> seglog.Log:
    log = seglog.open(place, LogConfig(segment_bytes=512, segment_overflow_bytes=256))
    log.append(b"the first record, so that the greatest does not fit behind it" * 3, timestamp=1)
    return log


@pytest.mark.parametrize("write", [by_append, by_batch])
def test_the_greatest_value_fits_whatever_the_fill(place: Any, write: Callable[..., None]) -> None:
    with a_small_log(place) as log:
        write(log, [b"v" * GREATEST] * 2)
        assert [len(record.value or b"") for record in log.scan()][1:] == [GREATEST, GREATEST]


def test_one_byte_more_is_refused_before_a_byte_is_written(path: Any, contents: Any) -> None:
    with a_small_log(path) as log:
        before = contents(path)
        with pytest.raises(seglog.RecordTooLarge) as caught:
            log.append(b"v" * (GREATEST + 1))
        assert (caught.value.size, caught.value.limit) == (GREATEST + 33, GREATEST + 32)
        with pytest.raises(seglog.RecordTooLarge):
            log.append(b"v" * (GREATEST - 9), key=b"k" * 10)
        with pytest.raises(seglog.RecordTooLarge):
            log.append_stream([b""], headers=[("h", b"v" * GREATEST)])
        with pytest.raises(seglog.RecordTooLarge, match=r"row 1 of the batch") as caught:
            by_batch(log, [b"v", b"v" * (GREATEST + 1)])
        assert caught.value.row == 1
        assert contents(path) == before
        assert log.append(b"next") == 1


def test_a_stream_may_write_what_the_segment_and_its_overflow_leave(place: Any) -> None:
    with a_small_log(place) as log:
        room = 512 + 256 - log.size - 32
        log.append_stream([b"v"] * room, timestamp=1)
        assert log.size == 512 + 256
        assert len(log.read(1).value or b"") == room
        log.append_stream([b"v" * GREATEST], timestamp=1)
        assert len(log.segments) == 2


def test_a_stream_of_one_byte_more_is_rolled_back(path: Any, contents: Any) -> None:
    with a_small_log(path) as log:
        before, room = contents(path), 512 + 256 - log.size - 32
        with pytest.raises(seglog.StreamOverflow) as caught:
            log.append_stream([b"v"] * (room + 1))
        assert caught.value.limit == room
        with pytest.raises(seglog.StreamOverflow) as caught:
            log.append_stream([b"vvv", b"vvv"], limit=5)
        assert caught.value.limit == 5
        assert contents(path) == before
        assert log.append_stream([b"vvv", b"vv"], limit=5) == 1
        assert log.append_stream([], limit=0) == 2
        assert log.append(b"next") == 3


def test_what_a_long_stream_had_written_is_cut_off_again(path: Any, contents: Any) -> None:
    def source() -> Iterator[bytes]:
        yield from [b"v" * 300_000] * 3  # longer than what is gathered before it is written
        assert store.stat().st_size > 800_000
        raise OSError("the sender is gone")

    with seglog.open(path) as log:
        log.append(b"before")
        store, before = path / log.segments[0].name, contents(path)
        with pytest.raises(OSError, match="the sender is gone"):
            log.append_stream(source())
        with pytest.raises(seglog.StreamOverflow):
            log.append_stream([b"v" * 300_000] * 3, limit=800_000)
        assert contents(path) == before


def test_a_stream_whose_source_fails_leaves_nothing(path: Any, contents: Any) -> None:
    def source() -> Iterator[bytes]:
        yield b"v" * 300
        raise OSError("the sender is gone")

    with a_small_log(path) as log:
        before = contents(path)
        with pytest.raises(OSError, match="the sender is gone"):
            log.append_stream(source())
        with pytest.raises(seglog.InvalidType, match="chunk of the stream must be bytes"):
            log.append_stream([b"v", "text"])  # type: ignore[list-item] # the wrong type is the test
        assert contents(path) == before
        assert log.append(b"next") == 1
