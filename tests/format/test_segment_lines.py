"""Lines that are decoded later: they are what they would have been at once, and what is refused is refused at once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seglog.config import LogConfig
from seglog.errors import FormatVersionError
from seglog.format.foreign import UNREADABLE
from seglog.format.manifest import Manifest, SegmentEntry, Segments, decode
from seglog.format.segment_lines import Figures, decode_lines, figures_of
from seglog.format.segment_list import BLOCK_BYTES
from tests.format.entries import ENTRIES, with_check

SEALED = SegmentEntry(
    base_offset=3,
    file=4,
    salt=5,
    created=1,
    next_offset=9,
    bytes=400,
    records=6,
    tombstones=0,
    min_timestamp=-2,
    max_timestamp=8,
    sealed_at=20,
    digest=7,
    cleaned_to=9,
    decay=1e-05,
    horizons=((5, 6), (9, 2**63 - 1)),
)
ACTIVE = SegmentEntry(base_offset=10, file=5, salt=6, created=20)
JSON = b"""0 - 1 12345678901234567890 . .5 e1 e999 " a F , : { } [ ] [] [1,2] [1] null true false {} "x":1, "file":"4",
"file":true, "file":7, "decay":3, "dense":1, "salt":1,"""
FRAGMENTS = st.sampled_from([b"", b" ", b"\n", b"\r", b"\r\n", b"}\n{", b"\0", b"\xff", *JSON.split()])


def joined(entries: list[SegmentEntry]) -> bytes:
    return b"".join([entry.line for entry in entries])


def outcome(text: bytes, *, later: bool) -> object:
    """The entries in some lines, or None if they are refused."""
    try:
        return tuple(Segments.read(text, 0, len(text), Segments())) if later else decode_lines(text)
    except UNREADABLE:
        return None


@given(st.lists(ENTRIES, min_size=1, max_size=4))
def test_what_is_written_is_recognized_and_has_its_figures(entries: list[SegmentEntry]) -> None:
    assert figures_of(joined(entries)) == Figures(
        [entry.base_offset for entry in entries],
        [entry.file for entry in entries],
        [entry.disk_bytes for entry in entries],
        [entry.records or 0 for entry in entries],
    )
    assert decode_lines(joined(entries)) == tuple(entries)


@given(
    st.lists(ENTRIES | st.just(SEALED) | st.just(ACTIVE), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 12), FRAGMENTS), min_size=1, max_size=3),
)
@example([ACTIVE], [(15, 2, b"010")])
@example([ACTIVE, ACTIVE], [(0, 0, b"[1]")])
def test_what_is_decoded_later_is_what_it_would_have_been_at_once(
    entries: list[SegmentEntry], changes: list[tuple[int, int, bytes]]
) -> None:
    text = joined(entries)
    for at, gone, come in changes:
        place = at % len(text)
        text = text[:place] + come + text[place + gone :]
    text = text.removesuffix(b"\n") + b"\n"
    assert outcome(text, later=True) == outcome(text, later=False)
    if figures_of(text) is not None:
        assert outcome(text, later=False) is not None


@given(st.integers(0, 2**32), st.binary(min_size=1, max_size=2))
def test_a_byte_that_is_another_changes_an_entry_or_is_refused_in_the_same_way(place: int, come: bytes) -> None:
    text = bytearray(joined([SEALED, ACTIVE]))
    at = place % (len(text) - 1)
    text[at : at + len(come)] = come
    whole = bytes(text).removesuffix(b"\n") + b"\n"
    assert outcome(whole, later=True) == outcome(whole, later=False)


def manifest_of(count: int, **changes: Any) -> Manifest:
    sealed = [
        replace(SEALED, base_offset=9 * number, next_offset=9 * number + 9, file=number + 1, **changes)
        for number in range(count)
    ]
    return Manifest(
        log_id=1,
        version=2,
        epoch=0,
        next_file=count + 2,
        start=0,
        config=LogConfig(),
        segments=Segments.of([*sealed, replace(ACTIVE, base_offset=9 * count, file=count + 1)]),
    )


def is_decoded(segments: Segments) -> list[bool]:
    return ["entries" in vars(block) for block in segments._blocks]


def test_figures_of_all_segments_and_a_new_base_need_no_entry() -> None:
    manifest = manifest_of(2000)
    segments = decode(manifest.encode(), "MANIFEST").segments
    assert len(segments) == 2001
    assert (segments.total_bytes, segments.total_records) == (2000 * 400, 2000 * 6)
    assert list(segments.files()) == [entry.file for entry in manifest.segments]
    assert list(segments.stores()) == [(one.base_offset, one.file, one.disk_bytes) for one in manifest.segments]
    assert segments.find(9 * 1000 + 3) == 1000
    assert replace(manifest, segments=segments).encode() == manifest.encode()
    again = decode(manifest.encode(), "MANIFEST", replace(manifest, segments=segments)).segments
    assert again._blocks == segments._blocks
    assert not any(is_decoded(segments))
    assert segments[1000] == manifest.segments[1000]
    assert is_decoded(segments).count(True) == 1


def test_a_base_after_an_expiry_and_a_roll_shares_what_was_read_before() -> None:
    manifest = manifest_of(2000)
    earlier = decode(manifest.encode(), "MANIFEST")
    sealed = replace(SEALED, base_offset=18000, next_offset=18009, file=2001)
    more = [sealed, replace(ACTIVE, base_offset=18009, file=2002)]
    later = replace(manifest, segments=manifest.segments[300:-1].followed_by(more))
    found = decode(later.encode(), "MANIFEST", earlier).segments
    assert found == later.segments
    assert len(set(found._blocks) & set(earlier.segments._blocks)) >= len(found._blocks) - 3


def test_a_line_of_any_length_is_read() -> None:
    manifest = manifest_of(3, horizons=tuple((number, 2**60) for number in range(BLOCK_BYTES // 8)))
    assert len(manifest.segments[0].line) > BLOCK_BYTES
    assert decode(manifest.encode(), "MANIFEST") == manifest


@pytest.mark.parametrize("number", [0, 700, 1999, 2000])
@pytest.mark.parametrize(
    ("written", "instead"),
    [
        (b'"file":', b'"horizon":7,"file":'),
        (b'"dense":true', b'"dense":1'),
        (b'"created":', b'"created":"","created":1.0,"x":'),
        (b"}\n", b',"later":null}\n'),
        (b'"base_offset":', b'"base_offset":true,"base":'),
        (b"{", b"[{"),
    ],
)
def test_a_line_of_a_newer_version_is_refused_at_once_wherever_it_is(
    number: int, written: bytes, instead: bytes
) -> None:
    with pytest.raises(FormatVersionError, match="nothing was changed"):
        decode(with_line(manifest_of(2000).encode(), number, written, instead), "MANIFEST")


def with_line(data: bytes, number: int, written: bytes, instead: bytes) -> bytes:
    """A base in which a segment's line has something instead of what was written, with a check that holds."""
    lines = data.splitlines(keepends=True)[:-1]
    assert written in lines[number + 1]
    lines[number + 1] = lines[number + 1].replace(written, instead, 1)
    return with_check(b"".join(lines))


def test_fields_in_another_order_or_with_spaces_are_the_same_segment() -> None:
    entry = SEALED
    values = json.loads(entry.line)
    text = json.dumps(dict(reversed(values.items()))).encode() + b"\n"
    assert figures_of(text) is None
    assert list(Segments.read(text + entry.line, 0, len(text + entry.line), Segments())) == [entry, entry]
