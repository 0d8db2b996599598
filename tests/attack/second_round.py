"""Attacks of the second round: other shapes of the same kinds."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from tests.attack.place import (
    ARROW,
    CONTROL,
    END_OF_STREAM,
    MIB,
    NDJSON,
    Place,
    batch,
    hold,
    request,
    together,
)


def heads_of_many_headers(place: Place) -> None:
    """900 connections each send 60 KiB of tiny headers in a head that does not end."""
    lines = b"".join(b"%04x:\r\n" % number for number in range(60_000 // 7))
    hold(place, 900, b"GET /ready HTTP/1.1\r\nHost: localhost\r\n" + lines)


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
    together(place, 2, batch(body, ARROW))


def arrow_of_many_batches(place: Place) -> None:
    """Streams of hundreds of thousands of empty batches."""
    import pyarrow as pa  # noqa: PLC0415 - only this client needs it

    schema = pa.schema({"value": pa.binary(), "key": pa.binary(), "timestamp": pa.int64()})
    head, one = bytes(schema.serialize()), bytes(pa.RecordBatch.from_pylist([], schema).serialize())
    together(place, 3, batch(head + one * (50 * MIB // len(one)) + END_OF_STREAM, ARROW))


def arrow_of_many_fields(place: Place) -> None:
    """Schemas of 200,000 columns that a batch does not have."""
    import pyarrow as pa  # noqa: PLC0415 - only this client needs it

    schema = pa.schema([pa.field("value", pa.binary()), *(pa.field(f"f{n}", pa.int8()) for n in range(200_000))])
    together(place, 3, batch(bytes(schema.serialize()) + END_OF_STREAM, ARROW))


def arrow_of_metadata(place: Place) -> None:
    """A schema with 50 MiB of metadata."""
    import pyarrow as pa  # noqa: PLC0415 - only this client needs it

    table = pa.table({"value": [b"v"]}).replace_schema_metadata({b"k%d" % n: bytes(500_000) for n in range(100)})
    together(place, 3, batch(_arrow([table]), ARROW))


def long_keys(place: Place) -> None:
    """Records whose keys and headers have tens of MiB, read as JSON, as ranges and by tails that read nothing."""
    import pyarrow as pa  # noqa: PLC0415 - only this client needs it

    for _ in range(2):
        table = pa.table({"value": [b"v"], "key": pa.array([b"\x01" * (50 * MIB)], pa.large_binary())})
        place.ask("POST /topics/default/batches", _arrow([table]), f"Content-Type: {ARROW}\r\n")
    accept = "Accept: application/json\r\n"
    path = "GET /topics/default/partitions/0/records"
    others = [
        threading.Thread(target=hold, args=(place, 20, request(head, b"", accept)))
        for head in (f"{path}/0", f"{path}/1", "GET /topics/default/tail?start=earliest")
    ]
    for other in others:
        other.start()
    hold(place, 20, request(f"{path}?start=0"))
    for other in others:
        other.join()


def keys_of_many_records(place: Place) -> None:
    """The records of a key, of which there are a million without a value."""
    body = b'{"value":"","key":"k"}\n' * 500_000
    for _ in range(4):
        place.ask("POST /topics/default/batches", body, f"Content-Type: {NDJSON}\r\n")
    hold(place, 20, request("GET /topics/default/keys?key=k&max_records=1000000"))


def _wide(place: Place) -> None:
    body = json.dumps({"name": "wide", "partitions": 500}).encode()
    place.ask("POST /topics", body, "Content-Type: application/json\r\n")


def tails_of_many_partitions(place: Place) -> None:
    """200 tails of a topic of 500 partitions: an event's id names them all."""
    _wide(place)
    line = b'{"value":"v","key":"%d"}\n'
    body = b"".join(line % number for number in range(50_000))
    place.ask("POST /topics/wide/batches", body, f"Content-Type: {NDJSON}\r\n")
    hold(place, 200, request("GET /topics/wide/tail?start=earliest"))


def polls_of_many_partitions(place: Place) -> None:
    """900 long polls of 500 partitions each."""
    _wide(place)
    positions = {"wide": {str(number): 0 for number in range(500)}}
    body = json.dumps({"positions": positions, "wait": 60}).encode()
    hold(place, 900, request("POST /fetch", body, "Content-Type: application/json\r\n"))


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
    threads = [threading.Thread(target=together, args=(place, 2, request(head, unknown, kind))) for head in heads]
    threads.append(threading.Thread(target=together, args=(place, 2, request("POST /fetch", wrong, kind))))
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
