"""The lines of segments in a manifest, decoded when they are needed. No I/O.

A manifest may have 100,000 lines, of which an opening needs a few. Its check proves that they are as they were written,
so one pass with a pattern shows which of them are as `SegmentEntry.line` writes them. Those can be decoded at any later
time; the pattern also yields their figures. Any other line is decoded at once, and is refused if a newer version of
seglog wrote it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

from seglog.format.blocks import CODECS
from seglog.format.segment_entry import FIELDS, SegmentEntry

_NUMBER = rb"-?+(?!0[0-9])[0-9]{1,19}+"
_U64 = rb'"[0-9a-f]{16}+"'
_PAIR = rb"\[%b,%b\]" % (_NUMBER, _NUMBER)
_FORMS = dict.fromkeys(FIELDS, _NUMBER) | {
    "salt": _U64,
    "dense": rb"(?:true|false)",
    "digest": _U64,
    "decay": _NUMBER + rb"(?:\.[0-9]++)?+(?:e[-+]?+[0-9]{1,3}+)?+",
    "codec": rb'"(?:%b)"' % "|".join(CODECS).encode(),
    "horizons": rb"\[%b(?:,%b)*+\]" % (_PAIR, _PAIR),
}
_OF_ALL = ("base_offset", "file", "salt", "created", "dense")
_OF_SEALED = ("next_offset", "bytes", "records", "tombstones")
_FIGURES = ("base_offset", "file", "bytes", "records", "stored")


def _pattern(name: str) -> bytes:
    return rb',"%b":%b' % (name.encode(), rb"(%b)" % _FORMS[name] if name in _FIGURES else _FORMS[name])


def _patterns(names: Iterable[str], form: bytes = rb"%b") -> bytes:
    return b"".join([form % _pattern(name) for name in names])


_LINE = re.compile(
    rb"(?m:^)\{%b(?:%b%b)?+\}\n"
    % (
        _patterns(_OF_ALL)[1:],
        _patterns(_OF_SEALED),
        _patterns(FIELDS[len(_OF_ALL + _OF_SEALED) :], rb"(?:%b)?+"),
    )
)
_BASE = re.compile(rb'\{"base_offset":(%b)' % _NUMBER)


class Figures(NamedTuple):
    """What is needed of all segments, each in their order. The active one has 0 bytes and records here.

    sizes: of their stores on the disk, in bytes.
    """

    bases: list[int]
    files: list[int]
    sizes: list[int]
    records: list[int]


def figures_of(text: bytes) -> Figures | None:
    """Return the figures in some lines, at least one; None unless all are as `SegmentEntry.line` writes them.

    If they are, `decode_lines` raises no error.
    """
    found = _LINE.findall(text)
    if len(found) != text.count(b"\n"):
        return None
    bases, files, plain, records, stored = zip(*found, strict=True)
    return Figures(
        list(map(int, bases)),
        list(map(int, files)),
        [int(size or all_of_it or 0) for size, all_of_it in zip(stored, plain, strict=True)],
        [int(count or 0) for count in records],
    )


def base_of(line: bytes) -> int | None:
    """Return the base offset in a line; None if it is not where `SegmentEntry.line` writes it."""
    found = _BASE.match(line)
    return None if found is None else int(found[1])


def decode_lines(text: bytes) -> tuple[SegmentEntry, ...]:
    """Decode lines that end with a newline each; errors as in `SegmentEntry.from_values`."""
    lines = text.splitlines(keepends=True)
    decoded = json.loads(b"[%b]" % b",".join(lines))
    return tuple([SegmentEntry.from_values(values, line) for line, values in zip(lines, decoded, strict=True)])
