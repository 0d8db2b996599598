"""Idempotency keys as they are stored: an append that is repeated with its key is stored once.

The first record that an append adds to a partition carries a header with the key, so record and key are stored
atomically: after a crash the memory is rebuilt from the partitions' ends.

    seglog-once: <rows> <digest> <key>          rows: of this append in this partition; digest: 16 hex digits
    seglog-once: <row>/<rows> <digest> <key>    from row `row` on, if a crash had left only those before
    seglog-once: <rows> <digest>:<own> <key>    own: the digest of these rows, if they are not the whole append

The digest covers the whole append, in all partitions: XXH64 over the XXH64 (seed 0) of every row's key and then of
every row's value, 8 bytes each, little endian, 0 for a null; so a streamed value can be identified by its own XXH64.
Headers and timestamps are not included: a retry may have others, and gets the answer of the first append.

Only appends with a key write the header; others remove it (`without_mark`). A log written without a topic may contain
any header, so a mark read from a log counts only if the records at its offset have its digest. If only part of a
partition's rows is stored, or a mark has no `own`, it cannot be verified alone: it is compared with the rows of the
retry, and never refuses another payload.

Knows logs, and imports nothing of Arrow before it is needed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from xxhash import xxh64_intdigest

from seglog.errors import InvalidArgument, InvalidType, OnceConflict
from seglog.format.codec import encode_headers
from seglog.record import Header, Headers, checked_headers

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.arrow.encodable import EncodableRows

HEADER = "seglog-once"
MAX_KEY = 200
_KEY = re.compile(r"[ -~]{1,200}")
_MARK = re.compile(rb"(?:([0-9]{1,18})/)?([0-9]{1,18}) ([0-9a-f]{16})(?::([0-9a-f]{16}))? ([ -~]{1,200})")


class Share(NamedTuple):
    """The part of an append in one partition: rows `row` to `rows`, at offset `first` and the following ones.

    whole: all of them are known to be stored; read from a log after a crash, the last ones may be missing. own: the
    digest of these rows if it is not `digest`. verified: this process wrote them, or their digest was recomputed.
    """

    partition: int
    first: int
    rows: int
    digest: int
    row: int = 0
    whole: bool = True
    own: int | None = None
    verified: bool = True

    @property
    def stop(self) -> int:
        """The offset after the last row, if all of them are stored."""
        return self.first + self.rows - self.row


class UnmarkedRows(Protocol):
    """Rows without headers that can be encoded. count: their number."""

    count: int

    @property
    def digest(self) -> int:
        """The digest of all of them."""
        ...

    @property
    def arrow(self) -> pa.RecordBatch:
        """The same rows as Arrow."""
        ...

    def to_rows(self, first_headers: bytes = b"") -> EncodableRows:
        """Return the rows for a log; the first has these headers, as a record stores them."""
        ...


def checked_once(once: object) -> str:
    """Return an idempotency key. Raises InvalidType unless it is a str, InvalidArgument if its form is invalid."""
    if not isinstance(once, str):
        raise InvalidType(f"once must be str, not {type(once).__name__}")
    if not _KEY.fullmatch(once):
        raise InvalidArgument(f"once must be 1 to {MAX_KEY} printable ASCII characters, not {once[:MAX_KEY]!r}")
    return once


def hash_of(data: bytes | None) -> int:
    """Return the hash of a row's key or value in a digest."""
    return 0 if data is None else xxh64_intdigest(data)


def digest_of(key: int, value: int) -> int:
    """Return the digest of one record from the hashes of its key and value."""
    return xxh64_intdigest(struct.pack("<QQ", key, value))


def mark_of(once: str, share: Share) -> bytes:
    """Return the header's value for rows about to be appended."""
    rows = f"{share.row}/{share.rows}" if share.row else str(share.rows)
    own = "" if share.own is None or share.own == share.digest else f":{share.own:016x}"
    return f"{rows} {share.digest:016x}{own} {once}".encode()


def stored_mark(once: str, share: Share) -> bytes:
    """Return the header as a record stores it."""
    return encode_headers(((HEADER, mark_of(once, share)),))


def with_mark(headers: Iterable[Header], mark: bytes) -> Headers:
    """Return headers with this mark only."""
    return ((HEADER, mark), *without_mark(headers))


def without_mark(headers: Iterable[Header]) -> Headers:
    """Return headers without a mark, which a copied record may have. Raises InvalidType for an invalid header."""
    if headers == ():
        return ()
    return tuple(pair for pair in checked_headers(headers) if pair[0] != HEADER)


def read_mark(value: bytes | None, partition: int, offset: int) -> tuple[str, Share] | None:
    """Parse a header's value, without verification; None if it is not a mark."""
    found = _MARK.fullmatch(value or b"")
    if found is None:
        return None
    row, rows, digest, own, once = found.groups()
    share = Share(partition, offset, int(rows), int(digest, 16), int(row or 0), whole=False, verified=False)
    return once.decode(), share._replace(own=None if own is None else int(own, 16))


def agreeing(once: str, stored: Iterable[Share], wanted: dict[int, tuple[int, int]] | tuple[int, int]) -> list[Share]:
    """Return the shares that are part of the wanted append. Raises OnceConflict if a verified one is not.

    wanted: (rows, digest); for a batch by partition.
    """
    found = []
    for share in stored:
        expected = wanted if isinstance(wanted, tuple) else wanted.get(share.partition)
        if (share.rows, share.digest) == expected:
            found.append(share)
        elif share.verified:
            raise OnceConflict(
                f"once={once!r} was used before for another payload, at partition {share.partition}, offset "
                f"{share.first}; nothing was stored. Use a new key for other records"
            )
    return found
