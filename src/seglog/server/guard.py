"""Keeps web pages of others out: a browser sends whatever any page asks for, also to a server of this machine.

A page of another origin is told by its Origin header. A name that an attacker points at this machine (DNS rebinding) is
told by the Host header, where the server listens on this machine alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from seglog.errors import Forbidden
from seglog.server.settings import Settings

HOST = re.compile(r"(\[[0-9a-f:.]*\]|[^:\[\]]*)(?::[0-9]*)?")  # a name or address, and a port
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class Guard:
    """Looks at where a request comes from."""

    def __init__(self, settings: Settings) -> None:
        self._names = LOCAL_NAMES | {settings.host} if settings.is_local else None

    def check(self, headers: Mapping[str, str]) -> None:
        """Raise Forbidden for a request that a foreign page sent; headers by name in lower case."""
        host = headers.get("host", "")
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != host.lower():
            raise Forbidden(f"a page of {origin[:200]} may not use this server")
        if self._names is not None and host and _name_of(host) not in self._names:
            raise Forbidden(f"this server listens on this machine alone, and {host[:200]!r} is not a name of it")


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name_of(host: str) -> str:
    found = HOST.fullmatch(host.lower())
    return host if found is None else found[1]
