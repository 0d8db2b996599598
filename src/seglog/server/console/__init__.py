"""The console: one page and what it loads, as bytes with their types.

No build step: what lies here is what the browser gets. Knows no HTTP framework and no topics; the page itself speaks
to the server as any other client does.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@cache
def files() -> dict[str, tuple[str, bytes, str]]:
    """Return what is served under /console/: file name -> (content type, bytes, ETag). The page is index.html."""
    found = {}
    for file in resources.files(__name__).iterdir():
        content_type = _TYPES.get(file.name.rpartition(".")[2])
        if content_type is not None:
            content = file.read_bytes()
            found[file.name] = (content_type, content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found
