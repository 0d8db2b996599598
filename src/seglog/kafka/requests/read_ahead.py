"""Read what a consumer of one partition fetches next while it works on what it has.

A client asks for more of a partition when it has nothing left of it, and then waits until it is read. So the next
response is prepared when the last one is sent: one for each connection, and not for long. It begins after the write to
the socket, which holds the interpreter: the two would only wait for each other.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from seglog.errors import SeglogError
from seglog.kafka.requests.partition_reads import COPIES, Found, Wanted, bounds_of, read_all, size_of
from seglog.server.runtime.memory import Claim

if TYPE_CHECKING:
    from seglog.kafka.requests.call import Call, Sender
    from seglog.log.log import Log

SECONDS = 0.5  # that it waits for its request
SHARE = 2  # a part of the memory of answers that stays for requests that have come


@dataclass(slots=True, eq=False)
class ReadAhead:
    """What is read for the next request of a client.

    Attributes:
        wanted: The partition that it will probably ask for.
        most: How many bytes.
        epoch: Of the log before it was read.
        reading: The read, on a thread.
        claim: Memory.
        timer: Forgets it.
    """

    wanted: Wanted
    most: int
    epoch: int
    reading: asyncio.Future[list[Found]]
    claim: Claim
    timer: asyncio.TimerHandle

    def release(self) -> None:
        """Release its memory when the thread has ended."""
        self.reading.add_done_callback(lambda _: self.claim.close())


_AHEAD: WeakKeyDictionary[Sender, ReadAhead] = WeakKeyDictionary()  # what is read for each client


def forget_ahead(sender: Sender) -> None:
    """Release what is read for a client, if anything is: it does not ask for it."""
    ahead = _AHEAD.pop(sender, None)
    if ahead is not None:
        ahead.timer.cancel()
        ahead.release()


def read_ahead(call: Call, one: Wanted, most: int) -> None:
    """Begin to read what follows of a partition, if it has a whole response more and there is memory."""
    log, size, memory = one.log, size_of(one).available, call.services.memory  # a long record counts as a whole
    assert log is not None  # noqa: S101 - the caller has read it
    room = memory.share("answers") // SHARE - memory.held["answers"]
    if size < min(one.size, most) or COPIES * size > room:
        return
    claim = Claim(memory, "answers")
    try:
        epoch = _epoch_of(log)
        claim.resize(COPIES * size)
        reading = call.services.reads.start(partial(read_all, [one], most))
    except SeglogError:  # no memory or thread, or the log was closed meanwhile
        claim.close()
        return
    timer = asyncio.get_running_loop().call_later(SECONDS, forget_ahead, call.sender)
    _AHEAD[call.sender] = ReadAhead(one, most, epoch, reading, claim, timer)


async def take_ahead(call: Call, wanted: list[Wanted], most: int) -> list[Found] | None:
    """Return what was read for this request, None if nothing was or if it is not certain to be right."""
    ahead = _AHEAD.pop(call.sender, None)
    if ahead is None:
        return None
    ahead.timer.cancel()
    if wanted != [ahead.wanted] or most != ahead.most:
        ahead.release()
        return None
    call.claims.append(ahead.claim)
    call.held.callback(ahead.release)  # its memory is held until the response is sent
    log = ahead.wanted.log
    assert log is not None  # noqa: S101 - `read_ahead` has checked it
    try:
        [found] = ahead.reading.result() if ahead.reading.done() else await asyncio.shield(ahead.reading)
        if found.values.get("error_code") or _epoch_of(log) != ahead.epoch:
            return None
        return [found._replace(values={**found.values, **bounds_of(log)})]
    except SeglogError:  # the error comes again when it is read now
        return None


def _epoch_of(log: Log) -> int:
    """Return a number that changes whenever records of the log may have been replaced."""
    return log.view().manifest.epoch
