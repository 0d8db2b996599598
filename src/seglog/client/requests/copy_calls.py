"""Requests of a mirror, one function each: arguments -> a Call. Pure."""

from __future__ import annotations

from seglog.client.requests.call import Answer, Call
from seglog.client.requests.topic_calls import nothing, posted, target, topic_path
from seglog.topic.layout.places import Partition


def _path(partition: Partition | None) -> str:
    if partition is None:
        return "/copy/groups"
    topic, number = partition
    return topic_path(topic, f"/partitions/{number}/copy")


def copy(
    partition: Partition | None,
    offset: int | None,
    *,
    max_bytes: int,
    skip: int = 0,
    copy: str | None = None,
    held: tuple[int, int, str] | None = None,
) -> Call[bytes]:
    """Get history and encoded records of a log; partition None: of the consumer groups.

    skip: bytes of the record at `offset` to omit. copy: id of the copy, to learn whether it has a pin. held: the offset
    before which it has every record on its disk, with the offset's epoch and the name of the copy.
    """
    query = {"offset": offset, "max_bytes": max_bytes, "skip": skip or None, "copy": copy}
    if held is not None:
        query |= {"held": held[0], "epoch": held[1], "name": held[2] or None}
    return Call("GET", target(_path(partition), query), _body)


def pin(partition: Partition | None, copy: str, offset: int, epoch: int, name: str) -> Call[None]:
    """Store what a copy has on its disk: every record before the offset, which has this epoch."""
    query = {"copy": copy, "offset": offset, "epoch": epoch, "name": name or None}
    return Call("PUT", target(_path(partition), query), nothing)


def _body(answer: Answer) -> bytes:
    return bytes(answer.body)


def forget(partition: Partition | None, copy: str) -> Call[None]:
    """Remove the pin of a copy."""
    return Call("DELETE", target(_path(partition), {"copy": copy}), nothing)


def fence(term: int) -> Call[None]:
    """Make all logs of a server reject changes: others were promoted with this term."""
    call: Call[None] = posted("/fence", {"term": term}, nothing)
    return call
