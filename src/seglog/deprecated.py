"""Names that are replaced by others, and go in a later version: see docs/stability.md.

They serve blocking and awaited objects alike, as each returns what its replacement returns.
"""

from __future__ import annotations

import functools
import warnings
from abc import abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from seglog.settings import declared

Kind = TypeVar("Kind")


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=3)


class AlteredByName:
    """Three names of `alter`, for a log or a topic."""

    __slots__ = ()

    @abstractmethod
    def alter(self, **changes: Any) -> Any:
        """Change settings durably."""

    def alter_retention(self, retention: Any) -> Any:
        """Call alter(retention=...); deprecated."""
        _warn("alter_retention", "alter(retention=...)")
        return self.alter(retention=retention)

    def alter_compression(self, codec: Any) -> Any:
        """Call alter(compression=...); deprecated."""
        _warn("alter_compression", "alter(compression=...)")
        return self.alter(compression=codec)

    def alter_segment_age(self, age: float | timedelta | None) -> Any:
        """Call alter(segment_age=...); deprecated."""
        _warn("alter_segment_age", "alter(segment_age=...)")
        return self.alter(segment_age=age)


class TopicsAlteredByName:
    """Three names of `alter_topic`, for a broker or a client."""

    __slots__ = ()

    @abstractmethod
    def alter_topic(self, name: str, **changes: Any) -> Any:
        """Change settings of a topic durably."""

    def alter_retention(self, name: str, retention: Any) -> Any:
        """Call alter_topic(name, retention=...); deprecated."""
        _warn("alter_retention", "alter_topic(name, retention=...)")
        return self.alter_topic(name, retention=retention)

    def alter_compression(self, name: str, codec: Any) -> Any:
        """Call alter_topic(name, compression=...); deprecated."""
        _warn("alter_compression", "alter_topic(name, compression=...)")
        return self.alter_topic(name, compression=codec)

    def alter_segment_age(self, name: str, age: float | timedelta | None) -> Any:
        """Call alter_topic(name, segment_age=...); deprecated."""
        _warn("alter_segment_age", "alter_topic(name, segment_age=...)")
        return self.alter_topic(name, segment_age=age)


def taking_moved(names: type, moved: type) -> Callable[[type[Kind]], type[Kind]]:
    """Make a config class take the settings of `names` by keyword, as it did before they moved to another class.

    It keeps them in `_moved`, and reads them from there. moved: that class.
    """

    def taking(kind: type[Kind]) -> type[Kind]:
        init = kind.__init__

        @functools.wraps(init)
        def initialize(self: Any, /, *args: Any, **fields: Any) -> None:
            theirs = {name: fields.pop(name) for name in declared(names).keys() & fields.keys()}
            if theirs:
                _warn(f"{kind.__name__}({', '.join(sorted(theirs))})", _MOVED.format(moved.__name__))
                before = fields.get("_moved")  # as dataclasses.replace gives it
                fields["_moved"] = moved(**theirs) if before is None else moved(**theirs).over(before)
            init(self, *args, **fields)

        def read(self: Any, name: str) -> Any:
            if name not in declared(names):
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
            _warn(f"{kind.__name__}.{name}", _MOVED.format(moved.__name__))
            return getattr(self._moved or moved(), name)

        kind.__init__ = initialize  # type: ignore[method-assign,assignment] # it takes the same arguments, and more
        kind.__getattr__ = read  # type: ignore[attr-defined]
        return kind

    return taking


_MOVED = "{} of the topic (topic.policies, policies=); a log without a topic has no use of it"
