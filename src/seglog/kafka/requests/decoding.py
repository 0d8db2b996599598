"""Decode a produced batch within the limits of the server, and the memory that this takes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from seglog.clock import system_clock
from seglog.kafka.records.decode import decode
from seglog.kafka.records.faults import NoKeys, TooLarge
from seglog.kafka.records.layout import CODEC_BITS, Head

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from seglog.kafka.records.records import Records
    from seglog.log.log import Log
    from seglog.policies import Policies
    from seglog.server.settings import Limits
    from seglog.topic.topic import Topic

LEAST_HEADER_BYTES = 2
ROW_BYTES = 96  # of columns beside the data, also as Arrow
GROWTH = 4  # by which compressed data is assumed to grow, and again each time when it has grown more
LEAST_BOUND = 1024 * 1024  # the first bound at least: most clients send batches of less
COPIES = 3  # of decompressed data: the window of the decompressor, its pieces, and all of them
Result = TypeVar("Result")


class ProducedBatch(NamedTuple):
    """A batch that was sent for a partition of a topic. data: all of it; head: as it is stored; policies: of the topic,
    when the batch came.
    """

    topic: Topic
    number: int
    log: Log
    data: memoryview
    head: Head
    policies: Policies


def decoded_bytes(head: Head, most: int) -> int:
    """Return about how many bytes a decoded batch takes beside its data. most: bytes of it when it is decompressed."""
    return head.records * ROW_BYTES + (COPIES * most if head.attributes & CODEC_BITS else 0)


async def in_bounds(data: memoryview, head: Head, most: int, work: Callable[[int], Awaitable[Result]]) -> Result:
    """Do what decodes a batch, which takes no more than a bound decompressed; again with a higher bound if it is more.

    How much compressed data holds is not known before it is decompressed, and a few kilobytes can hold 100 MB. So the
    memory is claimed for a bound, released when that was too low, and claimed for a higher one.

    Args:
        data: The batch.
        head: Its head.
        most: The highest bound, in bytes.
        work: Takes a bound, in bytes; raises TooLarge, and has changed nothing then, if it was too low.

    Raises:
        TooLarge: The highest bound was too low.
    """
    bound = min(max(GROWTH * len(data), LEAST_BOUND), most) if head.attributes & CODEC_BITS else most
    while bound < most:
        with suppress(TooLarge):
            return await work(bound)
        bound = min(GROWTH * bound, most)
    return await work(most)


def decoded(batch: ProducedBatch, most: int, limits: Limits) -> Records:
    """Return the records of a batch, of up to `most` bytes. Raises NoKeys, BadTimes: the topic refuses some."""
    data, head, policies, now = batch.data, batch.head, batch.policies, system_clock()
    records = decode(data, head, now=now, most=most)
    if head.attributes & CODEC_BITS or len(data) > min(limits.head_bytes, LEAST_HEADER_BYTES * limits.record_headers):
        records.check_heads(limits.record_headers, limits.head_bytes)
    if policies.timestamps == "given":
        records.check_times(*policies.timestamp_bounds_us(now))
    if batch.log.config.retention.needs_keys and len(keyless := records.keyless):
        raise NoKeys(keyless.tolist())
    return records
