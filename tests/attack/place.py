"""What attackers share: where the server is, requests as bytes, and connections that are held."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass

MIB = 1024 * 1024
NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
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


def hold(place: Place, count: int, first: bytes, *, rest: bytes = b"", refill: bool = False) -> None:
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


def grow(place: Place, value: bytes, count: int, pause: float) -> None:
    for _ in range(count):
        if place.over:
            return
        place.ask("POST /topics/default/records", value)
        time.sleep(pause)


def together(place: Place, count: int, data: bytes) -> None:
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


def filled(before: bytes, unit: bytes, after: bytes, size: int) -> bytes:
    return before + unit * (size // len(unit)) + unit.rstrip(b",") + after
