"""Forget where a handled error came from.

An error refers to the frames it passed, and one of them often to the error: a cycle that keeps the data of a failed
request, megabytes at times, until the next collection of garbage.
"""

from __future__ import annotations


def forget_traceback(error: BaseException) -> None:
    """Drop the tracebacks of an error that is handled, of its causes, and of the errors of its group."""
    waiting, seen = [error], {id(error)}
    while waiting:
        one = waiting.pop()
        one.__traceback__ = None
        related = (one.__cause__, one.__context__, *(one.exceptions if isinstance(one, BaseExceptionGroup) else ()))
        for other in related:
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)
