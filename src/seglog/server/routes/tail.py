"""The live tail: records as they are appended, as server-sent events.

The id of an event holds, for each partition, the next offset and a token of the history before it. If a topic was
deleted and created again, or truncated below an offset, an older id is rejected.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse
from xxhash import xxh64_intdigest

from seglog.config import Expose
from seglog.errors import Busy, LogTruncated, SeglogError
from seglog.log.log import Log
from seglog.log.tail import Tail
from seglog.log.view import View
from seglog.record import Record, Share, checked_share
from seglog.server.api.expose import EXPOSE, end_of
from seglog.server.api.operations import Answer, Call, Operation, true_cause
from seglog.server.api.parameters import choice, text
from seglog.server.api.schemas import EVENT
from seglog.server.http.answers import NeedsRoom, watched
from seglog.server.http.bodies import IN_JSON, as_json, shown_record
from seglog.server.problems import problem
from seglog.server.routes.common import PARTITION, TOPIC, partition_log, topic_of
from seglog.server.runtime.memory import PIECE, Claim
from seglog.server.runtime.tracebacks import forget_traceback
from seglog.server.runtime.waiting import woken
from seglog.server.services import Services
from seglog.server.settings import Limits
from seglog.topic.topic import Topic

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

EVENTS = "text/event-stream"
KEEP_ALIVE_SECONDS = 15.0
WAIT_SECONDS = 1.0  # for memory, before it is seen whether the server stops
STALL_SECONDS = 0.5  # less than for other answers: nothing is lost, and many may wait for the memory
RECORDS = 256  # of a partition in one go
BYTES = 64 * 1024  # after which a go ends
PLACE_BYTES = 24  # of a partition and its offset in an event's id
IN_ID = 4  # times its bytes that an id takes while it is made
ROOM = 512 * 1024  # of memory that is held for one: as JSON, bytes may take six times their number
FROM = choice(
    "start", "Where to begin: with what comes next, or with the oldest record that is there.", "latest", "earliest"
)
SHARE = text(
    "share",
    "Only the records whose offset % n is i, written i/n: so that n clients, from 0/n on, share the records.",
    pattern="(0|[1-9][0-9]{0,8})/([1-9][0-9]{0,8})",
    examples=("0/3", "2/3"),
    where="query",
)
HISTORY = '"history": ?"[0-9a-f]{16}"'
PLACE = '"[0-9]{1,5}": ?(0|[1-9][0-9]{0,17})'  # a partition and an offset, in JSON
LAST = text(
    "Last-Event-ID",
    "The id of the last event received: continue after it.",
    pattern=rf"\{{({PLACE}(, ?{PLACE})*(, ?{HISTORY})?)?\}}",
    longest=None,
    examples=('{"0": 13, "1": 5, "history": "5f0c9a61be27d804"}', '{"0": 13, "1": 5}'),
    where="header",
)


class _Tailing(StreamingResponse):
    """The answer of a tail, dropped if its client holds memory that others need: the last event's id resumes it."""

    def __init__(self, events: AsyncGenerator[bytes], claim: Claim) -> None:
        super().__init__(events, headers={"Cache-Control": "no-store"}, media_type=EVENTS)
        self._events = events
        self._claim = claim

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client disconnects."""
        try:
            await super().__call__(scope, receive, watched(send, self._claim, STALL_SECONDS))
        finally:
            await self._events.aclose()  # now, not when it is garbage collected: it holds events


async def _tail(call: Call) -> Response:
    services, topic = call.services, await topic_of(call)
    if services.tails >= services.settings.limits.tails:
        raise Busy(f"{services.tails} live tails are already open; close one, or poll with `wait`")
    services.tails += 1  # before the first await: others are checked meanwhile
    call.held.callback(_end_of, services)
    claim = Claim(services.memory, "tails")
    call.held.callback(claim.close)
    tails = await services.reads.run(partial(_tails_of, call, topic))
    return _Tailing(_events(call, topic, tails, claim), claim)


def _end_of(services: Services) -> None:
    services.tails -= 1


def _tails_of(call: Call, topic: Topic) -> dict[int, Tail]:
    values = call.values
    wanted = values["partition"]
    if wanted is not None:
        partition_log(topic, wanted)
    numbers = range(topic.partitions) if wanted is None else [wanted]
    _share_of(values["share"])
    seen = _positions(topic, values["Last-Event-ID"])
    tails = {}
    for number in numbers:
        log = topic.partition(number)
        latest = log.durable_offset if values["expose"] == "durable" else None
        start = log.lowest_offset if values["start"] == "earliest" else latest
        tails[number] = log.tail(seen.get(number, start))
    return tails


def _share_of(words: str | None) -> Share | None:
    """Return the share that SHARE has. Raises InvalidArgument unless i < n."""
    return None if words is None else checked_share([int(word) for word in words.split("/")])


def _positions(topic: Topic, event_id: str | None) -> dict[int, int]:
    """Return partition -> offset of an event's id. Raises LogTruncated for another history of the topic."""
    values = json.loads(event_id or "{}")  # LAST has checked its form
    history = values.pop("history", None)
    seen = {int(number): offset for number, offset in values.items()}
    if history is not None:
        there = all(number < topic.partitions for number in seen)
        if not there or history != _history((one, topic.partition(one).view(), at) for one, at in seen.items()):
            raise LogTruncated(
                f"Last-Event-ID belongs to another history of topic {topic.name!r}: it was deleted and created again, "
                "or a partition was truncated below the offset, so other records may be at these offsets; start "
                "again without Last-Event-ID"
            )
    return seen


def _history(places: Iterable[tuple[int, View, int]]) -> str:
    """Return what is before an offset in each partition, whatever their order, as an event's id has it."""
    return f"{_token(places):016x}"


def _token(places: Iterable[tuple[int, View, int]]) -> int:
    """Return the same as a number; that of several is what `^` makes of those of each."""
    token = 0
    for number, view, offset in places:
        manifest = view.manifest
        token ^= _mark(number, manifest.log_id, manifest.cuts.epoch_at(offset))
    return token


@lru_cache(4096)
def _mark(number: int, log_id: int, epoch: int) -> int:
    return xxh64_intdigest(b"%d %d %d" % (number, log_id, epoch))


async def _events(call: Call, topic: Topic, tails: dict[int, Tail], claim: Claim) -> AsyncGenerator[bytes]:
    """Yield events until the client disconnects; a last event reports why the server ended the tail."""
    services = call.services
    try:
        with services.waiting.on((topic.name, number) for number in tails) as event:
            yield b": the records that come\n\n"
            while not services.waiting.stopped:
                event.clear()
                found = False
                for number in await _behind(call, topic, tails):
                    tail = tails[number]
                    before = tail.position
                    events = await _next_events(call, topic, number, tails, claim)
                    found = found or tail.position != before  # also if all records were of other shares
                    for position in range(0, len(events), PIECE):
                        yield events[position : position + PIECE]
                    del events  # before its claim ends
                    claim.close()
                if not found and not await woken(event, KEEP_ALIVE_SECONDS):
                    yield b": still here\n\n"
    except (SeglogError, OSError) as error:
        told = problem(await true_cause(call, error))
        forget_traceback(error)
        yield b"event: error\ndata: " + bytes(told.body) + b"\n\n"


async def _behind(call: Call, topic: Topic, tails: dict[int, Tail]) -> list[int]:
    """Return the partitions that may have new records: most of many have none, and each look takes a thread."""
    if len(tails) == 1:
        return list(tails)

    def look() -> list[int]:  # on a thread: a log may ask its archive for its view
        expose = call.values["expose"]
        return [number for number, tail in tails.items() if tail.position != end_of(topic.partition(number), expose)]

    return await call.services.reads.run(look)


async def _next_events(call: Call, topic: Topic, number: int, tails: dict[int, Tail], claim: Claim) -> bytes:
    """Return new records of one partition as events, once the claim holds memory for them."""
    services, room, log = call.services, ROOM, topic.partition(number)
    limits, expose = services.settings.limits, call.values["expose"]
    share = _share_of(call.values["share"])
    while not services.waiting.stopped:
        if not await claim.wait(room, WAIT_SECONDS):
            continue
        try:
            events = await services.reads.run(partial(_polled, log, number, tails, limits, room, expose, share))
        except NeedsRoom as error:
            room = error.size
            continue
        claim.resize(min(len(events), claim.size))
        return events
    return b""


def _polled(
    log: Log,
    number: int,
    tails: dict[int, Tail],
    limits: Limits,
    room: int,
    expose: Expose,
    share: Share | None,
) -> bytes:
    """Return events; on a thread, as JSON of long values takes its time. NeedsRoom where one needs more than `room`.

    The id of each names all partitions, so of many partitions few records make one go.
    """
    tail, ids = tails[number], PLACE_BYTES * len(tails)
    view, most = log.view(), limits.shown_bytes
    end = min(view.next_offset, end_of(log, expose))
    if view.lowest_offset <= tail.position < end:
        record = min(view.span_bytes(tail.position, tail.position + 1), most + limits.head_bytes)
        needed = IN_JSON * record + IN_ID * ids
        if needed > room:
            raise NeedsRoom(needed)
    records = tail.poll(min(RECORDS, max(1, BYTES // ids)), BYTES, keep=most, stop=end)
    if share is not None:
        records = [record for record in records if record.offset % share[1] == share[0]]
    others = _token((one, other.view, other.position) for one, other in tails.items() if one != number)
    places: dict[str, int | str] = {str(one): other.position for one, other in tails.items()}
    return b"".join(_event(record, number, tail.view, most, places, others) for record in records)


def _event(record: Record, number: int, view: View, most: int, places: dict[str, int | str], others: int) -> bytes:
    """Return a record as an event, whose id names the next offset of every partition.

    places: by partition, changed for this one; others: the token of the other partitions.
    """
    places[str(number)] = record.offset + 1
    places["history"] = f"{others ^ _token([(number, view, record.offset + 1)]):016x}"
    shown = {"partition": number, **shown_record(record, most)}
    return b"id: %b\nevent: record\ndata: %b\n\n" % (json.dumps(places).encode(), as_json(shown, record))


OPERATIONS = (
    Operation(
        "GET",
        "/topics/{topic}/tail",
        "tail",
        "Follow a topic: every new record is an event with the record's JSON as its data.",
        _tail,
        "read",
        {200: Answer("Events, until the client disconnects.", {EVENTS: EVENT})},
        (TOPIC, PARTITION, FROM, SHARE, LAST, EXPOSE),
    ),
)
