"""A writer that does every operation of a log once, in a fixed order, and continues after I/O errors.

For harnesses that fail its n-th call, or kill it there: two runs make the same calls. It prints what it begins, what
is done (like `log_writer`), and what was refused. A poisoned writer must refuse everything else.
"""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any

from seglog.errors import LogPoisoned, StorageError
from tests.crash.programs.log_writer import Writer
from tests.crash.programs.tokens import token_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.crash.programs.zygote import Say

STORY = (
    "append",
    "append_synced",
    "stream",
    "stream_fails",
    "small_batch",
    "large_batch",
    "truncate",
    "append",
    "pin",
    "compact",
    "publish",
    "alter",
    "append",
    "expire",
    "reopen",
    "append",
    "read",
)
"""What it does; the log is small, so that some of it rolls."""

AGAIN = 3
_SET_PTRACER, _ANYBODY = 0x59616D61, ctypes.c_ulong(-1)


class Teller(Writer):
    """A writer that goes on after errors."""

    def read(self) -> None:
        """Read all of it again, from disk."""
        self.log.close()
        self.open()
        self.begin("nothing")
        records = list(self.log.scan())
        assert [self.log.read(record.offset) for record in records[-3:]] == records[-3:]
        self.did("nothing")

    def attempt(self, call: Callable[[], object]) -> None:
        """Do one operation, and print if the storage refused it."""
        try:
            call()
        except (LogPoisoned, StorageError) as error:
            self.say(refused=repr(error), poisoned=isinstance(error, LogPoisoned))

    @property
    def is_open(self) -> bool:
        """Whether there is a log at hand; what failed may have been its opening."""
        return hasattr(self, "log") and "closed" not in repr(self.log)

    def must_refuse(self) -> None:
        """Demand that a poisoned writer acknowledges nothing more, and goes on reading what is durable."""
        log = self.log
        for call in (lambda: log.append(b"never", key=b"k0"), log.sync, lambda: log.truncate(log.lowest_offset)):
            try:
                call()
            except LogPoisoned:
                continue
            raise AssertionError("a poisoned writer went on")
        assert log.next_offset <= log.durable_offset
        for record in log.scan():
            token_of(record, self.keys)


def tell_story(say: Say, request: dict[str, Any], story: Iterable[str] = STORY) -> None:
    """Do all operations of the story, or those until the writer ends."""
    teller = Teller(say, request)
    for what in ("open", *story, "close"):
        for _ in range(AGAIN):
            if not teller.is_open:
                teller.attempt(lambda: teller.open(teller.config if request["create"] else None))
                request["create"] = request["create"] and not teller.is_open
        if not teller.is_open:
            return
        if what != "open":
            teller.attempt(teller.log.close if what == "close" else getattr(teller, what))
        if teller.is_open and teller.log.failure is not None:
            teller.must_refuse()
            return


def run(say: Say, request: dict[str, Any]) -> None:
    """Wait until the harness traces its calls, then run the story."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PTRACER, _ANYBODY, 0, 0, 0)  # a sibling may trace it, where only parents may
    say(waits=True)
    say.wait()
    tell_story(say, request, request.get("story", STORY))
    say(over=True)
