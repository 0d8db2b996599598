"""The keys of an archive's objects. Pure.

A key holds the term of the writer that uploaded it: no two writers ever write one object, so an object that a deposed
writer deletes as garbage cannot be one that its successor uses.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from seglog.format import filename

if TYPE_CHECKING:
    from seglog.format.manifest import SegmentEntry

COMMITS = "commits/"
LOGS = "logs/"
RETIRED = "retired/"


def commit_key(number: int) -> str:
    """Return the key of a commit; the keys sort like the numbers."""
    return f"{COMMITS}{number:020d}.json"


def number_of(key: str) -> int | None:
    """Return the number of a commit's or a lease's key; None for another object."""
    digits = key.rpartition("/")[2].removesuffix(".json")
    return int(digits) if digits.isdecimal() and key.endswith(f"/{int(digits):020d}.json") else None


def segment_key(log_id: int, entry: SegmentEntry, term: int, kind: str) -> str:
    """Return the key of a sealed segment's store, or of one of its lookups."""
    name = filename.segment_file(entry.base_offset, entry.file, kind)
    stem, _, ending = name.rpartition(".")
    return f"{LOGS}{log_id:016x}/{stem}-t{term}-{entry.bytes}-{entry.digest or 0:016x}.{ending}"


def tail_key(log_id: int, entry: SegmentEntry, term: int, start: int) -> str:
    """Return a new key for a piece of an active segment."""
    return f"{LOGS}{log_id:016x}/{entry.base_offset:020d}-{entry.file}-t{term}-{start}-{secrets.token_hex(6)}.tail"


def segments_key(log_id: int, number: int, term: int) -> str:
    """Return a new key for a log's list of segments. number: of the commit that will name it first."""
    return f"{LOGS}{log_id:016x}/{number:020d}-t{term}-{secrets.token_hex(6)}.segments"


def retired_key(term: int) -> str:
    """Return the key of the list of objects to delete that the writer of a term has saved."""
    return f"{RETIRED}{term:020d}.json"


def lease_prefix(name: str) -> str:
    """Return what the keys of a lease begin with."""
    return f"leases/{name}/"


def lease_key(prefix: str, number: int) -> str:
    """Return the key of one renewal of a lease."""
    return f"{prefix}{number:020d}.json"


def term_of(key: str) -> int | None:
    """Return the term in an object's key; None for an object that is none of a log's."""
    if not key.startswith(LOGS):
        return None
    terms = [part[1:] for part in key.rpartition("/")[2].split("-") if part[:1] == "t" and part[1:].isdecimal()]
    return int(terms[0]) if len(terms) == 1 else None
