"""What one client, or many, can make the server hold: each of these was without a bound once."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from seglog.errors import Busy
from seglog.server.runtime.memory import Claim, Memory
from tests.server.test_appending import ARROW, NDJSON, held, lines, stream, table
from tests.server.test_limits import MIB, many
from tests.server.test_metrics import figures
from tests.waiting import HANG_SECONDS, until

READY = b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
POLL = b"GET /topics/default/partitions/0/records?start=0&wait=30 HTTP/1.1\r\nHost: localhost\r\n\r\n"
CONTROL = b"\x01" * MIB  # six times as long in JSON


def kinds(http):
    """Return what the server holds, by kind."""
    named = figures(http)
    return {
        kind: int(named["seglog_memory_bytes", ("kind", kind)])
        for kind in ("bodies", "decoding", "answers", "tails", "pipelines")
    }


# --- requests before the last one is answered -------------------------------------------------------------------------


def test_one_who_sends_on_behind_a_request_that_waits_is_read_no_further(serve_with):
    server = serve_with()
    with server.client() as http, server.connection() as wire:
        wire.send(POLL)
        wire.socket.setblocking(False)
        sent, many_requests, ends = 0, READY * 10_000, time.monotonic() + HANG_SECONDS
        stalled_at = None
        while stalled_at is None or time.monotonic() - stalled_at < 0.5:
            assert time.monotonic() < ends, f"the server reads on: {sent} bytes"
            try:
                sent += wire.socket.send(many_requests)
                stalled_at = None
            except BlockingIOError:
                stalled_at = stalled_at or time.monotonic()
        assert 0 < kinds(http)["pipelines"] < MIB
        assert http.post("/records", content=b"v").status_code == 200
    with server.client() as http:
        until(lambda: kinds(http)["pipelines"] == 0)


def test_many_requests_in_one_piece_are_answered_one_after_the_other(shared):
    count = 2000
    with shared.connection() as wire, ThreadPoolExecutor(1) as pool:
        sending = pool.submit(wire.send, READY * count)
        answers = b""
        while answers.count(b"HTTP/1.1 200") < count:
            piece = wire.socket.recv(65536)
            assert piece
            answers += piece
        sending.result()
    assert answers.count(b"HTTP/1.1") == count


def test_many_who_ask_for_another_protocol_in_one_piece_are_all_answered(shared):
    upgrade = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    with shared.connection() as wire, ThreadPoolExecutor(1) as pool:
        sending = pool.submit(wire.send, upgrade * 900)
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 900:
            piece = wire.socket.recv(65536)
            assert piece
            answers += piece
        sending.result()


def test_bodies_in_one_piece_with_other_requests_are_taken_whole(shared, http):
    before = held(http, "default")
    bodies = [b"a" * 10, b"GET / HTTP/1.1\r\n\r\n", b"\r\n\r\n" * 3000, b""]
    head = b"POST /records HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
    sent = b"".join(head % (len(body), body) for body in bodies)
    chunked = b"POST /records HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab\r\n\r\n0\r\n\r\n"
    with shared.connection() as wire:
        wire.send(sent + chunked + READY)
        until(lambda: held(http, "default") == before + len(bodies) + 1)
    values = [http.get(f"/records/{before + number}").content for number in range(len(bodies) + 1)]
    assert values == [*bodies, b"ab\r\n"]


def test_those_who_go_while_their_answers_are_written_leave_nothing_in_the_log_of_the_server(serve_with):
    server = serve_with()
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for _ in range(10):
        with server.connection() as wire:
            wire.send(request * 200)
            wire.socket.recv(1000)
    with server.client() as http:
        assert http.get("/ready").status_code == 200
    said = server.stop()
    assert "Traceback" not in said
    assert "handler is closed" not in said


# --- answers that are not taken ---------------------------------------------------------------------------------------


def test_tails_that_take_nothing_stay_within_the_budget_and_those_who_read_are_served(serve_with):
    server = serve_with(limits={"memory_bytes": 256 * MIB})
    with server.client() as http:
        for _ in range(2):
            http.post("/records", content=CONTROL)
        before = server.greatest_memory()
        with many(server, 60) as tails:
            for wire in tails:
                wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                wire.send("GET /topics/default/tail?start=earliest HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: kinds(http)["tails"] > 4 * MIB)
            assert kinds(http)["tails"] <= 64 * MIB
            with http.stream("GET", "/topics/default/tail?start=earliest", timeout=HANG_SECONDS) as answer:
                ids = (json.loads(line[4:]) for line in answer.iter_lines() if line.startswith("id: "))
                assert [next(ids)["0"], next(ids)["0"]] == [1, 2]
            assert figures(http)["seglog_dropped_answers_total",] > 0
        assert server.greatest_memory() - before < 200 * MIB


def test_records_as_json_that_are_not_taken_stay_within_the_budget(serve_with):
    server = serve_with(limits={"memory_bytes": 64 * MIB})
    with server.client() as http:
        http.post("/records", content=CONTROL)
        before = server.greatest_memory()
        with many(server, 60) as readers:
            for wire in readers:
                wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                wire.send("GET /topics/default/partitions/0/records/0 HTTP/1.1\r\nHost: localhost\r\n")
                wire.send("Accept: application/json\r\n\r\n")
            until(lambda: kinds(http)["answers"] > 4 * MIB)
            assert kinds(http)["answers"] <= 32 * MIB
            assert http.get("/ready").status_code == 200
        assert server.greatest_memory() - before < 150 * MIB


def test_polls_that_wait_at_the_end_hold_no_memory(serve_with):
    server = serve_with(limits={"memory_bytes": 64 * MIB})
    with server.client() as http, many(server, 16) as polls:
        http.post("/records", content=b"v")
        for wire in polls:
            wire.send("GET /topics/default/partitions/0/records?start=1&wait=30&max_bytes=16777216 HTTP/1.1\r\n")
            wire.send("Host: localhost\r\n\r\n")
        path = "/topics/default/partitions/0/records?max_bytes=4000000"
        for _ in range(20):
            assert http.get(path).status_code == 200
        assert kinds(http)["answers"] == 0
        http.post("/records", content=b"w")
        assert all(json.loads(wire.answer()[1])["value"] == "w" for wire in polls)


def test_no_more_tails_are_let_in_than_allowed_however_many_come_at_once(serve_with):
    server = serve_with(limits={"tails": 4})
    with many(server, 60) as connections:
        for wire in connections:
            wire.send("GET /topics/default/tail HTTP/1.1\r\nHost: localhost\r\n\r\n")
        statuses = [wire.socket.recv(12)[-3:] for wire in connections]
    assert sorted(statuses) == [b"200"] * 4 + [b"429"] * 56
    with server.client() as http:
        until(lambda: figures(http)["seglog_tails",] == 0)


# --- small bodies -----------------------------------------------------------------------------------------------------


def test_more_records_than_a_batch_may_have_are_413_as_lines_and_as_arrow(serve_with):
    server = serve_with(limits={"batch_records": 100})
    with server.client() as http:
        for body, headers in ((lines(*[{"value": ""}] * 101), NDJSON), (stream(table(101)), ARROW)):
            refused = http.post("/topics/default/batches", content=body, headers=headers)
            assert (refused.status_code, "100" in refused.json()["detail"]) == (413, True)
        assert held(http, "default") == 0
        body = lines(*[{"value": ""}] * 100)
        assert http.post("/topics/default/batches", content=body, headers=NDJSON).status_code == 200


def test_more_headers_than_a_record_may_have_are_400_as_lines_and_as_arrow(serve_with):
    server = serve_with(limits={"record_headers": 2})
    three = [{"key": "k", "value": "v"}] * 3
    with server.client() as http:
        refused = http.post("/topics/default/batches", content=lines({"value": "", "headers": three}), headers=NDJSON)
        assert (refused.status_code, "line 1 has more than 2 headers" in refused.json()["detail"]) == (400, True)
        for kind in (
            pa.map_(pa.string(), pa.binary()),
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ):
            rows = [[("k", b"v")] * 3] if pa.types.is_map(kind) else [[{"key": "k", "value": b"v"}] * 3]
            batch = table(1).append_column("headers", pa.array(rows, kind))
            refused = http.post("/topics/default/batches", content=stream(batch), headers=ARROW)
            assert (refused.status_code, "3 headers" in refused.json()["detail"]) == (400, True)
        assert held(http, "default") == 0


def test_a_refusal_does_not_repeat_all_that_was_wrong(shared, http):
    body = lines({"value": "", **{f"field {number}": 0 for number in range(2000)}})
    refused = http.post("/topics/default/batches", content=body, headers=NDJSON)
    assert refused.status_code == 400
    assert "field 0" in refused.json()["detail"]
    assert len(refused.content) < 3000


# --- the budget -------------------------------------------------------------------------------------------------------


def test_a_claim_is_refused_beyond_its_share_unless_nothing_else_is_held():
    memory = Memory(800)
    one, other = Claim(memory, "answers"), Claim(memory, "answers")
    one.resize(300)
    with pytest.raises(Busy):
        other.resize(200)
    other.resize(100)
    one.close()
    with pytest.raises(Busy):
        one.resize(500)
    other.close()
    one.resize(5000)
    assert memory.held["answers"] == 5000
    one.resize(10)
    other.resize(390)
    assert memory.held["answers"] == 400


def test_an_answer_that_is_not_taken_is_wanted_by_a_batch_that_waits_for_the_last_memory():
    async def story():
        memory = Memory(800)
        taken = {kind: Claim(memory, kind) for kind in ("answers", "bodies", "tails", "decoding")}
        taken["answers"].resize(400)
        taken["bodies"].resize(400)
        waiting = asyncio.create_task(taken["decoding"].wait(100))
        await asyncio.sleep(0)
        assert taken["answers"].is_wanted and not waiting.done()
        taken["answers"].close()
        assert await waiting and memory.held["decoding"] == 100
        taken["tails"].resize(200)
        with pytest.raises(Busy):
            taken["answers"].resize(200)
        assert taken["tails"].is_wanted

    asyncio.run(story())


def test_what_waits_for_its_own_share_wants_nothing_of_other_kinds():
    async def story():
        memory = Memory(800)
        taken = {kind: Claim(memory, kind) for kind in ("answers", "decoding")}
        taken["answers"].resize(100)
        taken["decoding"].resize(400)
        assert not await Claim(memory, "decoding").wait(100, 0.01)
        waiting = asyncio.create_task(Claim(memory, "decoding").wait(100))
        await asyncio.sleep(0)
        assert taken["decoding"].is_wanted and not taken["answers"].is_wanted
        waiting.cancel()

    asyncio.run(story())


def test_those_who_wait_for_memory_get_it_in_their_order():
    async def story():
        memory, order = Memory(800), []
        first = Claim(memory, "decoding")
        assert await first.wait(300)

        async def take(size):
            claim = Claim(memory, "decoding")
            assert await claim.wait(size)
            order.append(size)
            await asyncio.sleep(0)
            claim.close()

        tasks = [asyncio.create_task(take(size)) for size in (200, 50, 60)]
        await asyncio.sleep(0)
        late = Claim(memory, "decoding")
        assert not await late.wait(10, 0.01)
        tasks[1].cancel()
        await asyncio.sleep(0)
        assert order == []
        first.close()
        await asyncio.gather(tasks[0], tasks[2])
        assert order == [200, 60]
        assert memory.held["decoding"] == 0

    asyncio.run(story())


async def settled():
    """Let what has become possible happen."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_one_that_holds_memory_and_needs_more_than_its_share_gets_it_when_others_have_none():
    async def story():
        memory = Memory(800)
        one, other = Claim(memory, "answers"), Claim(memory, "answers")
        one.resize(100)
        other.resize(100)
        growing = asyncio.create_task(one.grow(1000))
        await asyncio.sleep(0)
        assert not growing.done()
        other.close()
        await settled()
        assert growing.done() and growing.result()
        assert memory.held["answers"] == 1000

    asyncio.run(story())


def test_one_that_holds_memory_does_not_wait_behind_another_that_waits_for_it():
    async def story():
        memory = Memory(800)
        one, other, third = (Claim(memory, "answers") for _ in range(3))
        one.resize(100)
        other.resize(100)
        third.resize(200)
        large, small = asyncio.create_task(one.grow(1000)), asyncio.create_task(other.grow(200))
        behind = asyncio.create_task(Claim(memory, "answers").wait(10))
        await asyncio.sleep(0)
        third.close()
        await settled()
        assert small.done() and small.result()
        assert not large.done() and not behind.done()
        other.close()
        await settled()
        assert large.done() and large.result()
        one.close()
        await settled()
        assert behind.done() and behind.result()
        assert memory.held["answers"] == 10

    asyncio.run(story())


def test_what_was_acknowledged_without_a_wish_is_durable_soon(serve_with):
    server = serve_with(limits={"sync_seconds": 0.2})
    with server.client() as http:
        http.post("/records", content=b"v")
        http.post("/topics/default/batches", content=stream(table(10)), headers=ARROW)
        at = ("partition", "0"), ("topic", "default")
        until(lambda: figures(http)["seglog_durable_offset", *at] == 11)
        until(lambda: figures(http)["seglog_unsynced_partitions",] == 0)


def test_the_server_deletes_no_directory_that_it_did_not_make(serve_with, tmp_path):
    (tmp_path / "root" / ".spool").mkdir(parents=True)
    kept = tmp_path / "root" / ".spool" / "kept"
    kept.write_text("x")
    (tmp_path / "spool").mkdir()
    server = serve_with(root=tmp_path / "root", limits={"memory_bytes": MIB}, spool=str(tmp_path / "spool"))
    with server.client() as http:
        assert http.post("/records", content=b"x" * 2 * MIB).status_code == 200
    server.stop()
    assert kept.read_text() == "x"
    assert [*(tmp_path / "spool").iterdir()] == []


# --- TLS --------------------------------------------------------------------------------------------------------------


def test_connections_without_a_handshake_are_counted_and_end_in_time(serve_with, certificate):
    limits = {"connections": 5, "head_seconds": 2}
    server = serve_with(limits=limits, certificate=certificate[0], key=certificate[1])
    with server.client(verify=False) as http, many(server, 4) as silent:
        until(lambda: http.post("/records", content=b"v").status_code == 200)
        with server.connection() as one_more:
            assert one_more.answers() == b""
        assert http.post("/records", content=b"v").status_code == 200
        assert [wire.answers() for wire in silent] == [b""] * 4
        assert figures(http)["seglog_refused_total", ("status", "408")] >= 4
        with server.client(verify=False) as other:
            assert other.get("/ready").status_code == 200
