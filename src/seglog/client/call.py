"""One request and one answer as values: what is asked, and how its answer becomes what a program wants. No I/O.

A `Flow` is several of them in a row: a generator that yields what is to be done next and is sent what came of it.
Whoever drives it (driver, async_driver) does all sending and waiting, so that a flow is written once for both kinds.
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
    """What the server said. headers: ask for names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request.

    target: path and query, percent-encoded. read: the answer, which is no refusal, -> what it says.
    repeatable: whether it may be sent once more although the first may have been carried out.
    wait: seconds that the server may take longer for it than for others.
    """

    method: str
    target: str
    read: Callable[[Answer], T]
    body: bytes | memoryview | Upload = b""
    headers: Fields = ()
    repeatable: bool = True
    wait: float = 0.0


class Pause(NamedTuple):
    """To do nothing for some seconds."""

    seconds: float


class Emit(NamedTuple):
    """Something for whoever iterates over the flow."""

    item: Any


Step = Call[Any] | Pause | Emit
Flow = Generator[Step, Any, T]
"""Yields steps; a Call is answered by an Answer, or an error is thrown in. Returns the result."""


def advance(flow: Flow[Any], outcome: Answer | SeglogError | None) -> Step:
    """Give a flow what came of its last step (None: nothing, or it begins); return the next one, or StopIteration."""
    if outcome is None or isinstance(outcome, Answer):
        return flow.send(outcome)
    return flow.throw(outcome)
