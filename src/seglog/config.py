"""Configuration of a log: frozen values, validated once. Each field is a setting, declared here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from seglog.deprecated import taking_moved
from seglog.errors import ConfigError
from seglog.fields import Config, Fields, Seconds, microseconds, noting, restored, settle
from seglog.policies import Policies, PolicyFields, parted
from seglog.settings import (
    DAY,
    MAX_INT64,
    Scope,
    choice,
    count,
    declared,
    duration,
    known_values,
    share,
    size,
    switch,
    within_bounds,
)

MIN_SEGMENT_BYTES = 512
MAX_STORE_BYTES = 2**32 - 1
MAX_OFFSET = MAX_INT64
Expose = Literal["appended", "durable"]
"""Which records readers see: all, or those that are on the disk."""
Compression = Literal["none", "lz4", "zstd"]
"""How sealed segments are stored."""
_KEPT: dict[str, Any] = {"scope": Scope.RETENTION, "altered": True}
_COMPACTED: dict[str, Any] = {"scope": Scope.COMPACTION, "altered": True}


def _default_overflow(segment_bytes: int) -> int:
    return min(segment_bytes // 2, MAX_STORE_BYTES - segment_bytes)


if TYPE_CHECKING:
    _Typed = PolicyFields  # what `taking_moved` adds
else:
    _Typed = Fields


@taking_moved(PolicyFields, Policies)
@noting
@dataclass(frozen=True, kw_only=True, slots=True)
class Retention(_Typed):
    """Which records a log deletes. Policies combine. Sizes are in bytes, times in seconds or a timedelta.

    For an existing log, a field that is not given keeps its stored value.

    Args:
        bytes: Size of all stores above which whole segments are deleted, oldest first, so the log may be larger by less
            than one segment; when one rolls, and by `expire`. None: no limit.
        age: Time after which a segment may be deleted; when one rolls, and by `expire`. None: no limit.
        compact: Keep only the latest record of each key: a compaction deletes the records that a later one supersedes.
        delete_retention: Time that a tombstone is kept after its first compaction.
        min_compaction_lag: Time after sealing before a segment may be compacted.
        max_compaction_lag: Age at which a segment must be compacted, whatever its dirty ratio. An active segment of
            that age rolls. None: no limit.
        min_dirty_ratio: Fraction of dirty bytes, 0 to 1, above which a log is compacted.
        dedupe_bytes: Memory for the keys of one compaction.
        unkeyed: "reject": appends without a key are refused, and the next compaction drops older records without one.
            "keep": both are kept.
        after: "table": neither the limits nor a compaction delete a record before the tables of the log have it
            (`seglog table sync`). Without a table nothing is deleted. "none": they wait for no table.
        expire: False: `bytes` and `age` are kept but delete nothing, as with Kafka's cleanup.policy=compact. True: they
            do, and Kafka's clients see cleanup.policy=compact,delete also without any. None: they do.
        age_from: From when `age` counts. "sealed": from the sealing of the segment, by the log's clock. "records": from
            the highest timestamp of its records if that is earlier, as in Kafka; an active segment of that age is
            sealed by `expire`.

    Raises:
        ConfigError: If a value has the wrong type or is out of range.
    """

    bytes: Annotated[int | None, size(**_KEPT)] = None
    age: Annotated[Seconds | None, duration(**_KEPT)] = None
    compact: Annotated[bool, switch(**_COMPACTED)] = False
    delete_retention: Annotated[Seconds, duration(**_COMPACTED)] = DAY
    min_compaction_lag: Annotated[Seconds, duration(**_COMPACTED)] = 0.0
    max_compaction_lag: Annotated[Seconds | None, duration(**_COMPACTED)] = None
    min_dirty_ratio: Annotated[float, share(**_COMPACTED)] = 0.5
    dedupe_bytes: Annotated[int, size(1024, **_COMPACTED)] = 128 * 1024 * 1024
    unkeyed: Annotated[Literal["reject", "keep"], choice(**_COMPACTED)] = "reject"
    after: Annotated[Literal["none", "table"], choice(later=True, **_KEPT)] = "none"
    expire: Annotated[bool | None, switch(later=True, **_KEPT)] = None
    age_from: Annotated[Literal["sealed", "records"], choice(later=True, **_KEPT)] = "sealed"
    _moved: Policies | None = field(default=None, repr=False)  # of an earlier version: a topic takes them from here

    def __post_init__(self) -> None:
        self._check("retention.")
        most = self.max_compaction_lag_us
        if most is not None and most < self.min_compaction_lag_us:
            raise ConfigError("retention.max_compaction_lag is less than min_compaction_lag; raise it or lower that")

    def over(self, stored: Retention) -> Retention:
        """Return the stored retention, replaced field by field with what was given here."""
        return replace(stored, **self.given())

    def changed(self, fields: Mapping[str, Any]) -> Retention:
        """Return a retention with other values for some fields.

        Raises ConfigError: a value is invalid, or a limit is set that would delete nothing, because `expire` is False
        and not among the fields.
        """
        found = replace(self, **fields)
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

    def to_json(self) -> dict[str, Any]:
        """Return the plain values that the manifest has."""
        return {**super(Retention, self).to_json(), **({} if self._moved is None else self._moved.to_json())}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Retention:
        """Read what `to_json` returned. Raises TypeError: there is an unknown option."""
        own, moved = parted(values)
        return cls(**within_bounds(cls, own), _moved=Policies.from_json(moved) if moved else None)

    @property
    def needs_keys(self) -> bool:
        """Whether appends without a key are rejected."""
        return self.compact and self.unkeyed == "reject"

    @property
    def age_us(self) -> int | None:
        """The age in microseconds after which records are deleted; None: no limit."""
        return microseconds(self.most_age)

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
        return microseconds(self.delete_retention) or 0

    @property
    def min_compaction_lag_us(self) -> int:
        """The minimum lag in microseconds."""
        return microseconds(self.min_compaction_lag) or 0

    @property
    def max_compaction_lag_us(self) -> int | None:
        """The maximum lag in microseconds, or None."""
        return microseconds(self.max_compaction_lag)


@noting
@dataclass(frozen=True, kw_only=True, slots=True)
class LogConfig(Fields):
    """How a log stores its records. It is stored with the log. Sizes are in bytes, times in seconds or a timedelta.

    For an existing log, a field that is not given keeps its stored value.

    Args:
        segment_bytes: Size at which a segment rolls: it rolls before a record that would exceed it.
        segment_overflow_bytes: Size by which one record may exceed `segment_bytes`. None: half of it.
        segment_age: Age at which a segment that holds records rolls, at the next append or `expire`. None: no limit.
        index_interval_bytes: Size of records between two entries of a sparse or time index.
        buffer_bytes: Size up to which single appends are buffered in memory (1 MiB is used at most). Faster, but
            kill -9 loses what is not written yet.
        flush_records: Records after which the log is synced. None: no limit.
        flush_interval: Time after which the log is synced. None: no limit.
        initial_offset: First offset of a new log.
        open_segments_max: Sealed segments that are kept open.
        retention: Which records are deleted.
        compression: Codec of the sealed segments. A server applies it by itself; else `seglog compress`, `Log.compress`
            or a `Cleaner` does.
        allocate_bytes: Size of the zeros that are written ahead of single appends, so that a sync after each takes a
            fifth less time. A store may be that much longer than its records.

    Raises:
        ConfigError: If a value has the wrong type or is out of range.
    """

    segment_bytes: Annotated[int, size(MIN_SEGMENT_BYTES, MAX_STORE_BYTES, altered=True)] = 1024**3
    segment_overflow_bytes: Annotated[int | None, size(0, MAX_STORE_BYTES, altered=True)] = None
    segment_age: Annotated[Seconds | None, duration(zero=False, altered=True)] = None
    index_interval_bytes: Annotated[int, size(64, 2**31)] = 4096
    buffer_bytes: Annotated[int, size(0, 2**30)] = 0
    flush_records: Annotated[int | None, count(1, altered=True)] = None
    flush_interval: Annotated[Seconds | None, duration(zero=False, altered=True)] = None
    initial_offset: Annotated[int, count(0, MAX_OFFSET - 1)] = 0
    open_segments_max: Annotated[int, count(1)] = 64
    retention: Retention = Retention()
    compression: Annotated[Compression, choice(altered=True, later=True)] = "none"
    allocate_bytes: Annotated[int, size(0, 1024 * 1024, later=True)] = 0

    def __post_init__(self) -> None:
        if self.segment_overflow_bytes is None:
            known = declared(LogConfig)["segment_bytes"].checked(self.segment_bytes, "segment_bytes")
            settle(self, "segment_overflow_bytes", _default_overflow(known))
        self._check()
        longest = self.store_limit
        if longest > MAX_STORE_BYTES:
            raise ConfigError(
                f"segment_bytes + segment_overflow_bytes is {longest}; positions are 32 bits wide, so it must not "
                f"exceed {MAX_STORE_BYTES}"
            )
        if not isinstance(self.retention, Retention):
            raise ConfigError(f"retention must be a seglog.Retention, not {type(self.retention).__name__}")

    @property
    def roll_age_us(self) -> int | None:
        """The age in microseconds at which a segment with records rolls; compaction needs sealed segments."""
        retention = self.retention
        ages = [microseconds(self.segment_age), retention.max_compaction_lag_us if retention.compact else None]
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
        return stored._replaced(changes)

    def _replaced(self, changes: Mapping[str, Any]) -> LogConfig:
        follows = self.segment_overflow_bytes == _default_overflow(self.segment_bytes)
        if follows and "segment_bytes" in changes:
            changes = {"segment_overflow_bytes": None, **changes}
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """Return the plain values that the manifest has."""
        return {**super(LogConfig, self).to_json(), "retention": self.retention.to_json()}

    def altered(self, changes: Mapping[str, Any]) -> LogConfig:
        """Return the config with other values for some fields; of a retention for those that it was given.

        The overflow follows segment_bytes as in `over`.

        Raises:
            ConfigError: A field is unknown or is fixed once a log exists, or a value is invalid.
        """
        found = dict(changes)
        known = {name for name, one in declared(LogConfig).items() if one.setting.altered} | {"retention"}
        for name in found.keys() - known:
            raise ConfigError(f"{name} cannot be altered; these can: {', '.join(sorted(known))}")
        if "retention" in found:
            wanted = replace(self, retention=found["retention"]).retention  # checks its type
            found["retention"] = self.retention.changed(wanted.given())
        return self._replaced(found)

    def alterable(self) -> dict[str, Any]:
        """Return what `altered` needs to give another config the settings of this one that can be altered."""
        found = {name: getattr(self, name) for name, one in declared(LogConfig).items() if one.setting.altered}
        kept = {name: getattr(self.retention, name) for name in declared(Retention)}
        return {**found, "retention": Retention(**kept)}

    def without_moved(self) -> LogConfig:
        """Return the config without policies of the topic that an earlier version stored in it."""
        return replace(self, retention=replace(self.retention, _moved=None))

    def changes_to(self, other: LogConfig) -> dict[str, Any]:
        """Return what `altered` needs to make another config of this one, which differs in nothing else."""
        return {
            one.name: getattr(other, one.name)
            for one in fields(self)
            if getattr(other, one.name) != getattr(self, one.name)
        }

    @classmethod
    def from_any_version(cls, values: Mapping[str, Any]) -> tuple[LogConfig, dict[str, Any]]:
        """Read a config that a newer version may have written.

        Returns the config, and the settings that this version does not know, or whose values it does not: path, such as
        retention.age -> value. They have their defaults in the config.
        """
        own, unknown = known_values(cls, {name: value for name, value in values.items() if name != "retention"})
        kept, unknown_kept = known_values(Retention, parted(values.get("retention", {}))[0])
        unknown |= {f"retention.{name}": value for name, value in unknown_kept.items()}
        try:
            return cls(**own, retention=Retention(**kept)), unknown
        except ConfigError:  # values that only a newer version takes together
            return cls(), {**own, **{f"retention.{name}": value for name, value in kept.items()}, **unknown}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> LogConfig:
        """Read what `to_json` returned.

        Durations that an earlier version stored outside of the present bounds are clamped to them.

        Raises:
            ConfigError: If there is an unknown option.
        """
        try:
            kept = Retention.from_json(values.get("retention", {}))
            return cls(**{**within_bounds(cls, values), "retention": kept})
        except (AttributeError, TypeError) as error:
            raise ConfigError(
                f"the stored config has an option unknown to this version ({error}); open it with a newer version"
            ) from error


def _restored(kind: type[Config], values: dict[str, Any], given: frozenset[str]) -> Config:
    """Return a config of a pickle that a version before Policies made: it calls this function."""
    own, moved = parted(values)
    theirs = {name: value for name, value in moved.items() if name in given}
    return restored(kind, own | ({"_moved": Policies(**theirs)} if theirs else {}), given - moved.keys())


def changes_to_json(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked changes of a config (see `LogConfig.altered`) as plain values; of a retention the given fields."""
    found = {name: _given_json(value) if name == "retention" else value for name, value in changes.items()}
    return {name: value.total_seconds() if isinstance(value, timedelta) else value for name, value in found.items()}


def _given_json(retention: Retention) -> dict[str, Any]:
    return retention.given() | ({} if retention._moved is None else retention._moved.given())


def changes_from_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `changes_to_json` returned. Raises ConfigError: an option is unknown to this version."""
    try:
        return {name: Retention.from_json(value) if name == "retention" else value for name, value in values.items()}
    except TypeError as error:
        raise ConfigError(
            f"a change of settings was interrupted that a newer version began ({error}); open the topic with that one"
        ) from error
