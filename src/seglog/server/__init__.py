"""`seglog serve`: topics over HTTP. Needs the extra `seglog[server]`.

from seglog.server import Settings, serve

serve("shop", Settings(port=3000), print)       # until SIGTERM or SIGINT; a path or a Storage
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seglog.server.serving import serve as serve
    from seglog.server.settings import Limits as Limits
    from seglog.server.settings import Settings as Settings

_HOME = {"Limits": "settings", "Settings": "settings", "serve": "serving"}


def __getattr__(name: str) -> object:
    """Import a public name from its module at first use: the server's dependencies take a while to load."""
    if name not in _HOME:
        raise AttributeError(f"module 'seglog.server' has no attribute {name!r}")
    return getattr(import_module(f"seglog.server.{_HOME[name]}"), name)
