"""Real signals come at the moments at which tests interrupt the log, in whichever version of Python runs them."""

from __future__ import annotations

import opcode
import signal
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.log.moments import BACK, LOOKS, RESUME, starts

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYWORDS = "CALL_KW" if "CALL_KW" in opcode.opmap else "CALL"
# What Python 3.11 makes of a call, and of a comparison before a jump, once a function has run several times.
MERGED = {"PRECALL": "CALL", "COMPARE_OP": "JUMP_BACKWARD"} if sys.version_info < (3, 12) else {}


def count(most: int) -> Iterator[int]:
    yield from range(most)


def work(most: int = 100) -> None:
    left, options = most, {"base": 10}
    for number in count(most):
        int(str(number), base=10)
        int(*["7"], **options)
    while left > 0:
        left -= 1


def test_a_signal_comes_only_at_moments_at_which_tests_interrupt() -> None:
    came: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    wanted = {"RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD", KEYWORDS}

    def handle(_: int, frame: Any) -> None:
        if frame.f_code in (work.__code__, count.__code__):
            code, at = frame.f_code, frame.f_lasti
            name = opcode.opname[code.co_code[at]]
            name = MERGED.get(name, name)
            known = starts(code, at) if name == "RESUME" else opcode.opmap[name] in LOOKS
            (came if known else unknown)["JUMP_BACKWARD" if opcode.opmap[name] in BACK else name] += 1

    old = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        end = time.monotonic() + 60
        while not came.keys() >= wanted and time.monotonic() < end:
            work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert not unknown, "Python looks for signals after these instructions, too"
    assert came.keys() == wanted, "Python does not look for signals after the others"
    assert RESUME not in LOOKS
