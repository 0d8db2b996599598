"""Divide a limited micro-batch among the partitions: exactly the limit.

Pure. As in Kafka's source, each partition gets a share in proportion to its waiting records; unlike there, the shares
add up to the limit. A partition with few waiting records is not starved: each gets one record first, in turn if the
limit is smaller than their number.
"""

from __future__ import annotations

from collections.abc import Sequence


def shares(waiting: Sequence[int], limit: int, turn: int) -> list[int]:
    """Return how many records to take from each partition: min(limit, all that wait) in total.

    turn: a number that advances with every batch; decides which partitions come first if there is not one record for
    each.
    """
    if sum(waiting) <= limit:
        return list(waiting)
    busy = [number for number, records in enumerate(waiting) if records]
    first = turn % len(busy)
    busy = busy[first:] + busy[:first]
    taken = [0] * len(waiting)
    for number in busy[:limit]:
        taken[number] = 1
    left, rest = limit - sum(taken), sum(waiting) - sum(taken)
    remainders = []
    for number in busy:
        share, remainder = divmod((waiting[number] - taken[number]) * left, rest)
        taken[number] += share
        remainders.append((-remainder, number))
    for _, number in sorted(remainders)[: limit - sum(taken)]:
        taken[number] += 1
    return taken
