"""The names of all files of a log: building and parsing them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from seglog.config import MAX_OFFSET

MANIFEST = "MANIFEST"
MANIFEST_PREVIOUS = "MANIFEST.prev"
ROLE = "ROLE"
LOCK = "LOCK"
TREE_LOCK = ".seglog.lock"
TMP = "tmp"
READERS = "readers"
PINS = "pins"
STAGING = "staging"
QUARANTINE = "quarantine"
DIRECTORIES = (TMP, READERS, STAGING, QUARANTINE)

STORE, INDEX, OFFSETS, TIMES, BLOCKS = "store", "index", "offsets", "times", "blocks"
LOOKUPS = (INDEX, OFFSETS, TIMES, BLOCKS)
KINDS = (STORE, *LOOKUPS)
"""The kinds of a segment's files, that of a compressed one last."""
TORN = ".torn"

PIN = ".pin"
HOLD = ".hold"

_SEGMENT_FILE = re.compile(r"([0-9]{20})-(0|[1-9][0-9]*)\.(store|index|offsets|times|blocks)")
_TORN_FILE = re.compile(_SEGMENT_FILE.pattern + r"\.[0-9]+(-[0-9]+)?\.torn")


class SegmentFile(NamedTuple):
    """The parts of a segment file's name."""

    base_offset: int
    number: int
    kind: str


def segment_file(base_offset: int, number: int, kind: str) -> str:
    """Return `<base offset, 20 digits>-<file number>.<kind>`."""
    return f"{str(base_offset).zfill(20)}-{number}.{kind}"  # half the time of :020d


def parse_segment_file(name: str) -> SegmentFile | None:
    """Return the parts of a segment file's name; None for any other name, which is not a log's file."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None or int(match[1]) > MAX_OFFSET:
        return None
    return SegmentFile(int(match[1]), int(match[2]), match[3])


def not_numbered(names: Iterable[str], numbers: Iterable[int]) -> list[str]:
    """Return the names that have none of these file numbers; not validated, so that it is fast with many names."""
    known = set(map(str, numbers))
    others = [name for name in names if name[21:-6] not in known]  # the endings of most files have six characters
    return [name for name in others if name[21 : name.find(".")] not in known]


def torn_file(store: str, position: int, number: int = 0) -> str:
    """Return the file name for the bytes cut from `store` at `position`; number: of earlier ones there."""
    return f"{store}.{position}-{number}{TORN}" if number else f"{store}.{position}{TORN}"


def lease_file(identity: str) -> str:
    """Return the name of a reader's lease."""
    return f"{READERS}/{identity}.lease"


def pin_file(name: str) -> str:
    """Return the name of a follower's pin."""
    return f"{PINS}/{name}{PIN}"


def hold_file(name: str) -> str:
    """Return the name of an archive's hold."""
    return f"{PINS}/{name}{HOLD}"


def belongs_to_log(name: str) -> bool:
    """Whether a name in a log's directory may belong to the log."""
    known = (MANIFEST, MANIFEST_PREVIOUS, ROLE, LOCK, PINS, *DIRECTORIES)
    return name in known or parse_segment_file(name) is not None or _TORN_FILE.fullmatch(name) is not None
