"""What tests put into topics, and what these hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from seglog.topic import Topic


def values_of(topic: Topic) -> list[list[bytes | None]]:
    """The values of every partition, in order."""
    return [[record.value for record in topic.partition(number).scan()] for number in range(topic.partitions)]


def held(topic: Topic) -> dict[int, list[bytes | None]]:
    """The values of the partitions that hold something, by their numbers."""
    return {number: rows for number, rows in enumerate(values_of(topic)) if rows}


def ends(topic: Topic) -> list[int]:
    """The end of every partition."""
    return [topic.partition(number).next_offset for number in range(topic.partitions)]


def table(rows: int, *, tag: str = "v", keys: bool = True, **columns: Any) -> pa.Table:
    """So many rows, with keys unless told otherwise, and whatever other columns are given."""
    data = {"value": [f"{tag}{row} ".encode() * 8 for row in range(rows)], **columns}
    return pa.table({**data, "key": [b"k%d" % row for row in range(rows)]} if keys else data)
