"""The next response of a consumer is read before it is asked for; it is used only where it is still right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from seglog.kafka import codes
from seglog.kafka.messages.core import FETCH
from seglog.kafka.records.decode import decode, head_of
from seglog.kafka.records.layout import LENGTH_FROM
from seglog.kafka.requests import read_ahead
from seglog.kafka.requests.partition_reads import COPIES
from seglog.testing.kafka import KafkaBroker
from tests.kafka.conftest import Raw, connected
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.kafka.requests.call import Sender
    from seglog.log.log import Log

RECORDS, SIZE = 3000, 64 * 1024


@pytest.fixture
def kafka() -> Iterator[KafkaBroker]:
    """A broker with a topic of more records than several responses have."""
    with KafkaBroker() as broker:
        fill(broker, [b"%0100d" % n for n in range(RECORDS)])
        yield broker


def fill(kafka: KafkaBroker, values: list[bytes]) -> None:
    """Create the topic with these values."""
    kafka.broker.create_topic("orders", partitions=1).append_batch(pa.table({"value": values}), partition=0)


def log_of(kafka: KafkaBroker) -> Log:
    return kafka.broker.topic("orders").partition(0)


def fetched(raw: Raw, start: int, size: int = SIZE) -> dict[str, Any]:
    place = {"partition": 0, "fetch_offset": start, "current_leader_epoch": -1, "partition_max_bytes": size}
    topics = [{"topic": "orders", "partitions": [place]}]
    answer = raw.ask(FETCH, 11, {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 2**30, "topics": topics})
    found: dict[str, Any] = answer["responses"][0]["partitions"][0]
    return found


def values(found: dict[str, Any]) -> list[bytes]:
    """Return the values of a response's record batches."""
    left, came = memoryview(found["records"]), []
    while left:
        size = LENGTH_FROM + int.from_bytes(left[8:LENGTH_FROM], "big")
        batch, left = left[:size], left[size:]
        came += decode(batch, head_of(batch), now=0, most=2**30).arrow.column("value").to_pylist()
    return came


def held(kafka: KafkaBroker) -> int:
    """Return the bytes that responses, also prepared ones, hold."""
    return kafka._services.memory.held["answers"]


def test_all_records_come_in_order(kafka: KafkaBroker) -> None:
    came: list[bytes] = []
    with connected(kafka.address) as raw:
        while more := values(fetched(raw, len(came))):
            came += more
    assert came == [b"%0100d" % n for n in range(RECORDS)]


def test_what_is_read_ahead_holds_memory_but_not_for_long(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    forget, forgotten = read_ahead.forget_ahead, list[int]()

    def noted(sender: Sender) -> None:
        forgotten.append(held(kafka))
        forget(sender)

    monkeypatch.setattr(read_ahead, "forget_ahead", noted)  # when its time is over
    with connected(kafka.address) as raw:
        fetched(raw, 0)
        until(lambda: forgotten)
        assert forgotten[0] > 0
        until(lambda: held(kafka) == 0)


def test_what_is_read_ahead_is_released_when_its_client_goes_away(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "SECONDS", 3600)
    with connected(kafka.address) as raw:
        fetched(raw, 0)
        until(lambda: held(kafka) > 0)
    until(lambda: held(kafka) == 0)


def test_nothing_is_read_ahead_at_the_end_of_a_log(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "SECONDS", 3600)
    with connected(kafka.address) as raw:
        assert len(values(fetched(raw, RECORDS - 10))) == 10
        until(lambda: held(kafka) == 0)


def test_records_that_replaced_others_meanwhile_are_sent(kafka: KafkaBroker) -> None:
    with connected(kafka.address) as raw:
        following = len(values(fetched(raw, 0)))
        log_of(kafka).truncate(following)
        log_of(kafka).append_batch(pa.table({"value": [b"new"] * RECORDS}))
        assert set(values(fetched(raw, following))) == {b"new"}


def test_a_start_that_was_deleted_meanwhile_is_refused(kafka: KafkaBroker) -> None:
    with connected(kafka.address) as raw:
        following = len(values(fetched(raw, 0)))
        log_of(kafka).delete_before(following + 1)
        assert fetched(raw, following)["error_code"] == codes.OFFSET_OUT_OF_RANGE


def test_a_topic_of_the_same_name_is_another_one(kafka: KafkaBroker) -> None:
    with connected(kafka.address) as raw:
        following = len(values(fetched(raw, 0)))
        kafka.broker.delete_topic("orders")
        fill(kafka, [b"other"] * RECORDS)
        assert set(values(fetched(raw, following))) == {b"other"}


def test_a_response_tells_the_bounds_of_the_time_when_it_is_asked_for(kafka: KafkaBroker) -> None:
    with connected(kafka.address) as raw:
        following = len(values(fetched(raw, 0)))
        log_of(kafka).append(b"later")
        assert fetched(raw, following)["high_watermark"] == RECORDS + 1


def test_another_position_or_size_is_read_anew(kafka: KafkaBroker) -> None:
    with connected(kafka.address) as raw:
        following = len(values(fetched(raw, 0)))
        assert values(fetched(raw, following + 5))[0] == b"%0100d" % (following + 5)
        assert len(values(fetched(raw, following + 5, SIZE // 4))) < following / 2


def test_a_long_record_that_is_read_ahead_is_counted_as_a_whole(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "SECONDS", 3600)
    long = 8_000_000
    kafka.broker.create_topic("long", partitions=1)
    kafka.broker.topic("long").append_batch(pa.table({"value": [b"short", bytes(long)]}), partition=0)
    with connected(kafka.address) as raw:
        place = {"partition": 0, "fetch_offset": 0, "current_leader_epoch": -1, "partition_max_bytes": 64}
        topics = [{"topic": "long", "partitions": [place]}]
        raw.ask(FETCH, 11, {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 2**30, "topics": topics})
        until(lambda: held(kafka) >= COPIES * long)  # it begins after the response is sent
