"""`seglog serve`: topics over HTTP. Needs the extra `seglog[server]`.

from seglog.server import Settings, serve

serve("shop", Settings(port=3000), print)       # until SIGTERM or SIGINT; a path or a Storage
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seglog.server.serving import serve
    from seglog.server.settings import Limits, Settings

__all__ = ["Limits", "Settings", "serve"]

_MODULES = {"Limits": "settings", "Settings": "settings", "serve": "serving"}


def __getattr__(name: str) -> object:
    """Import a public name from its module at first use: the server's dependencies take a while to load."""
    if name not in __all__:
        raise AttributeError(f"module 'seglog.server' has no attribute {name!r}")
    return getattr(import_module(f"seglog.server.{_MODULES[name]}"), name)
