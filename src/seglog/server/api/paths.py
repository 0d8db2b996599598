"""Find the endpoint of a path, in a time that does not grow with the number of paths.

A path is split before it is decoded, so that a part of it may contain a slash: `/groups/a%2Fb`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Router

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send


class Paths:
    """An ASGI app that hands a request to the route of its path.

    Starlette's Router tries its routes one after another. So there is one for each shape of a path, which has the few
    routes of this shape.
    """

    def __init__(self, routes: Iterable[Route], default: ASGIApp) -> None:
        """default: answers requests for an unknown path."""
        by_shape: dict[tuple[str, int], list[Route]] = {}
        for route in routes:
            by_shape.setdefault(_shape(route.path), []).append(route)
        self._routers = {
            shape: Router(alike, redirect_slashes=False, default=default) for shape, alike in by_shape.items()
        }
        self._default = default

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Its parameters in the path stay percent-encoded."""
        path = scope["path"] = scope["raw_path"].decode("latin-1")
        await self._routers.get(_shape(path), self._default)(scope, receive, send)


def _shape(path: str) -> tuple[str, int]:
    """Return the first segment of a path, which is no parameter in any route, and how many segments it has."""
    return path[1:].partition("/")[0], path.count("/")
