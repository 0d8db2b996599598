"""A manifest's text: taken, refused as damaged, or refused as newer; what is taken reads the same when written again.

Input: a byte that says whether the check is to be made to hold, then the text; or choices that change a real one, or
the change that follows one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from xxhash import xxh64_intdigest

from seglog.config import LogConfig, Retention
from seglog.errors import CorruptLog, FormatVersionError
from seglog.format.manifest import CHECK_BYTES, Manifest, Retired, SegmentEntry, Segments, decode
from seglog.format.manifest_changes import Change, ManifestFile, decode_file, doubled, encode_change
from tests.fuzz.choices import Choices, mangled_text

if TYPE_CHECKING:
    from collections.abc import Iterator

SEALED = SegmentEntry(
    base_offset=0,
    file=1,
    salt=0xABC,
    created=11,
    next_offset=9,
    bytes=400,
    records=5,
    tombstones=1,
    min_timestamp=-3,
    max_timestamp=9,
    sealed_at=20,
    digest=0xDEF,
    dense=False,
    cleaned_to=9,
    superseded_to=12,
    decay=0.25,
    horizons=((4, 100), (9, 200)),
)
MANIFEST = Manifest(
    log_id=0x77,
    version=3,
    epoch=1,
    next_file=4,
    start=0,
    config=LogConfig(segment_bytes=512, retention=Retention(bytes=10, compact=True)),
    segments=Segments.of([SEALED, SegmentEntry(base_offset=9, file=2, salt=2**64 - 1, created=20)]),
    retired=(Retired(version=2, retired_at=15, names=("00000000000000000000-3.store",)),),
    published={"query": 8},
)
BASE = MANIFEST.encode(open_ended=True)
LATER = replace(MANIFEST, version=4, segments=MANIFEST.segments.spliced(0, 1, [replace(SEALED, file=3)]), next_file=5)
AS_IT_IS, CHECKED, CHANGED, FOLLOWED = b"\0", b"\1", b"\2", b"\3"


def seeds() -> Iterator[bytes]:
    yield b""
    yield AS_IT_IS + MANIFEST.encode()
    yield AS_IT_IS + MANIFEST.encode().replace(b'"format": 1', b'"format": 2')
    yield CHECKED + MANIFEST.encode()
    for number in range(0, 240, 20):
        for kind in (CHANGED, FOLLOWED):
            yield kind + bytes([1, number, 0, 1, number, 0, number % 21])


def target(data: bytes) -> None:
    text = data[1:]
    if data[:1] == FOLLOWED:
        followed(Choices(text))
        return
    if data[:1] == CHANGED:
        choices, text = Choices(text), MANIFEST.encode()
        for _ in range(1 + choices.below(3)):
            text = mangled_text(text, choices)
    if data[:1] in (CHECKED, CHANGED):
        text = checked(text)
    with suppress(CorruptLog, FormatVersionError):
        found = decode(text, "MANIFEST")
        assert decode(found.encode(), "MANIFEST") == found
        assert found.segments.find(found.active.base_offset) < len(found.segments)


def followed(choices: Choices) -> None:
    """Decode a base and a change whose text is changed, and whose check holds for it."""
    file = ManifestFile.of_base(MANIFEST, BASE)
    text = encode_change(file, Change.between(MANIFEST, LATER))[:-CHECK_BYTES]
    for _ in range(choices.below(3)):
        text = mangled_text(text, choices)
    line = text + b',"check":"%016x"}\n' % xxh64_intdigest(text)
    with suppress(CorruptLog, FormatVersionError):
        found = decode_file(BASE + doubled(line), "MANIFEST").manifest
        assert decode(found.encode(), "MANIFEST") == found


def checked(text: bytes) -> bytes:
    """Return a manifest, or a pin, whose check holds for the lines before its last one."""
    body, newline, _ = text.removesuffix(b"\n").rpartition(b"\n")
    body += newline
    return body + b'{"check":"%016x"}\n' % xxh64_intdigest(body)
