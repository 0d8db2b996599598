"""A server's address and limits, and how a Call becomes a request; shared by both drivers. Sends nothing."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from seglog.client.upload import Upload
from seglog.errors import Busy, ConnectionFailed, InvalidArgument
from seglog.record import checked_text

if TYPE_CHECKING:
    from seglog.client.requests.call import Answer, Call

Verify = bool | str | ssl.SSLContext

_TERM = re.compile("[0-9a-f]{16}:[0-9]{1,7}")
MOST = 100  # connections of one client for normal requests
MOST_WAITING = 1000  # connections for long polls, one per follower


def tls(verify: Verify) -> bool | ssl.SSLContext:
    """Return how certificates are checked: by the system's rules, not at all, or against a CA file."""
    return ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify


def limits(*, may_wait: bool) -> httpx.Limits:
    """Return how many connections an httpx transport may open."""
    return httpx.Limits(max_connections=MOST_WAITING if may_wait else MOST, max_keepalive_connections=64)


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body for sync and async transports."""

    def __init__(self, body: bytes | memoryview | Upload) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        if isinstance(self._body, Upload):
            yield from self._body
        else:
            yield self._body  # type: ignore[misc] # a memoryview can be written and joined like bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if isinstance(self._body, Upload):
            async for piece in self._body:
                yield piece
        else:
            yield self._body  # type: ignore[misc] # as above


class Asked(NamedTuple):
    """A request in HTTP terms. timeout: seconds to connect, and to send; patience: seconds of each wait for bytes."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: Body
    chunked: bool
    timeout: float
    patience: float

    @property
    def may_wait(self) -> bool:
        """Whether the server may delay the answer (a long poll)."""
        return self.patience > self.timeout


class Origin:
    """A server's address, token and timeout. timeout: seconds to connect, and for each wait for bytes."""

    def __init__(self, url: str, *, token: str | None, timeout: float, term: str | None = None) -> None:
        """Check the arguments. Raises InvalidArgument for a URL that is not http(s), an invalid token or timeout.

        term: the highest that is known, as `term` of another client; None: none.
        """
        self.term: str | None = None
        if term is not None:
            if not _TERM.fullmatch(checked_text(term, "term")):
                raise InvalidArgument(f"term is {term!r}; it must be what `term` of a client has, ID:TERM")
            self.term = term
        try:
            self.url = httpx.URL(url)
        except (httpx.InvalidURL, TypeError, ValueError) as error:
            raise InvalidArgument(f"{url!r} is not a URL: {error}") from None
        if self.url.scheme not in ("http", "https") or not self.url.host:
            raise InvalidArgument(f"{url!r} is not a server's address; write it like http://127.0.0.1:3000")
        token = None if token is None else checked_text(token, "token").strip()  # a token file ends with a newline
        if token is not None and not (token.isascii() and token.isprintable() and token):
            raise InvalidArgument("a token must be printable ASCII")
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
            raise InvalidArgument(f"timeout is {timeout!r}; it must be a number of seconds greater than 0")
        self.timeout = timeout
        self._prefix = self.url.raw_path.rstrip(b"/")
        self._headers = [(b"host", self.url.netloc), (b"user-agent", b"seglog")]
        if token is not None:
            self._headers.append((b"authorization", b"Bearer " + token.encode()))

    @property
    def port(self) -> int:
        """The port, with the scheme's default."""
        return self.url.port or (443 if self.url.scheme == "https" else 80)

    def asked(self, call: Call[Any]) -> Asked:
        """Return the request for seglog's transports."""
        body, length = call.body, call.body.length if isinstance(call.body, Upload) else len(call.body)
        headers = [*self._headers, *call.headers]
        if self.term is not None:
            headers.append((b"seglog-term", self.term.encode()))
        if length is None:
            headers.append((b"transfer-encoding", b"chunked"))
        elif length or call.method != "GET":
            headers.append((b"content-length", b"%d" % length))
        target = self._prefix + call.target.encode("ascii")
        return Asked(call.method, target, headers, Body(body), length is None, self.timeout, self.timeout + call.wait)

    def learned(self, answer: Answer) -> Answer:
        """Note the term of an answer, if it is higher than the known one, or of other topics; return the answer."""
        text = answer.headers.get("seglog-term")
        if text is not None and _TERM.fullmatch(text):
            source, _, number = text.partition(":")
            known, _, highest = (self.term or "").partition(":")
            if source != known or int(number) > int(highest):
                self.term = text
        return answer

    def request(self, call: Call[Any], *, whole_url: bool) -> httpx.Request:
        """Return the request for httpx's transports. whole_url: for those without the `target` extension."""
        asked = self.asked(call)
        url = self.url.copy_with(raw_path=asked.target) if whole_url else self.url
        patience = {"connect": asked.timeout, "write": asked.timeout, "pool": asked.timeout, "read": asked.patience}
        extensions = {"timeout": patience, "target": asked.target}
        return httpx.Request(asked.method, url, headers=asked.headers, stream=asked.body, extensions=extensions)

    def failed(self, error: httpx.TransportError) -> ConnectionFailed | Busy:
        """Return seglog's error for a failed connection; Busy if none became free."""
        where = f"{self.url.scheme}://{self.url.netloc.decode('ascii')}"
        if isinstance(error, httpx.PoolTimeout):
            return Busy(
                f"all connections of this client to {where} are in use, and none became free within {self.timeout:g} "
                f"seconds; a client has {MOST}, and {MOST_WAITING} for long polls: use fewer tasks or another client"
            )
        sent = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
        what = "ended before the answer" if sent else "failed"
        detail = str(error) or type(error).__name__
        return ConnectionFailed(f"the connection to {where} {what}: {detail}; is the server running?", sent=sent)
