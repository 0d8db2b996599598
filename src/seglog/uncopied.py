"""Objects that must not be copied: those that hold a lock, a file, a session or a thread.

A copy would share these with the original, and closing one would close the other.
"""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from seglog.errors import InvalidType


class Uncopied:
    """A base class that rejects copy.copy, copy.deepcopy and pickle with InvalidType."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Raise InvalidType; copy, deepcopy and pickle all call this."""
        name = type(self).__name__
        raise InvalidType(f"a {name} cannot be copied or pickled; open another one where you need it")
