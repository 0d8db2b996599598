"""The interface of state machines, what identifies one, and how the command line names one.

Replicas that start from the same state and apply the same records in the same order end in the same state, if the
machine is deterministic: `apply` must depend on nothing but its arguments.
"""

from __future__ import annotations

import sys
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar, cast

from seglog.errors import InvalidArgument, MachineFailed
from seglog.record import Record

S = TypeVar("S")

PER_KEY = " per key"
"""What the name of a machine that has a state for every key ends with."""


class Machine(Protocol[S]):
    """A state machine: its initial state, the effect of a record, and the encoding of its state.

    Snapshots need two more: `decode(data: bytes) -> state`, the inverse of `encode`; and, if the code or the parameters
    of the machine may change, an attribute `version` that changes with them: snapshots of another version are not
    used. Without it the version of a dataclass is its repr.

    For Spark it is pickled to the executors, so its class must be importable there (spark-submit --py-files) or be
    defined in the job's main program.
    """

    def initial(self) -> S:
        """Return the state before the first record; a new object at each call if states are modified in place."""

    def apply(self, state: S, record: Record) -> S:
        """Return the state after a record; may modify and return `state` itself. An error ends the replay."""

    def encode(self, state: S) -> bytes:
        """Return a state as bytes in any encoding: text, JSON, pickle."""


class Identity(NamedTuple):
    """What identifies a machine in its snapshots: the name of its class, and its version."""

    name: str
    version: str


def identity_of(machine: object) -> Identity:
    """Return the identity of a machine. A machine that contains another one may have its own, as `identity`."""
    own = getattr(machine, "identity", None)
    if isinstance(own, Identity):
        return own
    version = getattr(machine, "version", None)
    if version is None and is_dataclass(machine):
        version = repr(machine)
    return Identity(type(machine).__qualname__, "" if version is None else str(version))


def checked_machine(machine: object, *, snapshots: bool = False) -> Machine[Any]:
    """Return `machine` if it has the methods of one; snapshots: also `decode`. InvalidArgument names missing ones."""
    methods = ["initial", "apply", "encode", *(["decode"] if snapshots else [])]
    lacking = [method for method in methods if not callable(getattr(machine, method, None))]
    if lacking == ["decode"]:
        raise InvalidArgument(
            f"{type(machine).__name__} has no decode(data) -> state: snapshots need it, or omit snapshots"
        )
    if lacking:
        raise InvalidArgument(f"{type(machine).__name__} is not a state machine: it has no {', no '.join(lacking)}")
    return cast("Machine[Any]", machine)


def failed(machine: object, record: Record, place: str, error: Exception) -> NoReturn:
    """Raise MachineFailed for an error of `apply`. place: of the record, such as its log's path."""
    name, why = identity_of(machine).name.removesuffix(PER_KEY), f"{type(error).__name__}: {error}"
    raise MachineFailed(f"{name} rejected offset {record.offset} of {place}: {why}", offset=record.offset) from error


def named_machine(name: str) -> Machine[Any]:
    """Return the machine that `module:attribute` names; a class is called without arguments.

    Modules are also searched in the working directory. Raises InvalidArgument if there is no such machine.
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise InvalidArgument(f"{name!r} names no machine; write module:attribute, such as game.rules:Machine")
    if "" not in sys.path:
        sys.path.append("")
    try:
        found: object = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidArgument(f"there is no machine {name}: {error}") from error
    return checked_machine(found() if isinstance(found, type) else found)
