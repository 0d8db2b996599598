"""The options of format "seglog", from strings to frozen values: names and meaning follow Spark's Kafka
source.

Pure: no file is looked at here, so that one mistake gives one error that names the option, before anything
runs.

| option | value | default |
|---|---|---|
| path | a log or a topic directory | (required) |
| includeHeaders | true, false | false |
| startingOffsets | earliest, or JSON {"topic": {"0": 23, "1": -2}}; -2 is earliest | earliest |
| endingOffsets | latest, or JSON {"topic": {"0": 50, "1": -1}}; -1 is latest; exclusive | latest |
| minPartitions | at least so many input partitions | one a segment |
| maxRecordsPerPartition | at most so many offsets an input partition | no limit |
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

EARLIEST = -2
LATEST = -1

_NAMES = (
    "path",
    "includeHeaders",
    "startingOffsets",
    "endingOffsets",
    "minPartitions",
    "maxRecordsPerPartition",
)
_CANONICAL = {name.lower(): name for name in _NAMES}


@dataclass(frozen=True, slots=True)
class OffsetBound:
    """Where reading starts or ends. everywhere: EARLIEST or LATEST for every partition; else None and
    `by_topic`.

    by_topic: topic name -> partition -> offset (>= 0), EARLIEST or LATEST. option: the name to blame in an
    error.
    """

    option: str
    everywhere: int | None
    by_topic: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one batch read. min_partitions, max_records_per_partition: None means not asked for."""

    path: str
    include_headers: bool
    start: OffsetBound
    stop: OffsetBound
    min_partitions: int | None
    max_records_per_partition: int | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read option strings; names in any case. InvalidArgument that names the option that cannot be."""
        given = _canonical(options)
        if not given.get("path"):
            raise InvalidArgument("option path is missing: load(path) wants the directory of a log or a topic")
        return cls(
            path=given["path"],
            include_headers=_boolean(given, "includeHeaders", default=False),
            start=_bound(given, "startingOffsets", default=EARLIEST),
            stop=_bound(given, "endingOffsets", default=LATEST),
            min_partitions=_count(given, "minPartitions"),
            max_records_per_partition=_count(given, "maxRecordsPerPartition"),
        )


def _canonical(options: Mapping[str, str]) -> dict[str, str]:
    given = {}
    for name, value in options.items():
        if name.lower() not in _CANONICAL:
            raise InvalidArgument(f"option {name} is unknown; format seglog takes {', '.join(_NAMES)}")
        given[_CANONICAL[name.lower()]] = value
    return given


def _boolean(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise InvalidArgument(f"option {name} is {text!r}; it must be true or false")
    return text.lower() == "true"


def _count(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise InvalidArgument(f"option {name} is {text!r}; it must be a whole number from 1 up")
    return int(text)


def _bound(given: Mapping[str, str], name: str, *, default: int) -> OffsetBound:
    text = given.get(name, "").strip()
    word = "earliest" if default == EARLIEST else "latest"
    if text.lower() in ("", word):
        return OffsetBound(name, default, {})
    if not text.startswith("{"):
        raise InvalidArgument(f'option {name} is {text!r}; in batch it must be {word} or JSON {{"topic": {{"0": 23}}}}')
    return OffsetBound(name, None, _offsets(name, text, default))


def _offsets(name: str, text: str, default: int) -> dict[str, dict[int, int]]:
    try:
        topics = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"option {name} is no JSON: {error}") from error
    by_topic: dict[str, dict[int, int]] = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            raise InvalidArgument(f'option {name}: topic {topic!r} wants an object {{"partition": offset}}')
        by_topic[topic] = {
            _partition(name, partition): _offset(name, partition, offset, default)
            for partition, offset in partitions.items()
        }
    return by_topic


def _partition(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise InvalidArgument(f"option {name}: {text!r} is no partition number")
    return int(text)


def _offset(name: str, partition: str, offset: object, default: int) -> int:
    """Return an offset that makes sense at this end; -2 only starts a batch and -1 only ends one, as in
    Kafka's.
    """
    if type(offset) is not int or (offset < 0 and offset != default):
        word = "-2 (earliest)" if default == EARLIEST else "-1 (latest)"
        raise InvalidArgument(f"option {name}: partition {partition} has {offset!r}; an offset from 0 up, or {word}")
    return offset
