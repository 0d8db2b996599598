"""Names of topics and consumer groups: valid as directory names on every system, and safe in a URL.

A new topic must not have the name of a file or directory of a log, a topic or a broker: readers of the directory around
it would take it for that file. Topics created before this rule keep their names; `repair` renames those that hide the
directory.
"""

from __future__ import annotations

import re

from seglog.errors import InvalidArgument, InvalidType
from seglog.format import filename

MAX_NAME = 200
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")

_HIDING = frozenset({"topic.json", filename.MANIFEST, filename.MANIFEST_PREVIOUS})
_LAYOUT = {*_HIDING, "topic.json.tmp", "txn", filename.LOCK, filename.PINS, *filename.DIRECTORIES}
RESERVED = frozenset(name.lower() for name in _LAYOUT)  # some file systems do not distinguish upper and lower case
ENDINGS = (*(f".{kind}" for kind in filename.KINDS), filename.TORN, filename.PIN, ".lease", ".tmp")


def is_name(text: str) -> bool:
    """Whether the text is a valid name."""
    return len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None


def checked_name(name: object, what: str) -> str:
    """Return the name. Raises InvalidType or InvalidArgument, naming `what`, if it is invalid."""
    if not isinstance(name, str):
        raise InvalidType(f"the name of a {what} must be str, not {type(name).__name__}")
    if not is_name(name):
        shown = name if len(name) <= MAX_NAME else name[:MAX_NAME] + "..."
        raise InvalidArgument(
            f"{shown!r} cannot be the name of a {what}: use 1 to {MAX_NAME} of A-Z a-z 0-9 . _ - "
            'that do not start with "."'
        )
    return name


def is_reserved(name: str) -> bool:
    """Whether no new topic may have this name: a number, or a name in the layout of logs and topics."""
    return name.isdecimal() or name.lower() in RESERVED or name.lower().endswith(ENDINGS)


def hides_directory(name: str) -> bool:
    """Whether a topic of this name makes earlier versions take the directory around it for a log or a topic."""
    return name in _HIDING or filename.parse_segment_file(name) is not None


def refuse_reserved(name: str) -> None:
    """Raise InvalidArgument for a name that no new topic may have."""
    if is_reserved(name):
        raise InvalidArgument(
            f"{name[:MAX_NAME]!r} cannot be the name of a new topic: numbers and the names of files and directories "
            "of logs and topics are reserved; choose another name"
        )
