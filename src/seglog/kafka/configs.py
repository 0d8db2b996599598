"""Topic configs by Kafka's names, as text <-> `LogConfig` and `Policies`. Pure.

Most are a setting of seglog under another name: the declared setting has their bounds, default and meaning. The others
have no effect here: they are checked as Kafka checks them, and accepted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from seglog.config import LogConfig, Retention
from seglog.errors import ConfigError
from seglog.policies import Policies
from seglog.settings import MAX_INT64, MAX_SECONDS, Declared, Kind, declared

if TYPE_CHECKING:
    from seglog.topic.topic import Topic

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
COMPACT, DELETE = "compact", "delete"
POLICIES = frozenset({COMPACT, DELETE})
POLICY = "cleanup.policy"
MESSAGE_BYTES = "max.message.bytes"
COMPRESSION = "compression.type"
LAG, MIN_LAG = "max.compaction.lag.ms", "min.compaction.lag.ms"
LIMITS = ("retention.ms", "retention.bytes")
CODECS = {"uncompressed": "none", "lz4": "lz4", "zstd": "zstd"} | dict.fromkeys(("producer", "gzip", "snappy"), "none")
"""compression.type -> codec of the segments: a codec that segments do not have is none."""
MAX_INT32 = 2**31 - 1
_NEVER = -1
_DECLARED = {"": declared(LogConfig), "retention": declared(Retention), "policies": declared(Policies)}


class TopicConfig(NamedTuple):
    """What a topic has: the config of its partitions, and its policies."""

    log: LogConfig
    policies: Policies

    @classmethod
    def of(cls, topic: Topic) -> TopicConfig:
        """Return what a topic has now."""
        return cls(topic.partition(0).config, topic.policies)

    def part(self, place: str) -> LogConfig | Retention | Policies:
        """Return what has the settings of a place: retention, policies, or "" for those of the log."""
        if place == "policies":
            return self.policies
        return self.log.retention if place == "retention" else self.log

    def changes_to(self, other: TopicConfig) -> dict[str, Any]:
        """Return what `Topic.alter` needs to make another one of this."""
        changes = self.log.changes_to(other.log)
        return changes if self.policies == other.policies else {**changes, "policies": other.policies}


@dataclass(frozen=True)
class Range:
    """Which numbers a config accepts, in Kafka's unit. none: one more, which means no limit."""

    least: float
    most: float
    none: int | None = None

    def check(self, name: str, number: float, text: str) -> None:
        """Raise ConfigError, with the config's name, for a number out of it."""
        if number != self.none and not self.least <= number <= self.most:  # also refuses NaN
            raise ConfigError(f"{name} is {text}; it must be {self}")

    def __str__(self) -> str:
        """Format it for an error."""
        shown = f"{self.least} to {self.most}"
        return shown if self.none is None or self.least <= self.none else f"{shown}, or {self.none} (no limit)"


@dataclass(frozen=True)
class Ignored:
    """A config of Kafka that has no effect here.

    Args:
        default: Kafka's.
        type: As Kafka numbers them.
        range: Which numbers Kafka accepts.
        accepts: Which texts, as a regular expression, in small letters.
        shown: The same for an error.
    """

    default: str
    type: int = BOOLEAN
    range: Range | None = None
    accepts: str = "true|false"
    shown: str = "true or false"

    @property
    def about(self) -> str:
        """What tools show to operators."""
        return "No effect here."

    def check(self, name: str, text: str) -> None:
        """Raise ConfigError for a text that Kafka does not accept, or that asks for what this server does not do."""
        if self.range is not None:
            self.range.check(name, _whole(name, text), text)
        elif not re.fullmatch(self.accepts, re.sub(r"\s*(,|$)\s*", r"\1", text.strip().lower())):
            raise ConfigError(f"{name} cannot be {text!r}; this server accepts {self.shown}")


@dataclass(frozen=True)
class Setting:
    """A config of Kafka that is a setting of a topic. Kafka gives durations in milliseconds.

    Args:
        path: The setting: segment_age, retention.age, or policies.copies.
        type: As Kafka numbers them.
        none: The number that stands for None.
        plus: By how much Kafka's number is greater.
        texts: The value of a choice that each of Kafka's texts stands for.
    """

    path: str
    type: int = LONG
    none: int | None = None
    plus: int = 0
    texts: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def one(self) -> Declared:
        """What is declared of it."""
        place, _, name = self.path.rpartition(".")
        return _DECLARED[place][name]

    @cached_property
    def about(self) -> str:
        """What tools show to operators."""
        return self.one.about.replace("None: ", f"{self.none}: ")

    @cached_property
    def range(self) -> Range | None:
        """Which numbers it accepts, None for texts."""
        setting = self.one.setting
        if setting.kind is Kind.CHOICE:
            return None
        if setting.kind is Kind.DURATION:
            return Range(0 if setting.least == 0 else 1, MAX_INT64, self.none)
        most = min(setting.most, MAX_INT64 - self.plus) + self.plus
        return Range(setting.least + self.plus, most, self.none)

    def value(self, config: TopicConfig) -> Any:
        """Return its value in a config."""
        place, _, name = self.path.rpartition(".")
        return getattr(config.part(place), name)

    def shown(self, config: TopicConfig) -> str:
        """Return its value in a config as Kafka's text."""
        return self.text(self.value(config))

    def text(self, value: Any) -> str:
        """Return a value as Kafka's text."""
        if value is None:
            return str(self.none)
        match self.one.setting.kind:
            case Kind.CHOICE:
                return next(text for text, stored in self.texts.items() if stored == value)
            case Kind.DURATION:
                return str(round(float(value) * 1000))
            case Kind.SHARE:
                return str(float(value))
        return str(value + self.plus)

    def stored(self, name: str, text: str) -> str:
        """Return Kafka's text as it is shown once it is stored. Raises as `parse`."""
        return self.text(self.parse(name, text))

    def parse(self, name: str, text: str) -> Any:
        """Return the value of Kafka's text. Raises ConfigError, with the config's name."""
        if self.texts:
            _check_accepted(name, text, self.texts)
            return self.texts[text]
        number = _ratio(name, text) if self.one.setting.kind is Kind.SHARE else _whole(name, text)
        if number == self.none:
            return None
        found = self.range
        assert found is not None  # noqa: S101 - it has no texts
        found.check(name, number, text)
        return self._duration(number / 1000) if self.one.setting.kind is Kind.DURATION else number - self.plus

    def _duration(self, seconds: float) -> float | None:
        """Return a time as seglog has it: more than it can be is no limit, or the most if it has to be one."""
        return seconds if seconds <= MAX_SECONDS else None if self.one.optional else MAX_SECONDS


@dataclass(frozen=True)
class _Limit(Setting):
    """A limit of retention: without compaction Kafka knows none that does not apply."""

    def shown(self, config: TopicConfig) -> str:
        kept = config.log.retention
        return self.text(None if kept.expire is False and not kept.compact else self.value(config))


@dataclass(frozen=True)
class _Policy(Setting):
    """`compact` and whether the limits apply, as one text."""

    def shown(self, config: TopicConfig) -> str:
        retention = config.log.retention
        if not retention.compact:
            return DELETE
        has_limits = retention.age is not None or retention.bytes is not None
        expires = has_limits if retention.expire is None else retention.expire
        return f"{COMPACT},{DELETE}" if expires else COMPACT

    def stored(self, name: str, text: str) -> str:  # noqa: ARG002 - as of the others
        return ",".join(sorted({one.strip() for one in text.split(",")}))

    @property
    def about(self) -> str:
        return "delete: expire old segments; compact: keep the newest record of each key; or both."

    @property
    def range(self) -> None:
        return None


SETTINGS: dict[str, Setting] = {
    POLICY: _Policy("retention.compact", LIST),
    COMPRESSION: Setting("compression", STRING, texts=CODECS),
    "delete.retention.ms": Setting("retention.delete_retention"),
    "flush.messages": Setting("flush_records", none=MAX_INT64),
    "flush.ms": Setting("flush_interval", none=MAX_INT64),
    LAG: Setting("retention.max_compaction_lag", none=MAX_INT64),
    MESSAGE_BYTES: Setting("policies.batch_bytes", INT, none=_NEVER),
    "message.timestamp.after.max.ms": Setting("policies.timestamp_ahead", none=MAX_INT64),
    "message.timestamp.before.max.ms": Setting("policies.timestamp_behind", none=MAX_INT64),
    "message.timestamp.type": Setting(
        "policies.timestamps", STRING, texts={"CreateTime": "given", "LogAppendTime": "server"}
    ),
    "min.cleanable.dirty.ratio": Setting("retention.min_dirty_ratio", DOUBLE),
    MIN_LAG: Setting("retention.min_compaction_lag"),
    "min.insync.replicas": Setting("policies.copies", INT, plus=1),
    "retention.bytes": _Limit("retention.bytes", none=_NEVER),
    "retention.ms": _Limit("retention.age", none=_NEVER),
    "segment.bytes": Setting("segment_bytes", INT),
    "segment.ms": Setting("segment_age", none=MAX_INT64),
}


_REPLICAS: dict[str, Any] = {
    "accepts": r"\*|(\d+:\d+(,\d+:\d+)*)?",
    "shown": "* or partitions with their brokers, such as 0:1,1:1",
}
_FROM_ZERO, _LOCAL = Range(0, MAX_INT64), Range(-2, MAX_INT64)
IGNORED: dict[str, Ignored] = {
    "compression.gzip.level": Ignored("-1", INT, Range(1, 9, _NEVER)),
    "compression.lz4.level": Ignored("9", INT, Range(1, 17)),
    "compression.zstd.level": Ignored("3", INT, Range(-131072, 22)),
    "file.delete.delay.ms": Ignored("60000", LONG, _FROM_ZERO),
    "follower.replication.throttled.replicas": Ignored("", LIST, **_REPLICAS),
    "index.interval.bytes": Ignored("4096", INT, Range(0, MAX_INT32)),
    "leader.replication.throttled.replicas": Ignored("", LIST, **_REPLICAS),
    "local.retention.bytes": Ignored("-2", LONG, _LOCAL),
    "local.retention.ms": Ignored("-2", LONG, _LOCAL),
    "preallocate": Ignored("false"),
    "remote.log.copy.disable": Ignored("false"),
    "remote.log.delete.on.disable": Ignored("false"),
    "remote.storage.enable": Ignored("false", accepts="false", shown="false"),  # as a Kafka without tiered storage
    "segment.index.bytes": Ignored("10485760", INT, Range(4, MAX_INT32)),
    "segment.jitter.ms": Ignored("0", LONG, _FROM_ZERO),
    "unclean.leader.election.enable": Ignored("false"),
}
"""The configs of a topic of Kafka 4.3.1 that have no effect here."""


def values_of(config: TopicConfig) -> dict[str, str]:
    """Return every setting of a config. max.message.bytes is -1 if the topic has no limit of its own."""
    return {name: setting.shown(config) for name, setting in SETTINGS.items()}


def given_texts(config: TopicConfig) -> dict[str, str]:
    """Return the texts of clients that count: of configs without effect, or which mean what the topic has."""
    given = config.policies.kafka_configs or {}
    return {name: text for name, text in given.items() if _counts(config, name, text)}


def _counts(config: TopicConfig, name: str, text: str) -> bool:
    """Whether a text means what the topic has; the topic may have been altered otherwise since it was given."""
    try:
        if name in IGNORED:
            IGNORED[name].check(name, text)
            return True
        return name in SETTINGS and SETTINGS[name].stored(name, text) == SETTINGS[name].shown(config)
    except ConfigError:
        return False


NEW = TopicConfig(LogConfig(retention=Retention(age_from="records")), Policies(timestamp_ahead=3600.0))
"""What has a topic that a client of Kafka creates, without a config of its own: what Kafka does."""

DEFAULTS = values_of(NEW)
ALL_DEFAULTS = {**DEFAULTS, **{name: one.default for name, one in IGNORED.items()}}


def shown_values(config: TopicConfig) -> dict[str, str]:
    """Return every config as clients see it: as it was given, if it was."""
    return {**ALL_DEFAULTS, **values_of(config), **given_texts(config)}


def deletes(config: TopicConfig) -> bool:
    """Whether cleanup.policy has delete: only then clients may delete records."""
    return DELETE in SETTINGS[POLICY].shown(config)


def most_bytes(policies: Policies, server: int) -> int:
    """Return the most bytes of a batch: the topic's limit within that of the server."""
    given = policies.batch_bytes
    return server if given is None else min(given, server)


# --- changes ----------------------------------------------------------------------------------------------------------


def changed(config: TopicConfig, changes: Mapping[str, str | None]) -> TopicConfig:
    """Return a config with changes; None: the default.

    Args:
        config: The present config, or that of a new topic.
        changes: The settings to change, by Kafka's names.

    Raises:
        ConfigError: A setting is unknown, or has an invalid value.
    """
    present = values_of(config)
    wanted = {name: text for name, given in changes.items() for text in _effective(name, given)}
    wanted = {name: text for name, text in wanted.items() if SETTINGS[name].stored(name, text) != present[name]}
    found = {name: SETTINGS[name].parse(name, text) for name, text in wanted.items() if name != POLICY}
    _check_lags({**present, **wanted})
    if wanted.keys() & {POLICY, *LIMITS}:
        found |= _limits({**present, **wanted}, {name: _limit(config, name, wanted, present) for name in LIMITS})
    paths = {SETTINGS[name].path if name in SETTINGS else name: one for name, one in found.items()}
    return _with_texts(_with_values(config, paths), changes)


def _with_texts(config: TopicConfig, changes: Mapping[str, str | None]) -> TopicConfig:
    """Return a config with the texts that clients gave, but those that its values alone give back."""
    texts = {name: text for name, text in (config.policies.kafka_configs or {}).items() if name not in changes}
    texts |= {name: _as_shown(name, text) for name, text in changes.items() if text is not None}
    own = {name: text for name, text in values_of(config).items() if text != DEFAULTS[name]}
    given = {name: text for name, text in texts.items() if text != own.get(name)}
    found = TopicConfig(config.log, replace(config.policies, kafka_configs=given))
    return TopicConfig(config.log, replace(config.policies, kafka_configs=given_texts(found)))


def _as_shown(name: str, text: str) -> str:
    """Return a text as Kafka gives it back: without what its type does not keep."""
    kind = (SETTINGS.get(name) or IGNORED[name]).type
    if kind in (INT, LONG):
        return str(_whole(name, text))
    if kind == DOUBLE:
        return str(_ratio(name, text))
    if kind == LIST:
        return ",".join(dict.fromkeys(one.strip() for one in text.split(",")))
    return text.strip().lower() if kind == BOOLEAN else text


def _effective(name: str, given: str | None) -> Collection[str]:
    """Return the text that a change gives a setting, or nothing if it has no effect. Raises ConfigError."""
    if name in IGNORED:
        if given is not None:
            IGNORED[name].check(name, given)
        return ()
    if name in SETTINGS:
        return (DEFAULTS[name] if given is None else given,)
    if given is None:
        return ()  # to delete what is not there is no error, as with Kafka
    raise ConfigError(f"there is no config {name!r}; docs/kafka.md lists those that exist")


def _limit(config: TopicConfig, name: str, wanted: Mapping[str, str], present: Mapping[str, str]) -> Any:
    """Return the limit that is wanted; the present one exactly, if that is not changed and Kafka's clients see it."""
    setting = SETTINGS[name]
    if name in wanted:
        return setting.parse(name, wanted[name])
    return None if present[name] == str(setting.none) else setting.value(config)


def _limits(texts: Mapping[str, str], limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the retention that the policy and the limits of a topic mean."""
    policy = {one.strip() for one in texts[POLICY].split(",")}
    if not policy <= POLICIES:
        raise ConfigError(f"{POLICY} is {texts[POLICY]!r}; it must be delete, compact, or both")
    expires = DELETE in policy
    implied = COMPACT not in policy or expires is any(limit is not None for limit in limits.values())
    return {**limits, POLICY: COMPACT in policy, "retention.expire": None if implied else expires}


def _with_values(config: TopicConfig, values: Mapping[str, Any]) -> TopicConfig:
    """Return a config with other values. values: path -> value."""
    by_place: dict[str, dict[str, Any]] = {place: {} for place in _DECLARED}
    for path, value in values.items():
        place, _, name = path.rpartition(".")
        by_place[place][name] = value
    own = by_place[""]
    if "segment_bytes" in own:
        own["segment_overflow_bytes"] = None  # its default
    log = replace(config.log, **own, retention=replace(config.log.retention, **by_place["retention"]))
    return TopicConfig(log, replace(config.policies, **by_place["policies"]))


def checked(changes: Mapping[str, str | None], most_bytes: int) -> Mapping[str, str | None]:
    """Return changes whose `max.message.bytes`, if they have one, is within the limit of the server.

    Raises ConfigError if it is not.
    """
    given = changes.get(MESSAGE_BYTES)
    if given is not None and not 0 <= _whole(MESSAGE_BYTES, given) <= most_bytes:
        raise ConfigError(f"{MESSAGE_BYTES} is {given}; it must be 0 to {most_bytes} (--batch-bytes of the server)")
    return changes


def _check_accepted(name: str, value: str, accepted: Collection[str]) -> None:
    if value not in accepted:
        raise ConfigError(f"{name} cannot be {value!r}; this server accepts {' or '.join(sorted(accepted))}")


def _check_lags(texts: Mapping[str, str]) -> None:
    """Raise ConfigError if a record must be compacted before it may be."""
    if _whole(LAG, texts[LAG]) < _whole(MIN_LAG, texts[MIN_LAG]):
        raise ConfigError(f"{LAG} is {texts[LAG]}, which is less than {MIN_LAG}, {texts[MIN_LAG]}")


def _whole(name: str, text: str) -> int:
    try:
        return int(text.replace("_", "no digit"))  # Java knows no 1_000
    except ValueError as error:
        raise ConfigError(f"{name} is {text!r}; it must be a whole number") from error


def _ratio(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"{name} is {text!r}; it must be a number from 0 to 1") from error
