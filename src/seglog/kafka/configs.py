"""Topic configs by Kafka's names, as text <-> `LogConfig`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Literal, NamedTuple

from seglog.config import (
    MAX_STORE_BYTES,
    MIN_SEGMENT_BYTES,
    MOST_COPIES,
    Compression,
    LogConfig,
    Retention,
)
from seglog.errors import ConfigError
from seglog.settings import MAX_INT64, MAX_SECONDS

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
COMPACT, DELETE = "compact", "delete"
POLICIES = frozenset({COMPACT, DELETE})
NEVER = -1
MESSAGE_BYTES = "max.message.bytes"
MOST_LAG_MS = MAX_INT64
COMPRESSION = "compression.type"
CODECS: dict[str, Compression] = {"uncompressed": "none", "lz4": "lz4", "zstd": "zstd"}
TIMESTAMPS = "message.timestamp.type"
AHEAD, BEHIND = "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"
STAMPS: dict[str, Literal["given", "server"]] = {"CreateTime": "given", "LogAppendTime": "server"}
NO_CODEC = frozenset({"producer", "gzip", "snappy"})
"""Values of compression.type that are accepted without effect: segments have no such codec."""


class Setting(NamedTuple):
    """A config. shown: its value in a config; type: as Kafka numbers them; fixed: only for a new topic."""

    shown: Callable[[LogConfig], str]
    type: int
    fixed: bool = False


def _limits(config: LogConfig) -> tuple[float | timedelta | None, int | None]:
    """Return the age and bytes; without compaction Kafka knows no limits that do not apply."""
    kept = config.retention
    return (None, None) if kept.expire is False and not kept.compact else (kept.age, kept.bytes)


def _policy(config: LogConfig) -> str:
    retention = config.retention
    if not retention.compact:
        return DELETE
    has_limits = retention.age is not None or retention.bytes is not None
    expires = has_limits if retention.expire is None else retention.expire
    return f"{COMPACT},{DELETE}" if expires else COMPACT


def _compression(config: LogConfig) -> str:
    return "uncompressed" if config.compression == "none" else config.compression


def _timestamps(config: LogConfig) -> str:
    return next(shown for shown, stored in STAMPS.items() if stored == config.retention.timestamps)


def _ms(seconds: object, none: int = NEVER) -> str:
    return str(none if seconds is None else round(float(seconds) * 1000))  # type: ignore[arg-type] # settled to float


def _number(value: int | None, none: int = NEVER) -> str:
    return str(none if value is None else value)


SETTINGS: dict[str, Setting] = {
    "cleanup.policy": Setting(_policy, LIST),
    COMPRESSION: Setting(_compression, STRING),
    "delete.retention.ms": Setting(lambda config: _ms(config.retention.delete_retention), LONG),
    "flush.messages": Setting(lambda config: _number(config.flush_records, MOST_LAG_MS), LONG, fixed=True),
    "flush.ms": Setting(lambda config: _ms(config.flush_interval, MOST_LAG_MS), LONG, fixed=True),
    "max.compaction.lag.ms": Setting(lambda config: _ms(config.retention.max_compaction_lag, MOST_LAG_MS), LONG),
    MESSAGE_BYTES: Setting(lambda config: _number(config.retention.batch_bytes), INT),
    AHEAD: Setting(lambda config: _ms(config.retention.timestamp_ahead, MOST_LAG_MS), LONG),
    BEHIND: Setting(lambda config: _ms(config.retention.timestamp_behind, MOST_LAG_MS), LONG),
    TIMESTAMPS: Setting(_timestamps, STRING),
    "min.cleanable.dirty.ratio": Setting(lambda config: str(float(config.retention.min_dirty_ratio)), DOUBLE),
    "min.compaction.lag.ms": Setting(lambda config: _ms(config.retention.min_compaction_lag), LONG),
    "min.insync.replicas": Setting(lambda config: str(config.retention.copies + 1), INT),
    "retention.bytes": Setting(lambda config: _number(_limits(config)[1]), LONG),
    "retention.ms": Setting(lambda config: _ms(_limits(config)[0]), LONG),
    "segment.bytes": Setting(lambda config: str(config.segment_bytes), INT, fixed=True),
    "segment.ms": Setting(lambda config: _ms(config.segment_age, MOST_LAG_MS), LONG),
}
CONSTANT = {  # config -> the only value that is accepted, which this server fulfils anyway
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "preallocate": "false",
    "remote.storage.enable": "false",
    "unclean.leader.election.enable": "false",
}
INTERNAL = frozenset({"file.delete.delay.ms", "index.interval.bytes", "segment.index.bytes", "segment.jitter.ms"})
"""Configs of Kafka's files, which no client can notice: whole numbers, accepted without effect."""


class Range(NamedTuple):
    """Which numbers a config accepts, in Kafka's unit. none: one more, which means no limit."""

    least: int
    most: int
    none: int | None = None

    def __str__(self) -> str:
        """Format it for an error."""
        years = " (100 years)" if self.most == MOST_MS else ""
        shown = f"{self.least} to {self.most}{years}"
        return shown if self.none is None else f"{shown}, or {self.none} (no limit)"


MOST_MS = int(MAX_SECONDS * 1000)
LAG, MIN_LAG = "max.compaction.lag.ms", "min.compaction.lag.ms"
RANGES = {
    "delete.retention.ms": Range(0, MOST_MS),
    "flush.messages": Range(1, MOST_LAG_MS),
    "flush.ms": Range(1, MOST_MS, MOST_LAG_MS),
    LAG: Range(0, MOST_MS, MOST_LAG_MS),
    MESSAGE_BYTES: Range(0, MAX_INT64, NEVER),
    AHEAD: Range(0, MOST_MS, MOST_LAG_MS),
    BEHIND: Range(0, MOST_MS, MOST_LAG_MS),
    "min.cleanable.dirty.ratio": Range(0, 1),
    MIN_LAG: Range(0, MOST_MS),
    "min.insync.replicas": Range(1, MOST_COPIES + 1),
    "retention.bytes": Range(0, MAX_INT64, NEVER),
    "retention.ms": Range(0, MOST_MS, NEVER),
    "segment.bytes": Range(MIN_SEGMENT_BYTES, MAX_STORE_BYTES),
    "segment.ms": Range(1, MOST_MS, MOST_LAG_MS),
}
"""Of the settings that are numbers. LogConfig refuses the same, with names and units that a client does not know."""


ABOUT = {  # what tools show to operators
    "cleanup.policy": "delete: expire old segments; compact: keep the newest record of each key; or both.",
    COMPRESSION: "The codec of sealed segments: lz4, zstd or uncompressed. Clients may compress as they like.",
    "delete.retention.ms": "How long compaction keeps tombstones.",
    "flush.messages": "After how many records a log is synced.",
    "flush.ms": "After which time a log is synced.",
    "max.compaction.lag.ms": "The time after which a superseded record is compacted at the latest.",
    MESSAGE_BYTES: "The most bytes of a batch of records, as it is sent; by default those of the server.",
    AHEAD: "How far the timestamps that producers give may be ahead of the server's time.",
    BEHIND: "How far the timestamps that producers give may be behind the server's time.",
    TIMESTAMPS: "CreateTime: records keep the timestamps of Kafka's clients; LogAppendTime: they get the server's.",
    "min.cleanable.dirty.ratio": "The part of a log that must be new before it is compacted.",
    "min.compaction.lag.ms": "How long a record stays uncompacted at least.",
    "min.insync.replicas": "How many disks must have a record before acks=all is answered.",
    "retention.bytes": "The most bytes that a partition keeps; -1: no limit.",
    "retention.ms": "How long a partition keeps its records; -1: no limit.",
    "segment.bytes": "The most bytes of a segment.",
    "segment.ms": "The time after which a segment is sealed.",
}


def values_of(config: LogConfig) -> dict[str, str]:
    """Return every setting of a config. max.message.bytes is -1 if the topic has no limit of its own."""
    return {name: setting.shown(config) for name, setting in SETTINGS.items()}


NEW = LogConfig(retention=Retention(timestamp_ahead=3600.0))
"""The config of a topic that a client of Kafka creates, without a config of its own; the limit is Kafka's."""

DEFAULTS = values_of(NEW)


def most_bytes(config: LogConfig, server: int) -> int:
    """Return the most bytes of a batch: the topic's limit within that of the server."""
    given = config.retention.batch_bytes
    return server if given is None else min(given, server)


def changed(config: LogConfig, changes: Mapping[str, str | None], *, is_new: bool) -> LogConfig:
    """Return a config with changes; None: the default.

    Args:
        config: The present config, or that of a new topic.
        changes: The settings to change, by Kafka's names.
        is_new: Whether the topic is being created.

    Raises:
        ConfigError: A setting is unknown, has an invalid value, or cannot be changed any more.
    """
    values = values_of(config)
    for name, given in changes.items():
        if name in CONSTANT:
            if given is not None:
                _check_accepted(name, given, {CONSTANT[name]})
            continue
        if name in INTERNAL:
            _whole({name: given or "0"}, name)
            continue
        if name == COMPRESSION and given in NO_CODEC:
            continue
        if name not in SETTINGS:
            raise ConfigError(f"there is no config {name!r}; docs/kafka.md lists those that exist")
        value = DEFAULTS[name] if given is None else given
        if SETTINGS[name].fixed and not is_new and value != values[name]:
            raise ConfigError(f"{name} is {values[name]}, and is fixed once a topic exists; create another topic")
        if value != values[name]:
            _check_range(name, value)
        values[name] = value
    _check_lags(values)
    return _config(config, values, is_new=is_new)


def checked(changes: Mapping[str, str | None], most_bytes: int) -> Mapping[str, str | None]:
    """Return changes whose `max.message.bytes`, if they have one, is within the limit of the server.

    Raises ConfigError if it is not.
    """
    given = changes.get(MESSAGE_BYTES)
    if given is not None and not 0 <= _whole({MESSAGE_BYTES: given}, MESSAGE_BYTES) <= most_bytes:
        raise ConfigError(f"{MESSAGE_BYTES} is {given}; it must be 0 to {most_bytes} (--batch-bytes of the server)")
    return changes


def _check_accepted(name: str, value: str, accepted: Collection[str]) -> None:
    if value not in accepted:
        raise ConfigError(f"{name} cannot be {value!r}; this server accepts {' or '.join(sorted(accepted))}")


def _check_range(name: str, value: str) -> None:
    """Raise ConfigError if a setting that is a number is outside of its range."""
    found = RANGES.get(name)
    if found is None:
        return
    number = _ratio({name: value}, name) if SETTINGS[name].type == DOUBLE else _whole({name: value}, name)
    if not (found.least <= number <= found.most or number == found.none):  # also refuses NaN
        raise ConfigError(f"{name} is {value}; it must be {found}")


def _check_lags(values: Mapping[str, str]) -> None:
    """Raise ConfigError if a record must be compacted before it may be."""
    if _whole(values, LAG) < _whole(values, MIN_LAG):
        raise ConfigError(f"{LAG} is {values[LAG]}, which is less than {MIN_LAG}, {values[MIN_LAG]}")


def _config(config: LogConfig, values: Mapping[str, str], *, is_new: bool) -> LogConfig:
    policy = {one.strip() for one in values["cleanup.policy"].split(",")}
    if not policy or not policy <= POLICIES:
        raise ConfigError(f"cleanup.policy is {values['cleanup.policy']!r}; it must be delete, compact, or both")
    age, size = _seconds(values, "retention.ms", none=NEVER), _limit(values, "retention.bytes", none=NEVER)
    retention = replace(
        config.retention,
        compact=COMPACT in policy,
        age=age,
        bytes=size,
        expire=_expire(policy, has_limits=age is not None or size is not None),
        delete_retention=_seconds(values, "delete.retention.ms") or 0.0,
        min_compaction_lag=_seconds(values, "min.compaction.lag.ms") or 0.0,
        max_compaction_lag=_seconds(values, "max.compaction.lag.ms", none=MOST_LAG_MS),
        min_dirty_ratio=_ratio(values, "min.cleanable.dirty.ratio"),
        copies=_whole(values, "min.insync.replicas") - 1,
        timestamps=_stamps(values[TIMESTAMPS]),
        batch_bytes=_limit(values, MESSAGE_BYTES, none=NEVER),
        timestamp_ahead=_seconds(values, AHEAD, none=MOST_LAG_MS),
        timestamp_behind=_seconds(values, BEHIND, none=MOST_LAG_MS),
    )
    compression = _codec(values[COMPRESSION])
    segment_age = _segment_age(config, values)
    if not is_new:
        return replace(config, retention=retention, compression=compression, segment_age=segment_age)
    return LogConfig(
        segment_bytes=_whole(values, "segment.bytes"),
        segment_age=segment_age,
        flush_records=_limit(values, "flush.messages", none=MOST_LAG_MS),
        flush_interval=_seconds(values, "flush.ms", none=MOST_LAG_MS),
        retention=retention,
        compression=compression,
    )


def _expire(policy: Collection[str], *, has_limits: bool) -> bool | None:
    """Return `Retention.expire`: None if the policy is what the limits say by themselves."""
    wanted = DELETE in policy
    return None if COMPACT not in policy or wanted is has_limits else wanted


def _segment_age(config: LogConfig, values: Mapping[str, str]) -> float | timedelta | None:
    """Return the age that is given; the present one, which may not be whole milliseconds, if that is not changed."""
    if values["segment.ms"] == SETTINGS["segment.ms"].shown(config):
        return config.segment_age
    return _seconds(values, "segment.ms", none=MOST_LAG_MS)


def _codec(value: str) -> Compression:
    _check_accepted(COMPRESSION, value, CODECS.keys() | NO_CODEC)
    return CODECS[value]


def _stamps(value: str) -> Literal["given", "server"]:
    _check_accepted(TIMESTAMPS, value, STAMPS.keys())
    return STAMPS[value]


def _whole(values: Mapping[str, str], name: str) -> int:
    try:
        return int(values[name])
    except ValueError as error:
        raise ConfigError(f"{name} is {values[name]!r}; it must be a whole number") from error


def _limit(values: Mapping[str, str], name: str, *, none: int) -> int | None:
    found = _whole(values, name)
    return None if found == none else found


def _seconds(values: Mapping[str, str], name: str, *, none: int | None = None) -> float | None:
    found = _whole(values, name)
    return None if found == none else found / 1000


def _ratio(values: Mapping[str, str], name: str) -> float:
    try:
        return float(values[name])
    except ValueError as error:
        raise ConfigError(f"{name} is {values[name]!r}; it must be a number from 0 to 1") from error
