"""The server is killed and started again under a client at work: what was acknowledged is there, once, in order."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.server.rights.access import new_token
from tests.client.conftest import PATIENT
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable


def test_single_appends_go_through_a_kill_and_are_stored_once(serve: Callable[..., Any]) -> None:
    server = serve()
    with seglog.Client(server.url, retries=PATIENT) as client:
        topic = client.create_topic("orders", partitions=2)
        places = []
        for number in range(200):
            if number % 100 == 50:
                server.kill()
                again = threading.Thread(target=server.start)
                again.start()
            places.append(topic.append(b"%d" % number, key=b"%d" % (number % 5)))
            if number % 100 == 50:
                again.join()
        assert len(set(places)) == 200
        assert [int(topic.read(*place).value or b"") for place in places] == list(range(200))
        assert topic.info().records == 200


def test_a_producer_and_a_consumer_go_through_kills(serve: Callable[..., Any]) -> None:
    server = serve()
    records, kills = 3000, 2
    client = seglog.Client(server.url, retries=PATIENT)
    client.create_topic("orders", partitions=4)
    consumer = client.consumer("readers", ["orders"], session_timeout=HANG_SECONDS)
    acknowledged = threading.Semaphore(0)
    futures: list[Any] = []

    def produce() -> None:
        with client.producer("orders", batch_records=50, queue_bytes=20_000, linger=0.0) as producer:
            for number in range(records):
                future = producer.send(b"%d" % number, key=b"k%d" % (number % 20))
                future.add_done_callback(lambda _: acknowledged.release())
                futures.append(future)

    def disturb() -> None:
        for _ in range(kills):
            for _ in range(records // (kills + 2)):
                acknowledged.acquire()
            server.kill()
            server.start()

    workers = [threading.Thread(target=work) for work in (produce, disturb)]
    for worker in workers:
        worker.start()
    seen: list[Any] = []
    while len(seen) < records:
        seen += consumer.poll(timeout=5.0, max_records=400)
        consumer.commit()
    for worker in workers:
        worker.join()
    assert consumer.poll() == []

    stored = {future.result(): b"%d" % number for number, future in enumerate(futures)}
    assert len(stored) == records, "every record has a place of its own"
    assert {(one.partition, one.offset): one.value for one in seen} == stored
    assert len(seen) == records, "nothing came twice: each poll was committed before the next"
    last: dict[Any, int] = {}
    for one in seen:
        assert int(one.value) > last.get(one.key, -1)
        last[one.key] = int(one.value)
    assert sum(client.committed("readers")["orders"].values()) == records
    consumer.close()
    client.close()


def test_a_batch_that_is_under_way_is_completed_after_a_kill(serve: Callable[..., Any]) -> None:
    server = serve()
    with seglog.Client(server.url, retries=PATIENT) as client:
        topic = client.create_topic("orders", partitions=3)
        data = pa.table({"value": [b"x" * 100] * 200_000, "key": [b"%d" % number for number in range(200_000)]})
        loading = threading.Thread(target=topic.append_batch, args=[data], kwargs={"batch_bytes": 1_000_000})
        loading.start()
        while sum(bounds.next_offset for bounds in topic.bounds().values()) < 20_000:
            pass
        server.kill()
        server.start()
        loading.join()
        keys = pa.concat_tables(topic.to_arrow(number) for number in range(3))["key"].to_pylist()
    assert sorted(keys) == sorted(data["key"].to_pylist())


def test_following_goes_on_after_a_restart(serve: Callable[..., Any]) -> None:
    server = serve()
    with seglog.Client(server.url, retries=PATIENT) as client:
        topic = client.create_topic("orders")
        tail = topic.follow(start="earliest")
        for number in range(2):
            topic.append(b"%d" % number)
            assert next(tail).value == b"%d" % number
            server.stop()
            server.start()


def test_without_a_server_it_says_so_after_its_tries() -> None:
    with seglog.Client("http://127.0.0.1:9", retries=1) as client, pytest.raises(seglog.ConnectionFailed) as failed:
        client.topics()
    assert "127.0.0.1:9" in str(failed.value)
    assert isinstance(failed.value, ConnectionError)
    assert failed.value.sent is False


def test_closing_a_client_ends_its_tries(serve: Callable[..., Any]) -> None:
    client = seglog.Client("http://127.0.0.1:9", retries=1000)
    closing = threading.Timer(0.2, client.close)
    closing.start()
    with pytest.raises(seglog.LogClosed):
        client.topics()
    closing.join()


def test_tokens_and_rights(serve: Callable[..., Any], tmp_path: Any) -> None:
    writer, one = new_token("writer", {"orders": ["write"]})
    admin, other = new_token("admin", {"*": ["admin"]})
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"tokens": [one, other]}))
    server = serve("--tokens", str(file))
    with seglog.Client(server.url, token=admin) as client:
        client.create_topic("orders", partitions=2)
    with seglog.Client(server.url, token=writer) as client:
        with client.producer("orders") as producer:
            future = producer.send(b"v", key=b"k")
        assert future.result()[1] == 0
        with pytest.raises(seglog.Forbidden):
            client.topic("orders").read(0, 0)
        with pytest.raises(seglog.Forbidden):
            client.delete_topic("orders")
    for token in (None, "wrong"):
        with seglog.Client(server.url, token=token) as client, pytest.raises(seglog.Unauthorized):
            client.topics()


def test_a_value_beyond_the_servers_limit_is_refused_and_the_client_goes_on(serve: Callable[..., Any]) -> None:
    server = serve("--body-bytes", "1MiB")
    with seglog.Client(server.url, retries=PATIENT) as client:
        topic = client.create_topic("orders")
        for body in (lambda: topic.append(b"x" * 2_000_000), lambda: topic.append_stream([b"x" * 100_000] * 40)):
            with pytest.raises(seglog.SeglogError) as refused:
                body()
            assert not isinstance(refused.value, seglog.ConnectionFailed)
        assert topic.append(b"v") == (0, 0)


def test_over_tls_the_certificate_is_checked(serve: Callable[..., Any], certificate: tuple[str, str]) -> None:
    server = serve("--tls-cert", certificate[0], "--tls-key", certificate[1])
    url = server.url.replace("http://", "https://")
    with seglog.Client(url, verify=certificate[0]) as client:
        assert client.create_topic("orders").append_stream([b"a", b"b"]) == (0, 0)
        assert client.topic("orders").read(0, 0).value == b"ab"
    with seglog.Client(url, retries=0) as client, pytest.raises(seglog.ConnectionFailed) as refused:
        client.topics()
    assert "certificate" in str(refused.value).lower()
