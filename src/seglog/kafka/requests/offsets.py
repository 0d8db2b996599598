"""ListOffsets: where a partition begins and ends, where its records reach a time, and the newest by time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seglog.errors import SeglogError
from seglog.kafka import codes
from seglog.kafka.requests.call import Call, Values
from seglog.kafka.requests.epochs import check_epoch, shown_epoch

if TYPE_CHECKING:
    from seglog.log.log import Log

LATEST, EARLIEST, NEWEST = -1, -2, -3  # NEWEST: the record with the highest timestamp
MOST_MS = (2**63 - 1) // 1000


async def list_offsets(call: Call) -> Values:
    """Return one offset for each partition."""
    return await call.each_partition(_listed)


async def _listed(call: Call, topic: str, wanted: Values) -> Values:
    number, timestamp = wanted["partition_index"], wanted["timestamp"]
    try:
        log = await call.log(topic, number, "read")
        check_epoch(log, wanted["current_leader_epoch"])
        if timestamp in (LATEST, EARLIEST):
            offset = log.next_offset if timestamp == LATEST else log.lowest_offset
            return _found(number, log, offset)
        find = partial(_newest, number, log) if timestamp == NEWEST else partial(_at_time, number, log, timestamp)
        return await call.services.scans.run(find)
    except SeglogError as error:
        return {"partition_index": number, "error_code": codes.code_of(error)}


def _found(number: int, log: Log, offset: int, timestamp: int = -1) -> Values:
    epoch = shown_epoch(log.view().manifest.cuts.epoch_at(offset))
    return {"partition_index": number, "timestamp": timestamp, "offset": offset, "leader_epoch": epoch}


def _at_time(number: int, log: Log, timestamp: int) -> Values:
    """Return the first record with this timestamp (ms) or a later one; offset -1 if there is none."""
    return _at(number, log, timestamp * 1000) if abs(timestamp) <= MOST_MS else {"partition_index": number}


def _newest(number: int, log: Log) -> Values:
    """Return the first record with the highest timestamp; offset -1 if there is no record."""
    times = [one.max_timestamp for one in log.segments if one.max_timestamp is not None]
    return _at(number, log, max(times)) if times else {"partition_index": number}


def _at(number: int, log: Log, timestamp: int) -> Values:
    """Return the first record with this timestamp (us) or a later one; offset -1 if there is none."""
    offset = log.offset_at(timestamp, force_timestamp=True)
    if offset is None:
        return {"partition_index": number}
    return _found(number, log, offset, log.read_cut(offset, 0).timestamp // 1000)
