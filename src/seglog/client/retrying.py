"""One request, sent until it is answered: how often, how long, with which pauses. No I/O.

The clock and chance are given, so that a flow can be tested without waiting.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from seglog.client import failures
from seglog.client.requests.call import Answer, Call, Flow, Pause
from seglog.errors import ConnectionFailed, InvalidArgument, SeglogError, ServerError
from seglog.format.foreign import UNREADABLE
from seglog.record import checked_offset

T = TypeVar("T")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
LONGEST_ASKED = 30.0  # that a server is believed: one that names an hour, or no number, is not waited for so long


def once_keys() -> Callable[[], str]:
    """Return a generator of unique idempotency keys, unique also in a forked child."""
    head, count = secrets.token_hex(8), itertools.count()
    return lambda: f"{head}-{os.getpid():x}-{next(count):x}"


@dataclass(frozen=True)
class Retries:
    """How often, or how long, a request is retried.

    limit: tries after the first; seconds: since the first try, None: as limit allows. chance returns 0 <= x < 1, so
    that clients that failed together do not retry together. clock: seconds, monotonic.
    """

    limit: int | None = 8
    seconds: float | None = None
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        """Raise InvalidType or InvalidArgument for an invalid limit."""
        if self.limit is not None and checked_offset(self.limit, "retries") < 0:
            raise InvalidArgument(f"retries is {self.limit}; it must be 0 or more")

    def pause(self, tries: int, asked: float | None, since: float) -> float | None:
        """Return the pause after `tries` tries, at least what the server asked for; None: stop retrying."""
        if self.limit is not None and tries > self.limit:
            return None
        longest: float = min(FIRST_PAUSE * 2.0 ** min(tries - 1, 16), LONGEST_PAUSE)
        pause = max(longest * (0.5 + self.chance() / 2), min(asked or 0.0, LONGEST_ASKED))
        if self.seconds is not None and self.clock() + pause - since > self.seconds:
            return None
        return pause


def retrying(call: Call[T], retries: Retries) -> Flow[T]:
    """Send a request until it is answered, and return the parsed answer.

    Retries after a lost connection if that is safe, and if the server reports that the request may succeed later.
    Raises the error of a refusal, or the last error when tries or time are used up.
    """
    since = retries.clock()
    for tries in itertools.count(1):
        asked = None
        try:
            answer: Answer = yield call
        except ConnectionFailed as error:
            if error.sent and not call.repeatable:
                raise
            failure: SeglogError = error
        else:
            if not failures.is_refusal(answer):
                return _said(call, answer)
            failure = failures.error_of(answer)
            if not failures.passes(answer):
                raise failure
            asked = failures.retry_after(answer)
        pause = retries.pause(tries, asked, since)
        if pause is None:
            raise failure
        yield Pause(pause)
    raise AssertionError("counting has no end")


def _said(call: Call[T], answer: Answer) -> T:
    try:
        return call.read(answer)
    except SeglogError:
        raise
    except UNREADABLE as error:
        where = f"{call.method} {call.target.partition('?')[0]}"
        raise ServerError(f"{where}: the answer is not one of seglog's: {error!r}", status=answer.status) from error
