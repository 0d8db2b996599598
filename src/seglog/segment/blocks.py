"""Read a compressed store as the plain one: every position is that of the plain store. See `seglog.format.blocks`.

A damaged block reads as zeros. Zeros are never a valid record, so whatever handles damage in a plain store applies:
the records that touch the block raise CorruptRecord, all others stay readable.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple, NoReturn

from seglog.errors import StorageError
from seglog.format import filename
from seglog.format.blocks import (
    CODECS,
    HEAD_BYTES,
    MOST_BYTES,
    SIZE_LOG,
    BlockHead,
    decode_block,
    plain_limit,
    plain_start,
    possible_heads,
    read_head,
    sound_head,
)
from seglog.format.index import BlockPlace, decode_blocks, encode_blocks
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES, StoreHeader, decode_header
from seglog.storage import File, Storage
from seglog.storage.unchanged import UnchangedFile

HELD_BYTES = 16 * 1024 * 1024
KEPT_BLOCKS = 4
"""Blocks of a read that is longer do not stay in memory: it is part of a scan."""

_WINDOW = 1024 * 1024
_NUMBERS = 1 << 16  # of blocks of 64 KiB in 4 GiB; a greater number counts only in a file with space for its blocks


class Layout(NamedTuple):
    """Where the blocks of a store are. places: None for a block that was not found; end: size of the plain store."""

    places: Sequence[BlockPlace | None]
    size_log: int
    end: int

    def plain_length(self, number: int) -> int:
        """Return the bytes of a block before compression."""
        start = plain_start(number, self.size_log)
        return min(plain_limit(number, self.size_log), self.end - start)

    def is_of(self, number: int, head: BlockHead) -> bool:
        """Whether a head is that of a block."""
        return (head.number, head.size_log, head.plain_len) == (number, self.size_log, self.plain_length(number))


class _HeldBlocks:
    """Decompressed blocks of all stores in this process; when the limit is reached, all are dropped.

    Without a lock: each step on the dictionary is one atomic call. See SegmentCache for the reason.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, bytes] = {}
        self._largest = 1 << SIZE_LOG
        self._stores = count()
        self.get = self._blocks.get

    def place(self) -> int:
        """Return the first block number of another store."""
        return next(self._stores) << 32

    def hold(self, number: int, block: bytes) -> None:
        """Keep a block."""
        self._largest = max(self._largest, len(block))
        if len(self._blocks) >= HELD_BYTES // self._largest:
            self._blocks.clear()
        self._blocks[number] = block


_HELD = _HeldBlocks()


class BlockFile(UnchangedFile):
    """The plain bytes of a compressed store, read only. `file`: the compressed one; `layout`: where its blocks are.

    table: the content of the store's `.blocks` file, in any state; an entry is used only if the block confirms it.
    """

    def __init__(self, file: File, salt: int, table: bytes = b"") -> None:
        self.path = file.path
        self.file = file
        self._salt = salt
        known = _known_layout(file, decode_blocks(table, salt))
        self.walked = known is None
        self.layout = known or find_blocks(file, salt)
        self._held = _HELD.place()

    # --- reading ------------------------------------------------------------------------------------------------

    def size(self) -> int:
        """Return the size of the plain store in bytes."""
        return self.layout.end

    def pread(self, length: int, position: int) -> bytes:
        """Return the bytes at a position of the plain store; fewer only at its end, zeros in a damaged block.

        Raises StorageError if the file cannot be read, FormatVersionError for a block of a newer version, MissingExtra
        if this build of pyarrow lacks the codec.
        """
        layout, parts = self.layout, list[bytes]()
        stop = min(position + length, layout.end)
        if position < HEADER_BYTES:
            parts.append(self.file.pread(max(min(stop, HEADER_BYTES) - position, 0), position))
            position = HEADER_BYTES
        keep = (stop >> layout.size_log) - (position >> layout.size_log) < KEPT_BLOCKS
        while position < stop:
            number = position >> layout.size_log
            start = position - plain_start(number, layout.size_log)
            parts.append(self._block(layout, number, keep=keep)[start : start + stop - position])
            position += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def map(self) -> memoryview:
        """Return all bytes of the plain store, decompressed into memory."""
        return memoryview(self.pread(self.size(), 0))

    def _block(self, layout: Layout, number: int, *, keep: bool) -> bytes:
        held = _HELD.get(self._held + number)
        if held is not None:
            return held
        plain = self._decoded(layout, number)
        if plain is None and not self.walked:
            plain = self._search(layout, number)
        if plain is None:
            return bytes(layout.plain_length(number))
        if keep:
            _HELD.hold(self._held + number, plain)
        return plain

    def _decoded(self, layout: Layout, number: int) -> bytes | None:
        block = self._stored(layout, number)
        found = decode_block(block, salt=self._salt, path=self.path)
        if found is None:
            return None
        head, plain = found
        return plain if layout.is_of(number, head) else None

    def _stored(self, layout: Layout, number: int) -> bytes:
        place = layout.places[number]
        return b"" if place is None else self.file.pread(HEAD_BYTES + place.stored_len, place.position)

    def _search(self, layout: Layout, number: int) -> bytes | None:
        """Read a block where a walk finds it: the table may be wrong. If so, the table is not used any more."""
        found = find_blocks(self.file, self._salt)
        self.walked = True  # only now: until then other threads have to look for themselves
        if number >= len(found.places):
            return None
        plain = self._decoded(found._replace(end=layout.end), number)
        if plain is not None and (found.size_log, found.end) == (layout.size_log, layout.end):
            self.layout = found
        return plain

    # --- for those who check or repair --------------------------------------------------------------------------

    def damaged_blocks(self) -> Iterator[tuple[int, bool]]:
        """Yield (position in the plain store after it, whether it is damaged) of every block, without decompressing."""
        layout = self.layout
        for number in range(len(layout.places)):
            head = sound_head(self._stored(layout, number), salt=self._salt, path=self.path)
            sound = head is not None and layout.is_of(number, head)
            yield plain_start(number, layout.size_log) + layout.plain_length(number), not sound

    def stored_end(self) -> int | None:
        """Return where the blocks end in the file; None if one does not begin where the one before it ends."""
        position = HEADER_BYTES
        for place in self.layout.places:
            if place is None or place.position != position:
                return None
            position += HEAD_BYTES + place.stored_len
        return position

    def table(self) -> bytes | None:
        """Return the content of a `.blocks` file; None if a block was not found."""
        places = [place for place in self.layout.places if place is not None]
        if len(places) < len(self.layout.places):
            return None
        return encode_blocks(places, 1 << self.layout.size_log, self._salt)

    @property
    def codec(self) -> str:
        """The name of the codec of the first block that one has compressed; "zstd" if there is none."""
        names = {number: name for name, number in CODECS.items()}
        for place in self.layout.places:
            head = None if place is None else read_head(self.file.pread(HEAD_BYTES, place.position))
            if head is not None and head.codec in names:
                return names[head.codec]
        return "zstd"

    # --- what a sealed store refuses ----------------------------------------------------------------------------

    def _refuse(self) -> NoReturn:
        raise StorageError(errno.EROFS, "a compressed store is never changed", self.path)

    def datasync(self) -> None:
        """Return once the compressed file is on the disk."""
        self.file.datasync()

    def close(self) -> None:
        """Close the compressed file."""
        self.file.close()


def plain_file(file: File, entry: SegmentEntry) -> File:
    """Return a sealed segment's store as a file of plain bytes: `file` itself if it is not compressed."""
    return BlockFile(file, entry.salt) if _is_compressed(header_of(file), entry) else file


def plain_store(storage: Storage, entry: SegmentEntry, file: File, header: StoreHeader | None) -> File:
    """Return an open store of a log as `plain_file` does, with the `.blocks` file that is beside it.

    header: what `header_of` returns for the file.
    """
    if not _is_compressed(header, entry):
        return file
    try:
        blocks = storage.open(entry.name(filename.BLOCKS))
        table = blocks.pread(blocks.size(), 0)
    except StorageError:
        table = b""  # derived: the store is walked instead
    return BlockFile(file, entry.salt, table)


def header_of(file: File) -> StoreHeader | None:
    """Return the header of a store, in either form; None if it is damaged."""
    return decode_header(file.pread(HEADER_BYTES, 0), file.path)


def _is_compressed(header: StoreHeader | None, entry: SegmentEntry) -> bool:
    """Whether a store has blocks: by its header, or, if that is damaged, by its entry."""
    return entry.compressed if header is None else header.blocks


class PositionedMemory:
    """Memory of the size of a store, where bytes that are read have their positions; only those take memory.

    Raises OSError if the system does not reserve the addresses.
    """

    def __init__(self, store: File) -> None:
        self._store = store
        self.bytes = mmap.mmap(-1, store.size(), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def read(self, start: int, stop: int) -> None:
        """Read start..stop of the store, and release what is before it."""
        passed = start - start % mmap.PAGESIZE
        if passed:
            self.bytes.madvise(mmap.MADV_DONTNEED, 0, passed)
        data = self._store.pread(max(stop - start, 0), start)  # fewer if the store was cut meanwhile
        self.bytes[start : start + len(data)] = data


# --- finding the blocks ---------------------------------------------------------------------------------------------


def _known_layout(file: File, table: tuple[int, list[BlockPlace]] | None) -> Layout | None:
    """Return the layout that a table describes; None unless the store's last block confirms it."""
    if table is None or not table[1]:
        return None
    size, places = table
    head = read_head(file.pread(HEAD_BYTES, places[-1].position))
    if head is None or not head.is_last or 1 << head.size_log != size:
        return None
    if (head.number, head.check, head.stored_len) != (len(places) - 1, places[-1].check, places[-1].stored_len):
        return None
    return Layout(places, head.size_log, head.plain_end)


def find_blocks(file: File, salt: int) -> Layout:
    """Return the layout of a store by walking from head to head; after damage it continues at the next sound block.

    Only blocks after damage are read, so a place may be that of a damaged block.
    """
    places: list[BlockPlace | None] = []
    size_log, end, position, stop = SIZE_LOG, HEADER_BYTES, HEADER_BYTES, file.size()
    while position < stop:
        head = read_head(file.pread(HEAD_BYTES, position))
        if head is None or head.number != len(places) or (places and head.size_log != size_log):
            last = next((place for place in reversed(places) if place is not None), None)
            since = HEADER_BYTES if last is None else last.position + 1
            found = _next_sound(file, salt, since, len(places), size_log if places else None)
            if found is None:
                break
            position, head = found
            places += [None] * (head.number - len(places))
        places.append(BlockPlace(head.check, head.stored_len, position))
        size_log, end, position = head.size_log, head.plain_end, position + head.length
    return Layout(places, size_log, end)


def _next_sound(
    file: File, salt: int, position: int, number: int, size_log: int | None
) -> tuple[int, BlockHead] | None:
    """Return the first sound block from `position` on whose number is at least `number`; None if there is none.

    size_log: of the store's blocks; None if it is not known yet.
    """
    stop = file.size()
    most = max(_NUMBERS, stop // HEAD_BYTES)
    while position + HEAD_BYTES <= stop:
        window = file.pread(_WINDOW + MOST_BYTES + HEAD_BYTES, position)
        for start, head in possible_heads(window):
            if start >= _WINDOW:
                break
            if not number <= head.number <= most or size_log not in (None, head.size_log):
                continue
            if sound_head(window[start : start + head.length], salt=salt, path=file.path) is not None:
                return position + start, head
        position += _WINDOW
    return None
