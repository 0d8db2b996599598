"""Deserialize what a consumer has read; give back what it cannot deliver."""

from __future__ import annotations

from collections.abc import Sequence

from seglog.errors import SerializationError
from seglog.record import TopicRecord
from seglog.serializers import Serializers
from seglog.topic.groups.position import Cursor
from seglog.topic.layout.places import Partition


def deserialized(records: list[TopicRecord], serializers: Serializers | None, cursor: Cursor) -> list[TopicRecord]:
    """Return the records of a poll, up to one that cannot be deserialized.

    The position stays before that record, and those after it are read again: the next poll starts with it and raises.

    Raises:
        SerializationError: If it is the first one.
    """
    if serializers is None:
        return records
    done: list[TopicRecord] = []
    try:
        for record in records:
            done.append(serializers.deserialized(record, record.topic, record.partition))  # noqa: PERF401 - kept on errors
    except BaseException as error:
        kept = done if isinstance(error, SerializationError) else []  # an interrupted poll delivers nothing
        _give_back(records[len(kept) :], cursor)
        if kept:
            return kept
        raise
    return done


def _give_back(records: Sequence[TopicRecord], cursor: Cursor) -> None:
    firsts: dict[Partition, int] = {}
    for record in records:
        firsts.setdefault((record.topic, record.partition), record.offset)
    for partition, offset in reversed(firsts.items()):
        cursor.give_back(partition, offset)
