"""The hostile clients: each is a function of a place to attack and the time when it has to end.

They use plain sockets, since a client library would refuse to send most of this. `ATTACKS` names all of them, with the
options of `seglog serve` that each needs. Run as its own process by `tests.attack.range`, so that an attacker takes
neither the interpreter of the process that measures nor its priority.
"""

from __future__ import annotations

import json
import selectors
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from tests.attack.place import (
    ARROW,
    CONTROL,
    MIB,
    NDJSON,
    Place,
    batch,
    filled,
    grow,
    hold,
    request,
    together,
)
from tests.attack.second_round import (
    arrow_of_growing_dictionaries,
    arrow_of_many_batches,
    arrow_of_many_fields,
    arrow_of_metadata,
    chunks_of_one_byte,
    heads_of_many_headers,
    joins,
    keys_of_many_records,
    large_values,
    long_keys,
    polls_of_many_partitions,
    tails_of_many_partitions,
    unknown_positions,
)

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
    hold(place, 600, poll, rest=request("GET /ready") * (MIB // 40), refill=True)


# --- answers that are not read ----------------------------------------------------------------------------------------


def tails_of_what_comes(place: Place) -> None:
    """250 tails are never read while a producer writes values that are six times as long in JSON."""
    producer = threading.Thread(target=grow, args=(place, CONTROL, 8, 0.5))
    producer.start()
    hold(place, 250, request("GET /topics/default/tail"))
    producer.join()


def tails_of_what_is_there(place: Place) -> None:
    """200 tails from the oldest record on are never read; no producer is needed."""
    grow(place, CONTROL, 2, 0)
    hold(place, 200, request("GET /topics/default/tail?start=earliest"))


def records_as_json(place: Place) -> None:
    """400 connections ask for one record as JSON and do not read it."""
    grow(place, CONTROL, 1, 0)
    path = "GET /topics/default/partitions/0/records/0"
    hold(place, 400, request(path, b"", "Accept: application/json\r\n"))


def ranges(place: Place) -> None:
    """400 connections ask for ranges, as lines and as Arrow, waiting and not, and do not read them."""
    grow(place, CONTROL, 16, 0)
    path = "GET /topics/default/partitions/0/records?start=0&max_bytes=99999999"
    arrow = request(f"{path}&wait=20", b"", f"Accept: {ARROW}\r\n")
    other = threading.Thread(target=hold, args=(place, 200, arrow))
    other.start()
    hold(place, 200, request(path))
    other.join()


def values(place: Place) -> None:
    """Connections ask for a value of 300 MiB and do not read it."""
    with suppress(OSError), place.connect(timeout=30) as raw:
        raw.sendall(f"POST /records HTTP/1.1\r\nHost: localhost\r\nContent-Length: {300 * MIB}\r\n\r\n".encode())
        for _ in range(300):
            raw.sendall(CONTROL)
        raw.recv(1000)
    index = json.loads(place.ask("GET /index_bounds")[1] or b'{"highest_index": 1}')["highest_index"] - 1
    hold(place, 50, request(f"GET /records/{index}"))


def keys(place: Place) -> None:
    """100 connections ask for the records of a key and do not read them."""
    for _ in range(32):
        place.ask("POST /topics/default/records?key=k", CONTROL)
    hold(place, 100, request("GET /topics/default/keys?key=k"))


def descriptions(place: Place) -> None:
    """500 connections ask for the description of all requests and do not read it."""
    hold(place, 500, request("GET /openapi.json"))


# --- small bodies, large memory ---------------------------------------------------------------------------------------


def many_headers(place: Place) -> None:
    """Four batches of one record with 2.9 million empty headers."""
    body = filled(b'{"value": "", "headers": [', b'{"key":"","value":""},', b"]}\n", 60 * MIB)
    together(place, 4, batch(body, NDJSON))


def many_lines(place: Place) -> None:
    """Four batches of five million tiny lines."""
    together(place, 4, batch(b'{"value":""}\n' * (60 * MIB // 13), NDJSON))


def long_escapes(place: Place) -> None:
    """Three batches of one value of 60 MiB that is all escapes."""
    body = filled(b'{"value": "', b"\\u0001", b'"}\n', 60 * MIB)
    together(place, 3, batch(body, NDJSON))


def deep_json(place: Place) -> None:
    """Batches whose offset, which nothing reads, is nested and long."""
    body = filled(b'{"value": "", "offset": [', b"[[0],[0]],", b"]}\n", 60 * MIB)
    together(place, 3, batch(body, NDJSON))


def unknown_fields(place: Place) -> None:
    """Batches of one line of 200,000 unknown fields, which a refusal should not repeat."""
    fields = b", ".join(b'"f%d": 0' % number for number in range(200_000))
    together(place, 4, batch(b'{"value": "", ' + fields + b"}\n", NDJSON))


def unknown_settings(place: Place) -> None:
    """JSON bodies of a mebibyte that are wrong in every field."""
    fields = b",".join(b'"%d":0' % number for number in range(90_000))
    together(place, 4, request("POST /topics", b"{" + fields + b"}", "Connection: close\r\n"))


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
    together(place, 2, batch(out.getvalue().to_pybytes(), ARROW))


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
    together(place, 3, batch(out.getvalue().to_pybytes(), ARROW))


def stalled_uploads(place: Place) -> None:
    """200 bodies of 64 MiB each, sent to the last byte but one."""
    head = f"POST /records HTTP/1.1\r\nHost: localhost\r\nContent-Length: {64 * MIB}\r\n\r\n".encode()
    hold(place, 200, head, rest=bytes(8 * MIB))


def slow_heads(place: Place) -> None:
    """900 connections each send 60 KiB of a head that does not end."""
    hold(place, 900, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 60_000)


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
    hold(place, 800, hello[:100])


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
