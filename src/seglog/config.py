"""Configuration of a log: frozen values with units, validated once. Sizes in bytes, durations in seconds."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar

from seglog.errors import ConfigError

MOST_COPIES = 100
MIN_SEGMENT_BYTES = 512
MAX_STORE_BYTES = 2**32 - 1
MAX_OFFSET = 2**63 - 1
MAX_BYTES = MAX_COUNT = 2**63 - 1
MIN_INT64 = -(2**63)
Expose = Literal["appended", "durable"]
"""Which records readers see: all, or those that are on the disk."""
Compression = Literal["none", "lz4", "zstd"]
"""How sealed segments are stored."""
DAY = 86_400.0
MIN_SECONDS = 1e-6  # the resolution of the clock
MAX_SECONDS = 36_525 * DAY  # 100 years: any clock plus this fits 64 bits of microseconds, and a thread can wait for it
_DURATIONS = ("segment_age", "flush_interval")
_LATER = frozenset({"after", "copies", "timestamps", "batch_bytes", "expire", "timestamp_ahead", "timestamp_behind"})
"""Fields of `Retention` that its first version did not have."""
_CHOICES = {"unkeyed": ("reject", "keep"), "after": ("none", "table"), "timestamps": ("given", "server")}
_LAGS = ("delete_retention", "min_compaction_lag", "max_compaction_lag")
_TIMESTAMP_LIMITS = ("timestamp_ahead", "timestamp_behind")
_RETENTION_DURATIONS = ("age", *_LAGS, *_TIMESTAMP_LIMITS)


def _whole(name: str, value: object, *, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} must be an int, not {type(value).__name__}")
    if not least <= value <= most:
        raise ConfigError(f"{name} is {_shown(value)}; it must be between {least} and {most}")
    return value


def _shown(value: object) -> str:
    """Format a value for a message; an int of more than 4,300 digits cannot be printed."""
    return (
        f"an int of {value.bit_length()} bits" if isinstance(value, int) and value.bit_length() > 128 else repr(value)
    )


def _seconds(name: str, value: object, *, zero: bool) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"{name} must be seconds or a timedelta, not {type(value).__name__}")
    if not (MIN_SECONDS <= value <= MAX_SECONDS or (value == 0 and zero)):  # also rejects NaN
        least = f"0, or from {MIN_SECONDS:f}" if zero else f"from {MIN_SECONDS:f}"
        raise ConfigError(f"{name} is {_shown(value)}; it must be {least} to {MAX_SECONDS:.0f} seconds (100 years)")
    return float(value)


def _within_bounds(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return stored values, with durations that an earlier version accepted clamped to the bounds."""
    found = {**values}
    for name in names:
        value = found.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if value > MAX_SECONDS:
                found[name] = MAX_SECONDS
            elif 0 < value < MIN_SECONDS:
                found[name] = MIN_SECONDS
    return found


def _microseconds(seconds: float | timedelta | None) -> int | None:
    return None if seconds is None else round(float(seconds) * 1_000_000)  # type: ignore[arg-type] # settled to float


def _settle(config: object, name: str, value: object) -> None:
    object.__setattr__(config, name, value)  # a frozen config is written only during its own validation


def _default_overflow(segment_bytes: int) -> int:
    return min(segment_bytes // 2, MAX_STORE_BYTES - segment_bytes)


class _Fields:
    """A frozen dataclass that records which fields were given; the others can be taken from a stored config."""

    __slots__ = ("_given",)
    _given: frozenset[str]

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the given fields in copies and in other processes."""
        return _restored, (type(self), {name: getattr(self, name) for name in self.__slots__}, self._given)

    def given(self) -> dict[str, Any]:
        """Return the fields that were given, by name."""
        return {name: getattr(self, name) for name in self.__slots__ if name in self._given}


def _restored(kind: type[Config], values: dict[str, Any], given: frozenset[str]) -> Config:
    config = kind(**values)
    _settle(config, "_given", given)
    return config


Config = TypeVar("Config", bound=_Fields)


def _noting(kind: type[Config]) -> type[Config]:
    """Make a dataclass record which of its fields are given."""
    init = kind.__init__

    @functools.wraps(init)
    def noting(self: Config, /, *args: Any, **fields: Any) -> None:
        init(self, *args, **fields)
        given = frozenset(fields) - (
            {"segment_overflow_bytes"} if fields.get("segment_overflow_bytes", 0) is None else set()
        )
        _settle(self, "_given", given)  # an overflow of None means its default

    kind.__init__ = noting  # type: ignore[method-assign,assignment] # it accepts the same arguments
    return kind


@_noting
@dataclass(frozen=True, kw_only=True, slots=True)
class Retention(_Fields):
    """Which records a log deletes. Policies combine; None means no limit.

    For an existing log, a field that is not given keeps its stored value.

    Args:
        bytes: Maximum size of all stores in bytes. Whole segments are deleted, oldest first, so the log may be larger
            by less than one segment.
        age: Seconds after a segment was sealed, by the log's clock, until it may be deleted.
        compact: Keep only the latest record of each key. `Log.compact` deletes the records that a later one supersedes;
            the remaining fields control compaction.
        delete_retention: Seconds that a tombstone is kept after its first compaction.
        min_compaction_lag: Seconds after sealing before a segment may be compacted.
        max_compaction_lag: Seconds after its creation until a segment must be compacted, whatever its dirty ratio. An
            active segment of that age rolls.
        min_dirty_ratio: Fraction of dirty bytes, 0 to 1, above which a log is compacted.
        dedupe_bytes: Memory for the key map, in bytes.
        unkeyed: "reject" rejects appends without a key, and the next compaction drops older records without one;
            "keep" accepts and keeps both.
        after: "table": neither the limits nor a compaction delete a record before the tables of the log have it
            (seglog.table). Without a table nothing is deleted. "none": they wait for no table.
        copies: Copies that must have a record before an append of a Kafka client with acks=all is answered, 0 to 100:
            min.insync.replicas less one.
        timestamps: Of the records that Kafka's clients produce: "given", their own; "server", the time of the server
            when it accepts them, which is message.timestamp.type=LogAppendTime.
        expire: False: `bytes` and `age` are kept but delete nothing, as with Kafka's cleanup.policy=compact. True: they
            do, and Kafka's clients see cleanup.policy=compact,delete also without any. None: they do.
        batch_bytes: Most bytes of a batch of Kafka's clients, as it is sent: max.message.bytes. None: the limit of the
            server, which always holds.
        timestamp_ahead: Seconds by which a timestamp that a client of Kafka gives may be after the server's time:
            message.timestamp.after.max.ms. None: no limit.
        timestamp_behind: The same before the server's time: message.timestamp.before.max.ms.

    Raises:
        ConfigError: If a value has the wrong type or is out of range.
    """

    bytes: int | None = None
    age: float | timedelta | None = None
    compact: bool = False
    delete_retention: float | timedelta = DAY
    min_compaction_lag: float | timedelta = 0.0
    max_compaction_lag: float | timedelta | None = None
    min_dirty_ratio: float = 0.5
    dedupe_bytes: int = 128 * 1024 * 1024
    unkeyed: Literal["reject", "keep"] = "reject"
    after: Literal["none", "table"] = "none"
    copies: int = 0
    timestamps: Literal["given", "server"] = "given"
    batch_bytes: int | None = None
    expire: bool | None = None
    timestamp_ahead: float | timedelta | None = None
    timestamp_behind: float | timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("bytes", "batch_bytes"):
            if getattr(self, name) is not None:
                _whole(f"retention.{name}", getattr(self, name), least=0, most=MAX_BYTES)
        if self.age is not None:
            _settle(self, "age", _seconds("retention.age", self.age, zero=True))
        self._check_switches()
        for name, (one, other) in _CHOICES.items():
            if getattr(self, name) not in (one, other):
                raise ConfigError(f'retention.{name} must be "{one}" or "{other}", not {_shown(getattr(self, name))}')
        for name in (*_LAGS, *_TIMESTAMP_LIMITS):
            if getattr(self, name) is not None or name in ("delete_retention", "min_compaction_lag"):
                _settle(self, name, _seconds(f"retention.{name}", getattr(self, name), zero=True))
        if isinstance(self.min_dirty_ratio, bool) or not isinstance(self.min_dirty_ratio, (int, float)):
            raise ConfigError("retention.min_dirty_ratio must be a number between 0 and 1")
        if not 0 <= self.min_dirty_ratio <= 1:
            raise ConfigError(
                f"retention.min_dirty_ratio is {_shown(self.min_dirty_ratio)}; it must be between 0 and 1"
            )
        _whole("retention.copies", self.copies, least=0, most=MOST_COPIES)
        _whole("retention.dedupe_bytes", self.dedupe_bytes, least=1024, most=MAX_BYTES)
        most = self.max_compaction_lag_us
        if most is not None and most < self.min_compaction_lag_us:
            raise ConfigError("retention.max_compaction_lag is less than min_compaction_lag; raise it or lower that")

    def _check_switches(self) -> None:
        if not isinstance(self.compact, bool):
            raise ConfigError(f"retention.compact must be True or False, not {type(self.compact).__name__}")
        if self.expire is not None and not isinstance(self.expire, bool):
            raise ConfigError(f"retention.expire must be True, False or None, not {type(self.expire).__name__}")

    def over(self, stored: Retention) -> Retention:
        """Return the stored retention, replaced field by field with what was given here."""
        return dataclasses.replace(stored, **self.given())

    def changed(self, fields: Mapping[str, Any]) -> Retention:
        """Return a retention with other values for some fields.

        Raises ConfigError: a value is invalid, or a limit is set that would delete nothing, because `expire` is False
        and not among the fields.
        """
        found = dataclasses.replace(self, **fields)
        if found.expire is not False or "expire" in fields:
            return found
        for name in {"age", "bytes"} & fields.keys():
            if fields[name] is not None and getattr(found, name) != getattr(self, name):
                raise ConfigError(
                    f"retention.{name} would delete nothing, because retention.expire is false (as Kafka's "
                    "cleanup.policy=compact sets it); set retention.expire to true as well (--retention-expire yes), "
                    "which applies both retention.age and retention.bytes"
                )
        return found

    @property
    def needs_keys(self) -> bool:
        """Whether appends without a key are rejected."""
        return self.compact and self.unkeyed == "reject"

    def to_json(self) -> dict[str, Any]:
        """Return plain values. Those of `_LATER` only if set: earlier versions do not know them, and must not open a
        log with them.
        """
        values = ((field, getattr(self, field.name)) for field in dataclasses.fields(self))
        return {field.name: value for field, value in values if field.name not in _LATER or value != field.default}

    @property
    def age_us(self) -> int | None:
        """The age in microseconds after which records are deleted; None: no limit."""
        return _microseconds(self.most_age)

    @property
    def most_age(self) -> float | timedelta | None:
        """The age in seconds after which records are deleted; None: no limit."""
        return None if self.expire is False else self.age

    @property
    def most_bytes(self) -> int | None:
        """The size of a log after which records are deleted; None: no limit."""
        return None if self.expire is False else self.bytes

    @property
    def delete_retention_us(self) -> int:
        """How long a tombstone outlives its first compaction, in microseconds."""
        return _microseconds(self.delete_retention) or 0

    @property
    def min_compaction_lag_us(self) -> int:
        """The minimum lag in microseconds."""
        return _microseconds(self.min_compaction_lag) or 0

    @property
    def max_compaction_lag_us(self) -> int | None:
        """The maximum lag in microseconds, or None."""
        return _microseconds(self.max_compaction_lag)

    def timestamp_bounds_us(self, now: int) -> tuple[int, int]:
        """Return the lowest and the highest timestamp that a client of Kafka may give now, in microseconds."""
        behind, ahead = _microseconds(self.timestamp_behind), _microseconds(self.timestamp_ahead)
        return MIN_INT64 if behind is None else now - behind, MAX_COUNT if ahead is None else now + ahead


@_noting
@dataclass(frozen=True, kw_only=True, slots=True)
class LogConfig(_Fields):
    """How a log stores its records. The config is stored with the log.

    For an existing log, a field that is not given keeps its stored value.

    Args:
        segment_bytes: Size at which a segment rolls, in bytes: it rolls before a record that would exceed it. From 512
            bytes; default 1 GiB.
        segment_overflow_bytes: Bytes by which one record may exceed `segment_bytes`. Default: half of it.
        segment_age: Seconds after which a segment that holds records rolls, at the next append or expire.
        index_interval_bytes: Store bytes between two entries of a sparse or time index.
        buffer_bytes: Buffer single appends in memory up to this many bytes (1 MiB is used at most). Faster, but kill -9
            loses what is not written yet.
        flush_records: Sync after this many records.
        flush_interval: Sync after this many seconds.
        initial_offset: First offset of a new log.
        open_segments_max: Number of sealed segments kept open.
        retention: Which records are deleted.
        compression: Codec of the sealed segments: "lz4", "zstd" or "none". `Log.compress` or a `Cleaner` applies it.
        allocate_bytes: Write zeros of this size, 0 to 1 MiB, ahead of single appends, so that a sync after each takes a
            fifth less time. A store may be that much longer than its records.

    Raises:
        ConfigError: If a value has the wrong type or is out of range.
    """

    segment_bytes: int = 1024**3
    segment_overflow_bytes: int | None = None
    segment_age: float | timedelta | None = None
    index_interval_bytes: int = 4096
    buffer_bytes: int = 0
    flush_records: int | None = None
    flush_interval: float | timedelta | None = None
    initial_offset: int = 0
    open_segments_max: int = 64
    retention: Retention = Retention()
    compression: Compression = "none"
    allocate_bytes: int = 0

    def __post_init__(self) -> None:
        _whole("segment_bytes", self.segment_bytes, least=MIN_SEGMENT_BYTES, most=MAX_STORE_BYTES)
        if self.segment_overflow_bytes is None:
            _settle(self, "segment_overflow_bytes", _default_overflow(self.segment_bytes))
        overflow = _whole("segment_overflow_bytes", self.segment_overflow_bytes, least=0, most=MAX_STORE_BYTES)
        if self.segment_bytes + overflow > MAX_STORE_BYTES:
            raise ConfigError(
                f"segment_bytes + segment_overflow_bytes is {self.segment_bytes + overflow}; "
                f"positions are 32 bits wide, so it must not exceed {MAX_STORE_BYTES}"
            )
        _whole("index_interval_bytes", self.index_interval_bytes, least=64, most=2**31)
        _whole("buffer_bytes", self.buffer_bytes, least=0, most=2**30)
        _whole("allocate_bytes", self.allocate_bytes, least=0, most=1024 * 1024)
        _whole("initial_offset", self.initial_offset, least=0, most=MAX_OFFSET - 1)
        _whole("open_segments_max", self.open_segments_max, least=1, most=MAX_COUNT)
        if self.flush_records is not None:
            _whole("flush_records", self.flush_records, least=1, most=MAX_COUNT)
        for name in ("segment_age", "flush_interval"):
            if getattr(self, name) is not None:
                _settle(self, name, _seconds(name, getattr(self, name), zero=False))
        if not isinstance(self.retention, Retention):
            raise ConfigError(f"retention must be a seglog.Retention, not {type(self.retention).__name__}")
        if self.compression not in ("none", "lz4", "zstd"):
            raise ConfigError(f'compression must be "none", "lz4" or "zstd", not {_shown(self.compression)}')

    @property
    def roll_age_us(self) -> int | None:
        """The age in microseconds at which a segment with records rolls; compaction needs sealed segments."""
        retention = self.retention
        ages = [_microseconds(self.segment_age), retention.max_compaction_lag_us if retention.compact else None]
        return min((age for age in ages if age is not None), default=None)

    @property
    def store_limit(self) -> int:
        """The maximum size of a store in bytes."""
        return self.segment_bytes + int(self.segment_overflow_bytes or 0)

    def over(self, stored: LogConfig) -> LogConfig:
        """Return the stored config, replaced field by field (in the retention, too) with what was given here.

        The overflow follows segment_bytes unless either config sets another one. initial_offset stays the stored one.
        """
        changes = self.given()
        changes.pop("initial_offset", None)
        if "retention" in changes:
            changes["retention"] = self.retention.over(stored.retention)
        follows = stored.segment_overflow_bytes == _default_overflow(stored.segment_bytes)
        if "segment_bytes" in changes and "segment_overflow_bytes" not in changes and follows:
            changes["segment_overflow_bytes"] = None
        return dataclasses.replace(stored, **changes)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for the manifest. `compression` and `allocate_bytes` only if set: earlier versions do not
        know them.
        """
        values = {**dataclasses.asdict(self), "retention": self.retention.to_json()}
        if self.compression == "none":
            del values["compression"]
        if not self.allocate_bytes:
            del values["allocate_bytes"]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> LogConfig:
        """Read what `to_json` returned.

        Durations that an earlier version stored outside of the present bounds are clamped to them.

        Raises:
            ConfigError: If there is an unknown option.
        """
        try:
            kept = _within_bounds(values.get("retention", {}), _RETENTION_DURATIONS)
            return cls(**{**_within_bounds(values, _DURATIONS), "retention": Retention(**kept)})
        except (AttributeError, TypeError) as error:
            raise ConfigError(
                f"the stored config has an option unknown to this version ({error}); open it with a newer version"
            ) from error
