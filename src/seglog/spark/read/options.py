"""The options of reading format "seglog", from strings to frozen values; names and meaning follow Spark's Kafka source.

Pure: reads no file, so that a mistake gives one error that names the option, before anything runs. Names are accepted
in any case.

| option | value | default |
|---|---|---|
| path | a log, a topic or a broker directory; `file:` is accepted; or an archive, s3://bucket/prefix | one of path |
| url | a server (`seglog serve`): http://127.0.0.1:3000 | and url |
| token | the server's token; with url only | the environment's SEGLOG_TOKEN |
| assign | JSON {"topic": [0, 1]} | exactly one of these three |
| subscribe | topics, separated by commas | on a broker directory; |
| subscribePattern | a regular expression for whole topic names | none needed elsewhere |
| includeHeaders | true, false | false |
| columns | columns, separated by commas: the others are not even decoded | all |
| startingTimestamp | ms since the epoch, for every partition | |
| startingOffsetsByTimestamp | JSON {"topic": {"0": 1700000000000}}, ms | |
| startingOffsets | earliest, latest (stream), JSON {"topic": {"0": 23, "1": -2}} | batch earliest, stream latest |
| startingOffsetsByTimestampStrategy | if no record is that late: error, latest | error |
| endingTimestamp, endingOffsetsByTimestamp | as for the start; if no record is that late: the end; batch only | |
| endingOffsets | latest, JSON {"topic": {"0": 50, "1": -1}}; exclusive; batch only | latest |
| startingPositions | the offsets of a checkpoint, as JSON: a new query continues there; stream only | |
| table | WAREHOUSE/NAME of a table of `seglog table sync`: what a log no longer holds is read from it | none |
| tableCatalogCredentials | JSON with the properties of the table's pyiceberg catalog | catalog.db in the warehouse |
| pushFilters | no effect (see below) | |
| failOnDataLoss | true; false logs a warning and continues with what exists | true |
| expose | durable: only records that survive power loss; appended: all records | appended |
| minPartitions | at least this many input partitions | one per segment |
| maxRecordsPerPartition | at most this many offsets per input partition | no limit |
| maxOffsetsPerTrigger | at most this many records per micro-batch, exactly; stream only | no limit |
| minOffsetsPerTrigger | no micro-batch of fewer records, until maxTriggerDelay has passed; stream only | no limit |
| maxTriggerDelay | 500ms, 30s, 15m, 1h; stream only | 15m |

-2 is earliest and -1 latest. Of several starts the first in this table counts, and likewise of several ends. As in
Kafka's source an end is rejected in a stream, and the three trigger limits are ignored in batch, with a warning.
pushFilters applied the filters of a query to its read. Spark (4.3) passes filters to a Python source per `load`, not
per query, and does not inform it of a query without filters: the filters of one query, even of one that was only
explained, narrow the other queries of the same frame, and of two in one query (a union) the last ones hold for both. No
process of Python can see which query it reads for. So filters are Spark's alone.
tableCatalogCredentials may hold secrets. Spark shows options in plans, on its pages and in event logs, but hides those
whose names match spark.redaction.regex, as this one does by default, whatever its value.
On a server all topics are read that the token has a right on, unless one of the three selects some.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from seglog.errors import InvalidArgument
from seglog.spark.option_values import (
    TABLE_ADVICE,
    boolean,
    canonical,
    choice,
    count,
    duration,
    is_archive,
    json_object,
    local_path,
    partition_number,
    server_url,
    token,
    word_list,
)

EARLIEST = -2
LATEST = -1
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

Mode = Literal["batch", "stream", "any"]

_SELECTIONS = ("assign", "subscribe", "subscribePattern")
_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
TABLE_CATALOG = "tableCatalogCredentials"  # Spark hides options whose name has "credential"
_TRIGGERS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
NAMES = (
    "path",
    "url",
    "token",
    *_SELECTIONS,
    "includeHeaders",
    "pushFilters",
    "columns",
    *_STARTS,
    "startingOffsetsByTimestampStrategy",
    *_ENDS,
    "startingPositions",
    "table",
    TABLE_CATALOG,
    "failOnDataLoss",
    "expose",
    "minPartitions",
    "maxRecordsPerPartition",
    *_TRIGGERS,
)
# Recognised so that the error can say more than "unknown".
_REFUSED = ("paths",)
_LOG = logging.getLogger("seglog.spark")


def all_columns(*, include_headers: bool) -> tuple[str, ...]:
    """Return the columns of a read that does not select any."""
    return COLUMNS if include_headers else COLUMNS[:-1]


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading starts or ends: one value for every partition, or (everywhere is None) those of `by_topic`.

    option: the name for errors. by_time: the values are ms since the epoch; else offsets, EARLIEST or LATEST.
    """

    option: str
    everywhere: int | None
    by_topic: Mapping[str, Mapping[int, int]]
    by_time: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """The topics, and their partitions, to read. option: the option that selects them, None for all.

    topics: names for assign (with their partitions) and subscribe; pattern for subscribePattern.
    """

    option: str | None = None
    topics: tuple[str, ...] = ()
    partitions: Mapping[str, tuple[int, ...]] | None = None
    pattern: str | None = None

    def wants(self, topic: str) -> bool:
        """Whether a topic of this name is read."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return self.option is None or topic in self.topics


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read or one streaming query. None means not given; max_trigger_delay in seconds.

    durable: whether to read only what the writer has synced. path is empty if the logs are a server's, at url. The
    representation omits the token and the catalog, which may hold secrets. positions: as `offsets.encode` returns them.
    """

    path: str
    url: str | None
    token: str | None = field(repr=False)
    selection: Selection
    include_headers: bool
    columns: tuple[str, ...]
    start: Bound
    stop: Bound
    late_start: str
    fail_on_data_loss: bool
    durable: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float
    positions: Mapping[str, Any] | None = None
    table: str | None = None
    table_catalog: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        """The location of the logs: the path, or the URL."""
        return self.path if self.url is None else self.url

    @classmethod
    def parse(
        cls, options: Mapping[str, str], mode: Mode = "batch", environment: Mapping[str, str] | None = None
    ) -> ReadOptions:
        """Parse option strings. Raises InvalidArgument with the option's name.

        mode "any": if batch or stream is not known yet, check only what holds for both. environment: may contain a
        token.
        """
        given = canonical(options, (*NAMES, *_REFUSED))
        include_headers = boolean(given, "includeHeaders", default=False)
        _check_mode(given, mode)
        least, most = count(given, "minOffsetsPerTrigger"), count(given, "maxOffsetsPerTrigger")
        if least is not None and most is not None and least > most:
            raise InvalidArgument(f"option minOffsetsPerTrigger is {least}, above maxOffsetsPerTrigger, {most}")
        url = _url(given)
        return cls(
            path=_path(given) if url is None else "",
            url=url,
            token=None if url is None else token(given, environment or {}),
            selection=_selection(given),
            include_headers=include_headers,
            columns=_columns(given, include_headers=include_headers),
            start=_bound(given, _STARTS, _start_words(mode)),
            stop=_bound(given, _ENDS, {"latest": LATEST}),
            late_start=choice(given, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error"),
            fail_on_data_loss=boolean(given, "failOnDataLoss", default=True),
            durable=choice(given, "expose", ("appended", "durable"), "appended") == "durable",
            min_partitions=count(given, "minPartitions"),
            max_records_per_partition=count(given, "maxRecordsPerPartition"),
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay=duration(given, "maxTriggerDelay", "15m"),
            positions=json_object(given, "startingPositions"),
            table=given.get("table"),
            table_catalog=_table_catalog(given),
        )


def _check_mode(given: Mapping[str, str], mode: Mode) -> None:
    if boolean(given, "pushFilters", default=False):
        _LOG.warning("option pushFilters has no effect: select records with offsets, times or assign in the options")
    if mode == "stream":
        for name in _ENDS:
            if name in given:
                raise InvalidArgument(f"option {name} is for batch reads; a stream has no end")
    elif mode == "batch":
        if "startingPositions" in given:
            raise InvalidArgument("option startingPositions is for streams; a batch read takes startingOffsets")
        for name in _TRIGGERS:
            if name in given:
                _LOG.warning("option %s is for streams; a batch read ignores it", name)


def _table_catalog(given: Mapping[str, str]) -> Mapping[str, str] | None:
    if TABLE_CATALOG in given and "table" not in given:
        raise InvalidArgument(f"option {TABLE_CATALOG} needs option table")
    properties = json_object(given, TABLE_CATALOG, is_secret=True)
    if properties is not None and not all(isinstance(value, str) for value in properties.values()):
        raise InvalidArgument(f"option {TABLE_CATALOG} must be a JSON object of texts")
    return properties


def _url(given: Mapping[str, str]) -> str | None:
    """Return the server's address, None if a path is given."""
    if "url" in given and "path" in given:
        raise InvalidArgument("options path and url are both given; give only one")
    if "token" in given and "url" not in given:
        raise InvalidArgument("option token needs option url: it is for a server")
    return server_url(given) if "url" in given else None


def _path(given: Mapping[str, str]) -> str:
    path = given.get("path", "")
    path = path if "paths" not in given and is_archive(path) else local_path(given)
    if not path:
        raise InvalidArgument(
            "option path is missing: load(path) takes the directory of a log, a topic or a broker, url a server; "
            + TABLE_ADVICE
        )
    return path


def _selection(given: Mapping[str, str]) -> Selection:
    named = [name for name in _SELECTIONS if name in given]
    if len(named) > 1:
        raise InvalidArgument(f"options {' and '.join(named)} are given; only one of them may select topics")
    if not named:
        return Selection()
    if named == ["subscribePattern"]:
        return Selection("subscribePattern", pattern=_pattern(given["subscribePattern"]))
    if named == ["subscribe"]:
        return Selection("subscribe", topics=word_list(given, "subscribe") or ())
    assigned = {topic: _numbers(topic, numbers) for topic, numbers in (json_object(given, "assign") or {}).items()}
    if not assigned:
        raise InvalidArgument('option assign names nothing; it must be JSON {"topic": [0, 1]}')
    return Selection("assign", topics=tuple(assigned), partitions=assigned)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidArgument(f"option subscribePattern is not a regular expression: {error}") from error
    if not text:
        raise InvalidArgument("option subscribePattern is empty; `.*` matches every topic")
    return text


def _numbers(topic: str, numbers: Any) -> tuple[int, ...]:
    sound = isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)
    if not sound or not numbers or len(set(numbers)) < len(numbers):
        raise InvalidArgument(f"option assign: topic {topic!r} has {numbers!r}; it must be a list such as [0, 1]")
    return tuple(sorted(numbers))


def _columns(given: Mapping[str, str], *, include_headers: bool) -> tuple[str, ...]:
    words = word_list(given, "columns")
    if words is None:
        return all_columns(include_headers=include_headers)
    known = {name.lower(): name for name in COLUMNS}
    for word in words:
        if word.lower() not in known:
            raise InvalidArgument(f"option columns: there is no column {word!r}, only {', '.join(COLUMNS)}")
    columns = tuple(known[word.lower()] for word in words)
    if "headers" in columns and not include_headers:
        raise InvalidArgument("option columns names headers; set includeHeaders to true as well")
    if len(set(columns)) < len(columns):
        raise InvalidArgument(f"option columns is {given['columns']!r}; it names a column twice")
    return columns


def _start_words(mode: Mode) -> dict[str, int]:
    """Return the words for a start, the default first."""
    if mode == "stream":
        return {"latest": LATEST, "earliest": EARLIEST}
    return {"earliest": EARLIEST} if mode == "batch" else {"earliest": EARLIEST, "latest": LATEST}


def _bound(given: Mapping[str, str], names: tuple[str, str, str], words: Mapping[str, int]) -> Bound:
    """Return the bound that counts; names: by time for all, by time, by offset. All given ones must be valid."""
    overall, by_time, by_offset = names
    moment = count(given, overall, least=0)
    times = None if by_time not in given else _by_topic(given, by_time, {})
    offsets = _offset_bound(given, by_offset, words)
    if moment is not None:
        return Bound(overall, moment, {}, by_time=True)
    return offsets if times is None else Bound(by_time, None, times, by_time=True)


def _offset_bound(given: Mapping[str, str], name: str, words: Mapping[str, int]) -> Bound:
    default = next(iter(words))
    text = given.get(name, default).strip().lower()
    if text in words:
        return Bound(name, words[text], {})
    if not text.startswith("{"):
        named = " or ".join(words)
        raise InvalidArgument(f'option {name} is {text!r}; it must be {named}, or JSON {{"topic": {{"0": 23}}}}')
    return Bound(name, None, _by_topic(given, name, words))


def _by_topic(given: Mapping[str, str], name: str, words: Mapping[str, int]) -> dict[str, dict[int, int]]:
    values: dict[str, dict[int, int]] = {}
    for topic, partitions in (json_object(given, name) or {}).items():
        if not isinstance(partitions, dict):
            raise InvalidArgument(f'option {name}: topic {topic!r} must have an object, {{"partition": number}}')
        values[topic] = {
            partition_number(name, partition): _value(name, partition, value, words)
            for partition, value in partitions.items()
        }
    return values


def _value(name: str, partition: str, value: Any, words: Mapping[str, int]) -> int:
    """Return a valid offset or time: -2 never ends a read and -1 never starts one in batch."""
    if type(value) is not int or (value < 0 and value not in words.values()):
        special = "".join(f", or {number} ({word})" for word, number in words.items())
        raise InvalidArgument(
            f"option {name}: partition {partition} has {value!r}; it must be a whole number from 0 up{special}"
        )
    return value
