"""How much open transactions may hold: bytes of files, and an entry in memory for each batch and offset. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sized
from typing import TYPE_CHECKING

from seglog.errors import Busy
from seglog.kafka.faults import LargeTransaction

if TYPE_CHECKING:
    from seglog.topic.transactions.journal import Journal

MOST_PARTS, ALL_PARTS = 100_000, 400_000
"""Batches, offsets and groups of one transaction, and of all that are open."""
MOST_OPEN = 1000
"""Transactions at a time: each has an open file."""


def check_open(active: Sized) -> None:
    """Raise Busy if no other transaction may begin."""
    if len(active) >= MOST_OPEN:
        raise Busy(f"{MOST_OPEN} transactions are open already")


def check_room(held: Collection[Journal], journal: Journal, more: int, most: int) -> None:
    """Raise LargeTransaction if `more` bytes are too many for one transaction, Busy if they are for all.

    Args:
        held: All open transactions.
        journal: The one that grows.
        more: The bytes that are to be staged.
        most: Bytes that all may have; one may have half of them.
    """
    if journal.size + more > most // 2 or journal.parts >= MOST_PARTS:
        raise LargeTransaction(
            f"a transaction has {journal.size} bytes in {journal.parts} batches and offsets; it may have "
            f"{most // 2} and {MOST_PARTS}"
        )
    size, parts = sum(one.size for one in held), sum(one.parts for one in held)
    if size + more > most or parts >= ALL_PARTS:
        raise Busy(f"open transactions have {size} bytes in {parts} parts; they may have {most} and {ALL_PARTS}")
