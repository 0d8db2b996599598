"""Leader epochs: the epoch of a log rises with each cut, so clients find out that records were truncated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.errors import SeglogError
from seglog.kafka import codes
from seglog.kafka.faults import FutureEpoch, StaleEpoch
from seglog.kafka.requests.call import Call, Values

if TYPE_CHECKING:
    from seglog.log.log import Log

ANY = -1


def check_epoch(log: Log, known: int) -> None:
    """Raise StaleEpoch or FutureEpoch unless a client knows the present epoch of a log, or none (-1)."""
    epoch = log.view().manifest.epoch
    if known != ANY and known < epoch:
        raise StaleEpoch(f"the epoch is {epoch}, the client knows {known}; it must look for truncated records")
    if known > epoch:
        raise FutureEpoch(f"the epoch is {epoch}, the client knows {known}")


async def offset_for_leader_epoch(call: Call) -> Values:
    """Return where the records of an epoch end: a client has read others from there on."""
    return {
        "topics": [
            {"topic": one["topic"], "partitions": [_end_of(call, one["topic"], each) for each in one["partitions"]]}
            for one in call.values["topics"]
        ]
    }


def _end_of(call: Call, topic: str, wanted: Values) -> Values:
    number, epoch = wanted["partition"], wanted["leader_epoch"]
    try:
        log = call.log(topic, number, "read")
        check_epoch(log, wanted["current_leader_epoch"])
    except SeglogError as error:
        return {"partition": number, "error_code": codes.code_of(error)}
    view = log.view()
    if epoch > view.manifest.epoch:
        return {"partition": number}
    cuts = view.manifest.cuts
    found = max((one for one in (cuts.base, *(known for known, _ in cuts.entries)) if one <= epoch), default=ANY)
    cut = cuts.first_since(epoch)
    return {"partition": number, "leader_epoch": found, "end_offset": view.next_offset if cut is None else cut}
