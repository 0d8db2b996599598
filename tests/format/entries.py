"""Entries of segments in all their forms, and the check at the end of a base, for tests of the manifest."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from seglog.format.segment_entry import SegmentEntry

U64, COUNT, TIME = st.integers(0, 2**64 - 1), st.integers(0, 2**63 - 1), st.integers(-(2**63), 2**63 - 1)
OF_ALL: dict[str, Any] = {"base_offset": COUNT, "file": COUNT, "salt": U64, "created": TIME, "dense": st.booleans()}
OF_SEALED: dict[str, Any] = {"next_offset": COUNT, "bytes": COUNT, "records": COUNT, "tombstones": COUNT}
OF_SOME: dict[str, Any] = {
    "min_timestamp": st.none() | TIME,
    "max_timestamp": st.none() | TIME,
    "sealed_at": st.none() | TIME,
    "digest": st.none() | U64,
    "cleaned_to": st.none() | COUNT,
    "superseded_to": st.none() | COUNT,
    "decay": st.none() | st.floats(0, 1) | st.floats(allow_nan=False, allow_infinity=False),
    "codec": st.none() | st.sampled_from(["lz4", "zstd"]),
    "stored": st.none() | st.integers(1, 2**63 - 1),
    "horizons": st.lists(st.tuples(COUNT, TIME), max_size=3).map(tuple),
}
ENTRIES = st.builds(SegmentEntry, **OF_ALL) | st.builds(SegmentEntry, **OF_ALL, **OF_SEALED, **OF_SOME)


def with_check(body: bytes) -> bytes:
    """Return a base, whatever is in it, with a check that holds."""
    return body + b'{"check":"%016x"}\n' % xxh64_intdigest(body)
