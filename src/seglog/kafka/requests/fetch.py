"""Fetch: the next records of several partitions, now or when enough have been appended."""

from __future__ import annotations

from asyncio import sleep
from contextlib import closing
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from seglog.errors import Busy, OffsetOutOfRange, RecordTooLarge, SeglogError
from seglog.kafka import codes
from seglog.kafka.records.encode import MOST_BYTES
from seglog.kafka.requests.call import Call, Values, log_of
from seglog.kafka.requests.epochs import check_epoch, divergence
from seglog.kafka.requests.partition_reads import COPIES, Found, Size, Wanted, available, read_all, size_of
from seglog.kafka.requests.read_ahead import read_ahead, take_ahead
from seglog.kafka.requests.turns import in_turns
from seglog.server.runtime.memory import Claim
from seglog.server.runtime.waiting import woken

if TYPE_CHECKING:
    from seglog.log.log import Log

WITHOUT_ROOM = 256 * 1024  # bytes read without reserving memory
REST, LONGEST_REST_S = 20, 1.0  # how much longer than a look at its partitions a request waits before the next look
WAITING_BYTES = 384  # about what a partition takes while a request waits for its records
BUSY_MS = 500  # when a client whose request cannot wait may ask again


async def fetch(call: Call) -> Values:
    """Wait until `min_bytes` have been appended or `max_wait_ms` have passed, then read.

    Every request is complete: the server keeps no sessions (session id 0). A partition is read once, from the last
    offset that a request names for it, as with Kafka. A request for which there is no room to wait is answered at once,
    and the next one delayed.
    """
    try:
        topics = await call.named(call.values.pop("topics"), "topic")  # it may wait for long: no values are kept
    except Busy as error:
        return {"throttle_time_ms": BUSY_MS, "error_code": codes.code_of(error), "responses": []}
    count = sum(len(topic["partitions"]) for topic in topics)
    topics = _once(topics)
    named = ((topic["topic"], one) for topic in topics for one in topic["partitions"])
    wanted = [await _wanted(call, topic, one) async for topic, one in in_turns(named)]
    shape = [({**topic, "partitions": []}, len(topic["partitions"])) for topic in topics]
    del topics, named
    call.holding.reduce(len(wanted), count)
    call.free()
    found = await _wait(call, wanted)
    throttle = BUSY_MS if found is None else 0
    wanted = found or wanted
    most = min(max(call.values["max_bytes"], 1), call.services.settings.limits.read_bytes)
    read = await take_ahead(call, wanted, most) or await _read_now(call, wanted, most)
    if len(wanted) == 1 and wanted[0].log is not None and read[0].values["records"]:
        call.sent = partial(read_ahead, call, wanted[0]._replace(start=read[0].next_offset), most)
    parts = iter(read)
    answered = [{**topic, "partitions": [next(parts).values for _ in range(size)]} for topic, size in shape]
    return {"throttle_time_ms": throttle, "responses": answered}


def _once(topics: list[Values]) -> list[Values]:
    """Return the same topics, with each partition once, as it is named last."""
    seen: set[tuple[str | None, str | None, int]] = set()
    found = []
    for topic in topics:
        name, uuid = topic["topic"], topic.get("topic_id")
        named = {(name, uuid, one["partition"]): one for one in topic["partitions"]}
        found.append({**topic, "partitions": [one for place, one in named.items() if place not in seen]})
        seen.update(named)
    return found


async def _read_now(call: Call, wanted: list[Wanted], most: int) -> list[Found]:
    """Read, when there is memory for the response."""
    share = call.services.memory.share("answers")
    longest = min(share // COPIES, MOST_BYTES)
    sizes = [size_of(one) for one in wanted]
    wanted = [_fitting(one, size, longest) for one, size in zip(wanted, sizes, strict=True)]
    sizes = [one for one in sizes if one.first <= longest]
    there = min(sum(one.available for one in sizes), most + max((one.first for one in sizes), default=0))
    claim = call.holding.claim  # with the values of the request: two claims of one kind could wait for each other
    needed = call.holding.claimed + (COPIES * there if there > WITHOUT_ROOM else 0)
    if needed > claim.size and not await claim.wait(min(needed, share), _seconds(call)):
        most = min(most, WITHOUT_ROOM) if all(one.first <= WITHOUT_ROOM for one in sizes) else 0
    return await call.services.reads.run(partial(read_all, wanted, most))


def _seconds(call: Call) -> float:
    wanted: int = call.values["max_wait_ms"]
    return min(max(wanted, 0) / 1000, call.services.settings.limits.wait_seconds)


async def _wanted(call: Call, topic: str | None, one: Values) -> Wanted:
    number, start, epoch = one["partition"], one["fetch_offset"], one["current_leader_epoch"]
    if topic is None:
        return Wanted("", number, None, start, 0, codes.UNKNOWN_TOPIC_ID, epoch)
    try:
        read = await call.topic(topic, "read")
        log = log_of(read, number)
        check_epoch(log, epoch)
        diverging = divergence(log, one["last_fetched_epoch"], start)
        if diverging is not None:
            return Wanted(topic, number, None, start, 0, codes.NONE, epoch, diverging)
        _check_start(log, start)
    except SeglogError as error:
        return Wanted(topic, number, None, start, 0, codes.code_of(error), epoch)
    stamped, most = read.policies.timestamps == "server", max(one["partition_max_bytes"], 1)
    return Wanted(topic, number, log, start, most, codes.NONE, epoch, stamped=stamped)


def _check_start(log: Log, start: int) -> None:
    if not log.lowest_offset <= start <= log.next_offset:
        raise OffsetOutOfRange(start, log.lowest_offset, log.next_offset)


async def _wait(call: Call, wanted: list[Wanted]) -> list[Wanted] | None:
    """Return what can be read, as soon as it is enough or the time is over; None: there is no room to wait."""
    seconds, least = _seconds(call), max(call.values["min_bytes"], 0)
    ends = monotonic() + seconds
    if not seconds or _is_enough(wanted, least):
        return wanted
    try:
        claim = _waiting_claim(call, len(wanted))
    except Busy:
        return None
    places = {(one.topic, one.partition) for one in wanted if one.log is not None}
    with closing(claim), call.services.waiting.on(places) as event:
        while True:
            event.clear()
            begun = monotonic()
            wanted = [_still(one) for one in wanted]
            left = ends - monotonic()
            if _is_enough(wanted, least) or left <= 0 or call.services.waiting.stopped:
                return wanted
            await sleep(min(REST * (monotonic() - begun), LONGEST_REST_S, left))
            if not await woken(event, ends - monotonic()):
                return wanted


def _waiting_claim(call: Call, partitions: int) -> Claim:
    """Exchange the claim for a request and its answer, if there is one, for what the request takes while it waits.

    Raises Busy.
    """
    claim = Claim(call.services.memory, "waits")
    if call.holding.claim.size:
        claim.resize(partitions * WAITING_BYTES)
        call.holding.claim.close()
    return claim


def _is_enough(wanted: list[Wanted], least: int) -> bool:
    """Whether a request need not wait: `least` bytes can be read, or there is an error."""
    if any(one.log is None for one in wanted) or sum(map(available, wanted)) >= least:
        return True
    return sum(size_of(one).available for one in wanted) >= least  # a long record counts as a whole


def _still(one: Wanted) -> Wanted:
    """Return the same, with an error if the log was truncated or closed meanwhile."""
    if one.log is None:
        return one
    try:
        check_epoch(one.log, one.epoch)
        _check_start(one.log, one.start)
    except SeglogError as error:
        return one._replace(log=None, code=codes.code_of(error))
    return one


def _fitting(one: Wanted, size: Size, most: int) -> Wanted:
    """Return the same, with an error if its first record needs more memory than all responses may have."""
    return one if size.first <= most else one._replace(log=None, code=codes.code_of(RecordTooLarge(size.first, most)))
