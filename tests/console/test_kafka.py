"""The console's page of Kafka's clients."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from playwright.sync_api import expect

import seglog
from tests.console.conftest import Console, Server
from tests.kafka.conftest import connected
from tests.kafka.transactional import TransactionalConfluent
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MARKUP = "<img src=x onerror='window.broken = true'>\u202e"


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a topic, and clients of all kinds: a member of a group, an open transaction, one with markup."""
    server = Server(tmp_path_factory.mktemp("kafka") / "root")
    with seglog.Broker(server.root) as broker:
        topic = broker.create_topic("orders", partitions=2)
        for number in range(20):
            topic.append(b"%d" % number, partition=number % 2)
    server.start("--kafka", "127.0.0.1:0")
    address = server.ask("GET", "/kafka/connections")["address"]
    given = {"bootstrap.servers": address, "log_level": 0, "group.id": "billing", "client.id": "reader"}
    member = confluent_kafka.Consumer({**given, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    member.subscribe(["orders"])
    with connected(address) as raw, TransactionalConfluent(address, "invoices-1") as open_:
        raw.socket.sendall(_api_versions(MARKUP))
        assert raw.response()
        open_.begin()
        open_.producer.produce("orders", b"staged", partition=1)
        open_.producer.flush(HANG_SECONDS)
        until(lambda: member.poll(0.1) is not None and len(member.assignment()) == 2)
        member.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, 4)], asynchronous=False)
        yield server
        member.close()
    server.stop()


def _api_versions(client: str) -> bytes:
    name = client.encode()
    body = struct.pack(">hhih", 18, 0, 1, len(name)) + name
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_an_operator_sees_clients_groups_and_transactions(
    open_console: Callable[..., Console], busy: Server, width: int, scheme: str
) -> None:
    page = open_console(busy, viewport={"width": width, "height": 900}, color_scheme=scheme).go("kafka")
    connections = page.get_by_role("table", name="Connections")
    row = connections.get_by_role("row").filter(has_text="reader").first
    expect(row).to_contain_text("confluent-kafka-python")
    expect(row).to_contain_text("127.0.0.1:")
    expect(connections).to_contain_text("<img src=x")
    group = page.get_by_role("table", name="Members of billing")
    expect(group).to_contain_text("orders 0, 1")
    expect(group).to_contain_text("6")
    ids = page.get_by_role("table", name="Transactional ids")
    expect(ids).to_contain_text("invoices-1")
    expect(ids).to_contain_text("1 record")
    assert page.evaluate("window.broken") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_many_connections_come_in_pages(open_console: Callable[..., Console], busy: Server) -> None:
    address = busy.ask("GET", "/kafka/connections")["address"]
    opened: list[Any] = [connected(address) for _ in range(60)]
    try:
        for one in opened:
            one.__enter__()
        until(lambda: busy.ask("GET", "/kafka/connections")["total"] > 60)
        page = open_console(busy).go("kafka")
        rows = page.get_by_role("table", name="Connections").locator("tbody tr")
        expect(rows).to_have_count(50)
        page.get_by_role("region", name="Connections").get_by_role("link", name="More").click()
        expect(rows).not_to_have_count(50)
        page.get_by_role("region", name="Connections").get_by_role("link", name="From the beginning").click()
        expect(rows).to_have_count(50)
    finally:
        for one in opened:
            one.__exit__(None, None, None)


def test_a_server_without_kafka_says_how_to_start_it(console: Console) -> None:
    page = console.go("kafka")
    expect(page.locator(".empty")).to_contain_text("--kafka 127.0.0.1:9092")
