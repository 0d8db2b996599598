"""Clients carry the highest term that they have seen: an old leader that can be reached by one of them stops."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, NamedTuple

import httpx
import pytest

import seglog
from seglog import Broker, CorruptLog, LogFenced, Mirror
from seglog.replication.promote import promote
from seglog.server.rights.access import new_token
from seglog.server.runtime.fencing import fence_all
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Served


class Pair(NamedTuple):
    """An old leader that runs on, and the server of its promoted copy; term: as learned from the latter."""

    old: Served
    new: Served
    term: str


@pytest.fixture
def pair(serve: Callable[..., Served], target: Path) -> Pair:
    return promoted(serve, target)


def promoted(serve: Callable[..., Served], target: Path, *options: str, token: str | None = None) -> Pair:
    old = serve(*options)
    with seglog.Client(old.url, token=token) as client:
        client.create_topic("orders").append(b"1")
        client.create_topic("invoices").append(b"1")
        with Mirror(old.url, target, token=token) as mirror:
            mirror.catch_up()
        assert client.term is None
    promote(target)
    new = serve(*options, root=target)
    with seglog.Client(new.url, token=token) as client:
        client.topics()
        assert client.term is not None
        return Pair(old, new, client.term)


class Moving(httpx.BaseTransport):
    """Sends requests to the server that an address leads to at present."""

    def __init__(self, server: Served) -> None:
        self.server = server
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(port=self.server.port)
        request.headers["host"] = f"127.0.0.1:{self.server.port}"
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


def test_an_address_that_leads_back_to_the_old_leader_fences_it(pair: Pair) -> None:
    address = Moving(pair.new)
    with seglog.Client("http://127.0.0.1:1", transport=address, retries=0) as client:
        assert client.topic("orders").append(b"2") == (0, 1)
        address.server = pair.old
        with pytest.raises(seglog.LogFenced, match="term 1"):
            client.topic("orders").append(b"too late")
        assert client.topic("orders").read(0, 0).value == b"1"
        address.server = pair.new
        assert client.topic("orders").append(b"3") == (0, 2)
    with seglog.Client(pair.old.url, retries=0) as other:  # one that knows nothing
        for change in (
            lambda: other.topic("invoices").append(b"too late"),
            lambda: other.create_topic("more"),
            lambda: other.commit("billing", {"orders": {0: 1}}),
        ):
            with pytest.raises(seglog.LogFenced):
                change()
        assert other.term == pair.term  # it knows now
    pair.old.kill()
    with pytest.raises(seglog.LogFenced):
        seglog.Broker(pair.old.root)


def test_a_producer_and_an_async_client_carry_the_term(pair: Pair) -> None:
    with (
        seglog.Client(pair.old.url, term=pair.term) as client,
        pytest.raises(seglog.LogFenced),
        client.producer("orders") as producer,
    ):
        producer.send(b"too late")

    async def story() -> None:
        async with seglog.AsyncClient(pair.new.url) as client:
            await client.topics()
            assert client.term == pair.term
        async with seglog.AsyncClient(pair.old.url, term=pair.term) as client:
            with pytest.raises(seglog.LogFenced):
                await client.topic("orders").append(b"too late")

    asyncio.run(story())


def test_a_reader_that_may_do_everything_fences_too_and_is_served(pair: Pair) -> None:
    with seglog.Client(pair.old.url, term=pair.term, retries=0) as client:
        assert client.topic("orders").read(0, 0).value == b"1"
    with seglog.Client(pair.old.url, retries=0) as other, pytest.raises(seglog.LogFenced):
        other.topic("orders").append(b"too late")


def test_a_term_of_other_topics_or_a_lower_one_changes_nothing(pair: Pair) -> None:
    for server, term in ((pair.old, f"{'0' * 16}:9"), (pair.new, pair.term), (pair.new, pair.term[:-1] + "0")):
        with seglog.Client(server.url, term=term, retries=0) as client:
            client.topic("orders").append(b"accepted")


@pytest.mark.parametrize("header", ["1", "x:1", "0123456789abcdef:", f"{'0' * 16}:-1", f"{'0' * 16}:12345678"])
def test_a_header_that_is_no_term_is_refused(serve: Callable[..., Served], header: str) -> None:
    answer = httpx.get(f"{serve().url}/topics", headers={"seglog-term": header}, timeout=HANG_SECONDS)
    assert answer.status_code == 400
    assert "seglog-term" in answer.json()["detail"]
    with pytest.raises(seglog.InvalidArgument, match="term"):
        seglog.Client(term=header)


def test_a_term_that_no_promotions_lead_to_is_refused(pair: Pair) -> None:
    source = pair.term.partition(":")[0]
    with (
        seglog.Client(pair.old.url, term=f"{source}:9999", retries=0) as client,
        pytest.raises(seglog.InvalidArgument, match="9999"),
    ):
        client.topic("orders").append(b"refused")
    with seglog.Client(pair.old.url, retries=0) as client:
        client.topic("orders").append(b"accepted")


def test_a_caller_fences_no_more_than_it_may_change(serve: Callable[..., Served], target: Path, tmp_path: Path) -> None:
    rights = {"all": {"*": ["admin"]}, "reads": {"*": ["read"]}, "writes": {"orders": ["write"]}}
    made = {name: new_token(name, right) for name, right in rights.items()}
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"tokens": [entry for _, entry in made.values()]}))
    pair = promoted(serve, target, "--tokens", str(tokens), token=made["all"][0])
    clients = {
        name: seglog.Client(pair.old.url, token=token, term=None if name == "all" else pair.term, retries=0)
        for name, (token, _) in made.items()
    }
    ours = clients["all"]
    assert clients["reads"].topic("orders").read(0, 0).value == b"1"
    with pytest.raises(seglog.LogFenced):
        clients["reads"].commit("billing", {"orders": {0: 1}})
    ours.topic("orders").append(b"still accepted")
    with pytest.raises(seglog.Forbidden):
        clients["writes"].topic("invoices").append(b"not allowed")
    with pytest.raises(seglog.LogFenced):
        clients["writes"].topic("orders").append(b"too late")
    with pytest.raises(seglog.LogFenced):
        ours.topic("orders").append(b"too late")
    ours.topic("invoices").append(b"still accepted")
    for client in clients.values():
        client.close()


def test_a_server_that_follows_ignores_terms(serve: Callable[..., Served], pair: Pair, tmp_path: Path) -> None:
    copy = serve("--follow", pair.new.url, root=tmp_path / "second")
    source = pair.term.partition(":")[0]
    with seglog.Client(copy.url, term=f"{source}:7", retries=0) as client:
        assert client.topic("orders").read(0, 0).value == b"1"
        with pytest.raises(seglog.SeglogError, match="only reads"):
            client.topic("orders").append(b"2")


def test_a_damaged_topic_does_not_keep_the_others_from_being_fenced(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        for name in ("damaged", "orders", "sales"):
            broker.create_topic(name)
    (tmp_path / "damaged" / "topic.json").write_bytes(b"damaged")
    with Broker(tmp_path) as broker:
        with pytest.raises(CorruptLog, match="damaged"):
            fence_all(broker, 5)
        for name in ("orders", "sales"):
            with pytest.raises(LogFenced):
                broker.topic(name).append(b"1")


def test_a_topic_that_is_being_created_is_fenced_with_the_others(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        fencing = threading.Thread(target=fence_all, args=(broker, 5))

        def fence_meanwhile(_: object) -> None:
            fencing.start()
            fencing.join(0.2)  # it waits for the creation; without that it would be done by now

        broker._prepare_topics(fence_meanwhile)
        topic = broker.create_topic("orders")
        fencing.join(HANG_SECONDS)
        with pytest.raises(LogFenced):
            topic.append(b"1")
