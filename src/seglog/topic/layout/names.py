"""Names of topics, and of members: valid as directory names on every system, and safe in a URL. Names of groups.

A name from outside becomes a path only after a check here: `checked_name` where a topic is addressed or created,
`checked_directory_name` where a leader or an archive lists what it has. `storage.inside` refuses what passes by them.

The name of a group is only text in a log, and percent-encoded in a URL: it may be what Kafka's clients use.

A new topic must not have the name of a file or directory of a log, a topic or a broker: readers of the directory around
it would take it for that file. Topics created before this rule keep their names; `repair` renames those that hide the
directory.
"""

from __future__ import annotations

import re

from seglog.errors import InvalidArgument, InvalidType
from seglog.format import filename

MAX_NAME = 200
MAX_GROUP_NAME = 255
MAX_DIRECTORY_NAME = 255  # bytes, of the usual file systems
GROUP_NAME = r"[^\x00-\x1f\x7f-\x9f.][^\x00-\x1f\x7f-\x9f]*"
"""The pattern of a group's name: no control characters, and no "." at its start: URLs give "." and ".." a meaning."""
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_DIRECTORY = re.compile(r"[^\x00-\x1f\x7f/\\.\ud800-\udfff][^\x00-\x1f\x7f/\\\ud800-\udfff]*")
_GROUP = re.compile(GROUP_NAME)
_HALF = re.compile(r"[\ud800-\udfff]")  # of a character: Python's strings may have it, UTF-8 has not

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


def checked_directory_name(name: object, source: str) -> str:
    """Return the name of a topic's directory that a leader or an archive names, before a path is made of it.

    It may be one that no new topic gets, because older directories keep theirs. source: who names it, for the error.

    Raises:
        InvalidArgument: If it is not the name of one directory, or begins with ".", as seglog's own do.
    """
    if not isinstance(name, str) or _DIRECTORY.fullmatch(name) is None or len(name.encode()) > MAX_DIRECTORY_NAME:
        raise InvalidArgument(
            f"{source} names a topic {str(name)[:MAX_NAME]!r}, which is not the name of a directory; nothing was "
            "changed. It is damaged, or was made to write outside of the target"
        )
    return name


def is_group_name(text: str) -> bool:
    """Whether the text is a valid name of a group."""
    return len(text) <= MAX_GROUP_NAME and _GROUP.fullmatch(text) is not None and not _HALF.search(text)


def checked_group(name: object) -> str:
    """Return the name of a group. Raises InvalidType or InvalidArgument if it is invalid."""
    if not isinstance(name, str):
        raise InvalidType(f"the name of a group must be str, not {type(name).__name__}")
    if not is_group_name(name):
        raise InvalidArgument(
            f"{name[:MAX_GROUP_NAME]!r} cannot be the name of a group: use 1 to {MAX_GROUP_NAME} characters without "
            'control characters that do not start with "."'
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
