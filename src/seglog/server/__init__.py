"""`seglog serve`: topics over HTTP. Needs the extra `seglog[server]`.

from seglog.server import Settings, serve

serve("shop", Settings(port=3000), print)       # until SIGTERM or SIGINT; a path or a Storage
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from seglog.extras import require

if TYPE_CHECKING:
    from seglog.server.serving import serve
    from seglog.server.settings import Limits, Settings

__all__ = ["Limits", "Settings", "serve"]

PACKAGES = ("httptools", "prometheus_client", "pydantic", "starlette", "uvicorn")
_MODULES = {"Limits": "settings", "Settings": "settings", "serve": "serving"}


def require_server() -> None:
    """Raise MissingExtra unless what the extra `server` brings is installed."""
    require("the server needs", *PACKAGES, extra="server")


def __getattr__(name: str) -> object:
    """Import a public name from its module at first use: the server's dependencies take a while to load."""
    if name not in __all__:
        raise AttributeError(f"module 'seglog.server' has no attribute {name!r}")
    if name == "serve":
        require_server()
    return getattr(import_module(f"seglog.server.{_MODULES[name]}"), name)
