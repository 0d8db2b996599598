"""Reading in order: a range of one partition, or the next records of several; now, or as soon as there are any."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple

from starlette.responses import Response

from seglog.errors import CorruptRecord, InvalidArgument, OffsetOutOfRange, RecordTooLarge, SnapshotExpired
from seglog.log.log import Log
from seglog.log.view import View
from seglog.record import Record, value_size
from seglog.server.api.expose import EXPOSE, end_of
from seglog.server.api.models import Fetch
from seglog.server.api.operations import Answer, Call, Operation
from seglog.server.api.parameters import integer, seconds, text
from seglog.server.api.schemas import BINARY
from seglog.server.http.answers import NeedsRoom
from seglog.server.http.bodies import ARROW, IN_JSON, NDJSON, arrow_body, line_of, placed, placed_schema
from seglog.server.routes.common import (
    MAX_BYTES,
    MAX_RECORDS,
    PARTITION,
    TOPIC,
    log_of,
    partition_log,
    topic_of,
    wanted_media,
)
from seglog.server.runtime.waiting import woken
from seglog.topic.fetch import fetch_batches, fetch_records
from seglog.topic.layout.places import Partition
from seglog.topic.positions import from_values, nested
from seglog.topic.positions import to_json as positions_to_json
from seglog.topic.read_trace import passage_of
from seglog.topic.read_trace import to_json as passages_to_json

START = integer("start", "The first offset to read; default: the lowest.", least=0)
STOP = integer("stop", "The offset to end before; default: the log's end.", least=0)
WAIT = seconds("wait", "If there is no record, wait up to this many seconds for the first.", most=60)
SNAPSHOT = text(
    "Seglog-Snapshot",
    "With `start` and `stop`, for a range of several answers that is to be as it was at the first one: `new`, and with "
    "each following request the header Seglog-Snapshot of the answer before. SnapshotExpired (410): the range has "
    "changed, and the server no longer keeps it; begin again.",
    pattern="(new|[0-9a-f]+[.][0-9]+[.]-?[0-9]*[.][0-9]+[.][0-9]+[.][0-9a-f]+)",
    where="header",
)
STEP = 500  # records read at a time, before they are converted to lines
FREE = 1024 * 1024  # bytes read without reserving memory: there are few reading threads
LINES_ROOM = 3  # times the requested bytes: as read, and twice as many as lines
TRACED = 500  # partitions named in one answer's header, which clients and proxies limit
FEW = 1000  # records whose number does not matter for memory
LINE_BYTES, ROW_BYTES = 64, 16  # a record's least overhead: many empty records are large too
RECORDS = Answer("The records; the header Seglog-Next-Offset has the next offset.", {NDJSON: BINARY, ARROW: BINARY})


async def wait_for(
    call: Call, places: Iterable[Partition], look: Callable[[], Awaitable[Found]], seconds: float
) -> Found:
    """Look, and if nothing is found look again after each append, until the time is over.

    Holds no memory while it waits.
    """
    limit = min(seconds, call.services.settings.limits.wait_seconds)
    if limit <= 0:
        return await look()
    ends = monotonic() + limit
    with call.services.waiting.on(places) as event:
        while True:
            event.clear()
            found = await look()
            if not found:
                call.answer.close()
            left = ends - monotonic()
            if found or left <= 0 or call.services.waiting.stopped or not await woken(event, left):
                return found


# --- a range ----------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The records read, as they will be sent, and the next offsets. False if nothing has changed.

    state: headers that identify the logs.
    """

    body: bytes | memoryview
    next_offsets: dict[Partition, int]
    moved: bool
    state: Mapping[str, str] = {}

    def __bool__(self) -> bool:
        return self.moved


def _checked_start(log: Log | View, start: int | None) -> int:
    """Return the start. Raises OffsetOutOfRange also below the lowest offset: loss is never skipped silently."""
    lowest, end = log.lowest_offset, log.next_offset
    if start is None:
        return lowest
    if not lowest <= start <= end:
        raise OffsetOutOfRange(start, lowest, end)
    return start


async def _read_range(call: Call) -> Response:
    values, log = call.values, await log_of(call)
    arrow = wanted_media(call, NDJSON, ARROW) == ARROW
    place, wanted = (values["topic"], values["partition"]), values["stop"]
    bounds, snapshots, token = _bounds(call, values, arrow), call.services.snapshots, values["Seglog-Snapshot"] or ""
    if token and (values["start"] is None or wanted is None):
        raise InvalidArgument("Seglog-Snapshot is of a range: send start and stop with it")

    def read(room: int) -> Found:
        end, view, start = end_of(log, values["expose"]), log.view(), values["start"]
        if start is not None and wanted is not None:
            view, end = snapshots.begin(log, start, wanted, token) or (view, min(wanted, end))
        start, stop = _checked_start(view, start), end if wanted is None else min(wanted, end)
        found = _read_all({place: (view, start, stop)}, bounds, room, arrow=arrow, several=False)
        reached, state = found.next_offsets[place], _state(view)
        if wanted is not None:
            state["Seglog-Snapshot"] = rest = str(view._snapshot_of(reached, stop))
            if reached < stop:
                snapshots.keep(log, view, reached, wanted, rest)
        return found._replace(state=state)

    found = await wait_for(call, [place], partial(call.read, read, 0), values["wait"])
    headers = {"Seglog-Next-Offset": str(found.next_offsets[place]), **found.state}
    return Response(found.body, headers=headers, media_type=ARROW if arrow else NDJSON)


def _state(view: View) -> dict[str, str]:
    """Return headers that identify the log and its epoch.

    A client that got the same headers with an earlier answer knows that nothing was truncated in between.
    """
    manifest = view.manifest
    return {"Seglog-Log": f"{manifest.log_id:016x}", "Seglog-Epoch": str(manifest.epoch)}


class Bounds(NamedTuple):
    """How much is read at most. records; size: their bytes; shown: bytes of a value in a line; head: of a key and
    headers; room: of memory; most: of memory that all answers may have.
    """

    records: int
    size: int
    shown: int
    head: int
    room: int
    most: int


def _bounds(call: Call, wanted: Mapping[str, Any], arrow: bool) -> Bounds:
    """Return the limits of an answer. In a line a byte may take six, and a record has overhead."""
    limits = call.services.settings.limits
    size = min(wanted["max_bytes"], limits.read_bytes if arrow else limits.read_bytes // 4)
    records = min(wanted["max_records"], size // (ROW_BYTES if arrow else LINE_BYTES) + FEW)
    room = 2 * size if arrow else LINES_ROOM * size
    most = call.services.memory.share("answers")
    return Bounds(records, size, limits.shown_bytes, limits.head_bytes, room, most)


def _check_room(logs: Mapping[Partition, tuple[View, int, int]], bounds: Bounds, room: int, *, arrow: bool) -> None:
    """Raise NeedsRoom if the records, as read and as an answer, need more than `room` bytes.

    A little is read without reserving memory.
    """
    there = longest = 0
    for place, (view, start, stop) in logs.items():
        if start < stop:
            there += view.span_bytes(start, min(stop, start + bounds.records))
            first = view.span_bytes(start, start + 1)
            if arrow and 2 * first > bounds.most:
                raise _too_large(place, start, first, bounds.most // 2)
            longest = max(longest, 2 * first if arrow else IN_JSON * min(first, bounds.shown + bounds.head))
    needed = max(longest, min(bounds.room, (2 if arrow else IN_JSON) * there))
    if needed > max(room, FREE):
        raise NeedsRoom(needed)


def _too_large(place: Partition, offset: int, size: int, most: int) -> RecordTooLarge:
    """Return the error for a record that has no room in an Arrow answer, with its place: a client reads it alone."""
    error = RecordTooLarge(size, most)
    text = (
        f"the record at offset {offset} of partition {place[1]} of topic {place[0]!r} has {size} bytes, and an Arrow "
        f"answer of this server takes {most} (a quarter of its --memory); read it alone at .../records/{offset}, or as "
        "lines, which cut it"
    )
    error.args = (text,)
    error.topic, error.partition, error.offset = *place, offset  # type: ignore[attr-defined] # told by problems
    return error


def _read_all(
    logs: Mapping[Partition, tuple[View, int, int]], bounds: Bounds, room: int, *, arrow: bool, several: bool
) -> Found:
    """Read start .. stop of each log in turn until a limit is reached, and encode it as it will be sent.

    room: bytes of memory reserved for it. Raises NeedsRoom if they are not enough.
    """
    _check_room(logs, bounds, room, arrow=arrow)
    parts: list[Any] = []
    lines = _Lines(bounds)
    records, size = bounds.records, bounds.size
    reached: dict[Partition, int] = {}
    for place, (view, start, stop) in logs.items():
        reached[place] = start
        if start >= stop or records <= 0 or size <= 0 or lines.full:
            continue
        shown = place if several else None
        if arrow:
            batches, reached[place] = fetch_batches(
                view, start, stop, max_records=records, max_bytes=size, values="binary"
            )
            parts += batches if shown is None else [placed(batch, shown) for batch in batches]
            records -= sum(batch.num_rows for batch in batches)
            size -= sum(batch.nbytes for batch in batches)
        else:
            reached[place] = lines.read(view, start, stop, shown)
    moved = any(reached[place] > start for place, (_, start, _) in logs.items())
    if arrow:
        return Found(arrow_body(parts, placed_schema() if several else None), reached, moved)
    return Found(lines.body, reached, moved)


class _Lines:
    """Records as lines, read a few at a time until a limit is reached."""

    def __init__(self, bounds: Bounds) -> None:
        self._shown = bounds.shown
        self._most = max((LINES_ROOM - 1) * bounds.size, FREE)
        self._records, self._size = bounds.records, bounds.size
        self._lines = bytearray()

    @property
    def full(self) -> bool:
        """Whether a limit is reached."""
        return self._records <= 0 or self._size <= 0 or len(self._lines) >= self._most

    @property
    def body(self) -> memoryview:
        """All lines."""
        return memoryview(self._lines)

    def read(self, view: View, start: int, stop: int, place: Partition | None) -> int:
        """Add records from `start` to `stop`, at least one; return the next offset. Raises CorruptRecord."""
        position, first = start, True
        while position < stop and (first or not self.full):
            most = min(max(self._records, 1), STEP)
            try:
                found, after = fetch_records(
                    view, position, stop, max_records=most, max_bytes=max(self._size, 1), keep=self._shown
                )
            except (CorruptRecord, SnapshotExpired):
                if first:
                    raise
                return position
            for record in found:
                if not first and (self.full or _bytes_of(record) > self._size):
                    return record.offset
                self._lines += line_of(record, self._shown, place)
                self._records -= 1
                self._size -= _bytes_of(record)
                first = False
            first, position = False, after
            if len(found) < most:  # a limit, the end, or a damaged record
                break
        return position


def _bytes_of(record: Record) -> int:
    return value_size(record.value) + len(record.key or b"")


# --- several partitions -----------------------------------------------------------------------------------------------


async def _fetch_several(call: Call) -> Response:
    wanted = await call.json(Fetch)
    arrow = wanted_media(call, NDJSON, ARROW) == ARROW
    starts = await _starts_of(call, from_values(wanted.positions))
    bounds = _bounds(call, vars(wanted), arrow)

    def read(room: int) -> Found:
        views = {place: log.view() for place, (log, _) in starts.items()}
        logs = {place: (views[place], start, end_of(log, wanted.expose)) for place, (log, start) in starts.items()}
        found = _read_all(logs, bounds, room, arrow=arrow, several=True)
        return found._replace(state=_passages(views, starts, found.next_offsets))

    found = await wait_for(call, starts, partial(call.read, read, 0), wanted.wait)
    headers = {"Seglog-Next-Offsets": positions_to_json(nested(found.next_offsets)), **found.state}
    return Response(found.body, headers=headers, media_type=ARROW if arrow else NDJSON)


def _passages(
    views: Mapping[Partition, View], starts: Mapping[Partition, tuple[Log, int]], reached: Mapping[Partition, int]
) -> dict[str, str]:
    """Return a header from which a client that continues fetching notices that a log was replaced.

    views: taken before reading. With very many partitions it names only those that moved first.
    """
    moved_first = sorted(reached.items(), key=lambda item: item[1] == starts[item[0]][1])
    told = islice(moved_first, TRACED)
    passages = ((place, passage_of(views[place], starts[place][1], end)) for place, end in told)
    return {"Seglog-Traces": passages_to_json(passages)}


async def _starts_of(call: Call, positions: dict[str, dict[int, int]]) -> dict[Partition, tuple[Log, int]]:
    """Return place -> log and start; an error names the place."""
    starts: dict[Partition, tuple[Log, int]] = {}
    for name, offsets in positions.items():
        call.caller.require("read", name)
        topic = await topic_of(call, name)
        for number, start in offsets.items():
            log = partition_log(topic, number)
            try:
                starts[name, number] = (log, _checked_start(log, start))
            except OffsetOutOfRange as error:
                error.topic, error.partition = name, number  # type: ignore[attr-defined] # reported by problems
                raise
    return starts


OPERATIONS = (
    Operation(
        "GET",
        "/topics/{topic}/partitions/{partition}/records",
        "read_range",
        "Read records of a partition in order; with `wait`, wait for the next one.",
        _read_range,
        "read",
        {200: RECORDS},
        (TOPIC, PARTITION.in_path(), START, STOP, MAX_RECORDS, MAX_BYTES, WAIT, EXPOSE, SNAPSHOT),
    ),
    Operation(
        "POST",
        "/fetch",
        "fetch",
        "Read from several partitions at once, as consumers do.",
        _fetch_several,
        "token",
        {
            200: Answer(
                "The records; the header Seglog-Next-Offsets has the next offsets.", {NDJSON: BINARY, ARROW: BINARY}
            )
        },
        (),
        Fetch,
    ),
)
