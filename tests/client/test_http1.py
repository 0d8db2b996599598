"""Bytes of HTTP/1.1: an answer is the same in whatever pieces it comes; what is none is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.client.transport.http1 import MAX_HEAD_BYTES, AnswerReader, Malformed, framed, request_head

BODIES = st.binary(max_size=300)
CUTS = st.lists(st.integers(0, 2000), max_size=12)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def answered(data: bytes, cuts: list[int], method: str = "GET") -> AnswerReader:
    """Feed all pieces; only the last one, if any, may say that it is whole."""
    reader = AnswerReader(method)
    said = [reader.feed(piece) for piece in pieces(data, cuts)]
    assert said[-1] and not any(said[:-1])
    return reader


@given(BODIES.filter(bool), CUTS)
def test_an_answer_of_known_length_is_the_same_in_any_pieces(body: bytes, cuts: list[int]) -> None:
    reader = answered(b"HTTP/1.1 201 Created\r\nX-One:  two \r\nContent-Length: %d\r\n\r\n%b" % (len(body), body), cuts)
    assert (reader.status, reader.body, reader.keeps) == (201, body, True)
    assert reader.headers[0] == (b"x-one", b"two")


@given(st.lists(BODIES.filter(bool), max_size=5), CUTS, st.sampled_from([b"", b"Seglog-Sum: 3\r\n"]))
def test_a_chunked_answer_is_the_same_in_any_pieces(chunks: list[bytes], cuts: list[int], trailer: bytes) -> None:
    data = b"".join(map(framed, chunks)) + b"0\r\n" + trailer + b"\r\n"
    reader = answered(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data, cuts)
    assert (reader.body, reader.keeps) == (b"".join(chunks), True)


def test_an_answer_without_length_ends_with_the_connection() -> None:
    reader = AnswerReader("GET")
    assert not reader.feed(b"HTTP/1.0 200 OK\r\n\r\nsome")
    assert not reader.feed(b" more")
    reader.end()
    assert (reader.body, reader.keeps) == (b"some more", False)


@pytest.mark.parametrize(
    ("head", "method"),
    [(b"204 No Content\r\n\r\n", "GET"), (b"304 \r\n\r\n", "GET"), (b"200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD")],
)
def test_some_answers_have_no_body(head: bytes, method: str) -> None:
    assert answered(b"HTTP/1.1 " + head, [], method).body == b""


def test_go_on_is_no_answer() -> None:
    assert (
        answered(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", [25, 40]).body == b"x"
    )


def test_a_connection_that_closes_is_not_kept() -> None:
    assert not answered(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", []).keeps


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"x" * (MAX_HEAD_BYTES + 1),
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 2000,
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        AnswerReader("GET").feed(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_an_answer_that_ends_too_early_is_none(data: bytes) -> None:
    reader = AnswerReader("GET")
    assert not reader.feed(data)
    with pytest.raises(Malformed):
        reader.end()


@pytest.mark.parametrize("target", [b"/a\r\nX: y", b"/a\nb"])
@pytest.mark.parametrize("headers", [[], [(b"x", b"a\r\n\r\nGET / HTTP/1.1")]])
def test_a_line_break_never_begins_another_request(target: bytes, headers: Any) -> None:
    with pytest.raises(Malformed):
        request_head(b"GET", target, headers)
    if headers:
        with pytest.raises(Malformed):
            request_head(b"GET", b"/", headers)


def test_a_request_is_what_rfc_9112_says() -> None:
    head = request_head(b"POST", b"/records", [(b"host", b"h:1"), (b"content-length", b"2")])
    assert head == b"POST /records HTTP/1.1\r\nhost: h:1\r\ncontent-length: 2\r\n\r\n"
