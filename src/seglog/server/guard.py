"""Keeps web pages of others out: a browser sends whatever any page asks for, also to a server of this machine.

A page of another origin is recognised by its Origin header, or by Sec-Fetch-Site where it sends none: browsers ask for
images, scripts and links without Origin. A link may open the console, and nothing else. A name that an attacker points
at this machine (DNS rebinding) is recognised by the Host header, where the server listens on this machine alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from seglog.errors import Forbidden
from seglog.server.settings import Settings

HOST = re.compile(r"(\[[0-9a-f:.]*\]|[^:\[\]]*)(?::[0-9]*)?")  # a name or address, and a port
OWN_SITES = frozenset({"none", "same-origin"})  # "same-site" is another port, or another name of the domain
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class Guard:
    """Looks at where a request comes from."""

    def __init__(self, settings: Settings) -> None:
        self._names = LOCAL_NAMES | {settings.host} if settings.is_local else None

    def check(self, headers: Mapping[str, str], *, is_page: bool = False) -> None:
        """Raise Forbidden for a request that a foreign page sent; headers by name in lower case.

        is_page: whether it asks for a page that links may open.
        """
        host = headers.get("host", "")
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != host.lower():
            raise Forbidden(f"a page of {origin[:200]} may not use this server")
        if headers.get("sec-fetch-site", "none") not in OWN_SITES and not (is_page and _is_link(headers)):
            raise Forbidden("a page of another site may not use this server")
        if self._names is not None and host and _name_of(host) not in self._names:
            raise Forbidden(f"this server listens on this machine alone, and {host[:200]!r} is not a name of it")


def _is_link(headers: Mapping[str, str]) -> bool:
    """Whether a browser opens what it asks for as a page of its own, not inside another one."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name_of(host: str) -> str:
    found = HOST.fullmatch(host.lower())
    return host if found is None else found[1]
