"""What a topic or a consumer group may be called: names that are directory names on every system, and safe in a URL."""

from __future__ import annotations

import re

from seglog.errors import InvalidArgument, InvalidType

MAX_NAME = 200
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def is_name(text: str) -> bool:
    """Whether a topic or a group may be called so."""
    return len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None


def checked_name(name: object, what: str) -> str:
    """Return the name; InvalidType where it is no str, InvalidArgument, naming `what`, where it may not be one."""
    if not isinstance(name, str):
        raise InvalidType(f"the name of a {what} must be str, not {type(name).__name__}")
    if not is_name(name):
        shown = name if len(name) <= MAX_NAME else name[:MAX_NAME] + "..."
        raise InvalidArgument(
            f"{shown!r} cannot be the name of a {what}: it takes 1 to {MAX_NAME} of A-Z a-z 0-9 . _ - "
            'and does not begin with "."'
        )
    return name
