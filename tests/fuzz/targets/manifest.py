"""A manifest's text: taken, refused as damaged, or refused as newer; what is taken reads the same when written again.

Input: a byte that says whether the check is to be made to hold, then the text; or choices that change a real one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from xxhash import xxh64_intdigest

from seglog.config import LogConfig, Retention
from seglog.errors import CorruptLog, FormatVersionError
from seglog.format.manifest import Manifest, Retired, SegmentEntry, decode
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
    segments=(SEALED, SegmentEntry(base_offset=9, file=2, salt=2**64 - 1, created=20)),
    retired=(Retired(version=2, retired_at=15, names=("00000000000000000000-3.store",)),),
    published={"query": 8},
)
AS_IT_IS, CHECKED, CHANGED = b"\0", b"\1", b"\2"


def seeds() -> Iterator[bytes]:
    yield b""
    yield AS_IT_IS + MANIFEST.encode()
    yield AS_IT_IS + MANIFEST.encode().replace(b'"format": 1', b'"format": 2')
    yield CHECKED + MANIFEST.encode()
    for number in range(0, 240, 20):
        yield CHANGED + bytes([1, number, 0, 1, number, 0, number % 21])


def target(data: bytes) -> None:
    text = data[1:]
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


def checked(text: bytes) -> bytes:
    """Return a manifest, or a pin, whose check holds for the lines before its last one."""
    body, newline, _ = text.removesuffix(b"\n").rpartition(b"\n")
    body += newline
    return body + b'{"check":"%016x"}\n' % xxh64_intdigest(body)
