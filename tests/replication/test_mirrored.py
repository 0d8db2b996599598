"""An append that waits until copies have it on their disks is acknowledged then, and never before."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest

import seglog
from seglog import Mirror
from seglog.log.copies import Copies, held, mirrored_offset
from seglog.log.pins import Pin
from seglog.replication.promote import promote
from seglog.storage import MemoryStorage
from tests.replication.conftest import SMALL, fill
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Served

LONGEST = 60  # seconds that a server lets an append wait for copies


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


class Running:
    """A mirror that runs in a thread until the end of the block."""

    def __init__(self, source: Any, target: Any) -> None:
        self.mirror = Mirror(source, target)
        self._thread = threading.Thread(target=self.mirror.run)

    def __enter__(self) -> Mirror:
        self._thread.start()
        return self.mirror

    def __exit__(self, *_: object) -> None:
        self.mirror.stop()
        self._thread.join()
        self.mirror.close()


# --- by path ----------------------------------------------------------------------------------------------------------


def test_a_record_is_mirrored_once_as_many_copies_as_wanted_have_it(source: Path, tmp_path: Path) -> None:
    with seglog.open(source) as log, ExitStack() as mirrors:
        for number in range(2):
            mirrors.enter_context(Running(source, tmp_path / f"copy-{number}"))
        offset = log.append(b"1")
        log.mirrored(offset, 2, timeout=HANG_SECONDS)
        assert log.mirrored_offset(2) == 1
        with pytest.raises(seglog.NotMirrored, match="2 of 3 copies") as caught:
            log.mirrored(offset, 3, timeout=0)
        assert (caught.value.offset, caught.value.copies) == (0, 2)
        assert isinstance(caught.value, TimeoutError)
        assert log.mirrored_offset(3) == 0
    for number in range(2):
        with seglog.open(tmp_path / f"copy-{number}", mode="r") as copy:
            assert copy.read(0).value == b"1"


def test_a_copy_that_has_not_synced_a_record_does_not_count(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seglog.open(source) as log, Mirror(source, target) as mirror:
        log.append(b"1")
        log.sync()
        one = mirror._logs["", 0]
        monkeypatch.setattr("seglog.replication.log_mirror.ROUND_BYTES", 1)
        real = one._writer.sync
        seen: list[int] = []

        def sync() -> None:
            assert one.position == 1  # appended to the copy, and not synced
            one.source.fetch(one.position, held=one._held)
            seen.append(log.mirrored_offset())
            real()

        monkeypatch.setattr(one._writer, "sync", sync)
        mirror.step()
        assert seen == [0]
        mirror.step()
        assert log.mirrored_offset() == 1


def test_a_copy_in_a_foreign_storage_counts(source: Path) -> None:
    leader, target = MemoryStorage(), MemoryStorage()
    with seglog.open(leader) as log, Running(leader, target):
        log.mirrored(log.append(b"1"), timeout=HANG_SECONDS)
    with seglog.open(target, mode="r") as copy:
        assert copy.read(0).value == b"1"


def test_a_copy_without_a_pin_does_not_count(source: Path, target: Path) -> None:
    with seglog.open(source) as log, Mirror(source, target, pin=False) as mirror:
        log.append(b"1")
        mirror.step()
        mirror.step()
        with pytest.raises(seglog.NotMirrored, match="0 of 1"):
            log.mirrored(0, timeout=0)


def test_a_record_that_is_cut_off_while_its_append_waits_is_never_acknowledged(
    source: Path, target: Path, elsewhere: ThreadPoolExecutor
) -> None:
    with seglog.open(source, SMALL) as log, Mirror(source, target) as mirror:
        fill(log, 10)
        mirror.step()
        before = log.epoch
        offset = log.append(b"will be removed")
        waiting = elsewhere.submit(log.mirrored, offset, timeout=HANG_SECONDS)
        late = log.epoch
        log.truncate(5)
        fill(log, 10, "others at the same offsets")
        log.sync()
        for _ in range(3):
            mirror.step()
        assert log.mirrored_offset() == 15
        with pytest.raises(seglog.LogTruncated, match="offset 10"):
            waiting.result(HANG_SECONDS)
        for epoch in (before, late):  # the call begins only after the truncate
            with pytest.raises(seglog.LogTruncated):
                log.mirrored(offset, epoch=epoch, timeout=HANG_SECONDS)
        log.mirrored(offset, timeout=0)  # the record that is there now


def test_a_late_report_of_records_that_were_cut_off_does_not_count(source: Path, target: Path) -> None:
    with seglog.open(source, SMALL) as log, Mirror(source, target) as mirror:
        fill(log, 10)
        mirror.step()
        one = mirror._logs["", 0]
        stale = one._held
        assert stale is not None
        log.truncate(3)
        fill(log, 20, "other")
        log.sync()
        for report in (one.source.fetch(None, held=stale), one.source.pin(stale)):
            del report
            assert log.mirrored_offset() == 0
            assert log.pins
        for _ in range(3):
            mirror.step()
        assert log.mirrored_offset() == 23


def test_a_copy_that_starts_over_withdraws_what_it_had(source: Path, target: Path) -> None:
    with seglog.open(source, SMALL) as log:
        fill(log, 20)
        log.sync()
        with Mirror(source, target) as mirror:
            mirror.step()
            mirror.step()
            assert log.mirrored_offset() == 20
            one = mirror._logs["", 0]
            one._start_over(one.source.fetch(None).lineage)
            assert log.mirrored_offset() == 0
            assert list(log.pins.values()) == [0]
            mirror.step()
            mirror.step()
            assert log.mirrored_offset() == 20


def test_an_append_waits_on_across_a_restart_of_the_copy(
    source: Path, target: Path, elsewhere: ThreadPoolExecutor
) -> None:
    with seglog.open(source) as log:
        with Mirror(source, target) as mirror:
            mirror.step()
        waiting = elsewhere.submit(log.mirrored, log.append(b"1"), timeout=HANG_SECONDS)
        with Running(source, target):
            waiting.result(HANG_SECONDS)


def test_a_leader_that_is_opened_again_counts_what_its_copies_have(source: Path, target: Path) -> None:
    with seglog.open(source) as log, Mirror(source, target) as mirror:
        fill(log, 5)
        mirror.step()
        mirror.step()
    with seglog.open(source) as log:
        log.mirrored(4, timeout=0)
        with pytest.raises(seglog.NotMirrored):
            log.mirrored(log.append(b"new"), timeout=0)


def test_a_fenced_leader_acknowledges_nothing_more(
    source: Path, target: Path, elsewhere: ThreadPoolExecutor, tmp_path: Path
) -> None:
    with seglog.open(source) as log:
        with Mirror(source, target) as mirror:
            mirror.step()
        waiting = elsewhere.submit(log.mirrored, log.append(b"not on the promoted copy"), timeout=HANG_SECONDS)
        log.fence(promote(target))
        with pytest.raises(seglog.LogFenced):
            waiting.result(HANG_SECONDS)
        with Mirror(source, tmp_path / "other") as mirror:
            mirror.step()
            mirror.step()
        with pytest.raises(seglog.LogFenced):
            log.mirrored(0, timeout=0)


def test_an_old_leader_that_runs_on_acknowledges_nothing_that_waits_for_all_copies(
    source: Path, target: Path, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    with seglog.open(source) as log:
        for copy in (target, second):
            with Mirror(source, copy) as mirror:
                mirror.step()
        promote(target)  # the old leader is not fenced, and the second copy still follows it
        with Running(source, second):
            offset = log.append(b"on the old leader")
            log.mirrored(offset, 1, timeout=HANG_SECONDS)
            with pytest.raises(seglog.NotMirrored, match="1 of 2"):
                log.mirrored(offset, 2, timeout=0.2)


def test_closing_a_log_ends_those_that_wait(source: Path, elsewhere: ThreadPoolExecutor) -> None:
    with seglog.open(source) as log:
        waiting = elsewhere.submit(log.mirrored, log.append(b"1"))
        log.read(0)
    with pytest.raises(seglog.LogClosed):
        waiting.result(HANG_SECONDS)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"offset": 1}, seglog.OffsetOutOfRange),
        ({"offset": -1}, seglog.OffsetOutOfRange),
        ({"copies": 0}, seglog.InvalidArgument),
        ({"copies": 101}, seglog.InvalidArgument),
        ({"copies": "1"}, seglog.InvalidType),
        ({"timeout": float("nan")}, seglog.InvalidArgument),
        ({"timeout": -1}, seglog.InvalidArgument),
        ({"timeout": "1"}, seglog.InvalidType),
        ({"epoch": "0"}, seglog.InvalidType),
    ],
)
def test_wrong_arguments_are_refused(source: Path, arguments: dict[str, Any], error: type[Exception]) -> None:
    with seglog.open(source) as log:
        log.append(b"1")
        with pytest.raises(error):
            log.mirrored(**{"offset": 0, "timeout": 0, **arguments})
    with seglog.open(source, mode="r") as log, pytest.raises(seglog.LogReadOnly):
        log.mirrored(0)


def test_reports_count_only_with_the_epoch_that_the_log_has_there(source: Path) -> None:
    with seglog.open(source) as log:
        fill(log, 20)
        log.truncate(10)
        fill(log, 10)
        cuts = log.view().manifest.cuts
    reports = {
        "before the cut": [Pin(10, 0)],
        "old": [Pin(11, 0)],
        "new": [Pin(11, 1)],
        "ahead": [Pin(21, 1)],
        "no copy": [Pin(5)],
        "by path and by HTTP": [Pin(12, 1), Pin(4, 0), Pin(20, 0)],
    }
    found = held(reports, cuts, 20)
    assert found == {"before the cut": 10, "new": 11, "by path and by HTTP": 12}
    assert [mirrored_offset(found.values(), copies) for copies in (1, 2, 3, 4)] == [12, 11, 10, 0]


def test_a_log_whose_manifest_was_rebuilt_does_not_wait_for_copies(source: Path) -> None:
    with seglog.open(source) as log:
        log.append(b"1")
    for name in ("MANIFEST", "MANIFEST.prev"):
        (source / name).unlink(missing_ok=True)
    with seglog.open(source) as log, pytest.raises(seglog.NotMirrored, match="seglog repair"):
        log.mirrored(log.append(b"2"), timeout=HANG_SECONDS)
    seglog.repair(source)
    with seglog.open(source) as log, pytest.raises(seglog.NotMirrored, match="0 of 1 copies"):
        log.mirrored(log.append(b"3"), timeout=0)


def test_a_damaged_pin_counts_for_nothing(source: Path, target: Path) -> None:
    with seglog.open(source) as log, Mirror(source, target) as mirror:
        fill(log, 5)
        log.sync()
        mirror.step()
        mirror.step()
        assert log.mirrored_offset() == 5
        (pin,) = (source / "pins").iterdir()
        pin.write_bytes(pin.read_bytes()[:-5])
        log._mirroring.copies = Copies(log._storage)  # type: ignore[attr-defined] # as if opened again
        log._mirroring.copies._read_at = float("-inf")  # type: ignore[attr-defined] # as above
        assert log.mirrored_offset() == 0


# --- over HTTP --------------------------------------------------------------------------------------------------------


def test_an_append_over_http_returns_once_the_copies_have_it(serve: Callable[..., Served], tmp_path: Path) -> None:
    leader = serve()
    with seglog.Client(leader.url, retries=0) as client, ExitStack() as mirrors:
        orders = client.create_topic("orders", partitions=2)
        with pytest.raises(seglog.NotMirrored, match="0 of 1") as caught:
            orders.append(b"nobody copies it", partition=0, ack="mirrored", wait=0.01)
        assert (caught.value.offset, caught.value.copies) == (0, 0)
        mirrors.enter_context(Running(leader.url, tmp_path / "over http"))
        partition, offset = orders.append(b"1", key=b"k", ack="mirrored", wait=LONGEST)
        with seglog.open(tmp_path / "over http" / "orders" / str(partition), mode="r") as copy:
            assert copy.read(offset).value == b"1"
        table = pa.table({"value": [b"%d" % n for n in range(100)]})
        offsets = orders.append_batch(table, ack="mirrored", wait=LONGEST)
        assert sum(map(len, offsets.values())) == 100
        for number, at in offsets.items():
            with seglog.open(tmp_path / "over http" / "orders" / str(number), mode="r") as copy:
                assert copy.next_offset >= at.stop
        orders.append_stream([b"x" * 1024] * 2048, ack="mirrored", wait=LONGEST)
        with client.producer("orders", ack="mirrored", wait=LONGEST) as producer:
            futures = [producer.send(b"%d" % number) for number in range(50)]
        assert all(future.result() for future in futures)
        with pytest.raises(seglog.NotMirrored, match="of 2"):
            orders.append(b"2", ack="mirrored", copies=2, wait=0.05)
        with pytest.raises(seglog.InvalidArgument):
            orders.append(b"2", ack="mirrored", copies=0)
        with pytest.raises(seglog.InvalidArgument, match="ack"):
            client.commit("billing", {"orders": {0: 1}}, ack="mirrored")


def test_a_repeated_append_waits_again_and_is_stored_once(serve: Callable[..., Served], tmp_path: Path) -> None:
    leader = serve()
    with seglog.Client(leader.url, retries=0) as client:
        orders = client.create_topic("orders")
        with pytest.raises(seglog.NotMirrored):
            orders.append(b"1", once="k", ack="mirrored", wait=0)
        with Running(leader.url, tmp_path / "copy"):
            assert orders.append(b"1", once="k", ack="mirrored", wait=LONGEST) == (0, 0)
        assert orders.bounds()[0].next_offset == 1


def test_laminarmq_requests_can_wait_for_copies(serve: Callable[..., Served], tmp_path: Path) -> None:
    leader = serve()
    with Running(leader.url, tmp_path / "copy"):
        answer = httpx.post(f"{leader.url}/records?ack=mirrored&wait={LONGEST}", content=b"1", timeout=HANG_SECONDS)
        assert answer.json() == {"write_index": 0}
    late = httpx.post(f"{leader.url}/records?ack=mirrored&wait=0", content=b"2", timeout=HANG_SECONDS)
    assert late.status_code == 504
    assert late.json()["error"] == "NotMirrored"
    assert late.json()["retriable"] is False


def test_a_truncate_over_http_ends_an_append_that_waits(
    serve: Callable[..., Served], elsewhere: ThreadPoolExecutor
) -> None:
    leader = serve()
    with seglog.Client(leader.url, retries=0) as client:
        orders = client.create_topic("orders")
        orders.append(b"0")
        waiting = elsewhere.submit(orders.append, b"1", ack="mirrored", wait=LONGEST)
        until(lambda: waiting.done() or orders.bounds()[0].next_offset == 2)
        orders.truncate(0, 1)
        with pytest.raises(seglog.LogTruncated, match="removed by a truncate"):
            waiting.result(HANG_SECONDS)


def test_a_server_that_stops_ends_appends_that_wait(
    serve: Callable[..., Served], elsewhere: ThreadPoolExecutor
) -> None:
    leader = serve()
    with seglog.Client(leader.url, retries=0) as client:
        orders = client.create_topic("orders")
        waiting = elsewhere.submit(orders.append, b"1", ack="mirrored", wait=LONGEST)
        until(lambda: waiting.done() or orders.bounds()[0].next_offset)
        leader.stop()
        with pytest.raises(seglog.SeglogError):
            waiting.result(HANG_SECONDS)


def test_the_async_client_waits_for_copies(serve: Callable[..., Served], tmp_path: Path) -> None:
    leader = serve()

    async def story() -> None:
        async with seglog.AsyncClient(leader.url, retries=0) as client:
            await client.create_topic("orders")
            assert await client.topic("orders").append(b"1", ack="mirrored", wait=LONGEST) == (0, 0)
            async with client.producer("orders", ack="mirrored") as producer:
                future = await producer.send(b"2")
            assert await future == (0, 1)

    with Running(leader.url, tmp_path / "copy"):
        asyncio.run(story())
