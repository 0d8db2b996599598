"""The server's ASGI app, in process, over a real broker: no request is a server's error, none hangs, none breaks a log.

An input is up to six requests. The first choices decide where each goes; the rest is query, headers and body, made of
what an operation declares and of what it does not.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_from_bytes

import pyarrow as pa

from seglog.log.repair.verify import verify_storage
from seglog.server.api.parameters import Parameter
from seglog.server.app import app_of, services_of
from seglog.server.http.bodies import ARROW, NDJSON, OCTETS
from seglog.server.routes import OPERATIONS
from seglog.server.settings import Limits, Settings
from seglog.storage import LocalStorage
from seglog.topic.broker import Broker
from tests.fuzz.choices import Choices, mangled, mangled_text
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from seglog.server.api.operations import Operation

LIMITS = Limits(wait_seconds=0.02, partitions=4, body_bytes=65_536, batch_bytes=65_536, shown_bytes=64, idle_seconds=5)
MEMORY = Path("/dev/shm")  # noqa: S108 - only where there is one: every input makes a broker of its own
ALLOWED = (503, 507)
MIRRORED = (504,)  # right where copies are waited for: no copy reports here
JSON = (b"application/json", b"application/problem+json")
NAMES = ("default", "t", "u", "g", "m", "nothing", "")
NUMBERS = (b"0", b"1", b"2", b"3", b"7", b"-1", b"9223372036854775807", b"9" * 19, b"x", b"")
WORDS = (b"durable", b"appended", b"earliest", b"latest", b"true", b"0.01", b"name:value", b"%ff%00", b"k", b"60", b"")
MEDIA = (ARROW, NDJSON, "application/json", OCTETS, "text/event-stream", "text/plain; charset=utf-8", "*/*", "")


def _stream() -> bytes:
    table = pa.table({"value": [b"a", None, b"c"], "key": [b"1", b"2", None], "partition": pa.array([0, 0, 0])})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


JSON_BODIES: tuple[bytes, ...] = tuple(
    json.dumps(body).encode()
    for body in (
        {"name": "t", "partitions": 2, "config": {"segment_bytes": 512, "retention": {"compact": True}}},
        {"name": "u", "partitions": 1, "config": {"index_interval_bytes": 64, "buffer_bytes": 100}},
        {"retention": {"bytes": 0, "age": 0, "compact": False, "dedupe_bytes": 2**40}},
        {"offset": 1},
        {"truncate_index": 1},
        {"positions": {"default": {"0": 0}, "t": {"0": 0, "1": 1}}, "wait": 0.01, "max_bytes": 10},
        {"topics": ["default", "t"], "member": "m", "session_timeout": 1},
        {"generation": 1},
        {"offsets": {"default": {"0": 1}}, "member": "m", "ack": "durable"},
        {"offsets": {"default": {"0": 1}}},
    )
)
BODIES = (
    *JSON_BODIES,
    _stream(),
    b'{"value":"x","key":"k"}\n{"value":null,"key":"k","headers":[{"key":"h","value":null}]}\n',
    b"plain",
    b"",
    b"v" * 700,
)


def seeds() -> Iterator[bytes]:
    yield b""
    for number in range(0, len(OPERATIONS), 2):
        create = [_number("create_topic"), 0, 0, 0, 0, 0, 0, 0, 0]
        ask = [number, 1, 1, 0, 0, 3, number % 14, 0, 0, number + 1, 1, 0, 2, 0, 0, 0, number % 7, 0, 0, 0]
        yield bytes([3, *create, *ask])


def _number(name: str) -> int:
    return next(number for number, operation in enumerate(OPERATIONS) if operation.name == name)


def target(data: bytes) -> None:
    directory = Path(tempfile.mkdtemp(prefix="seglog-fuzz-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        asyncio.run(_served(Choices(data), directory))
        _check_logs(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def _served(choices: Choices, directory: Path) -> None:
    services = services_of(Broker(directory), Settings(limits=LIMITS))
    app, bugs = app_of(services), _Bugs()
    logger = logging.getLogger("seglog.server")
    logger.addHandler(bugs)
    logger.propagate = False
    try:
        for _ in range(1 + choices.below(6)):
            scope, body = _request(choices)
            async with asyncio.timeout(HANG_SECONDS):
                await _exchange(app, scope, body, choices, bugs)
        assert services.spool.disk == 0, "a body that is gone is still counted"
        assert not any(services.memory.held.values()), f"what is gone is still counted: {services.memory.held}"
        assert services.tails == 0, "a tail that is gone is still counted"
    finally:
        logger.removeHandler(bugs)
        services.close()


class _Bugs(logging.Handler):
    """Keeps the bugs that the server logs."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


async def _exchange(app: ASGIApp, scope: dict[str, Any], body: list[bytes], choices: Choices, bugs: _Bugs) -> None:
    """Ask, and look at the answer; a client that asks for a stream without end goes away after its request."""
    said: list[Any] = []
    pieces = iter(body)
    left = len(body)

    async def receive() -> dict[str, Any]:
        nonlocal left
        piece = next(pieces, None)
        if piece is None:
            return {"type": "http.disconnect"}
        left -= 1
        return {"type": "http.request", "body": piece, "more_body": left > 0}

    async def send(message: Any) -> None:
        said.append(message)

    await app(scope, receive, send)
    story = f"{scope['method']} {scope['path']}?{scope['query_string']!r} {scope['headers']} {body}"
    _check_answer(scope, said, story, bugs)


def _check_answer(scope: dict[str, Any], said: list[Any], story: str, bugs: _Bugs) -> None:
    assert said, f"{story}: no answer"
    start, *rest = said
    assert start["type"] == "http.response.start", f"{story}: {said}"
    status, headers = start["status"], {name.lower(): value for name, value in start["headers"]}
    content = b"".join(message.get("body", b"") for message in rest)
    allowed = ALLOWED + MIRRORED * (b"ack=mirrored" in scope["query_string"])
    assert status < 500 or status in allowed, f"{story}: {status} {content!r} {bugs.said}"
    assert not any("Traceback" in line for line in bugs.said), f"{story}: {bugs.said}"
    if b"content-length" in headers and scope["method"] != "HEAD" and status not in (204, 304):
        assert int(headers[b"content-length"]) == len(content), story
    if headers.get(b"content-type") in JSON and scope["method"] != "HEAD":
        json.loads(content)


def _check_logs(directory: Path) -> None:
    """Every log that is there is whole, to its last byte, and opens without anything to set right."""
    for manifest in directory.glob("**/MANIFEST"):
        report = verify_storage(LocalStorage(manifest.parent))
        assert report.ok and report.tail_bytes == 0, f"{manifest.parent}: {report}"
    with Broker(directory) as broker:
        for name, log in broker.logs().items():
            assert not log.recovery.events, f"{name}: {log.recovery}"
        assert not broker.failed


# --- requests that choices write --------------------------------------------------------------------------------------


def _request(choices: Choices) -> tuple[dict[str, Any], list[bytes]]:
    operation: Operation = choices.of(OPERATIONS)
    odd = choices.below(4)
    path, query, headers = operation.path, [], [(b"host", b"localhost")]
    for parameter in operation.parameters:
        value = _value(parameter, choices)
        if parameter.where == "path":
            path = path.replace(f"{{{parameter.name}}}", value.decode("latin-1"))
        elif choices.below(3) == 1:
            if parameter.where == "query":
                query.append(parameter.name.encode() + b"=" + value)
            else:
                headers.append((parameter.name.lower().encode(), value))
    body = choices.of(BODIES)
    headers += _more_headers(choices, body)
    method = operation.method
    if odd == 1:
        method = choices.of(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", method))
        path = choices.of((path, "/" + choices.text(20), path + "/", path + choices.text(3)))
        query.append(quote_from_bytes(choices.some(12), safe="=&%+").encode())
        headers.append((choices.of((b"x-odd", b"host", b"origin", b"authorization", b"accept")), choices.some(20)))
    if odd == 2:
        body = mangled(body, choices) if choices.flag() else mangled_text(body, choices)
    return _scope(method, path, b"&".join(query), headers), _cut(body, choices)


def _value(parameter: Parameter, choices: Choices) -> bytes:
    if choices.below(8) == 1:
        return choices.some(12)
    if parameter.schema.get("type") == "integer":
        return choices.of(NUMBERS)
    if parameter.name in ("topic", "group", "member"):
        return choices.of(NAMES).encode()
    if parameter.name == "Last-Event-ID":
        return choices.of((b'{"0": 1}', b'{"0": 99999, "7": 1}', b"{}", b"0"))
    allowed = parameter.schema.get("enum")
    return choices.of([*(one.encode() for one in allowed), b"other"]) if allowed else choices.of(WORDS)


def _more_headers(choices: Choices, body: bytes) -> list[tuple[bytes, bytes]]:
    """Return content type, accepted types, and a length: as they should be more often than not."""
    headers = []
    if choices.below(3) == 1:
        kind = choices.of(MEDIA)
    elif body[:2] == b"\xff\xff":
        kind = ARROW
    else:
        kind = "application/json" if body in JSON_BODIES else NDJSON
    headers.append((b"content-type", kind.encode()))
    if choices.below(3) == 1:
        headers.append((b"accept", choices.of(MEDIA).encode()))
    if choices.below(4) == 1:
        headers.append((b"content-length", choices.of((b"0", b"5", b"70000", b"9" * 30))))
    if choices.below(8) == 1:
        headers.append((b"idempotency-key", choices.of((b"one", b"two", b"\xff", b" ", b"x" * 300))))
    return headers


def _cut(body: bytes, choices: Choices) -> list[bytes]:
    """Return a body in the pieces in which it comes; none where the client goes away before it."""
    if choices.below(16) == 1:
        return []
    at = choices.below(len(body) + 1)
    return [body[:at], body[at:]] if choices.flag() else [body]


def _scope(method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": quote(path, errors="replace").encode(),
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 3000),
    }
