"""What a request held is free when the request is over, and not only when garbage is collected."""

from __future__ import annotations

import asyncio
import gc
import http.client
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import ref

import pytest

import seglog
from seglog.server.http.answers import NeedsRoom
from seglog.server.http.protocol import BoundedProtocol
from seglog.server.runtime.tracebacks import forget_traceback
from seglog.server.runtime.workers import Workers
from seglog.server.serving import serve
from seglog.server.settings import Settings
from tests.waiting import HANG_SECONDS, until


@contextmanager
def without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.fixture
def port(tmp_path, monkeypatch) -> Iterator[int]:
    """A server in this process, whose objects can be looked at."""
    monkeypatch.setattr("seglog.server.serving.skip_pandas", lambda: None)  # they would last longer than the test
    monkeypatch.setattr("seglog.server.serving.Allocator.tune", lambda _self: None)
    monkeypatch.setattr("seglog.server.serving.Allocator.release", lambda _self: None)
    stop, said = threading.Event(), []
    thread = threading.Thread(target=serve, args=(tmp_path, Settings(port=0), said.append), kwargs={"stop": stop})
    thread.start()
    try:
        until(lambda: any(line.startswith("listening on") for line in said))
        yield int(said[-1].rpartition(":")[2])
    finally:
        stop.set()
        thread.join()


def living(kind: type) -> int:
    return sum(issubclass(type(one), kind) for one in gc.get_objects())  # isinstance asks dead proxies


def test_a_connection_is_gone_when_it_is_closed(port):
    with without_collections():
        for body in (b"a record", b""):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_SECONDS)
            for method, path in (("GET", "/ready"), ("POST", "/topics/default/records"), ("GET", "/nowhere")):
                connection.request(method, path, body if method == "POST" else None)
                connection.getresponse().read()
            assert living(BoundedProtocol) == 1
            connection.close()
            until(lambda: not living(BoundedProtocol))


def test_a_connection_that_is_reset_is_gone(port):
    with without_collections():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_SECONDS)
        connection.request("GET", "/ready")
        connection.getresponse().read()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        until(lambda: not living(BoundedProtocol))


def test_a_request_that_is_rejected_leaves_no_error(port):
    with without_collections():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_SECONDS)
        for path in ("/topics/nowhere/partitions/0/records", "/topics/default/partitions/0/records/7"):
            connection.request("GET", path)
            assert connection.getresponse().status == 404
            connection.close()
        until(lambda: not living(seglog.SeglogError))


def test_a_call_that_fails_on_a_thread_leaves_nothing_of_its_caller():
    async def caller(workers: Workers, seen: list[ref[Data]]) -> None:
        data = Data()
        seen.append(ref(data))
        with suppress(ZeroDivisionError):
            await workers.run(lambda: 1 // 0)

    workers, seen = Workers("test", 1, 1), []
    with without_collections():
        asyncio.run(caller(workers, seen))
        workers.close()
        assert seen[0]() is None


def test_a_read_that_needs_more_memory_than_it_has_leaves_nothing(port):
    value = b"v" * (3 << 20)
    with without_collections():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_SECONDS)
        connection.request("POST", "/topics/default/records", value)
        connection.getresponse().read()
        for _ in range(3):
            path = "/topics/default/partitions/0/records"
            connection.request("GET", path, headers={"Accept": "application/vnd.apache.arrow.stream"})
            assert value in connection.getresponse().read()
        until(lambda: not living(NeedsRoom))
        connection.close()


class Data:
    """What a frame holds."""


def failed(data: Data, kept: list[BaseException]) -> BaseException:
    """Return an error of a group, with a cause; the frame refers to both, and to the data."""
    try:
        try:
            raise ValueError(id(data))
        except ValueError as error:
            kept.append(error)
            raise KeyError from error
    except KeyError as error:
        kept.append(error)
        return ExceptionGroup("of a group", [error])


def test_an_error_without_its_traceback_holds_no_frame():
    data, kept = Data(), []
    seen = ref(data)
    with without_collections():
        error = failed(data, kept)
        del data
        assert seen() is not None
        forget_traceback(error)
        assert seen() is None
        assert len(kept) == 2


def test_errors_that_refer_to_each_other_are_each_visited_once():
    first, second = ValueError(), KeyError()
    first.__context__, second.__context__ = second, first
    forget_traceback(first)
    assert first.__traceback__ is second.__traceback__ is None
