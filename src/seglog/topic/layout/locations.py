"""Locations on a server: http://host:3000/orders, or http://host:3000/orders/0 for a partition. Pure."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard
from urllib.parse import unquote, urlsplit, urlunsplit

from seglog.errors import InvalidArgument


class Location(NamedTuple):
    """A topic on a server. partition: None for all."""

    url: str
    topic: str
    partition: int | None


def is_location(place: object) -> TypeGuard[str]:
    """Whether this is the text of a location on a server, not a path or something else."""
    return isinstance(place, str) and place.startswith(("http://", "https://"))


def parse_location(place: str) -> Location:
    """Return server, topic and partition of a location. Raises InvalidArgument if it names no topic."""
    try:
        parts = urlsplit(place)
    except ValueError as error:
        raise InvalidArgument(f"{place!r} is not a URL: {error}") from None
    before, _, words = parts.path.strip("/").rpartition("/")
    if words.isdecimal() and before:
        before, _, topic = before.rpartition("/")
        words = f"{topic}/{words}"
    server = urlunsplit((parts.scheme, parts.netloc, before, "", ""))
    return Location(server, *topic_and_partition(unquote(words), place))


def topic_and_partition(words: str, place: str) -> tuple[str, int | None]:
    """Return the parts of TOPIC or TOPIC/PARTITION. place: for the error."""
    topic, slash, partition = words.strip("/").partition("/")
    if not topic or (slash and not (partition.isascii() and partition.isdecimal())):
        raise InvalidArgument(f"{place!r} names no topic; write TOPIC or TOPIC/PARTITION, such as orders or orders/0")
    return topic, int(partition) if slash else None
