"""How much open transactions may hold: bytes of files, and an entry in memory for each batch and offset. Pure.

Each counts against the share of the caller that has begun it (`Shares`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from seglog.errors import Busy
from seglog.kafka.faults import LargeTransaction
from seglog.kafka.transactions.state import Size
from seglog.server.runtime.shares import ShareFull, is_fair

if TYPE_CHECKING:
    from seglog.kafka.transactions.state import Transactional

MOST_PARTS, ALL_PARTS = 100_000, 400_000
"""Batches, offsets and groups of one transaction, and of all that are open."""
MOST_OPEN = 1000
"""Transactions at a time: each has an open file."""


def check_open(active: Collection[Transactional], payer: str) -> None:
    """Raise Busy if a caller may begin no other transaction."""
    own = sum(one.payer == payer for one in active)
    if not is_fair(MOST_OPEN, len(active), own, 1):
        raise Busy(f"{len(active)} transactions of at most {MOST_OPEN} are open, {own} of them of {payer!r}")


def check_room(active: Collection[Transactional], one: Transactional, more: Size, most: int) -> None:
    """Raise LargeTransaction if `more` is too much for one transaction, Busy if it is for those of a caller.

    Args:
        active: All open transactions.
        one: The one that grows.
        more: What is to be staged.
        most: Bytes that all may have; one may have half of them.
    """
    size, parts = _held([one])
    if size + more.bytes > most // 2 or parts + more.parts > MOST_PARTS:
        raise LargeTransaction(
            f"a transaction has {size} bytes in {parts} batches and offsets; it may have {most // 2} and {MOST_PARTS}"
        )
    size, parts = _held(active)
    own_size, own_parts = _held(each for each in active if each.payer == one.payer)
    if not (is_fair(most, size, own_size, more.bytes) and is_fair(ALL_PARTS, parts, own_parts, more.parts)):
        raise Busy(
            f"open transactions have {size} bytes of {most} in {parts} parts of {ALL_PARTS}; those of {one.payer!r} "
            f"have {own_size} in {own_parts}, which is their share; end some"
        )


def check_offsets(active: Collection[Transactional], one: Transactional, more: int, most: int) -> None:
    """Raise ShareFull if offsets of `more` bytes are too many for those that a caller stages in memory.

    most: bytes of all callers.
    """
    sizes = [(each.payer, each.offset_bytes) for each in active]
    held, own = sum(size for _, size in sizes), sum(size for payer, size in sizes if payer == one.payer)
    if not is_fair(most, held, own, more):
        raise ShareFull(
            f"open transactions have offsets of {held} bytes of {most}, and those of {one.payer!r} have {own}: its "
            "share is full; commit fewer at a time, or with less metadata"
        )


def _held(transactions: Iterable[Transactional]) -> tuple[int, int]:
    """Return the bytes and the parts of transactions, with those that are on their way to a thread."""
    sizes = [one.size for one in transactions]
    return sum(one.bytes for one in sizes), sum(one.parts for one in sizes)
