"""Answers of HTTP/1.1, as the client's own sockets take them: the same in any pieces, or httpx's errors."""

from __future__ import annotations

import socket
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import httpx

from seglog.client.endpoint import Asked, Body
from seglog.client.transport.http1 import AnswerReader, Malformed, framed
from seglog.client.transport.sockets import _Connection, said
from tests.fuzz.choices import Choices

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 5.0
BEHIND = "more than its answer"  # seen only where it came in one piece with the answer

Heard = tuple[int, list[tuple[bytes, bytes]], bytes, bool]


def seeds() -> Iterator[bytes]:
    cut = b"\3\x05\x20\x40"
    yield b"\0"
    yield cut + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"
    yield cut + b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
    yield cut + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed(b"abc") + b"0\r\nSum: 1\r\n\r\n"
    yield cut + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 500 No\r\n\r\n"
    yield cut + b"HTTP/1.0 200 OK\r\n\r\nuntil the end"
    yield cut + b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n"
    yield b"\x83\x05\x20\x40HTTP/1.1 304 \r\n\r\n"


def target(data: bytes) -> None:
    choices = Choices(data)
    first = choices.below(256)
    method = "HEAD" if first >= 128 else "GET"
    cuts = [choices.below(256) for _ in range(first % 8)]
    answer = choices.rest()
    whole, why = _fed(method, [answer])
    pieces, why_not = _fed(method, _pieces(answer, cuts))
    if BEHIND not in why and BEHIND not in why_not:
        assert whole == pieces, f"{whole} {why} in one piece, {pieces} {why_not} in {cuts}"
    _check_socket(method, answer, whole)


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _fed(method: str, pieces: list[bytes]) -> tuple[Heard | None, str]:
    reader = AnswerReader(method)
    try:
        if not any(reader.feed(piece) for piece in pieces if piece):
            reader.end()
    except Malformed as error:
        return None, str(error)
    return (reader.status, reader.headers, reader.body, reader.keeps), ""


def _check_socket(method: str, answer: bytes, expected: Heard | None) -> None:
    """Through a real pair of sockets it is the same; nothing but httpx's errors comes out."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    with closing(ours), closing(theirs):
        theirs.sendall(answer)
        theirs.shutdown(socket.SHUT_WR)
        asked = Asked(method, b"/", [(b"host", b"x")], Body(b""), False, PATIENCE, PATIENCE)
        with suppress(httpx.HTTPError):
            heard = _Connection(ours).exchange(asked)
            assert expected is not None
            assert (heard.status, heard.body) == (expected[0], expected[2])
            said(heard)
