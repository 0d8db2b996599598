"""Servers that do less and less of what `seglog serve` does for an append, each with a log in the directory given.

python -m benchmarks.light_servers PATH DIRECTORY prints the port and serves until it is ended. PATH: `asgi` is
uvicorn with an application that appends and answers; `http` a protocol that calls httptools' parser itself; `frame`
one that has no HTTP: a length of 4 bytes, the value, and the offset of 8 bytes as the answer. All use uvloop.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import httptools
import uvicorn
import uvloop
from uvicorn.server import ServerState

import seglog

PATHS = ("asgi", "http", "frame")


def _answer(offset: int) -> bytes:
    return b'{"partition":0,"offset":%d}' % offset


class _Asgi:
    """An application that knows one request."""

    def __init__(self, log: seglog.Log) -> None:
        self._log = log

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        answer = _answer(self._log.append(body))
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": answer})


class _Connection(asyncio.Protocol):
    def __init__(self, log: seglog.Log) -> None:
        self.log = log

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)


class _Http(_Connection):
    """HTTP by httptools, without ASGI and without tasks."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._parser, self._body = httptools.HttpRequestParser(self), b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        answer = _answer(self.log.append(self._body))
        self._body = b""
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer)
        self.transport.write(head + answer)


class _Frame(_Connection):
    """The least: a frame in, an offset out."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 4 and len(self._data) >= (end := 4 + int.from_bytes(self._data[:4], "big")):
            offset = self.log.append(self._data[4:end])
            self._data = self._data[end:]
            self.transport.write(offset.to_bytes(8, "big"))


async def _serve(path: str, directory: Path) -> None:
    with seglog.open(directory) as log:
        if path == "asgi":
            config = uvicorn.Config(_Asgi(log), http="httptools", lifespan="off", access_log=False, log_config=None)
            config.load()
            parts = {"config": config, "server_state": ServerState(), "app_state": {}}
            made: Any = lambda: config.http_protocol_class(**parts)  # noqa: E731 - as below
        else:
            made = lambda: {"http": _Http, "frame": _Frame}[path](log)  # noqa: E731 - asyncio asks for a factory
        server = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], Path(sys.argv[2])))
