"""Requests that no client of good will sends: each gets its refusal, changes nothing, and harms nobody else."""

from __future__ import annotations

import io
import json
import random
import struct
import threading

import pyarrow as pa
import pytest

from tests.server.test_appending import ARROW, NDJSON, held, lines, stream, table
from tests.topic.test_arrow_kinds import BYTES, COLUMNS, KINDS
from tests.waiting import HANG_SECONDS

HOST = "Host: localhost\r\n"


def status_of(answer):
    return int(answer.split()[1]) if answer else None


def say(shared, *parts):
    """Send bytes on a connection of their own and return the answer, and whatever comes behind it."""
    with shared.connection() as wire:
        status, body = wire.send(*parts).answer()
        wire.end()
        return b"HTTP/1.1 %d\r\n\r\n%b%b" % (status, body, wire.answers())


def hang_up(shared, *parts):
    """Send bytes and close, whatever the server may say."""
    with shared.connection() as wire:
        wire.send(*parts)


# --- heads ------------------------------------------------------------------------------------------------------------

CHUNKED = "Transfer-Encoding: chunked\r\n"
POST = f"POST /records HTTP/1.1\r\n{HOST}"
MALFORMED = {
    "no request line": "nonsense\r\n\r\n",
    "binary": bytes(range(256)),
    "no such version": f"GET / HTTP/9.9\r\n{HOST}\r\n",
    "a NUL in the path": f"GET /\x00 HTTP/1.1\r\n{HOST}\r\n",
    "bytes beyond ASCII in the path": f"GET /\xff HTTP/1.1\r\n{HOST}\r\n",
    "a bare line feed in a header": f"GET /ready HTTP/1.1\r\n{HOST}X: a\nY\r\n\r\n",
    "a blank before the colon": f"POST /records HTTP/1.1\r\n{HOST}Content-Length : 1\r\n\r\na",
    "a folded header": f"{POST}Content-Length: 1\r\n 2\r\n\r\na",
    "a length that is no number": f"{POST}Content-Length: abc\r\n\r\n",
    "a length below zero": f"{POST}Content-Length: -1\r\n\r\n",
    "a length with a plus": f"{POST}Content-Length: +1\r\n\r\na",
    "a length beyond 64 bits": f"{POST}Content-Length: 99999999999999999999999\r\n\r\n",
    "two lengths": f"{POST}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "two lengths in one": f"{POST}Content-Length: 1, 2\r\n\r\nab",
    "a length and chunks": f"{POST}Content-Length: 4\r\n{CHUNKED}\r\n0\r\n\r\n",
    "an unknown coding": f"{POST}Transfer-Encoding: gzip\r\n\r\nabc",
    "chunks named twice": f"{POST}{CHUNKED}{CHUNKED}\r\n1\r\na\r\n0\r\n\r\n",
    "a chunk that is no number": f"{POST}{CHUNKED}\r\nxyz\r\n",
    "a chunk below zero": f"{POST}{CHUNKED}\r\n-1\r\na\r\n",
    "a chunk beyond 64 bits": f"{POST}{CHUNKED}\r\nfffffffffffffffff\r\na\r\n",
    "a chunk longer than it says": f"{POST}{CHUNKED}\r\n1\r\nabc\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": f"POST /records HTTP/1.0\r\n{HOST}{CHUNKED}\r\n1\r\na\r\n0\r\n\r\n",
    "chunks in HTTP/1.0 for a path that does not exist": f"POST /x HTTP/1.0\r\n{CHUNKED}\r\n1\r\na\r\n0\r\n\r\n",
    "a tunnel": f"CONNECT localhost:1 HTTP/1.1\r\n{HOST}\r\n",
    "HTTP/2 at once": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_request_is_refused_and_stores_nothing(shared, http, request_bytes):
    before = http.get("/index_bounds").json()
    answer = say(shared, request_bytes)
    assert status_of(answer) in (400, 404, 405)
    assert answer.count(b"HTTP/1.1 ") <= 1, "one request, one answer at most"
    assert http.get("/index_bounds").json() == before


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1/ready", "//ready", "/ready#x", "*", "http://", "/%", "/%ff", "/%00"]
)
def test_an_odd_target_is_answered(shared, target):
    assert status_of(say(shared, f"GET {target} HTTP/1.1\r\n{HOST}\r\n")) in (200, 400, 404, 405)


@pytest.mark.parametrize("header", ["Upgrade: websocket\r\nConnection: upgrade", "Upgrade: h2c\r\nConnection: Upgrade"])
def test_one_who_asks_for_another_protocol_is_served_in_this_one(shared, http, header):
    before = http.get("/index_bounds").json()["highest_index"]
    answer = say(shared, f"{POST}{header}\r\nContent-Length: 4\r\n\r\nbody")
    assert status_of(answer) == 200
    assert http.get(f"/records/{before}").content == b"body"
    assert status_of(say(shared, f"GET /ready HTTP/1.1\r\n{HOST}{header}\r\n\r\n")) == 200


@pytest.mark.parametrize(
    "part",
    ["X: " + "a" * 100_000, "X: a\r\n" * 20_000, "GET /" + "a" * 100_000],
    ids=["a header", "headers", "a target"],
)
def test_a_head_that_is_too_large_is_431(shared, part):
    begin = "" if part.startswith("GET") else f"GET /ready HTTP/1.1\r\n{HOST}"
    with shared.connection() as wire:
        assert wire.send(begin, part).answer()[0] == 431


@pytest.mark.parametrize(
    "rest", ["0\r\nX: " + "a" * 200_000, "1;" + "x" * 200_000, "0" * 200_000], ids=["trailer", "extension", "length"]
)
def test_an_endless_trailer_or_chunk_extension_is_cut_off(shared, http, rest):
    before = http.get("/index_bounds").json()
    with shared.connection() as wire:
        assert wire.send(f"{POST}{CHUNKED}\r\n", rest).answer()[0] in (400, 431)
    assert http.get("/index_bounds").json() == before


def test_a_trailer_says_nothing(serve_with, tmp_path):
    (tmp_path / "tokens").write_text(json.dumps({"tokens": []}))
    server = serve_with()
    answer = say(server, f"{POST}{CHUNKED}\r\n1\r\na\r\n0\r\nIdempotency-Key: k\r\nOrigin: http://evil.example\r\n\r\n")
    assert status_of(answer) == 200
    with server.client() as http:
        assert http.post("/records", content=b"b", headers={"Idempotency-Key": "k"}).status_code == 200


def test_requests_in_one_piece_are_answered_in_order(shared):
    with shared.connection() as wire:
        wire.send(f"GET /ready HTTP/1.1\r\n{HOST}\r\nGET /nowhere HTTP/1.1\r\n{HOST}\r\n" * 20)
        wire.send(f"GET /ready HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n")
        assert [int(part[:3]) for part in wire.answers().split(b"HTTP/1.1 ")[1:]] == [*[200, 404] * 20, 200]


def test_a_request_hidden_in_a_body_is_not_made(shared, http):
    hidden = f"DELETE /topics/default HTTP/1.1\r\n{HOST}\r\n"
    for head in (f"GET /ready HTTP/1.1\r\n{HOST}", f"POST /nowhere HTTP/1.1\r\n{HOST}"):
        assert status_of(say(shared, f"{head}Content-Length: {len(hidden)}\r\n\r\n{hidden}")) in (200, 404)
        assert status_of(say(shared, f"{head}{CHUNKED}\r\n{len(hidden):x}\r\n{hidden}\r\n0\r\n\r\n")) in (200, 404)
    assert http.get("/topics/default").status_code == 200


# --- paths and names --------------------------------------------------------------------------------------------------

PLACES = [
    "../app.py",
    "..%2fapp.py",
    "%2e%2e/app.py",
    "..%5capp.py",
    "__init__.py",
    "%2fetc%2fpasswd",
    "x%00.js",
    ".js",
]


@pytest.mark.parametrize("place", PLACES)
def test_only_the_files_of_the_console_are_served(shared, place):
    answer = say(shared, f"GET /console/{place} HTTP/1.1\r\n{HOST}\r\n")
    assert status_of(answer) in (400, 404)
    assert b"import" not in answer


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "..%2f..%2fetc", ".groups", ".spool", "a%00", "a%0d%0aX-Evil:1", "%ff"]
)
def test_a_name_leads_nowhere_but_to_a_topic(shared, name):
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/records"), ("GET", "/partitions/0/records/0")):
        answer = say(shared, f"{method} /topics/{name}{path} HTTP/1.1\r\n{HOST}Content-Length: 0\r\n\r\n")
        assert status_of(answer) in (400, 404, 405)
        assert b"\nx-evil" not in answer.lower().partition(b"\r\n\r\n")[0]


def test_what_a_record_holds_never_becomes_a_header_of_an_answer(http, topic):
    name, evil = topic(), "%0d%0aX-Evil: 1%0d%0a%0d%0aHTTP/1.1 200 OK"
    offset = http.post(f"/topics/{name}/records?key={evil}&header={evil}:{evil}", content=b"v").json()["offset"]
    for accept in ("*/*", "application/json"):
        answer = http.get(f"/topics/{name}/partitions/0/records/{offset}", headers={"Accept": accept})
        assert (answer.status_code, "X-Evil" in answer.headers) == (200, False)


# --- bodies -----------------------------------------------------------------------------------------------------------


def corrupt(body):
    """Yield Arrow streams that are none, and what they are."""
    whole = stream(table(50))
    yield "garbage", b"garbage" * 100
    yield "cut off", whole[: len(whole) // 2]
    yield "followed by another", whole + whole
    yield "a file", b"ARROW1\0\0" + whole
    yield "a length that lies", b"\xff\xff\xff\xff\xff\xff\xff\x7f" + whole[8:]
    yield "no schema", whole[whole.index(b"\xff\xff\xff\xff", 8) :]
    columns = {"value": [b"v"], "other": [1]}
    yield "another column", stream(pa.table(columns))
    yield "no value", stream(pa.table({"key": [b"k"]}))
    yield "a value that is a number", stream(pa.table({"value": [1]}))
    yield "a value that is a list", stream(pa.table({"value": [[b"v"]]}))
    yield "a column twice", stream(pa.Table.from_arrays([pa.array([b"v"])] * 2, ["value", "value"]))
    pair = pa.array(
        [[{"key": None, "value": b"1"}]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    yield "a header without a name", stream(pa.table({"value": [b"v"], "headers": pair}))
    yield "a partition that is not there", stream(pa.table({"value": [b"v"], "partition": [2]}))
    yield "offsets that leave the data", moved(stream(pa.table({"value": [b"abcd", b"efgh"]})), 8, 2**30)
    yield "offsets below zero", moved(stream(pa.table({"value": [b"abcd", b"efgh"]})), 4, -5)
    yield "more rows than bytes", stream(pa.table({"value": pa.nulls(1_000_000)}))


def moved(body, old, new):
    """Put another offset in place of the last one of its kind; the stream is as long as before."""
    at = body.index(struct.pack("<iii", 0, 4, 8)) + (0, 4, 8)[old // 4]
    return body[:at] + struct.pack("<i", new) + body[at + 4 :]


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in corrupt(None)])
def test_an_arrow_body_that_lies_is_400_and_stores_nothing(http, topic, body):
    name = topic(partitions=2)
    for extra in ({}, {"Idempotency-Key": "k"}):
        refused = http.post(f"/topics/{name}/batches", content=body, headers=ARROW | extra)
        assert (refused.status_code, held(http, name)) == (400, 0), refused.text


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_compressed_arrow_stream_is_415_however_small_it_is(http, topic, codec):
    name, options = topic(), pa.ipc.IpcWriteOptions(compression=codec)
    bomb = pa.table({"value": [b"\0" * 50_000_000]})
    words = pa.table({"value": pa.array([b"\0" * 1_000_000] * 9).dictionary_encode()})
    for one in (bomb, words):
        body = stream(one, options=options)
        assert len(body) < 1_000_000
        refused = http.post(f"/topics/{name}/batches", content=body, headers=ARROW)
        assert (refused.status_code, held(http, name)) == (415, 0)


def test_a_batch_that_names_the_same_bytes_again_and_again_is_413(http, topic):
    name = topic()
    word = pa.array([b"x" * 1_000_000])
    indices = pa.array([0] * 500, pa.int8())
    for column in (pa.DictionaryArray.from_arrays(indices, word), views(500)):
        refused = http.post(f"/topics/{name}/batches", content=stream(pa.table({"value": column})), headers=ARROW)
        assert (refused.status_code, held(http, name)) == (413, 0)


def views(rows):
    """Return a column of views of one and the same million of bytes."""
    one = struct.pack("<i4sii", 1_000_000, b"xxxx", 0, 0)
    buffers = [None, pa.py_buffer(one * rows), pa.py_buffer(b"x" * 1_000_000)]
    return pa.Array.from_buffers(pa.binary_view(), rows, buffers)


BAD_LINES = [b"{", b"nonsense", b"[1]", b'{"value": 7}', b'{"key": "k"}', b'{"value": "v", "x": 1}', b"[" * 100_000]
BAD_LINES += [
    b'{"value": "\\ud800"}',
    b'{"value": {"base64": "?"}}',
    b'{"value": "v", "timestamp": 1.5}',
    b'{"value": "\xff"}',
]


@pytest.mark.parametrize("bad", BAD_LINES, ids=lambda bad: repr(bad[:40]))
def test_a_bad_line_in_the_middle_is_named_and_nothing_is_stored(http, topic, bad):
    name = topic(partitions=2)
    body = lines(*({"value": str(n)} for n in range(40_000))) + bad + b"\n" + lines({"value": "after"})
    refused = http.post(f"/topics/{name}/batches", content=body, headers=NDJSON)
    assert (refused.status_code, held(http, name)) == (400, 0)
    assert "line 40001" in refused.json()["detail"]


@pytest.mark.parametrize("streams", [300, pytest.param(1500, marks=pytest.mark.proof)])
def test_mutated_arrow_streams_never_bring_the_server_down(serve_with, streams):
    server, rng = serve_with(), random.Random(7)
    seeds = [stream(table(20)), stream(pa.table({"value": views(3)})), stream(pa.table({"value": pa.nulls(5)}))]
    headers = pa.array([[("a", b"b")]] * 9, pa.map_(pa.string(), pa.binary()))
    seeds.append(stream(pa.table({"value": pa.array(["w"] * 9).dictionary_encode(), "headers": headers})))
    statuses = set()
    with server.client() as http:
        http.post("/topics", json={"name": "t", "partitions": 2})
        for number in range(streams):
            body = bytearray(rng.choice(seeds))
            for _ in range(rng.choice((1, 1, 2, 4))):
                at = rng.randrange(len(body)) & ~3
                body[at : at + 4] = rng.choice((b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", rng.randbytes(4)))
            once = {"Idempotency-Key": str(number)} if number % 3 == 0 else {}
            statuses.add(http.post("/topics/t/batches", content=bytes(body), headers=ARROW | once).status_code)
    assert server.process.poll() is None
    assert statuses <= {200, 400, 413, 415}
    assert {200, 400} <= statuses


@pytest.mark.parametrize("sent", [b"", b"half"])
def test_a_body_that_ends_too_early_stores_nothing(shared, http, topic, sent):
    name = topic()
    for path in ("records", "batches"):
        head = f"POST /topics/{name}/{path} HTTP/1.1\r\n{HOST}Content-Type: application/x-ndjson\r\n"
        hang_up(shared, f"{head}Content-Length: 100\r\n\r\n", sent)
        hang_up(shared, f"{head}{CHUNKED}\r\n", b"%x\r\n%b\r\n" % (len(sent), sent) if sent else b"")
    assert held(http, name) == 0


def test_a_batch_whose_sender_goes_away_is_stored_whole_or_not_at_all(shared, http, topic):
    name = topic(partitions=2)
    body = lines(*({"value": str(n), "key": str(n)} for n in range(5000)))
    head = f"POST /topics/{name}/batches HTTP/1.1\r\n{HOST}Content-Type: application/x-ndjson\r\n"
    for cut in (1, len(body) // 2, len(body) - 1, len(body)):
        hang_up(shared, f"{head}Content-Length: {len(body)}\r\n\r\n", body[:cut])
    with shared.client() as other:  # the last one was whole, and may be at work still
        answer = other.post(f"/topics/{name}/batches", content=body, headers=NDJSON).json()
    assert answer["records"] == 5000
    assert held(http, name) in (5000, 10_000)


def test_json_that_is_wrong_in_a_hundred_thousand_places_is_refused_at_once(shared, http):
    body = json.dumps({"positions": {"t": {f"x{n}": "y" for n in range(60_000)}}})
    slow = threading.Thread(target=lambda: http.post("/fetch", content=body))
    slow.start()
    with shared.client() as other:
        other.get("/ready")
    slow.join(HANG_SECONDS)
    refused = http.post("/fetch", content=body)
    assert (refused.status_code, len(refused.content) < 2000) == (400, True)
    assert http.post("/fetch", content=b" " * 2_000_000).status_code == 413


def test_a_range_of_empty_records_is_bounded_too(http, topic):
    name = topic()
    rows = pa.table({"value": [b""] * 200_000})
    assert http.post(f"/topics/{name}/batches", content=stream(rows), headers=ARROW).status_code == 200
    answer = http.get(f"/topics/{name}/partitions/0/records?max_records=1000000&max_bytes=100000")
    assert len(answer.content) < 1_000_000


def test_arrow_columns_of_every_kind_are_stored_or_refused(http, topic):
    name = topic(partitions=3)
    for column in COLUMNS:
        for kind, values in KINDS.items():
            table = pa.table({"value": BYTES, column: values})
            body = io.BytesIO()
            with pa.ipc.new_stream(body, table.schema) as stream:
                stream.write_table(table)
            headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
            answer = http.post(f"/topics/{name}/batches", content=body.getvalue(), headers=headers)
            assert answer.status_code in (200, 400), (column, kind, answer.text)
