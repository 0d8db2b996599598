"""The console: one page and its files, as bytes with content types.

No build step: the browser gets these files unchanged. Knows no HTTP framework and no topics; the page uses the server's
API like any other client.
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
    """Return the files served below /console/: file name -> (content type, bytes, ETag). index.html is the page."""
    found = {}
    for file in resources.files(__name__).iterdir():
        content_type = _TYPES.get(file.name.rpartition(".")[2])
        if content_type is not None:
            content = file.read_bytes()
            found[file.name] = (content_type, content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found
