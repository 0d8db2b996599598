"""Names that are replaced by others, and go in a later version: see docs/stability.md.

They serve blocking and awaited objects alike, as each returns what its replacement returns.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from datetime import timedelta
from typing import Any

from seglog.config import Compression, Retention


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=3)


class AlteredByName:
    """Three names of `alter`, for a log or a topic."""

    __slots__ = ()

    @abstractmethod
    def alter(self, **changes: Any) -> Any:
        """Change settings durably."""

    def alter_retention(self, retention: Retention) -> Any:
        """Call alter(retention=...); deprecated."""
        _warn("alter_retention", "alter(retention=...)")
        return self.alter(retention=retention)

    def alter_compression(self, codec: Compression) -> Any:
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

    def alter_retention(self, name: str, retention: Retention) -> Any:
        """Call alter_topic(name, retention=...); deprecated."""
        _warn("alter_retention", "alter_topic(name, retention=...)")
        return self.alter_topic(name, retention=retention)

    def alter_compression(self, name: str, codec: Compression) -> Any:
        """Call alter_topic(name, compression=...); deprecated."""
        _warn("alter_compression", "alter_topic(name, compression=...)")
        return self.alter_topic(name, compression=codec)

    def alter_segment_age(self, name: str, age: float | timedelta | None) -> Any:
        """Call alter_topic(name, segment_age=...); deprecated."""
        _warn("alter_segment_age", "alter_topic(name, segment_age=...)")
        return self.alter_topic(name, segment_age=age)
