"""HTTP/1.1 as bytes: request heads, answers. Pure: no socket, and only headers that frame a message.

Only what a client of one server needs: complete answers, no pipelining, no upgrades.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_HEAD_BYTES = 64 * 1024
_MAX_SIZE_LINE = 1024
_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")
_LENGTH = re.compile(rb"[0-9]{1,18}")

RawHeaders = list[tuple[bytes, bytes]]


class Malformed(Exception):
    """The bytes are not HTTP/1.1, or ended too early."""


def request_head(method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a request's head. Raises Malformed for a line break in it, which would start another request."""
    lines = [b"%b %b HTTP/1.1" % (method, target), *(b"%b: %b" % field for field in headers), b"", b""]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1:
        raise Malformed("a header or the target contains a line break")
    return head


def framed(piece: bytes) -> bytes:
    """Return a piece of a body of unknown length as a chunk."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


LAST_CHUNK = b"0\r\n\r\n"


class AnswerReader:
    """Parses one answer. status, headers (names in lower case) and body are valid once `feed` returned True.

    keeps: whether the connection can be reused.
    """

    def __init__(self, method: str) -> None:
        self.status = 0
        self.headers: RawHeaders = []
        self.keeps = False
        self._bodiless = method == "HEAD"
        self._held = bytearray()
        self._pieces: list[bytes] = []
        self._left: int | None = None  # missing bytes of the body; None: until the connection ends
        self._chunked = False
        self._trailing = False

    @property
    def body(self) -> bytes:
        """The whole body."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def feed(self, data: bytes) -> bool:
        """Take received bytes; return True when the answer is complete. Raises Malformed."""
        if not self.status:
            self._held += data
            if not self._take_head():
                return False
            data = bytes(self._held)
            self._held.clear()
        if self._chunked:
            self._held += data
            return self._take_chunks()
        return self._take_body(data)

    def end(self) -> None:
        """Note that the connection ended. Raises Malformed unless that is the end of the answer."""
        if not self.status or self._chunked or self._left is not None:
            raise Malformed("the server closed the connection before its answer was complete")

    def _take_head(self) -> bool:
        while True:
            end = self._held.find(b"\r\n\r\n")
            if end < 0:
                if len(self._held) > MAX_HEAD_BYTES:
                    raise Malformed(f"the head of the answer is longer than {MAX_HEAD_BYTES} bytes")
                return False
            first, *lines = bytes(self._held[:end]).split(b"\r\n")
            del self._held[: end + 4]
            if not first.startswith(b"HTTP/1.") or not first[9:12].isdigit():
                raise Malformed(f"not an HTTP/1.1 answer: {first[:80]!r}")
            if int(first[9:12]) >= 200:  # 1xx answers precede it and are ignored
                self._read_head(first, lines)
                return True

    def _read_head(self, first: bytes, lines: list[bytes]) -> None:
        self.status = int(first[9:12])
        split = [line.partition(b":") for line in lines]
        self.headers = [(name.lower(), value.strip()) for name, _, value in split]
        said = dict(self.headers)
        connection = said.get(b"connection", b"").lower()
        self.keeps = b"close" not in connection and (first.startswith(b"HTTP/1.1") or b"keep-alive" in connection)
        if self._bodiless or self.status in (204, 304):
            self._left = 0
        elif said.get(b"transfer-encoding", b"").lower() == b"chunked":
            self._chunked = True
        elif b"content-length" in said:
            if not _LENGTH.fullmatch(said[b"content-length"]):
                raise Malformed(f"the answer's length is {said[b'content-length']!r}")
            self._left = int(said[b"content-length"])
        else:
            self.keeps = False

    def _take_body(self, data: bytes) -> bool:
        if self._left is None:
            self._pieces.append(data)
            return False
        if len(data) > self._left:
            raise Malformed("the server sent more than its answer")
        if data:
            self._pieces.append(data)
        self._left -= len(data)
        return self._left == 0

    def _take_chunks(self) -> bool:
        """Take all complete chunks; return True after the last one and its trailers."""
        held, at = self._held, 0
        try:
            while True:
                line = held.find(b"\r\n", at)
                if line < 0:
                    if len(held) - at > _MAX_SIZE_LINE:
                        raise Malformed("the size of a chunk is too long")
                    return False
                if self._trailing:
                    if line == at:
                        return True
                    at = line + 2
                    continue
                size = _chunk_size(bytes(held[at:line]))
                if size == 0:
                    self._trailing = True
                elif len(held) < line + 2 + size + 2:
                    return False
                else:
                    self._pieces.append(bytes(held[line + 2 : line + 2 + size]))
                    size += 2
                at = line + 2 + size
        finally:
            del held[:at]


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not _SIZE.fullmatch(digits):
        raise Malformed(f"the size of a chunk is {line[:20]!r}")
    return int(digits, 16)
