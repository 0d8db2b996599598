"""Compute an attribute when it is first asked for. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - a decorator
    """A method as an attribute that is computed once. All threads get one and the same object.

    Unlike functools.cached_property it has no lock, which a forked child might find locked (Python 3.11), and if two
    threads compute it at once, both return what the first one has kept (3.12).
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object, owner: type | None = None) -> T | once[T]:
        """Compute and keep the value; after that Python finds it without this call. Of the class: this object."""
        if instance is None:
            return self
        value: T = vars(instance).setdefault(self._name, self._compute(instance))  # atomic
        return value
