"""Offsets by topic and partition, and their JSON: positions in many logs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from seglog.errors import InvalidArgument
from seglog.format.foreign import UNREADABLE
from seglog.topic.layout.places import Partition

Number = TypeVar("Number")

Positions = Mapping[str, Mapping[int, int]]
"""Topic name -> partition -> offset."""


def nested(offsets: Mapping[Partition, Number]) -> dict[str, dict[int, Number]]:
    """Return topic -> partition -> number from (topic, partition) -> number, keeping the order."""
    found: dict[str, dict[int, Number]] = {}
    for (topic, number), offset in offsets.items():
        found.setdefault(topic, {})[number] = offset
    return found


def flat(offsets: Mapping[str, Mapping[int, Number]]) -> dict[Partition, Number]:
    """Return the inverse of `nested`."""
    return {(topic, number): offset for topic, of in offsets.items() for number, offset in of.items()}


def to_json(offsets: Positions) -> str:
    """Return positions as JSON, the form of startingOffsets and endingOffsets."""
    return json.dumps({topic: dict(of) for topic, of in offsets.items()})  # JSON turns the numbers into text


def from_json(text: str, what: str) -> dict[str, dict[int, int]]:
    """Parse `to_json`'s text, or a streaming checkpoint's, whose offsets may be objects with an `offset`.

    Raises InvalidArgument, naming `what`, for anything else.
    """
    try:
        return from_values(json.loads(text))
    except UNREADABLE as error:
        raise InvalidArgument(f'{what} must be JSON such as {{"topic": {{"0": 23}}}}, not {text!r}') from error


def from_values(values: Any) -> dict[str, dict[int, int]]:
    """Return positions from JSON values. Raises ValueError, TypeError, KeyError or AttributeError for anything else."""
    return {
        str(topic): {int(number): _plain_offset(offset) for number, offset in of.items()}
        for topic, of in values.items()
    }


def _plain_offset(value: Any) -> int:
    offset = value["offset"] if isinstance(value, dict) else value
    if type(offset) is not int:
        raise TypeError
    return offset
