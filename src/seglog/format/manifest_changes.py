"""A log's MANIFEST: a base, and the changes since then, each a line that is there twice. No I/O.

{"change":{"base":17,"after":"<16 digits>","at":3,"gone":1},"state":{...},"entries":[{...},{...}],"check":"<16 digits>"}

`state` is the header of a base; `at` and `gone` say in place of which segments of the state before the entries come;
`base` is the version of the base, `after` the check of what precedes the change, `check` the XXH64 of the line before
it.

One sound copy of a line is enough, so a damaged byte loses nothing. An empty line between the copies makes that true
of the byte that ends the first one. A change of which both copies are damaged is a tear
if no later change follows: it was not acknowledged. Otherwise the file is damaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from xxhash import xxh64_intdigest

from seglog.errors import CorruptLog
from seglog.format.foreign import UNREADABLE
from seglog.format.manifest import CHECK_BYTES, CHECK_LINE, VERSION, Manifest, decode, newer_content
from seglog.format.segment_entry import SegmentEntry, of_kind

COPIES = 2
SHARE = 8
LEAST_BYTES = 64 * 1024
MOST_CHANGES = 65536
"""Changes of a file take up to LEAST_BYTES and a SHARE-th of the base, and are no more than this."""
_FIXED = ("log_id", "epoch", "config", "rebuilt", "cuts", "home", "backup", "role")
_CHECK = b',"check":"'


@dataclass(frozen=True, kw_only=True)
class ManifestFile:
    """What a MANIFEST holds.

    Attributes:
        manifest: The last state.
        open_ended: Whether changes may follow.
        base: Version of the base.
        base_bytes: Size of the base.
        changes: Number of changes.
        line: The last change; empty for a base alone.
        copies: How often it is there.
        end: Position after the last sound line.
        tail: The CHECK_BYTES before `end`. They identify the state.
        whole: Whether there is nothing before `end` but the base and all copies of each change.
        rest: Number of bytes after `end`.
    """

    manifest: Manifest
    open_ended: bool
    base: int
    base_bytes: int
    end: int
    tail: bytes
    changes: int = 0
    line: bytes = b""
    copies: int = COPIES
    whole: bool = True
    rest: int = 0

    @property
    def sound(self) -> bool:
        """Whether the file has neither a tear nor a damaged copy."""
        return self.whole and self.rest == 0 and self.copies == COPIES

    @classmethod
    def of_base(cls, manifest: Manifest, data: bytes) -> ManifestFile:
        """Return the file of a base alone. data: its bytes."""
        is_open = json.loads(data[: data.find(b"\n")])["format"] == VERSION
        tail, size = data[-CHECK_BYTES:], len(data)
        return cls(manifest=manifest, open_ended=is_open, base=manifest.version, base_bytes=size, end=size, tail=tail)

    def with_change(self, new: Manifest, line: bytes) -> ManifestFile:
        """Return the file after a change was written at its end."""
        end = self.end + len(doubled(line))
        changes = self.changes + 1
        return replace(
            self, manifest=new, end=end, tail=line[-CHECK_BYTES:], changes=changes, line=line, copies=COPIES, rest=0
        )

    def takes(self, line: bytes) -> bool:
        """Whether a change may follow; otherwise a new base must be written."""
        size = self.end + len(doubled(line)) - self.base_bytes
        return self.open_ended and self.sound and self.changes < MOST_CHANGES and size <= self._most_bytes

    @property
    def _most_bytes(self) -> int:
        return LEAST_BYTES + self.base_bytes // SHARE


def doubled(line: bytes) -> bytes:
    """Return the bytes of a change in the file."""
    return line + b"\n" + line


def is_rebuildable(old: Manifest, new: Manifest) -> bool:
    """Whether the stores and the state before tell what a lost manifest said: segments have come or gone, no more.

    Only such a change is appended. MANIFEST.prev may be many of them older, so any other one must be in both files.
    """
    starts = new.start in (old.start, new.segments[0].base_offset)
    return starts and all(getattr(old, name) == getattr(new, name) for name in _FIXED)


class Change(NamedTuple):
    """What comes after which segments, whatever file it is written to. text: the encoded state and entries."""

    at: int
    gone: int
    text: bytes

    @classmethod
    def between(cls, old: Manifest, new: Manifest) -> Change:
        """Return the change from one state to the next."""
        at, gone, entries = old.segments.splice_to(new.segments)
        lines = b",".join([entry.line[:-1] for entry in entries])
        return cls(at, gone, b'"state":%b,"entries":[%b]' % (_dumped(new.header()), lines))


def encode_change(file: ManifestFile, change: Change) -> bytes:
    """Return the line of a change of the file's state."""
    head = {"base": file.base, "after": _check_of(file.tail), "at": change.at, "gone": change.gone}
    body = b'{"change":%b,%b' % (_dumped(head), change.text)
    return body + _ending(body)


def _ending(body: bytes) -> bytes:
    """Return the end of a line: the check of what precedes it."""
    return _CHECK + b'%016x"}\n' % xxh64_intdigest(body)


def _dumped(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


def _check_of(tail: bytes) -> str:
    return tail[-19:-3].decode("ascii", "replace")


def decode_file(data: bytes, path: str, like: Manifest | None = None) -> ManifestFile:
    """Decode a MANIFEST. CorruptLog if it is damaged, FormatVersionError if a newer version wrote it.

    like: see `manifest.decode`.
    """
    end = data.find(b"\n" + CHECK_LINE) + 1 + CHECK_BYTES
    base = data[:end] if CHECK_BYTES < end < len(data) else data
    file = ManifestFile.of_base(decode(base, path, like), base)
    if len(base) == len(data):
        return file
    if not file.open_ended:
        raise CorruptLog(f"{path}: the manifest is damaged: more follows its check")
    return follow(file, data[end:], path)


def follow(file: ManifestFile, more: bytes, path: str) -> ManifestFile:
    """Return the file with what follows its `end`; errors as `decode_file`."""
    fold = _Fold(file, path)
    for line in _lines(more):
        fold.take(line)
    return fold.result(len(more))


def latest_state(data: bytes) -> dict[str, Any] | None:
    """Return the header that the last sound change of a damaged MANIFEST holds; None if there is none."""
    states = [values["state"] for line in _lines(data) if (values := _values(line)) is not None]
    return max(states, key=lambda state: int(state["version"]), default=None)


def _lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines with their newlines; nothing else ends one here."""
    start = 0
    while start < len(data):
        stop = data.find(b"\n", start) + 1 or len(data)
        yield data[start:stop]
        start = stop


def _values(line: bytes) -> dict[str, Any] | None:
    """Return the values of a sound line of a change; None for any other bytes."""
    body = line[:-CHECK_BYTES]
    if line[-CHECK_BYTES:] != _ending(body):
        return None
    try:
        values: dict[str, Any] = json.loads(line)
        of_kind(int, values["change"]["base"])
        of_kind(int, values["state"]["version"])
    except UNREADABLE:
        return None
    return values


class _Fold:
    """Takes the lines after a file's end one by one."""

    def __init__(self, file: ManifestFile, path: str) -> None:
        self._file = file
        self._path = path
        self._segments = file.manifest.segments
        self._version = file.manifest.version
        self._state: dict[str, Any] | None = None
        self._line, self._copies, self._changes = file.line, file.copies, file.changes
        self._tail, self._whole = file.tail, file.whole
        self._taken = self._read = 0  # bytes up to the end of the last sound line; of all lines

    def take(self, line: bytes) -> None:
        """Take one line, sound or not."""
        before = self._read
        self._read += len(line)
        if line == self._line:
            self._copies += 1
            self._whole = self._whole and before == self._taken + 1
        elif self._is_next(line):
            self._whole = self._whole and before == self._taken
        else:
            return
        self._taken = self._read

    def _is_next(self, line: bytes) -> bool:
        """Apply the next change, if the line is that."""
        values = _values(line)
        if values is None or values["change"]["base"] != self._file.base:
            return False
        try:
            return self._apply(line, values)
        except CorruptLog:  # also a ValueError
            raise
        except UNREADABLE as error:
            raise newer_content(self._path, error) from error

    def _apply(self, line: bytes, values: dict[str, Any]) -> bool:
        change, state = values["change"], values["state"]
        if int(state["log_id"], 16) != self._file.manifest.log_id or state["version"] <= self._version:
            return False
        at, gone = of_kind(int, change["at"]), of_kind(int, change["gone"])
        fits = 0 <= at <= at + gone <= len(self._segments) and change["after"] == _check_of(self._tail)
        if state["version"] != self._version + 1 or not fits:
            raise CorruptLog(f"{self._path}: the manifest is damaged: the change before version {state['version']}")
        entries = [SegmentEntry.from_values(one) for one in values["entries"]]
        self._segments = self._segments.spliced(at, gone, entries)
        if of_kind(int, state["segments"]) != len(self._segments) or not self._segments:
            raise CorruptLog(f"{self._path}: the manifest is damaged: version {state['version']} lacks segments")
        self._whole = self._whole and self._copies == COPIES
        self._version, self._state = state["version"], state
        self._line, self._copies, self._tail = line, 1, line[-CHECK_BYTES:]
        self._changes += 1
        return True

    def result(self, length: int) -> ManifestFile:
        """Return the file. length: number of bytes of all lines."""
        try:
            state = self._state
            manifest = self._file.manifest if state is None else Manifest.from_header(state, self._segments)
        except UNREADABLE as error:
            raise newer_content(self._path, error) from error
        return replace(
            self._file,
            manifest=manifest,
            changes=self._changes,
            line=self._line,
            copies=self._copies,
            end=self._file.end + self._taken,
            tail=self._tail,
            whole=self._whole,
            rest=length - self._taken,
        )
