"""Partition assignment: a pure function of the members, the topics they read, and the previous owners.

Members with the same topics get counts that differ by at most one over all partitions. If topics differ, no move of a
single partition could make the assignment more even. A member keeps what it has as far as that allows.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument, InvalidType

if TYPE_CHECKING:
    from seglog.topic.layout.places import Partition

Assign = Callable[[Mapping[str, Collection[str]], Mapping[str, int], Mapping["Partition", str]], dict["Partition", str]]
"""Returns the member of every partition; the arguments are those of `assign`."""
Share = tuple[int, int]
"""(index, n): a reader without membership reads every partition p with p % n == index."""


def assign(
    members: Mapping[str, Collection[str]], partitions: Mapping[str, int], before: Mapping[Partition, str]
) -> dict[Partition, str]:
    """Return the member of every partition that any member reads.

    members: id -> topics; partitions: topic -> how many; before: previous owners. The order of all three is irrelevant.
    """
    readers = {topic: sorted(one for one in members if topic in members[one]) for topic in sorted(partitions)}
    taken: dict[Partition, str] = {}
    free: list[Partition] = []
    for topic, those in readers.items():
        for number in range(partitions[topic] if those else 0):
            had = before.get((topic, number))
            if had is not None and topic in members.get(had, ()):
                taken[topic, number] = had
            else:
                free.append((topic, number))
    loads = Counter(dict.fromkeys(members, 0))
    loads.update(taken.values())
    _deal(free, readers, taken, loads)
    _level(readers, taken, loads)
    return dict(sorted(taken.items()))


def _deal(
    free: list[Partition], readers: Mapping[str, list[str]], taken: dict[Partition, str], loads: Counter[str]
) -> None:
    """Give every free partition to the reader with the fewest; start with those that the fewest members read."""
    heaps = {topic: [(loads[one], one) for one in those] for topic, those in readers.items()}
    for heap in heaps.values():
        heapq.heapify(heap)
    for topic, number in sorted(free, key=lambda one: (len(readers[one[0]]), one)):
        heap = heaps[topic]
        while heap[0][0] != loads[heap[0][1]]:  # that member got a partition of another topic since
            heapq.heapreplace(heap, (loads[heap[0][1]], heap[0][1]))
        least = heap[0][1]
        taken[topic, number] = least
        loads[least] += 1


def _level(readers: Mapping[str, list[str]], taken: dict[Partition, str], loads: Counter[str]) -> None:
    """Move partitions, topic by topic, until no move makes it more even."""
    held: dict[str, dict[str, list[int]]] = {topic: {} for topic in readers}
    for topic, number in sorted(taken):
        held[topic].setdefault(taken[topic, number], []).append(number)
    moved = True
    while moved:
        moved = False
        for topic, those in readers.items():
            if not held[topic]:
                continue
            giver = max(held[topic], key=lambda one: (loads[one], len(held[topic][one]), one))
            least = min(those, key=lambda one: (loads[one], len(held[topic].get(one, ())), one))
            if loads[giver] - loads[least] < 2:
                continue
            number = held[topic][giver].pop()
            if not held[topic][giver]:
                del held[topic][giver]
            held[topic].setdefault(least, []).append(number)
            taken[topic, number] = least
            loads[giver] -= 1
            loads[least] += 1
            moved = True


def shared(share: Share, partitions: Mapping[str, int]) -> tuple[Partition, ...]:
    """Return the partitions of one of n statically configured readers."""
    index, of = share
    return tuple((topic, number) for topic in sorted(partitions) for number in range(index, partitions[topic], of))


def checked_share(share: object) -> Share:
    """Return (index, n). Raises InvalidType unless it is a pair of ints, InvalidArgument unless 0 <= index < n."""
    if not isinstance(share, tuple) or len(share) != 2 or not all(type(one) is int for one in share):
        raise InvalidType(f"share must be two ints, (index, number of readers), not {share!r}")
    index, of = share
    if not 0 <= index < of:
        raise InvalidArgument(f"share is {share}; the index of one of n readers is 0 to n - 1")
    return index, of
