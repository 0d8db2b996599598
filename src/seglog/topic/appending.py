"""Append records to a topic's partitions: choose the partition, and store each append once if the caller wants that.

Knows logs by number; `topic` knows directories, `once` what is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from xxhash import xxh64

from seglog.errors import InvalidArgument, InvalidType
from seglog.log.appends.group import Draft
from seglog.log.log import Log
from seglog.record import Header, Headers, checked_bytes, checked_key, checked_offset
from seglog.topic.idempotency.marks import (
    Share,
    agreeing,
    checked_once,
    digest_of,
    hash_of,
    mark_of,
    stored_mark,
    with_mark,
    without_mark,
)
from seglog.topic.idempotency.memory import OnceMemory, OnceWindow
from seglog.topic.partitioner import partition_of

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.topic.idempotency.marks import UnmarkedRows

Part = TypeVar("Part")
APPENDED = "already appended: "  # in notes on errors: followed by the offsets that stay


class Appending:
    """The appends of a topic; see `Topic`. Thread-safe."""

    def __init__(self, logs: Sequence[Log], window: OnceWindow) -> None:
        self._logs = logs
        self._turn = 0
        self._memory = OnceMemory(logs, window)

    def route(self, key: bytes | None, once: str | None) -> int:
        """Return the partition of a record; see Topic.route."""
        if key is not None:
            return partition_of(checked_key(key) or b"", len(self._logs))
        if once is not None:
            return partition_of(checked_once(once).encode(), len(self._logs))
        number = self._turn
        self._turn = (number + 1) % len(self._logs)
        return number

    def is_ready(self, partition: int, length: int, once: str | None) -> bool:
        """Whether an append would not block; see Topic.is_ready."""
        return self._logs[partition].is_ready(length) and (once is None or self._memory.is_ready(once))

    def sync(self, partition: int) -> None:
        """Return once every record of a partition survives power loss."""
        self._logs[partition].sync()

    # --- one record ---------------------------------------------------------------------------------------------

    def append(self, draft: Draft, *, partition: int | None, once: str | None) -> tuple[int, int]:
        """Append one record; see Topic.append."""
        value, key, timestamp, headers, expected, force = draft
        options: dict[str, Any] = {"timestamp": timestamp, "force_timestamp": force, "expected_offset": expected}
        if once is None:
            number = self.route(key, None) if partition is None else partition
            headers = without_mark(headers) if headers else ()
            return number, self._logs[number].append(value, key=key, headers=headers, **options)
        key, value = checked_key(key), None if value is None else checked_bytes(value, "value")

        def put(log: Log, headers: Headers) -> int:
            return log.append(value, key=key, headers=headers, **options)

        return self._append_once(checked_once(once), key, hash_of(value), partition, headers, put)

    def routed(self, draft: Draft, partition: int | None) -> tuple[int, Draft]:
        """Return the partition of an append without `once`, and the record as its log stores it."""
        number = self.route(draft.key, None) if partition is None else partition
        return number, draft._replace(headers=without_mark(draft.headers)) if draft.headers else draft

    def append_stream(
        self,
        chunks: Iterable[bytes],
        *,
        key: bytes | None,
        headers: Iterable[Header],
        partition: int | None,
        once: str | None,
        digest: int | None,
        **options: Any,
    ) -> tuple[int, int]:
        """Append one record whose value comes in chunks; see Topic.append_stream. options: the others of the log."""
        digest = None if digest is None else checked_offset(digest, "digest")
        pieces = chunks if digest is None else _verified(chunks, digest)

        def put(log: Log, headers: Iterable[Header]) -> int:
            return log.append_stream(pieces, key=key, headers=headers, **options)

        if once is None:
            number = self.route(key, None) if partition is None else partition
            return number, put(self._logs[number], without_mark(headers))
        if digest is None:
            raise InvalidArgument("a streamed append with once needs digest, the XXH64 of the value")
        return self._append_once(checked_once(once), checked_key(key), digest, partition, headers, put)

    def _append_once(
        self,
        once: str,
        key: bytes | None,
        value_hash: int,
        partition: int | None,
        headers: Iterable[Header],
        put: Callable[[Log, Headers], int],
    ) -> tuple[int, int]:
        digest = digest_of(hash_of(key), value_hash)
        with self._memory.alone(once) as stored:
            for share in agreeing(once, stored, (1, digest)):
                if share.verified:
                    return share.partition, share.first
            number = self.route(key, once) if partition is None else partition
            mark = mark_of(once, Share(number, 0, 1, digest))
            offset = put(self._logs[number], with_mark(headers, mark))
            self._memory.remember(once, Share(number, offset, 1, digest))
            return number, offset

    # --- batches ------------------------------------------------------------------------------------------------

    def append_batch(
        self, data: pa.Table | pa.RecordBatch, *, partition: int | None, once: str | None, force_timestamp: bool
    ) -> dict[int, range]:
        """Append rows; see Topic.append_batch."""
        from seglog.arrow.given_times import checked_pieces  # noqa: PLC0415 - imports pyarrow when used

        if once is not None:
            [rows] = checked_pieces(_whole(data), force_timestamp=force_timestamp)
            return self._append_batch_once(rows, partition, checked_once(once))

        offsets: dict[int, range] = {}
        try:
            for piece in checked_pieces(data, force_timestamp=force_timestamp):
                parts, turn = self._shares(_unmarked(piece), partition, self._turn)
                _each(parts, self._append_checked, offsets)
                self._turn = turn
        except Exception as error:
            if offsets and not any(APPENDED in note for note in getattr(error, "__notes__", ())):
                error.add_note(f"the stream failed after its first pieces; {APPENDED}{offsets}")
            raise
        return offsets

    def _append_checked(self, number: int, rows: pa.Table) -> range:
        """Append rows to a partition: the unit of their times is known, or was checked for all rows of the batch."""
        return self._logs[number].append_batch(rows, force_timestamp=True)

    def _shares(self, table: pa.Table, partition: int | None, turn: int) -> tuple[dict[int, pa.Table], int]:
        """Return partition -> its rows, and the next turn."""
        from seglog.topic.partition_split import split_by_partition  # noqa: PLC0415 - imports pyarrow and numba when used

        if partition is None:
            return split_by_partition(table, len(self._logs), turn)
        return ({partition: table} if table.num_rows else {}), turn

    def complete_batch(self, data: pa.Table | pa.RecordBatch, found: Share, once: str) -> None:
        """Append the rows of a batch that are missing after a share of it; see Topic._complete_batch."""
        self._append_batch_once(data, found.partition, once, (found,))

    def _append_batch_once(
        self, data: pa.Table | pa.RecordBatch, partition: int | None, once: str, found: tuple[Share, ...] = ()
    ) -> dict[int, range]:
        """Append a batch with a key. found: what the caller has found of it in the logs, however far back."""
        from seglog.topic.idempotency.batches import digest_of_rows  # noqa: PLC0415 - imports pyarrow and numba when used

        table = _unmarked(data)
        parts, _ = self._shares(table, partition, self.route(None, once))
        digest = digest_of_rows(table)
        with self._memory.alone(once) as stored:
            wanted = {number: (part.num_rows, digest) for number, part in parts.items()}
            known = agreeing(once, (*found, *stored), wanted)
            own = digest if len(parts) == 1 else None
            return _each(
                parts,
                lambda number, part: self._complete(
                    once, Share(number, 0, part.num_rows, digest, own=own), part, known
                ),
            )

    def append_unmarked_once(self, partition: int, rows: UnmarkedRows, once: str) -> range:
        """Append rows with a key to a partition; see Topic._append_unmarked_once."""
        checked_once(once)
        digest = rows.digest
        share = Share(partition, 0, rows.count, digest, own=digest)
        with self._memory.alone(once) as stored:
            known = agreeing(once, stored, {partition: (rows.count, digest)})
            if known:
                return self._complete(once, share, _unmarked(rows.arrow), known)
            offsets = self._logs[partition]._append_encodable(rows.to_rows(stored_mark(once, share)))
            self._memory.remember(once, share._replace(first=offsets.start))
            return offsets

    def _complete(self, once: str, share: Share, part: pa.Table, stored: list[Share]) -> range:
        """Append the missing rows of a partition's part after the stored ones; return the offsets of all of it.

        If a crash split the part and others have appended since, return the offsets of its last piece.
        """
        from seglog.topic.idempotency.batches import digest_of_rows, marked, rows_there  # noqa: PLC0415 - as above

        pieces, log, done = [one for one in stored if one.partition == share.partition], self._logs[share.partition], 0
        if pieces:
            last = pieces[-1]
            done = last.rows if last.whole else last.row + rows_there(part, log, last)
        if done < part.num_rows:
            rest = part.slice(done)
            own = digest_of_rows(rest) if done or share.own is None else share.own
            share = share._replace(row=done, own=own)
            offsets = self._append_checked(share.partition, marked(rest, mark_of(once, share)))
            pieces.append(share._replace(first=offsets.start))
        else:
            pieces[-1] = pieces[-1]._replace(whole=True, verified=True)
        self._memory.remember(once, pieces[-1])
        return _joined(pieces)


def _unmarked(data: pa.Table | pa.RecordBatch) -> pa.Table:
    """Return a batch as a table whose rows have no mark. Raises InvalidType."""
    table = _whole(data)
    if "headers" not in table.schema.names:
        return table
    from seglog.topic.idempotency.batches import without_marks  # noqa: PLC0415 - as above

    return without_marks(table)


def _whole(data: Any) -> pa.Table:
    """Return Arrow data of any library as a table. Raises InvalidType."""
    from seglog.topic.partition_split import as_table  # noqa: PLC0415 - imports pyarrow and numba when used

    return as_table(data)


def _joined(pieces: list[Share]) -> range:
    """Return the offsets of the last piece, and of the pieces directly before it."""
    last = pieces[-1]
    start, row = last.first, last.row
    for piece in reversed(pieces[:-1]):
        if piece.first + row - piece.row != start:
            break
        start, row = piece.first, piece.row
    return range(start, last.first + last.rows - last.row)


def _each(
    parts: dict[int, Part], put: Callable[[int, Part], range], offsets: dict[int, range] | None = None
) -> dict[int, range]:
    """Append each partition's part and add its offsets to `offsets`; a note on an error lists those appended before."""
    offsets = {} if offsets is None else offsets
    for number, part in parts.items():
        try:
            added = put(number, part)
            offsets[number] = range(offsets[number].start if number in offsets else added.start, added.stop)
        except Exception as error:
            error.add_note(f"nothing was appended to partition {number}; {APPENDED}{offsets}")
            raise
    return offsets


def _verified(chunks: Iterable[bytes], digest: int) -> Iterator[bytes]:
    """Yield the chunks; raise InvalidArgument at the end, so that nothing is stored, if the digest differs."""
    if isinstance(chunks, (bytes, str, bytearray, memoryview)):
        raise InvalidType("append_stream takes an iterable of bytes; to append one bytes value use append")
    if not isinstance(chunks, Iterable):
        raise InvalidType(f"append_stream takes an iterable of bytes, not {type(chunks).__name__}")
    seen = xxh64()
    for chunk in chunks:
        seen.update(checked_bytes(chunk, "a chunk of the stream"))
        yield chunk
    if seen.intdigest() != digest:
        raise InvalidArgument(
            f"the chunks have the XXH64 {seen.intdigest():016x}, not {digest:016x}; nothing was stored"
        )
