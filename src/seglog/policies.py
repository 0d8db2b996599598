"""What a topic wants of requests. The topic stores it; its logs know nothing of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from seglog.fields import Fields, Seconds, microseconds, noting
from seglog.settings import (
    MAX_INT64,
    Scope,
    choice,
    count,
    declared,
    duration,
    known_values,
    size,
    texts,
    within_bounds,
)

MOST_COPIES = 100
MIN_INT64 = -(2**63)
_OF_KAFKA: dict[str, Any] = {"scope": Scope.KAFKA, "altered": True, "later": True}


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyFields(Fields):
    """The fields of Policies, which Retention had before it."""

    copies: Annotated[int, count(0, MOST_COPIES, **_OF_KAFKA)] = 0
    timestamps: Annotated[Literal["given", "server"], choice(**_OF_KAFKA)] = "given"
    batch_bytes: Annotated[int | None, size(**_OF_KAFKA)] = None
    timestamp_ahead: Annotated[Seconds | None, duration(**_OF_KAFKA)] = None
    timestamp_behind: Annotated[Seconds | None, duration(**_OF_KAFKA)] = None


@noting
@dataclass(frozen=True, kw_only=True, slots=True)
class Policies(PolicyFields):
    """What a topic wants of requests. It is stored with the topic. Sizes are in bytes, times in seconds or a timedelta.

    For an existing topic, a field that is not given keeps its stored value.

    Args:
        copies: Copies that must have a record before an append of a Kafka client with acks=all is answered:
            min.insync.replicas less one.
        timestamps: Of the records that Kafka's clients produce. "given": their own. "server": the time of the server
            when it accepts them, which is message.timestamp.type=LogAppendTime.
        batch_bytes: Largest batch of Kafka's clients, as it is sent: max.message.bytes. None: the limit of the server,
            which always holds.
        timestamp_ahead: Time by which a timestamp that a client of Kafka gives may be after the server's:
            message.timestamp.after.max.ms. None: no limit.
        timestamp_behind: Time by which it may be before the server's: message.timestamp.before.max.ms. None: no limit.
        kafka_configs: Configs of the topic as Kafka's clients gave them, by Kafka's names: they are given back so. A
            text counts while it means the setting that the topic has; one without effect here always counts.

    Raises:
        ConfigError: If a value has the wrong type or is out of range.
    """

    kafka_configs: Annotated[Mapping[str, str] | None, texts(**_OF_KAFKA)] = field(default=None, hash=False)

    def __post_init__(self) -> None:
        self._check("policies.")

    def over(self, stored: Policies) -> Policies:
        """Return the stored policies, replaced field by field with what was given here."""
        return dataclasses.replace(stored, **self.given())

    def timestamp_bounds_us(self, now: int) -> tuple[int, int]:
        """Return the lowest and the highest timestamp that a client of Kafka may give now, in microseconds."""
        behind, ahead = microseconds(self.timestamp_behind), microseconds(self.timestamp_ahead)
        return MIN_INT64 if behind is None else now - behind, MAX_INT64 if ahead is None else now + ahead

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Policies:
        """Read what `to_json` returned. Raises ConfigError: a value is invalid; TypeError: there is an unknown one."""
        return cls(**within_bounds(cls, dict(values)))

    @classmethod
    def from_any_version(cls, values: Mapping[str, Any]) -> tuple[Policies, dict[str, Any]]:
        """Read policies that a newer version may have written; return them, and what this version does not know."""
        own, unknown = known_values(cls, values)
        return cls(**own), {f"policies.{name}": value for name, value in unknown.items()}


def parted(retention: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of a retention of an earlier version without policies, and the policies among them."""
    own = {name: value for name, value in retention.items() if name not in declared(PolicyFields)}
    return own, {name: value for name, value in retention.items() if name in declared(PolicyFields)}
