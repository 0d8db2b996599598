"""The JSON bodies of requests as types: undeclared fields are rejected, and OpenAPI describes them from here."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator

from seglog.config import Expose, LogConfig
from seglog.server.api.configs import (
    NewConfig,
    PoliciesChanges,
    RetentionChanges,
    altered,
    has_moved,
    refuse_unknown,
    typed,
    whole,
)
from seglog.settings import MAX_INT64
from seglog.topic.layout.names import ENDINGS, RESERVED

NAME = "[A-Za-z0-9_-][A-Za-z0-9._-]*"
NUMBER = re.compile("0|[1-9][0-9]{0,3}")
TOPIC_NAME = re.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


def _is_offset(value: Any) -> bool:
    value = whole(value)
    return type(value) is int and 0 <= value <= MAX_INT64


def _names(value: Any) -> Any:
    """Refuse a list at the first item that is no name: pydantic would list each of tens of thousands."""
    for name in value if isinstance(value, list) else ():
        if not isinstance(name, str) or not TOPIC_NAME.fullmatch(name):
            raise ValueError(f"{str(name)[:80]!r} cannot be the name of a topic")
    return value


def _sound(value: Any) -> Any:
    """Reject positions at the first invalid one: pydantic would list each of a hundred thousand."""
    for name, offsets in value.items() if isinstance(value, dict) else ():
        if not TOPIC_NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r} cannot be the name of a topic")
        if not isinstance(offsets, dict):
            raise ValueError(f"{str(name)[:80]!r} must be an object of offsets by partition")
        for number, offset in offsets.items():
            if not (NUMBER.fullmatch(number) and _is_offset(offset)):
                raise ValueError(f"{str(name)[:80]!r}: {str(number)[:80]!r} must be a partition, with an offset")
    return value


WHOLE = BeforeValidator(whole)


def _any_case(text: str) -> str:
    return "".join(f"[{one.lower()}{one.upper()}]" if one.isalpha() else re.escape(one) for one in text)


def _reserved() -> str:
    """Return the pattern of names that a new topic must not have, for the description; `create_topic` checks them."""
    names, endings = ("|".join(map(_any_case, sorted(those))) for those in (RESERVED, ENDINGS))
    return f"^([0-9]+|{names}|.*({endings}))$"


# A pattern limits the length too: JSON Schema describes keys by patterns only.
Name = Annotated[str, Field(pattern="^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$")]
NewName = Annotated[Name, Field(json_schema_extra={"not": {"pattern": _reserved()}})]
Offset = Annotated[int, Field(ge=0, le=MAX_INT64), WHOLE]
Number = Annotated[str, Field(pattern="^(0|[1-9][0-9]{0,3})$")]
ONLY = {"additionalProperties": False}  # no keys besides those of the pattern
Positions = Annotated[
    dict[Name, Annotated[dict[Number, Offset], Field(json_schema_extra=ONLY)]],
    Field(min_length=1, json_schema_extra=ONLY),
    BeforeValidator(_sound),
]
POSITIONS_BYTES = 1024 * 1024  # of a body of positions, which is rejected at the first error


class Model(BaseModel):
    """A JSON object with exactly the fields that are declared, each of exactly its type; NaN and Infinity are refused.

    most_bytes: of the body. pydantic lists all that is wrong, and holds the interpreter while it does: so an unknown
    field, of which there may be tens of thousands, is refused before.
    """

    most_bytes: ClassVar[int] = 128 * 1024
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, value: Any) -> Any:
        if isinstance(value, dict):
            refuse_unknown(value, cls.model_fields)
        return value


class CreateTopic(Model):
    """A topic to create."""

    name: NewName
    partitions: Annotated[int, Field(ge=1, le=10_000), WHOLE] = 1
    config: NewConfig | None = None
    policies: PoliciesChanges | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of Broker.create_topic. Raises ConfigError if they contradict each other."""
        found = typed({**(self.config or {}), **({} if self.policies is None else {"policies": self.policies})})
        policies = found.pop("policies", None)
        return {"config": LogConfig(**found) if self.config is not None else None, "policies": policies}

    @property
    def is_deprecated(self) -> bool:
        """Whether something is at a place where it is deprecated."""
        return has_moved(self.config)


class _Changes(Model):
    @property
    def changes(self) -> dict[str, Any]:
        """The settings that are named. Raises ConfigError if they contradict each other."""
        return typed(self._named())

    @property
    def is_deprecated(self) -> bool:
        """Whether something is at a place where it is deprecated."""
        return has_moved(self._named())

    def _named(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}

    @model_validator(mode="after")
    def _refuse_no_change(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"name what to change: {', '.join(type(self).model_fields)}, or several of them")
        return self


_ALTERED: dict[str, Any] = {
    "retention": (RetentionChanges, Field(default_factory=lambda: None)),
    "policies": (PoliciesChanges, Field(default_factory=lambda: None)),
    **altered(),
}
AlterTopic = create_model(
    "AlterTopic",
    __base__=_Changes,
    __doc__="Settings of a topic that change from now on, one of them at least.",
    **_ALTERED,
)
AlterTopic.model_config["json_schema_extra"] = {"anyOf": [{"required": [name]} for name in _ALTERED]}


class Truncate(Model):
    """The first offset to remove."""

    offset: Offset


class DeleteBefore(Model):
    """The first offset to keep."""

    offset: Offset


class AddPartitions(Model):
    """How many partitions a topic has from now on."""

    partitions: Annotated[int, Field(ge=1, le=10_000), WHOLE]


class Fence(Model):
    """The term of the copy that was promoted in place of this server's logs."""

    term: Annotated[int, Field(ge=1, le=2**20), WHOLE]


class TruncateIndex(Model):
    """The first index to remove, in laminarmq's terms."""

    truncate_index: Offset


class Fetch(Model):
    """Positions to read from: topic -> partition -> offset."""

    most_bytes: ClassVar[int] = POSITIONS_BYTES
    positions: Positions
    max_records: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] = 1000
    max_bytes: Annotated[int, Field(ge=1, le=2**40), WHOLE] = 1024 * 1024
    wait: Annotated[float, Field(ge=0, le=60)] = 0.0
    expose: Expose = "appended"


class Lag(Model):
    """Positions to count records from: topic -> partition -> offset."""

    most_bytes: ClassVar[int] = POSITIONS_BYTES
    positions: Positions
    expose: Expose = "appended"


class Join(Model):
    """A member that joins a group, or returns under its id."""

    most_bytes: ClassVar[int] = 256 * 1024  # a thousand names
    topics: Annotated[list[Name], Field(min_length=1, max_length=1000), BeforeValidator(_names)]
    member: Name | None = None
    session_timeout: Annotated[float, Field(ge=1, le=3600)] = 30.0


class Heartbeat(Model):
    """A member's sign of life, with the generation of the assignment that it follows."""

    generation: Annotated[int, Field(ge=0, le=MAX_INT64), WHOLE]


class Commit(Model):
    """The next offsets to read: topic -> partition -> offset."""

    most_bytes: ClassVar[int] = POSITIONS_BYTES
    offsets: Positions
    member: Name | None = None
    ack: Literal["appended", "durable"] = "appended"
