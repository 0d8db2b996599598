"""Leader epochs: the epoch of a log rises with each cut, so clients find out that records were truncated.

A leader epoch of Kafka has 31 bits and an epoch of ours 64 (format/cuts): of ours, clients see the term of the leader
and the number that one leader counts up, without the random bits between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.errors import SeglogError
from seglog.format.cuts import COUNTED_BITS, TERM_BITS, Cuts
from seglog.kafka import codes
from seglog.kafka.faults import FutureEpoch, StaleEpoch
from seglog.kafka.requests.call import Call, Values

if TYPE_CHECKING:
    from seglog.log.log import Log

ANY = -1
MOST_TERM = 2**15 - 1


def shown_epoch(epoch: int) -> int:
    """Return an epoch as clients see it, below 2^31. It rises with the epochs of one log.

    Two leaders of different terms show different epochs, up to a term of 32,767. It falls after 65,536 cuts in one
    term; clients then ask for the present epoch again.
    """
    return (min(epoch >> TERM_BITS, MOST_TERM) << COUNTED_BITS) | (epoch & ((1 << COUNTED_BITS) - 1))


def shown_cuts(cuts: Cuts) -> Cuts:
    """Return the cuts of a log with the epochs that clients see."""
    return Cuts(shown_epoch(cuts.base), tuple((shown_epoch(epoch), offset) for epoch, offset in cuts.entries))


def leader_epoch(log: Log) -> int:
    """Return the present epoch of a log as clients see it."""
    return shown_epoch(log.view().manifest.epoch)


def check_epoch(log: Log, known: int) -> None:
    """Raise StaleEpoch or FutureEpoch unless a client knows the present epoch of a log, or none (-1)."""
    epoch = leader_epoch(log)
    if known != ANY and known < epoch:
        raise StaleEpoch(f"the epoch is {epoch}, the client knows {known}; it must look for truncated records")
    if known > epoch:
        raise FutureEpoch(f"the epoch is {epoch}, the client knows {known}")


async def offset_for_leader_epoch(call: Call) -> Values:
    """Return where the records of an epoch end: a client has read others from there on."""
    return await call.each_partition(_end_of, "topic")


async def _end_of(call: Call, topic: str, wanted: Values) -> Values:
    number, epoch = wanted["partition"], wanted["leader_epoch"]
    try:
        log = await call.log(topic, number, "read")
        check_epoch(log, wanted["current_leader_epoch"])
    except SeglogError as error:
        return {"partition": number, "error_code": codes.code_of(error)}
    found = end_of(log, epoch)
    return {"partition": number} if found is None else {"partition": number, **found}


def end_of(log: Log, epoch: int) -> Values | None:
    """Return the last epoch up to this one, and where its records end; None for an epoch that is not there yet."""
    view = log.view()
    if epoch > shown_epoch(view.manifest.epoch):
        return None
    cuts = shown_cuts(view.manifest.cuts)
    found = max((one for one in (cuts.base, *(known for known, _ in cuts.entries)) if one <= epoch), default=ANY)
    cut = cuts.first_since(epoch)
    return {"leader_epoch": found, "end_offset": view.next_offset if cut is None else cut}


def divergence(log: Log, last: int, start: int) -> Values | None:
    """Return where a client's records differ from the log's, None if they do not.

    last: the epoch of the last record that it has, -1: unknown; start: the offset after that record.
    """
    found = None if last == ANY else end_of(log, last)
    if found is None or (found["leader_epoch"] == last and found["end_offset"] >= start):
        return None
    return {"epoch": found["leader_epoch"], "end_offset": found["end_offset"]}
