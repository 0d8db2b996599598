"""The hostile clients: each is a function of a place to attack and the time when it has to end.

They use plain sockets, since a client library would refuse to send most of this. `ATTACKS` names all of them, with the
options of `seglog serve` that each needs. Run as its own process by `tests.attack.range`, so that an attacker takes
neither the interpreter of the process that measures nor its priority.
"""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

MIB = 1024 * 1024
NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"  # of Arrow
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"  # of Arrow
CONTROL = b"\x01" * MIB  # six times as long in JSON


@dataclass(frozen=True)
class Place:
    """Where to attack: a port of this machine, and when to end (time.monotonic())."""

    port: int
    ends: float

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.ends

    def connect(self, receive_bytes: int | None = None, timeout: float = 5.0) -> socket.socket:
        raw = socket.socket()
        if receive_bytes is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.settimeout(timeout)
        raw.connect(("127.0.0.1", self.port))
        return raw

    def ask(self, head: str, body: bytes = b"", headers: str = "") -> tuple[int, bytes]:
        """Send one request on its own connection and return status and body; (0, b"") where no answer comes."""
        with suppress(OSError), self.connect(timeout=max(self.ends - time.monotonic(), 1.0)) as raw:
            raw.sendall(request(head, body, f"{headers}Connection: close\r\n"))
            came = b"".join(iter(lambda: raw.recv(MIB), b""))
            if came:
                return int(came.split()[1]), came.partition(b"\r\n\r\n")[2]
        return 0, b""


def request(head: str, body: bytes = b"", headers: str = "") -> bytes:
    """Return the bytes of a request: `GET /ready`, or with a body and more header lines."""
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{head} HTTP/1.1\r\nHost: localhost\r\n{headers}{length}\r\n".encode() + body


def batch(body: bytes, media: str, topic: str = "default") -> bytes:
    """Return the request that appends a batch."""
    return request(f"POST /topics/{topic}/batches", body, f"Content-Type: {media}\r\nConnection: close\r\n")


# --- many requests on one connection ----------------------------------------------------------------------------------


def _flood(place: Place, one: bytes, *, read: bool = True) -> None:
    """Send the same request again and again on one connection, as fast as the server takes it."""
    many = one * max(1, MIB // len(one))
    while not place.over:
        with suppress(OSError), place.connect(timeout=0.5) as raw, selectors.DefaultSelector() as selector:
            raw.setblocking(False)
            selector.register(raw, selectors.EVENT_READ * read | selectors.EVENT_WRITE)
            sent = 0
            while not place.over:
                for _, events in selector.select(0.5):
                    if events & selectors.EVENT_WRITE:
                        sent = (sent + raw.send(many[sent:])) % len(many)
                    if events & selectors.EVENT_READ and not raw.recv(MIB):
                        raise ConnectionResetError


def pipelined_ready(place: Place) -> None:
    """One connection without a token pipelines requests and reads every answer."""
    _flood(place, request("GET /ready"))


def pipelined_descriptions(place: Place) -> None:
    """Connections pipeline requests for a large answer, read a little of it, and go."""
    while not place.over:
        with suppress(OSError), place.connect(timeout=0.5) as raw:
            raw.sendall(request("GET /openapi.json") * 2000)
            raw.recv(1000)


def pipelined_upgrades(place: Place) -> None:
    """Connections pipeline 900 requests that each ask for another protocol."""
    one = request("GET /ready", b"", "Connection: Upgrade\r\nUpgrade: h2c\r\n")
    while not place.over:
        with suppress(OSError), place.connect(timeout=0.5) as raw:
            raw.sendall(one * 900)
            while raw.recv(MIB):
                pass


def pipelines_behind_polls(place: Place) -> None:
    """Many connections wait for a record and send megabytes of requests after that."""
    poll = request("GET /topics/default/partitions/0/records?start=0&stop=0&wait=30")
    _hold(place, 600, poll, rest=request("GET /ready") * (MIB // 40), refill=True)


# --- answers that are not read ----------------------------------------------------------------------------------------


def _hold(place: Place, count: int, first: bytes, *, rest: bytes = b"", refill: bool = False) -> None:
    """Hold connections that send `first`, and then as much of `rest` as goes, and read nothing."""
    with ExitStack() as stack:
        held: list[socket.socket] = []
        for _ in range(count):
            with suppress(OSError):
                raw = stack.enter_context(place.connect(4096))
                raw.sendall(first)
                raw.setblocking(False)
                held.append(raw)
        left = dict.fromkeys(held, rest)
        while not place.over:
            for raw in held:
                with suppress(OSError):
                    while left[raw]:
                        left[raw] = left[raw][raw.send(left[raw]) :] or (rest if refill else b"")
            time.sleep(0.2)


def _grow(place: Place, value: bytes, count: int, pause: float) -> None:
    for _ in range(count):
        if place.over:
            return
        place.ask("POST /topics/default/records", value)
        time.sleep(pause)


def tails_of_what_comes(place: Place) -> None:
    """250 tails are never read while a producer writes values that are six times as long in JSON."""
    producer = threading.Thread(target=_grow, args=(place, CONTROL, 8, 0.5))
    producer.start()
    _hold(place, 250, request("GET /topics/default/tail"))
    producer.join()


def tails_of_what_is_there(place: Place) -> None:
    """200 tails from the oldest record on are never read; no producer is needed."""
    _grow(place, CONTROL, 2, 0)
    _hold(place, 200, request("GET /topics/default/tail?start=earliest"))


def records_as_json(place: Place) -> None:
    """400 connections ask for one record as JSON and do not read it."""
    _grow(place, CONTROL, 1, 0)
    path = "GET /topics/default/partitions/0/records/0"
    _hold(place, 400, request(path, b"", "Accept: application/json\r\n"))


def ranges(place: Place) -> None:
    """400 connections ask for ranges, as lines and as Arrow, waiting and not, and do not read them."""
    _grow(place, CONTROL, 16, 0)
    path = "GET /topics/default/partitions/0/records?start=0&max_bytes=99999999"
    arrow = request(f"{path}&wait=20", b"", f"Accept: {ARROW}\r\n")
    other = threading.Thread(target=_hold, args=(place, 200, arrow))
    other.start()
    _hold(place, 200, request(path))
    other.join()


def values(place: Place) -> None:
    """Connections ask for a value of 300 MiB and do not read it."""
    with suppress(OSError), place.connect(timeout=30) as raw:
        raw.sendall(f"POST /records HTTP/1.1\r\nHost: localhost\r\nContent-Length: {300 * MIB}\r\n\r\n".encode())
        for _ in range(300):
            raw.sendall(CONTROL)
        raw.recv(1000)
    index = json.loads(place.ask("GET /index_bounds")[1] or b'{"highest_index": 1}')["highest_index"] - 1
    _hold(place, 50, request(f"GET /records/{index}"))


def keys(place: Place) -> None:
    """100 connections ask for the records of a key and do not read them."""
    for _ in range(32):
        place.ask("POST /topics/default/records?key=k", CONTROL)
    _hold(place, 100, request("GET /topics/default/keys?key=k"))


def descriptions(place: Place) -> None:
    """500 connections ask for the description of all requests and do not read it."""
    _hold(place, 500, request("GET /openapi.json"))


# --- small bodies, large memory ---------------------------------------------------------------------------------------


def _together(place: Place, count: int, data: bytes) -> None:
    """Send the same request on several connections at a time, again and again."""

    def send() -> None:
        while not place.over:
            with suppress(OSError), place.connect(timeout=max(place.ends - time.monotonic(), 1.0)) as raw:
                raw.sendall(data)
                raw.recv(MIB)
            time.sleep(0.05)

    threads = [threading.Thread(target=send) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _filled(before: bytes, unit: bytes, after: bytes, size: int) -> bytes:
    return before + unit * (size // len(unit)) + unit.rstrip(b",") + after


def many_headers(place: Place) -> None:
    """Four batches of one record with 2.9 million empty headers."""
    body = _filled(b'{"value": "", "headers": [', b'{"key":"","value":""},', b"]}\n", 60 * MIB)
    _together(place, 4, batch(body, NDJSON))


def many_lines(place: Place) -> None:
    """Four batches of five million tiny lines."""
    _together(place, 4, batch(b'{"value":""}\n' * (60 * MIB // 13), NDJSON))


def long_escapes(place: Place) -> None:
    """Three batches of one value of 60 MiB that is all escapes."""
    body = _filled(b'{"value": "', b"\\u0001", b'"}\n', 60 * MIB)
    _together(place, 3, batch(body, NDJSON))


def deep_json(place: Place) -> None:
    """Batches whose offset, which nothing reads, is nested and long."""
    body = _filled(b'{"value": "", "offset": [', b"[[0],[0]],", b"]}\n", 60 * MIB)
    _together(place, 3, batch(body, NDJSON))


def unknown_fields(place: Place) -> None:
    """Batches of one line of 200,000 unknown fields, which a refusal should not repeat."""
    fields = b", ".join(b'"f%d": 0' % number for number in range(200_000))
    _together(place, 4, batch(b'{"value": "", ' + fields + b"}\n", NDJSON))


def unknown_settings(place: Place) -> None:
    """JSON bodies of a mebibyte that are wrong in every field."""
    fields = b",".join(b'"%d":0' % number for number in range(90_000))
    _together(place, 4, request("POST /topics", b"{" + fields + b"}", "Connection: close\r\n"))


def arrow_of_nulls(place: Place) -> None:
    """Arrow batches of 60 MiB that are tens of millions of nulls."""
    import pyarrow as pa  # noqa: PLC0415 - only this client needs it

    out = pa.BufferOutputStream()
    rows = 50 * MIB
    data = pa.py_buffer(bytes(50 * MIB))
    table = pa.table(
        {"value": pa.nulls(rows), "offset": pa.Array.from_buffers(pa.int8(), rows, [None, data])},
    )
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    _together(place, 2, batch(out.getvalue().to_pybytes(), ARROW))


def arrow_of_headers(place: Place) -> None:
    """Arrow batches of one record with millions of empty headers."""
    import pyarrow as pa  # noqa: PLC0415 - only this client needs it

    count = 4_000_000
    empty = pa.array([""]).take(pa.array([0] * count, pa.int32())) if count < 1 else pa.array([""] * count)
    pairs = pa.StructArray.from_arrays([empty, empty.cast(pa.binary())], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pairs)
    table = pa.table({"value": pa.array([b""]), "headers": headers})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    _together(place, 3, batch(out.getvalue().to_pybytes(), ARROW))


def stalled_uploads(place: Place) -> None:
    """200 bodies of 64 MiB each, sent to the last byte but one."""
    head = f"POST /records HTTP/1.1\r\nHost: localhost\r\nContent-Length: {64 * MIB}\r\n\r\n".encode()
    _hold(place, 200, head, rest=bytes(8 * MIB))


def slow_heads(place: Place) -> None:
    """900 connections each send 60 KiB of a head that does not end."""
    _hold(place, 900, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 60_000)


# --- connections ------------------------------------------------------------------------------------------------------


def silent_handshakes(place: Place) -> None:
    """1,500 connections to a TLS port that never begin the handshake."""
    with ExitStack() as stack:
        while not place.over:
            for _ in range(1500):
                if place.over:
                    break
                with suppress(OSError):
                    stack.enter_context(place.connect(timeout=0.2))
            time.sleep(1)
            stack.close()


def slow_handshakes(place: Place) -> None:
    """TLS clients that begin the handshake and never end it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    hello = outgoing.read()
    _hold(place, 800, hello[:100])


# --- the second round: other shapes of the same ----------------------------------------------------------------------


def heads_of_many_headers(place: Place) -> None:
    """900 connections each send 60 KiB of tiny headers in a head that does not end."""
    lines = b"".join(b"%04x:\r\n" % number for number in range(60_000 // 7))
    _hold(place, 900, b"GET /ready HTTP/1.1\r\nHost: localhost\r\n" + lines)


def chunks_of_one_byte(place: Place) -> None:
    """Four bodies in chunks of one byte, and in chunks that look like ends of heads."""
    head = b"POST /records HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    tiny, ends = b"1\r\na\r\n" * 100_000, b"10000\r\n" + b"\r\n\r\n" * 16384 + b"\r\n"

    def send(piece: bytes) -> None:
        while not place.over:
            with suppress(OSError), place.connect(timeout=5) as raw:
                raw.sendall(head)
                while not place.over:
                    raw.sendall(piece)

    threads = [threading.Thread(target=send, args=(piece,)) for piece in (tiny, tiny, ends, ends)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _arrow(tables: Iterable[Any], options: Any = None) -> bytes:
    """Return tables of one schema as an Arrow stream, a batch each."""
    import pyarrow as pa  # noqa: PLC0415 - only some clients need it

    out, writer = pa.BufferOutputStream(), None
    for table in tables:
        writer = writer or pa.ipc.new_stream(out, table.schema, options=options)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return bytes(out.getvalue())


def arrow_of_growing_dictionaries(place: Place) -> None:
    """Batches of one row whose dictionary grows with each: every batch would hold all of it."""
    import pyarrow as pa  # noqa: PLC0415 - only this client needs it

    words = pa.array([b"%04d" % number + bytes(80_000) for number in range(150)], pa.binary())
    columns = (pa.DictionaryArray.from_arrays(pa.array([n], pa.int32()), words[: n + 1]) for n in range(len(words)))
    tables = (pa.table({"value": column}) for column in columns)
    body = _arrow(tables, pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True))
    _together(place, 2, batch(body, ARROW))


def arrow_of_many_batches(place: Place) -> None:
    """Streams of hundreds of thousands of empty batches."""
    import pyarrow as pa  # noqa: PLC0415 - only this client needs it

    schema = pa.schema({"value": pa.binary(), "key": pa.binary(), "timestamp": pa.int64()})
    head, one = bytes(schema.serialize()), bytes(pa.RecordBatch.from_pylist([], schema).serialize())
    _together(place, 3, batch(head + one * (50 * MIB // len(one)) + END_OF_STREAM, ARROW))


def arrow_of_many_fields(place: Place) -> None:
    """Schemas of 200,000 columns that a batch does not have."""
    import pyarrow as pa  # noqa: PLC0415 - only this client needs it

    schema = pa.schema([pa.field("value", pa.binary()), *(pa.field(f"f{n}", pa.int8()) for n in range(200_000))])
    _together(place, 3, batch(bytes(schema.serialize()) + END_OF_STREAM, ARROW))


def arrow_of_metadata(place: Place) -> None:
    """A schema with 50 MiB of metadata."""
    import pyarrow as pa  # noqa: PLC0415 - only this client needs it

    table = pa.table({"value": [b"v"]}).replace_schema_metadata({b"k%d" % n: bytes(500_000) for n in range(100)})
    _together(place, 3, batch(_arrow([table]), ARROW))


def long_keys(place: Place) -> None:
    """Records whose keys and headers have tens of MiB, read as JSON, as ranges and by tails that read nothing."""
    import pyarrow as pa  # noqa: PLC0415 - only this client needs it

    for _ in range(2):
        table = pa.table({"value": [b"v"], "key": pa.array([b"\x01" * (50 * MIB)], pa.large_binary())})
        place.ask("POST /topics/default/batches", _arrow([table]), f"Content-Type: {ARROW}\r\n")
    accept = "Accept: application/json\r\n"
    path = "GET /topics/default/partitions/0/records"
    others = [
        threading.Thread(target=_hold, args=(place, 20, request(head, b"", accept)))
        for head in (f"{path}/0", f"{path}/1", "GET /topics/default/tail?start=earliest")
    ]
    for other in others:
        other.start()
    _hold(place, 20, request(f"{path}?start=0"))
    for other in others:
        other.join()


def keys_of_many_records(place: Place) -> None:
    """The records of a key, of which there are a million without a value."""
    body = b'{"value":"","key":"k"}\n' * 500_000
    for _ in range(4):
        place.ask("POST /topics/default/batches", body, f"Content-Type: {NDJSON}\r\n")
    _hold(place, 20, request("GET /topics/default/keys?key=k&max_records=1000000"))


def _wide(place: Place) -> None:
    body = json.dumps({"name": "wide", "partitions": 500}).encode()
    place.ask("POST /topics", body, "Content-Type: application/json\r\n")


def tails_of_many_partitions(place: Place) -> None:
    """200 tails of a topic of 500 partitions: an event's id names them all."""
    _wide(place)
    line = b'{"value":"v","key":"%d"}\n'
    body = b"".join(line % number for number in range(50_000))
    place.ask("POST /topics/wide/batches", body, f"Content-Type: {NDJSON}\r\n")
    _hold(place, 200, request("GET /topics/wide/tail?start=earliest"))


def polls_of_many_partitions(place: Place) -> None:
    """900 long polls of 500 partitions each."""
    _wide(place)
    positions = {"wide": {str(number): 0 for number in range(500)}}
    body = json.dumps({"positions": positions, "wait": 60}).encode()
    _hold(place, 900, request("POST /fetch", body, "Content-Type: application/json\r\n"))


def large_values(place: Place) -> None:
    """A value of 400 MiB, larger than the budget, asked for as it is, as lines and as Arrow."""
    with suppress(OSError), place.connect(timeout=60) as raw:
        raw.sendall(f"POST /records HTTP/1.1\r\nHost: localhost\r\nContent-Length: {400 * MIB}\r\n\r\n".encode())
        for _ in range(400):
            raw.sendall(CONTROL)
        raw.recv(1000)
    for head, accept in (
        ("GET /records/0", ""),
        ("GET /topics/default/partitions/0/records", f"Accept: {ARROW}\r\n"),
        ("GET /records/0", ""),
        ("GET /topics/default/partitions/0/records", ""),
    ):
        with suppress(OSError), place.connect(timeout=60) as raw:
            raw.sendall(request(head, b"", accept + "Connection: close\r\n"))
            while raw.recv(MIB):
                pass


def unknown_positions(place: Place) -> None:
    """Bodies of a mebibyte for /fetch, /lag and commits that are wrong in every field."""
    unknown = b"{" + b",".join(b'"%d":0' % number for number in range(90_000)) + b"}"
    wrong = b'{"positions":{"default":{' + b",".join(b'"%d":true' % number for number in range(9_999)) + b"}}}"
    kind = "Content-Type: application/json\r\nConnection: close\r\n"
    heads = ["POST /fetch", "POST /lag", "POST /groups/g/offsets", "POST /groups/g/members"]
    threads = [threading.Thread(target=_together, args=(place, 2, request(head, unknown, kind))) for head in heads]
    threads.append(threading.Thread(target=_together, args=(place, 2, request("POST /fetch", wrong, kind))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def joins(place: Place) -> None:
    """Four callers make a group change all the time, with as many members as it may have."""

    def join() -> None:
        number = 0
        body = json.dumps({"topics": ["default"]}).encode()
        while not place.over:
            place.ask(f"POST /groups/storm{number // 2000}/members", body, "Content-Type: application/json\r\n")
            number += 1

    threads = [threading.Thread(target=join) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- all of them ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attack:
    """A client, and what its server is started with. files: descriptors the server may have, where that matters."""

    client: Callable[[Place], None]
    options: tuple[str, ...] = field(default=())
    tls: bool = False
    files: int | None = None

    @property
    def name(self) -> str:
        return self.client.__name__


def _all(clients: Iterable[Callable[[Place], None]]) -> dict[str, Attack]:
    return {client.__name__: Attack(client) for client in clients}


ATTACKS = {
    **_all(
        [
            pipelined_ready,
            pipelined_descriptions,
            pipelined_upgrades,
            pipelines_behind_polls,
            tails_of_what_comes,
            tails_of_what_is_there,
            records_as_json,
            ranges,
            values,
            keys,
            descriptions,
            many_headers,
            many_lines,
            long_escapes,
            deep_json,
            unknown_fields,
            unknown_settings,
            arrow_of_nulls,
            arrow_of_headers,
            stalled_uploads,
            slow_heads,
            heads_of_many_headers,
            chunks_of_one_byte,
            arrow_of_growing_dictionaries,
            arrow_of_many_batches,
            arrow_of_many_fields,
            arrow_of_metadata,
            long_keys,
            keys_of_many_records,
            tails_of_many_partitions,
            polls_of_many_partitions,
            large_values,
            unknown_positions,
            joins,
        ]
    ),
    "silent_handshakes": Attack(silent_handshakes, ("--connections", "50"), tls=True, files=1024),
    "slow_handshakes": Attack(slow_handshakes, ("--connections", "50"), tls=True, files=1024),
}
