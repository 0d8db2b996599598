"""What must not be copied: objects that hold a lock, a file, a session or a thread.

A copy would share them with the original, and closing one would take them from the other.
"""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from seglog.errors import InvalidType


class Uncopied:
    """Refuses copy.copy, copy.deepcopy and pickle with InvalidType."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse: all three go through here."""
        name = type(self).__name__
        raise InvalidType(f"a {name} cannot be copied or pickled; open another one where it is needed")
