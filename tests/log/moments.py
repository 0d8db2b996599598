"""Doing something at any moment at which CPython would run a signal handler, one moment after the other."""

from __future__ import annotations

import dis
import functools
import opcode
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import seglog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# After these CPython looks whether a signal has come; which of them there are depends on its version.
CALLS = ("CALL", "CALL_KW", "CALL_FUNCTION_EX")
TEXTS = ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC")
JUMPS = ("JUMP_BACKWARD", *(f"POP_JUMP_BACKWARD_IF_{what}" for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")))
LOOKS = {opcode.opmap[name] for name in (*CALLS, *TEXTS, *JUMPS) if name in opcode.opmap}
BACK = {opcode.opmap[name] for name in JUMPS if name in opcode.opmap}  # only if they jump
RESUME = opcode.opmap["RESUME"]
PLACE, DELEGATES = 3, 2  # the bits of RESUME's argument that say where it is; from 2 on `yield from` or `await` goes on


def at_moments(
    call: Callable[[], object],
    moments: Collection[int],
    within: tuple[str, ...],
    handler: Callable[[], object],
    *,
    raises: bool = False,
) -> int:
    """Call, and call the handler at the given moments (1 and up) within modules; return how many moments there were.

    within: how the files' names end. raises: the handler raises, which ends the tracing, so it is called once. CPython
    raises a signal's error as of the instruction after which it looked; a trace function raises as of the next one. So
    a moment at which that makes a difference (a `try` or `with` begins or ends between the two) does not count.
    """
    assert all(exists(module) for module in within), "a module that was renamed has no moments"
    seen = 0

    def moment() -> None:
        nonlocal seen
        seen += 1
        if seen in moments:
            handler()

    def watch(frame: Any, event: str, _: object) -> Any:
        code, before = frame.f_code, None
        if not code.co_filename.endswith(within):
            return None

        def at(frame: Any, event: str, _: object) -> Any:
            nonlocal before
            if event == "opcode":
                last, before = before, frame.f_lasti
                if last is not None and looks(code, last, before) and not (raises and parted(code, last, before)):
                    moment()
            return at

        frame.f_trace = at  # first: without it Python 3.13 does not trace the opcodes of this call
        frame.f_trace_opcodes = True
        if event == "call" and starts(code, frame.f_lasti):
            moment()
        return at

    old = sys.gettrace()
    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(old)
    assert seen, f"nothing was seen of a call within {', '.join(within)}"
    return seen


@functools.cache
def exists(ending: str) -> bool:
    """Whether the package has a file whose name ends like this."""
    return any(path.as_posix().endswith(ending) for path in Path(seglog.__file__).parent.rglob("*.py"))


def starts(code: Any, position: int) -> bool:
    """Whether a call of a function begins here, or goes on in a generator, and CPython looks for signals."""
    return bool(code.co_code[position] == RESUME and code.co_code[position + 1] & PLACE < DELEGATES)


def looks(code: Any, last: int, now: int) -> bool:
    """Whether CPython looks for signals between two instructions that it executes one after the other."""
    executed = code.co_code[last]
    return executed in LOOKS and (executed not in BACK or now < last)


def parted(code: Any, last: int, now: int) -> bool:
    """Whether an error goes elsewhere as of one instruction than as of the other."""
    return caught_by(code, last) != caught_by(code, now)


@functools.cache
def caught_by(code: Any, position: int) -> int | None:
    """Return where the code goes on after an error at an instruction, None where it leaves the function."""
    for start, end, target, *_ in dis._parse_exception_table(code):  # type: ignore[attr-defined] # there is no other
        if start <= position < end:
            return int(target)
    return None
