"""Bounds of what a server takes, holds and waits for: who passes one is told so, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import selectors
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from seglog.client import Client
from seglog.errors import Busy
from seglog.log.appends.group import Draft
from seglog.server.runtime.appends import Append, Appends
from seglog.server.runtime.spool import HELD
from seglog.server.runtime.waiting import Waiting
from seglog.server.settings import Limits
from seglog.testing.internals import state_of
from seglog.topic import Topic
from tests.damage import flip
from tests.server.test_appending import ARROW, NDJSON, held, lines, once, stream, table
from tests.server.test_metrics import figures
from tests.waiting import HANG_SECONDS, until

MIB = 1024 * 1024
HEAD = "POST /records HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n\r\n"


@contextmanager
def many(server, count):
    """Give so many connections."""
    with ExitStack() as stack:
        yield [stack.enter_context(server.connection()) for _ in range(count)]


def until_closed(connections, each_turn=lambda: None, turn=0.1):
    """Read from all until the server has closed each, and return what each was told; meanwhile, take turns."""
    told = dict.fromkeys(connections, b"")
    ends = time.monotonic() + HANG_SECONDS
    with selectors.DefaultSelector() as selector:
        for wire in connections:
            selector.register(wire.socket, selectors.EVENT_READ, wire)
        while selector.get_map():
            assert time.monotonic() < ends, f"{len(selector.get_map())} connections are open still"
            for key, _ in selector.select(turn):
                try:
                    came = key.data.socket.recv(65536)
                except ConnectionResetError:
                    came = b""
                told[key.data] += came
                if not came:
                    selector.unregister(key.fileobj)
            each_turn()
    return [int(one.split()[1]) if one else None for one in told.values()]


# --- size -------------------------------------------------------------------------------------------------------------


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(serve_with):
    server = serve_with(limits={"body_bytes": MIB, "batch_bytes": 1000})
    for path, length in (("/records", MIB + 1), ("/topics/default/batches", 1001), ("/fetch", MIB + 1)):
        with server.connection() as wire:
            kind = "Content-Type: application/x-ndjson\r\n" if "batches" in path else ""
            wire.send(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {length}\r\n\r\n")
            assert wire.answer()[0] == 413
    with server.client() as http:
        assert held(http, "default") == 0
        assert http.post("/records", content=b"x" * MIB).status_code == 200


def test_a_body_that_grows_too_large_is_refused_while_it_is_sent(serve_with):
    server = serve_with(limits={"body_bytes": MIB, "batch_bytes": MIB})
    for path in ("/records", "/topics/default/records?ack=durable", "/topics/default/batches"):
        with server.connection() as wire:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            wire.send(head, CHUNKED, *[b"10000\r\n" + b"x" * 65536 + b"\r\n"] * 17)
            assert wire.answer()[0] == 413
    with server.client() as http:
        assert held(http, "default") == 0
        assert figures(http)["seglog_spool_memory_bytes",] == figures(http)["seglog_spool_disk_bytes",] == 0


def test_one_who_sends_on_and_on_behind_a_refusal_is_cut_off(serve_with):
    server = serve_with(limits={"body_bytes": 1000})
    heads = HEAD, "GET /ready HTTP/1.1\r\nHost: localhost\r\n", "POST /nowhere HTTP/1.1\r\nHost: localhost\r\n"
    with many(server, 3) as connections:
        for wire, head in zip(connections, heads, strict=True):
            assert wire.send(head, "Content-Length: 1000000000\r\n\r\n").answer()[0] in (200, 404, 413)
        until_closed(connections, lambda: [wire.try_to_send(b"x") for wire in connections])


def test_a_connection_is_kept_when_the_rest_of_a_refused_body_comes_at_once(shared):
    with shared.connection() as wire:
        wire.send("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
        assert wire.answer()[0] == 404
        wire.send("0123456789GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wire.answer()[0] == 200


# --- time -------------------------------------------------------------------------------------------------------------


def test_heads_that_come_drop_by_drop_are_cut_off_and_harm_nobody(serve_with):
    server = serve_with(limits={"head_seconds": 2})
    head = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"a" * 1000
    sent = 0
    with server.client() as http, many(server, 300) as connections:

        def drop():
            nonlocal sent
            for wire in connections:
                wire.try_to_send(head[sent : sent + 1])
            sent += 1
            assert http.post("/records", content=b"v").status_code == 200

        assert set(until_closed(connections, drop)) <= {408, None}  # None: it was reset before it could read


def test_one_who_says_nothing_or_nothing_of_meaning_is_cut_off(serve_with):
    server = serve_with(limits={"head_seconds": 1, "keep_seconds": 1})
    with many(server, 4) as connections:
        silent, blank, used, used_blank = connections
        for wire in (used, used_blank):
            wire.send("GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n").answer()
        told = until_closed(connections, lambda: [wire.try_to_send(b"\r\n") for wire in (blank, used_blank)])
        assert told[connections.index(silent)] == 408


def test_a_body_that_stops_coming_is_408(serve_with):
    server = serve_with(limits={"idle_seconds": 0.5})
    with server.connection() as wire:
        status, body = wire.send(HEAD, "Content-Length: 100\r\n\r\nhalf").answer()
        assert (status, b"0.5 s" in body) == (408, True)
    with server.client() as http:
        assert held(http, "default") == 0


def test_a_body_that_comes_too_slowly_is_408(serve_with):
    server = serve_with(limits={"idle_seconds": 1, "body_rate": 1000})
    with server.connection() as wire:
        wire.send(HEAD, "Content-Length: 100000\r\n\r\n")
        wire.socket.settimeout(0.1)
        begun = time.monotonic()
        while time.monotonic() - begun < HANG_SECONDS:
            wire.send(b"x")
            try:
                answer = wire.socket.recv(65536)
            except TimeoutError:
                continue
            break
    assert answer.startswith(b"HTTP/1.1 408")
    with server.client() as http:
        assert held(http, "default") == 0


def test_one_who_takes_nothing_of_an_answer_is_cut_off_and_the_memory_given_back(serve_with):
    server = serve_with(limits={"idle_seconds": 3})  # so long can be seen that all answers are held
    with server.client() as http:
        for _ in range(16):
            http.post("/records", content=b"x" * MIB)
        with many(server, 3) as connections:
            for wire in connections:
                wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                wire.send(
                    "GET /topics/default/partitions/0/records?max_bytes=99999999 HTTP/1.1\r\nHost: localhost\r\n\r\n"
                )
            until(lambda: figures(http)["seglog_answer_bytes",] > 40 * MIB)
            until(lambda: figures(http)["seglog_answer_bytes",] == 0)


def test_a_slow_uploader_never_blocks_others(serve_with):
    server = serve_with(limits={"idle_seconds": HANG_SECONDS})
    with server.client() as http, server.connection() as stalled, server.connection() as batch:
        stalled.send("POST /topics/default/records?partition=0 HTTP/1.1\r\nHost: localhost\r\n")
        stalled.send("Content-Length: 80000000\r\n\r\n", b"x" * 40_000_000)
        batch.send("POST /topics/default/batches HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n")
        batch.send("Content-Length: 1000\r\n\r\n", b'{"value": "')
        until(lambda: figures(http)["seglog_spool_disk_bytes",] > 0)
        for number in range(1000):
            assert http.post("/topics/default/records?partition=0", content=b"v").json()["offset"] == number
        stalled.send(b"y" * 40_000_000)
        assert stalled.answer()[0] == 200
        assert http.get("/records/1000").content == b"x" * 40_000_000 + b"y" * 40_000_000


# --- how many ---------------------------------------------------------------------------------------------------------


def test_more_connections_than_allowed_are_turned_away_and_the_others_served(serve_with):
    server = serve_with(limits={"connections": 5})
    request = "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
    begun = time.monotonic()
    with many(server, 5) as connections:
        for wire in connections:
            assert wire.send(request).answer()[0] == 200
        with server.connection() as one_more:
            told = one_more.answers()
        assert told.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in told
        assert b"content-type: application/problem+json" in told
        assert json.loads(told.partition(b"\r\n\r\n")[2])["retriable"] is True
        for _ in range(20):
            with server.connection() as one_more:
                assert one_more.answer()[0] == 503
        for wire in connections:
            assert wire.send(request).answer()[0] == 200
    with server.client() as http:  # room again, once the server has seen them go
        until(lambda: http.get("/ready").status_code == 200)
        assert figures(http)["seglog_refused_total", ("status", "503")] >= 21
    said = server.stop()
    assert "a connection was turned away: 5 connections are open already" in said
    assert said.count("turned away") <= 1 + time.monotonic() - begun  # at most once a second


def test_a_head_that_is_too_slow_or_too_large_is_told_so_as_every_refusal_is(serve_with):
    server = serve_with(limits={"head_seconds": 1})
    for status, head in ((408, "GET /ready HTTP/1.1\r\n"), (431, "GET /ready HTTP/1.1\r\nX: " + "x" * 70_000)):
        with server.connection() as wire:
            told = wire.send(head).answers()
        problem = json.loads(told.partition(b"\r\n\r\n")[2])
        assert b"content-type: application/problem+json" in told
        assert (problem["status"], problem["retriable"]) == (status, status == 408)
        with server.client() as http:
            assert figures(http)["seglog_refused_total", ("status", str(status))] == 1


def test_more_bodies_than_there_is_room_for_are_429(serve_with):
    server = serve_with(limits={"memory_bytes": MIB, "spool_bytes": 2 * MIB})
    with server.connection() as wire, server.client() as http:
        wire.send(HEAD, f"Content-Length: {2 * MIB + 1000}\r\n\r\n", b"x" * (2 * MIB - 100_000))
        # how the body came in pieces decides how much of its end waits in memory for the next write
        until(lambda: figures(http)["seglog_spool_disk_bytes",] > 2 * MIB - 100_000 - HELD)
        refused = http.post("/records", content=b"x" * 2 * MIB)
        assert (refused.status_code, refused.headers["Retry-After"], refused.json()["retriable"]) == (429, "1", True)
        assert http.post("/records", content=b"small").status_code == 200
        wire.end()
        until(lambda: figures(http)["seglog_spool_disk_bytes",] == 0)
        assert http.post("/records", content=b"x" * 2 * MIB).status_code == 200


def test_more_batches_than_may_wait_are_429(serve_with):
    server = serve_with(limits={"calls": 1})
    body = lines(*({"value": "v" * 20} for _ in range(20_000)))

    def send(_):
        with server.client() as http:
            return http.post("/topics/default/batches", content=body, headers=NDJSON).status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(send, range(12)))
    assert set(statuses) == {200, 429}
    with server.client() as http:
        assert held(http, "default") == 20_000 * statuses.count(200)


def test_more_appends_than_may_wait_for_a_partition_are_refused(tmp_path):
    def hold(mutex, held, go):
        with mutex:
            held.set()
            go.wait(HANG_SECONDS)

    async def story(writer):
        appends, held, go = Appends(Limits(waiting=2), Waiting()), threading.Event(), threading.Event()
        holder = threading.Thread(target=hold, args=(state_of(writer.log).mutex, held, go))
        holder.start()
        held.wait()

        def append():
            return appends.append(Append(writer, Draft(b"v"), None, durable=False), 1)

        at_work = asyncio.create_task(append())
        while not appends._writers.busy:
            await asyncio.sleep(0)
        waiting = [asyncio.create_task(append()) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="partition 0 of t"):
            await append()
        go.set()
        assert await asyncio.gather(at_work, *waiting) == [(0, 0), (0, 1), (0, 2)]
        appends.close()
        holder.join()

    with Topic.create(tmp_path / "t", partitions=1) as topic:
        asyncio.run(story(topic.writer(0)))


def test_more_answers_than_there_is_memory_for_are_429(serve_with):
    server = serve_with(limits={"memory_bytes": 40 * MIB})  # of which answers have a half
    with server.client() as http:
        for _ in range(8):
            http.post("/records", content=b"x" * MIB)
        path = "/topics/default/partitions/0/records?max_bytes=6000000"
        with server.connection() as slow:
            slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: figures(http)["seglog_answer_bytes",] > MIB)
            assert http.get(path).status_code == 429
            assert http.get("/records/0").status_code == 200
        until(lambda: figures(http)["seglog_answer_bytes",] == 0)
        assert http.get(path).status_code == 200


BIG = 200 * MIB


@pytest.fixture
def big(serve_with):
    """A server whose record 0 has 200 MiB, record 1 one byte, and what memory it took until then."""
    server = serve_with(limits={"memory_bytes": 64 * MIB})
    with server.client() as http:
        http.post("/records", content=iter([b"\xff" * MIB] * (BIG // MIB)))
        http.post("/records", content=b"s")
    return server


@pytest.mark.parametrize(
    ("path", "mapped"),
    [
        ("partitions/0/records/0", 0),
        pytest.param("partitions/0/records", 0, marks=pytest.mark.proof),
        ("tail?start=earliest", 0),
        ("keys?key=none", BIG),  # read through a map of the file, whose pages count as resident until they are wanted
    ],
)
def test_a_large_record_as_json_takes_little_memory_and_stops_nobody(big, path, mapped):
    before = big.greatest_memory()
    begun, go_on = threading.Event(), threading.Event()
    with big.client() as http, big.client() as other, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(first_bytes, http, f"/topics/default/{path}", begun, go_on)
        while not (begun.is_set() or reading.done()):
            assert other.post("/records", content=b"meanwhile").status_code == 200
        assert other.post("/records", content=b"while the answer is under way").status_code == 200
        go_on.set()
        assert reading.result() == 200
    assert big.greatest_memory() - before < mapped + 64 * MIB


def first_bytes(http, path, begun, go_on):
    """Return the status of an answer of which something has come; a tail's never ends. Takes no more until `go_on`."""
    with http.stream("GET", path, headers={"Accept": "application/json, application/x-ndjson, */*"}) as answer:
        next(answer.iter_raw(2 * MIB), None)
        begun.set()
        assert go_on.wait(HANG_SECONDS)
        return answer.status_code


@pytest.mark.parametrize(
    "path", [pytest.param("/records/0", marks=pytest.mark.proof), "/topics/default/partitions/0/records/0"]
)
def test_a_value_larger_than_the_memory_is_sent_to_several_slow_readers_in_pieces(big, path):
    before = big.greatest_memory()
    with big.client() as http, ExitStack() as slow:
        for _ in range(4):
            wire = slow.enter_context(big.connection())
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: figures(http)["seglog_answer_bytes",] >= 4 * MIB)
        assert http.head(path).headers["content-length"] == str(BIG)
        with http.stream("GET", path) as answer:
            assert sum(len(piece) for piece in answer.iter_raw() if piece.count(0xFF) == len(piece)) == BIG
        assert http.get("/records/1").content == b"s"
    assert big.greatest_memory() - before < 64 * MIB


def test_a_record_too_large_for_an_arrow_answer_is_refused_and_the_client_reads_it_all_the_same(big):
    accept = {"Accept": "application/vnd.apache.arrow.stream"}
    before = big.greatest_memory()
    with big.client() as http:
        for answer in (
            http.get("/topics/default/partitions/0/records", headers=accept),
            http.post("/fetch", json={"positions": {"default": {"0": 0}}}, headers=accept),
        ):
            assert answer.status_code == 413
            assert "--memory" in answer.json()["detail"]
            assert (answer.json()["topic"], answer.json()["partition"], answer.json()["offset"]) == ("default", 0, 0)
    with Client(big.url) as client:
        values = [value for batch in client.topic("default").batches(0) for value in batch.column("value")]
        assert [len(value.as_buffer()) for value in values] == [BIG, 1]
        with client.consumer("g", ["default"]) as consumer:
            assert [len(record.value) for _ in range(2) for record in consumer.poll(timeout=HANG_SECONDS)] == [BIG, 1]
            consumer.commit()
    assert big.greatest_memory() - before < 64 * MIB


def test_a_long_value_that_is_damaged_while_it_is_sent_ends_the_answer_early(big):
    with big.client() as http, big.connection() as slow:
        slow.send("GET /records/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert slow.socket.recv(100).startswith(b"HTTP/1.1 200")  # verified by now
        store = next((big.root / "default" / "0").glob("*.store"))
        flip(store, BIG - MIB)
        assert MIB < sum(len(piece) for piece in iter(lambda: slow.socket.recv(MIB), b"")) < BIG
        assert http.get("/records/0").status_code == 500
    assert "does not match" in big.stop()


@pytest.mark.needs("prlimit")
def test_with_few_file_descriptors_many_partitions_are_served_and_those_who_are_in_as_well(serve_with):
    server = serve_with(wrapper=("prlimit", "--nofile=150:150"))
    with server.client() as http:
        assert http.post("/topics", json={"name": "wide", "partitions": 100}).status_code == 201
        for number in range(100):
            assert http.post(f"/topics/wide/records?partition={number}", content=b"v").status_code == 200
        assert [one["name"] for one in http.get("/topics").json()["topics"]] == ["default", "wide"]
        with many(server, 200):
            assert http.get("/ready").status_code == 200
            assert http.post("/records", content=b"v").status_code == 200
        with server.client() as other:
            assert other.get("/ready").status_code == 200


def test_a_limit_must_be_positive():
    for name in Limits.__slots__:
        with pytest.raises(ValueError, match=name):
            Limits(**{name: 0})


# --- memory, measured -------------------------------------------------------------------------------------------------

UPLOAD = 64 * MIB


@pytest.mark.proof
def test_many_slow_uploads_and_slow_heads_take_no_more_memory_than_the_limits_say(serve_with):
    limits = {"memory_bytes": 64 * MIB, "head_seconds": 60, "connections": 500}
    server = serve_with(limits=limits)
    before = server.greatest_memory()
    piece = b"x" * 65536
    with server.client() as http, many(server, 300) as slow, many(server, 64) as uploads:
        for wire in slow:
            wire.send("GET / HTTP/1.1\r\nX: ", b"a" * 30_000)
        for wire in uploads:
            wire.send(f"POST /records HTTP/1.1\r\nHost: localhost\r\nContent-Length: {UPLOAD}\r\n\r\n")
        for number in range(UPLOAD // len(piece)):
            for wire in uploads:
                wire.send(piece)
            if number % 64 == 0:
                assert http.post("/topics/default/records", content=b"small").status_code == 200
        for wire in uploads:
            wire.socket.settimeout(HANG_SECONDS)  # 4 GiB are appended first
        assert all(wire.answer()[0] == 200 for wire in uploads)
        taken = server.greatest_memory() - before
    # Bodies under way; of each connection what uvicorn and the kernel's reads hold; four uploads being committed.
    bound = limits["memory_bytes"] + 364 * 512 * 1024 + 4 * 8 * MIB
    print(
        f"64 uploads of 64 MiB and 300 slow heads: {taken / MIB:.0f} MiB more than at rest, bound {bound / MIB:.0f} MiB"
    )
    assert taken < bound


@pytest.mark.proof
def test_slow_readers_of_much_more_than_the_memory_take_no_more_memory_than_the_limits_say(serve_with):
    limits = {"memory_bytes": 64 * MIB, "read_bytes": 16 * MIB}
    server = serve_with(limits=limits)
    with server.client() as http:
        batch = stream(table(1000).set_column(0, "value", [[b"x" * 65536] * 1000]))
        for number in range(6):
            answer = http.post("/topics/default/batches", content=batch, headers=ARROW | once(str(number)))
            assert answer.status_code == 200, answer.text
    before = server.greatest_memory()

    def read(number):
        start = taken = 0
        accept = {"Accept": "application/vnd.apache.arrow.stream"} if number % 2 else {}
        with server.client() as http:
            while start < 6_000:
                path = f"/topics/default/partitions/0/records?start={start}&max_bytes=99999999"
                with http.stream("GET", path, headers=accept) as answer:
                    if answer.status_code == 429:
                        answer.read()
                        continue
                    taken += sum(len(piece) for piece in answer.iter_raw(65536))
                    start = int(answer.headers["Seglog-Next-Offset"])
        return taken

    with ThreadPoolExecutor(4) as pool:
        amounts = list(pool.map(read, range(4)))
    assert min(amounts) > 6_000 * 65536
    taken = server.greatest_memory() - before
    # Answers, twice while they are put together; what the 8 threads that read have mapped counts as resident as well.
    bound = 3 * limits["memory_bytes"] + 8 * limits["read_bytes"]
    print(f"4 readers of 375 MiB each: {taken / MIB:.0f} MiB more than before, bound {bound / MIB:.0f} MiB")
    assert taken < bound
