"""The records of the log `.groups`: bytes <-> values, no I/O.

    key   ["offset", group, topic, partition]      value  {"offset": 12, "log": "5f0c9a61be27d804", "epoch": 0}
    key   ["group", group]                         value  {"generation": 3, "members": {"<id>": {...}}, "moving": [...]}

offset: the next one to read; log and epoch: of that offset in the partition, to detect later that the partition was
created again or truncated below it. Records of earlier versions have neither. "metadata", if it is not empty, and
"leader_epoch", if it was given: text and epoch of the client that committed. "payer", of an offset and of a member, if
a server wrote it: who pays for it. A tombstone: deleted.

The header "seglog-decided" of an offset: when the transaction was decided that committed it, decimal.

Both are compact JSON, so that equal keys are equal bytes. A member has "topics", "session_timeout" (seconds), "local"
and "owns" (topic -> partitions); a move is [topic, partition, heir or null, since]. The log is compacted by key: the
latest record of a key counts.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NamedTuple

from seglog.config import MAX_OFFSET
from seglog.format.foreign import UNREADABLE
from seglog.record import Headers
from seglog.topic.groups.state import Crew, Enrolled, Move
from seglog.topic.layout.places import Partition

DECIDED = "seglog-decided"
COMMIT_BYTES = 512
"""What a committed offset takes beside its metadata, about."""
MEMBER_BYTES, NAME_BYTES, OWNED_BYTES = 512, 64, 128
"""What a member, a topic that it reads, and a partition that it owns take, about."""


class Note(NamedTuple):
    """What a client of Kafka's protocol stores with an offset.

    leader_epoch: of the last record that it has read, -1: unknown to it; None: not given.
    """

    metadata: str = ""
    leader_epoch: int | None = None


class OffsetRecord(NamedTuple):
    """A group's position in a partition; offset None: deleted. log, epoch: of the offset, None: unknown.

    metadata, leader_epoch: what the client that committed it has given, see `Note`. payer: who pays for it, see
    `Payer`.
    """

    group: str
    partition: Partition
    offset: int | None
    log: str | None = None
    epoch: int = 0
    metadata: str = ""
    leader_epoch: int | None = None
    payer: str = ""

    @property
    def paid(self) -> dict[str, int]:
        """Who pays for how many bytes: about what it takes in memory and in the log."""
        return {} if self.offset is None else {self.payer: COMMIT_BYTES + len(json.dumps(self.metadata))}

    def at(self, offset: int) -> OffsetRecord:
        """Return the same at an offset to which it was reset; the client's epoch is of its own one only."""
        return self if offset == self.offset else self._replace(offset=offset, leader_epoch=None)


class GroupRecord(NamedTuple):
    """The members of a group; None: it was deleted."""

    group: str
    crew: Crew | None

    @property
    def paid(self) -> Counter[str]:
        """Who pays for how many bytes: about what the members, and what they own, take in memory and in the log."""
        paid, crew = Counter[str](), Crew() if self.crew is None else self.crew
        for said in crew.members.values():
            paid[said.payer] += MEMBER_BYTES + sum(NAME_BYTES + len(topic) for topic in said.topics)
        for owner in crew.owners.values():
            paid[crew.members[owner].payer] += OWNED_BYTES
        return paid


Entry = OffsetRecord | GroupRecord


def encode(entry: Entry) -> tuple[bytes, bytes | None]:
    """Return a record's key and value."""
    if isinstance(entry, OffsetRecord):
        known: dict[str, Any] = {} if entry.log is None else {"log": entry.log, "epoch": entry.epoch}
        known |= {"metadata": entry.metadata} if entry.metadata else {}
        known |= {} if entry.leader_epoch is None else {"leader_epoch": entry.leader_epoch}
        known |= _payer_values(entry.payer)
        value = None if entry.offset is None else _json({"offset": entry.offset, **known})
        return _json(["offset", entry.group, *entry.partition]), value
    return _json(["group", entry.group]), None if entry.crew is None else _json(_crew_values(entry.crew))


def decode(key: bytes | None, value: bytes | None) -> Entry:
    """Parse a record. Raises ValueError with the reason for anything else than `encode` returns."""
    try:
        kind, *names = json.loads(key or b"")
        values = None if value is None else json.loads(value)
        if kind == "offset":
            group, topic, number = names
            place = _text(group), (_text(topic), _whole(number))
            if values is None:
                return OffsetRecord(*place, None)
            offset = _whole(values["offset"], most=MAX_OFFSET)
            log, epoch = (_text(values["log"]), _whole(values["epoch"])) if "log" in values else (None, 0)
            text, given = _text(values.get("metadata", "")), values.get("leader_epoch")
            leader_epoch = None if given is None else _whole(given + 1) - 1  # -1: the client knows none
            return OffsetRecord(*place, offset, log, epoch, text, leader_epoch, _payer(values))
        if kind == "group":
            (group,) = names
            return GroupRecord(_text(group), None if values is None else _crew(values))
    except UNREADABLE as error:
        raise ValueError(f"the key {key!r} or its value is damaged ({type(error).__name__}: {error})") from error
    raise ValueError(f"the key {key!r} is of a kind that this version of seglog does not know")


def decided_at(headers: Headers) -> int | None:
    """Return when the transaction was decided that committed an offset, None if none did."""
    return next((int(value or b"0") for name, value in headers if name == DECIDED), None)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _crew_values(crew: Crew) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for member in sorted(crew.members):
        said = crew.members[member]._asdict()
        payer = said.pop("payer")
        members[member] = {**said, "owns": {}, **_payer_values(payer)}
    for topic, number in sorted(crew.owners):
        members[crew.owners[topic, number]]["owns"].setdefault(topic, []).append(number)
    moving = [[*partition, *crew.moving[partition]] for partition in sorted(crew.moving)]
    return {"generation": crew.generation, "members": members, "moving": moving}


def _crew(values: Any) -> Crew:
    members = {_text(member): _enrolled(said) for member, said in values["members"].items()}
    owners = {
        (_text(topic), _whole(number)): member
        for member, said in values["members"].items()
        for topic, numbers in said["owns"].items()
        for number in numbers
    }
    moving = {
        (_text(topic), _whole(number)): Move(None if heir is None else _text(heir), _whole(since))
        for topic, number, heir, since in values["moving"]
    }
    if sum(len(numbers) for said in values["members"].values() for numbers in said["owns"].values()) != len(owners):
        raise ValueError("a partition has two owners")
    if not moving.keys() <= owners.keys() or not {move.heir for move in moving.values()} <= {None, *members}:
        raise ValueError("a partition moves without an owner, or to an heir that is not a member")
    return Crew(_whole(values["generation"]), members, owners, moving)


def _enrolled(said: Any) -> Enrolled:
    timeout, local = said["session_timeout"], said["local"]
    if type(timeout) not in (int, float) or not math.isfinite(timeout) or type(local) is not bool:
        raise TypeError("a member's session timeout is invalid")
    return Enrolled(tuple(_text(topic) for topic in said["topics"]), float(timeout), local, _payer(said))


def _payer_values(payer: str) -> dict[str, str]:
    return {"payer": payer} if payer else {}


def _payer(values: Any) -> str:
    return _text(values.get("payer", ""))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is not a name")
    return value


def _whole(value: Any, *, most: int | None = None) -> int:
    if type(value) is not int or value < 0 or (most is not None and value > most):
        raise TypeError(f"{value!r} is not a valid number here")
    return value
