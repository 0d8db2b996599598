"""Which server, and how a Call becomes httpx's request: what the sync and the async driver share. Sends nothing."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import httpx

from seglog.client.upload import Upload
from seglog.errors import ConnectionFailed, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from seglog.client.call import Call

Verify = bool | str | ssl.SSLContext


def tls(verify: Verify) -> bool | ssl.SSLContext:
    """Return how a certificate is checked: as the system does, not at all, or against a file of authorities."""
    return ssl.create_default_context(cafile=verify) if isinstance(verify, str) else verify


class Origin:
    """A server's address, token and patience. timeout: seconds for connecting, and for every wait for bytes."""

    def __init__(self, url: str, *, token: str | None, timeout: float) -> None:
        """InvalidArgument for anything but an http or https URL, a token that no header can hold, a bad timeout."""
        try:
            self.url = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as error:
            raise InvalidArgument(f"{url!r} is no URL: {error}") from None
        if self.url.scheme not in ("http", "https") or not self.url.host:
            raise InvalidArgument(f"{url!r} must be like http://127.0.0.1:3000")
        if token is not None and not (token.isascii() and token.isprintable() and token):
            raise InvalidArgument("a token is printable ASCII")
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
            raise InvalidArgument(f"timeout is {timeout!r}; it must be a number of seconds greater than 0")
        self.timeout = timeout
        self._prefix = self.url.raw_path.rstrip(b"/")
        self._headers = [(b"host", self.url.netloc), (b"user-agent", b"seglog")]
        if token is not None:
            self._headers.append((b"authorization", b"Bearer " + token.encode()))

    @property
    def port(self) -> int:
        """The port, also where the URL names none."""
        return self.url.port or (443 if self.url.scheme == "https" else 80)

    def request(self, call: Call[Any], *, whole_url: bool) -> httpx.Request:
        """Return the request. whole_url: for transports that do not know the extension `target`; takes 25 us more."""
        target = self._prefix + call.target.encode("ascii")
        url = self.url.copy_with(raw_path=target) if whole_url else self.url
        body = call.body
        headers = [*self._headers, *call.headers]
        if not isinstance(body, Upload):
            if body or call.method != "GET":
                headers.append((b"content-length", b"%d" % len(body)))
        elif body.length is None:
            headers.append((b"transfer-encoding", b"chunked"))
        else:
            headers.append((b"content-length", b"%d" % body.length))
        patience = {"connect": self.timeout, "write": self.timeout, "pool": self.timeout}
        extensions = {"timeout": {**patience, "read": self.timeout + call.wait}, "target": target}
        return httpx.Request(call.method, url, headers=headers, stream=_Body(body), extensions=extensions)

    def failed(self, error: httpx.TransportError) -> ConnectionFailed:
        """Return the error of ours for a connection that could not be made, or broke."""
        sent = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
        where = f"{self.url.scheme}://{self.url.netloc.decode('ascii')}"
        what = "ended before the answer" if sent else "could not be made"
        detail = str(error) or type(error).__name__
        return ConnectionFailed(f"the connection to {where} {what}: {detail}; is the server running?", sent=sent)


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body for either kind of transport."""

    def __init__(self, body: bytes | memoryview | Upload) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        if isinstance(self._body, Upload):
            yield from self._body
        else:
            yield self._body  # type: ignore[misc] # a memoryview is as good to whoever writes or joins it

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if isinstance(self._body, Upload):
            async for piece in self._body:
                yield piece
        else:
            yield self._body  # type: ignore[misc] # as above
