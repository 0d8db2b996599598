"""Check arguments that several modules of this package take."""

from __future__ import annotations

from seglog.errors import InvalidArgument, InvalidType


def checked_seconds(value: object, name: str) -> float:
    """Return a number of seconds. Raises InvalidType or InvalidArgument."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidType(f"{name} must be seconds, not {type(value).__name__}")
    if not 0 <= value < float("inf"):
        raise InvalidArgument(f"{name} is {value}; it must be a number of seconds, 0 or more")
    return float(value)
