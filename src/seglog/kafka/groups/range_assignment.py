"""The assignor "range": each topic's partitions in contiguous ranges, those of equal numbers to the same member."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from seglog.topic.layout.places import Partition


def assign_ranges(
    members: Mapping[str, Collection[str]], partitions: Mapping[str, int], before: Mapping[Partition, str]
) -> dict[Partition, str]:
    """Return the member of every partition that any member reads.

    The first members of a topic, by id, get one partition more if they cannot all get the same number. before: not
    used; so a member that joins may move the ranges of all others.
    """
    del before
    taken: dict[Partition, str] = {}
    for topic in sorted(partitions):
        readers = sorted(one for one in members if topic in members[one])
        count, start = partitions[topic], 0
        for index, one in enumerate(readers):
            stop = start + count // len(readers) + (index < count % len(readers))
            taken |= {(topic, number): one for number in range(start, stop)}
            start = stop
    return taken
