from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from seglog.server.http.joined_writes import SMALL_BYTES, JoinedTransport


class Wire(asyncio.Transport):
    """A transport that notes each call to the kernel that it would make."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:  # type: ignore[override] # bytes are all that is written
        assert not self.closed, "written after its end"
        self.sent.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    abort = close


def sent_after(act: Callable[[JoinedTransport], None], *, turns: int = 1) -> list[bytes]:
    """Let something write, go on for so many turns of the event loop, and return what was sent by then."""

    async def run() -> list[bytes]:
        wire = Wire()
        act(JoinedTransport(wire, asyncio.get_running_loop(), 20.0))
        for _ in range(turns):
            await asyncio.sleep(0)
        return [*wire.sent]

    return asyncio.run(run())


def write(*pieces: bytes, then: str | None = None) -> Callable[[JoinedTransport], None]:
    """Write all pieces in one turn; then: what is called after them."""

    def act(transport: JoinedTransport) -> None:
        for piece in pieces:
            transport.write(piece)
        if then is not None:
            getattr(transport, then)()

    return act


def test_a_head_and_its_body_are_sent_by_one_call() -> None:
    assert sent_after(write(b"head", b"body"), turns=0) == [b"headbody"]


def test_a_head_alone_is_sent_when_the_turn_is_over() -> None:
    assert sent_after(write(b"head"), turns=0) == []
    assert sent_after(write(b"head")) == [b"head"]


@pytest.mark.parametrize("pieces", [[b"a", b"b", b"c"], [b"a", b"", b"c"], [b"a", b"b", b"c", b"d", b"e"]])
def test_everything_is_sent_once_and_in_order(pieces: list[bytes]) -> None:
    assert b"".join(sent_after(write(*pieces))) == b"".join(pieces)


def test_a_large_piece_is_not_held_and_not_copied() -> None:
    large = bytes(SMALL_BYTES + 1)
    assert sent_after(write(large), turns=0)[0] is large


def test_the_end_sends_what_is_held_first() -> None:
    assert sent_after(write(b"refused", then="close")) == [b"refused"]


def test_what_is_held_goes_with_a_connection_that_is_aborted() -> None:
    assert sent_after(write(b"head", then="abort")) == []
