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

# After these CPython looks whether a signal has come.
LOOKS = {opcode.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD")}


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
    raises a signal's error as of the call before it; a trace function raises as of the next instruction. So a moment at
    which that makes a difference (a `try` or `with` ends just there) does not count.
    """
    assert all(exists(module) for module in within), "a module that was renamed has no moments"
    seen = 0

    def watch(frame: Any, event: str, _: object) -> Any:
        if event == "call" and not frame.f_code.co_filename.endswith(within):
            return None
        frame.f_trace_opcodes = True
        before = None

        def at(frame: Any, event: str, _: object) -> Any:
            nonlocal seen, before
            if event == "opcode":
                now, code = frame.f_lasti, frame.f_code
                looked = before is not None and code.co_code[before] in LOOKS
                if looked and raises and caught_by(code, before) != caught_by(code, now):
                    looked = False
                before = now
                seen += looked
                if looked and seen in moments:
                    handler()
            return at

        return at

    old = sys.gettrace()
    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(old)
    return seen


@functools.cache
def exists(ending: str) -> bool:
    """Whether the package has a file whose name ends like this."""
    return any(path.as_posix().endswith(ending) for path in Path(seglog.__file__).parent.rglob("*.py"))


@functools.cache
def caught_by(code: Any, position: int) -> int | None:
    """Return where the code goes on after an error at an instruction, None where it leaves the function."""
    for start, end, target, *_ in dis._parse_exception_table(code):  # type: ignore[attr-defined] # there is no other
        if start <= position < end:
            return int(target)
    return None
