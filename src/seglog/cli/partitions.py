"""The logs that LOG names, for commands that do the same to each: a log, a partition, or all partitions of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from seglog.cli.frame import Args
from seglog.cli.location import Local, Remote
from seglog.cli.lock_wait import patiently
from seglog.cli.open_log import opened
from seglog.cli.sink import open_topic
from seglog.errors import InvalidArgument

if TYPE_CHECKING:
    from seglog.log.log import Log


def is_whole_topic(place: Local | Remote) -> bool:
    """Whether LOG names a topic, so that results are shown by partition."""
    if isinstance(place, Remote):
        return place.partition is None
    return place.topic is not None and place.partition is None


def one_partition(place: Local | Remote, why: str) -> None:
    """Raise InvalidArgument where LOG names a whole topic. why: what is of a partition only."""
    if is_whole_topic(place):
        name = f"{place.url}/{place.topic}" if isinstance(place, Remote) else place.path.rstrip("/")
        raise InvalidArgument(f"{why} within a partition: name one, as {name}/0")


@contextmanager
def logs_to_read(place: Local) -> Iterator[dict[int, Log]]:
    """Open the logs to read; by partition. Creates nothing."""
    with ExitStack() as resources:
        yield {number: resources.enter_context(opened(path, mode="r")) for number, path in _paths(place).items()}


@contextmanager
def logs_to_change(args: Args, place: Local) -> Iterator[dict[int, Log]]:
    """Open the logs for writing, all of a topic under one lock; by partition. LogLocked."""
    if place.topic is not None and place.partition is None:
        with open_topic(place.topic, args.wait) as topic:
            yield {number: topic.partition(number) for number in range(topic.partitions)}
    else:
        with patiently(lambda: opened(place.path, mode="a"), args.wait) as log:
            yield {place.partition or 0: log}


def _paths(place: Local) -> dict[int, str]:
    if place.topic is None or place.partition is not None:
        return {place.partition or 0: place.path}
    from seglog.topic.layout.places import logs_at

    return {one.partition: one.path for one in logs_at(place.topic)}
