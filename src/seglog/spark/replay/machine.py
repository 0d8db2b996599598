"""The interface of state machines for `replay`, and how the command line names one. Knows no Spark.

Replicas that start from the same state and apply the same records in the same order end in the same state, if the
machine is deterministic: `apply` must depend on nothing but its arguments.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from seglog.errors import InvalidArgument

if TYPE_CHECKING:
    from seglog.record import Record

S = TypeVar("S")


class Machine(Protocol[S]):
    """A state machine: its initial state, the effect of a record, and the encoding of its state.

    It is pickled to the executors, so its class must be importable there (spark-submit --py-files) or be defined in the
    job's main program.
    """

    def initial(self) -> S:
        """Return the state before the first record; a new object at each call if states are modified in place."""

    def apply(self, state: S, record: Record) -> S:
        """Return the state after a record; may modify and return `state` itself. An error ends the replay."""

    def encode(self, state: S) -> bytes:
        """Return a state as bytes in any encoding: text, JSON, pickle."""


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


def checked_machine(machine: object) -> Machine[Any]:
    """Return `machine` if it has the methods of one. Raises InvalidArgument, naming the missing ones."""
    lacking = [method for method in ("initial", "apply", "encode") if not callable(getattr(machine, method, None))]
    if lacking:
        raise InvalidArgument(f"{type(machine).__name__} is not a state machine: it has no {', no '.join(lacking)}")
    return cast("Machine[Any]", machine)
