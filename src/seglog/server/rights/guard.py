"""Protect against foreign web pages: a browser sends any request that any page asks for, also to a local server.

A page of another origin is recognised by its Origin header or, as browsers request images, scripts and links without
Origin, by Sec-Fetch-Site. A link may open the console and nothing else. A foreign name that points at this machine (DNS
rebinding) is recognised by the Host header, if the server listens on this machine only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from seglog.errors import Forbidden
from seglog.server.settings import Settings

HOST = re.compile(r"(\[[0-9a-f:.]*\]|[^:\[\]]*)(?::[0-9]*)?")  # a name or address, and a port
OWN_SITES = frozenset({"none", "same-origin"})  # "same-site" may be another port or subdomain
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class Guard:
    """Checks where a request comes from."""

    def __init__(self, settings: Settings) -> None:
        self._names = LOCAL_NAMES | {settings.host} if settings.is_local else None

    def check(self, headers: Mapping[str, str], *, is_page: bool = False) -> None:
        """Raise Forbidden for a request that a foreign page sent. headers: by name in lower case.

        is_page: whether it requests a page that links may open.
        """
        host = headers.get("host", "")
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != host.lower():
            raise Forbidden(f"a page of {origin[:200]} may not use this server")
        if headers.get("sec-fetch-site", "none") not in OWN_SITES and not (is_page and _is_link(headers)):
            raise Forbidden("a page of another site may not use this server")
        if self._names is not None and host and _name_of(host) not in self._names:
            raise Forbidden(f"this server listens on this machine only, and {host[:200]!r} is not one of its names")


def _is_link(headers: Mapping[str, str]) -> bool:
    """Whether a browser opens the answer as its own page, not inside another page."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name_of(host: str) -> str:
    found = HOST.fullmatch(host.lower())
    return host if found is None else found[1]
