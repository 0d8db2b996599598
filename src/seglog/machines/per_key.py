"""One machine per key, as a machine: the state of `PerKey(machine)` is a dict of states."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from seglog.errors import InvalidArgument
from seglog.machines.machine import PER_KEY, Identity, Machine, checked_machine, identity_of
from seglog.record import Record

S = TypeVar("S")

_ENTRY = struct.Struct("<qqq")  # bytes of the key (-1: no key), offset, bytes of the state


class KeyState(NamedTuple, Generic[S]):
    """The state of one key. offset: of its last applied record."""

    offset: int
    state: S


class PerKey(Generic[S]):
    """Applies the records of every key to a machine of its own; records without a key share one.

    Its state is a dict: key (None: without a key) -> KeyState.
    """

    def __init__(self, machine: Machine[S]) -> None:
        """machine: of each key. Raises InvalidArgument if it is none."""
        self.machine: Machine[S] = checked_machine(machine)
        name, version = identity_of(machine)
        self.identity = Identity(name + PER_KEY, version)

    def initial(self) -> dict[bytes | None, KeyState[S]]:
        """Return the states before the first record: none."""
        return {}

    def apply(self, state: dict[bytes | None, KeyState[S]], record: Record) -> dict[bytes | None, KeyState[S]]:
        """Apply a record to the machine of its key."""
        known = state.get(record.key)
        before = self.machine.initial() if known is None else known.state
        state[record.key] = KeyState(record.offset, self.machine.apply(before, record))
        return state

    def encode(self, state: dict[bytes | None, KeyState[S]]) -> bytes:
        """Return all states as bytes, each as the machine encodes it."""
        return b"".join(self._entries(state))

    def _entries(self, state: dict[bytes | None, KeyState[S]]) -> Iterator[bytes]:
        for key, (offset, value) in state.items():
            encoded = self.machine.encode(value)
            yield _ENTRY.pack(-1 if key is None else len(key), offset, len(encoded))
            yield key or b""
            yield encoded

    def decode(self, data: bytes) -> dict[bytes | None, KeyState[S]]:
        """Return what `encode` encoded; the machine needs `decode`."""
        decode: Any = getattr(self.machine, "decode")  # noqa: B009 - not in the protocol
        found: dict[bytes | None, KeyState[S]] = {}
        position = 0
        while position < len(data):
            key_bytes, offset, size = _ENTRY.unpack_from(data, position)
            key_at = position + _ENTRY.size
            state_at = key_at + max(0, key_bytes)
            position = state_at + size
            key = None if key_bytes < 0 else data[key_at:state_at]
            found[key] = KeyState(offset, decode(data[state_at:position]))
        if position != len(data):
            raise InvalidArgument("the encoded states of keys end early")
        return found


def check_decodes(machine: object) -> None:
    """Raise InvalidArgument if a machine, or the one that it applies to every key, has no `decode`."""
    checked_machine(machine.machine if isinstance(machine, PerKey) else machine, snapshots=True)
