"""One request and one answer as values: what to send, and how to read the answer. No I/O.

A `Flow` is a sequence of them: a generator that yields the next step and receives its outcome. The drivers (driver,
async_driver) send and wait, so that a flow is written once for sync and async.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from seglog.client.upload import Upload
    from seglog.errors import SeglogError

T = TypeVar("T")
Fields = tuple[tuple[bytes, bytes], ...]


class Answer(NamedTuple):
    """A server's answer. headers: names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request.

    target: path and query, percent-encoded. read: parses an answer that is not a refusal.
    repeatable: whether it may be sent again although the first may have been carried out.
    wait: seconds that the server may take longer than for other requests.
    """

    method: str
    target: str
    read: Callable[[Answer], T]
    body: bytes | memoryview | Upload = b""
    headers: Fields = ()
    repeatable: bool = True
    wait: float = 0.0


class Pause(NamedTuple):
    """A wait of some seconds."""

    seconds: float


class Emit(NamedTuple):
    """A value for the caller that iterates over the flow."""

    item: Any


Step = Call[Any] | Pause | Emit
Flow = Generator[Step, Any, T]
"""Yields steps; receives an Answer for a Call, or an error is thrown in. Returns the result."""


def advance(flow: Flow[Any], outcome: Answer | SeglogError | None) -> Step:
    """Pass a flow its last step's outcome (None: none, or start); return the next step. Raises StopIteration."""
    if outcome is None or isinstance(outcome, Answer):
        return flow.send(outcome)
    return flow.throw(outcome)
