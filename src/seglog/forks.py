"""Objects that a forked child inherits.

Other threads of the parent may hold their locks at the time of the fork, and the child must not write with them.
After a fork each such object is put into its state for a child.
"""

from __future__ import annotations

import errno
import os
from typing import ClassVar
from weakref import WeakSet

from seglog.errors import LogReadOnly


class Inheritable:
    """An object that is prepared for use in a forked child.

    Invariant: only the process that opened an object writes with it. Before fork() returns in the child, `_enter_child`
    of every object that called `_watch_forks` replaces its locks (a thread that does not exist in the child may hold
    them) and marks it inherited. Every mutating call checks that mark before it changes anything. The child closes
    inherited lock descriptors but never unlocks them: an flock belongs to the open file, which the parent shares.
    """

    _watched: ClassVar[WeakSet[Inheritable]] = WeakSet()
    _inherited = False

    def _watch_forks(self) -> None:
        Inheritable._watched.add(self)

    def _enter_child(self) -> None:
        """Replace the locks: no other thread runs in the child."""
        raise NotImplementedError

    def _check_not_inherited(self, what: str) -> None:
        """Raise LogReadOnly in a forked child, before anything changes. what: the kind of object."""
        if self._inherited:
            raise LogReadOnly(
                errno.EPERM, f"the {what} was inherited through fork; only the parent writes, open another one here"
            )

    @classmethod
    def enter_child(cls) -> None:
        """Put every watched object into its state for a child."""
        for one in list(cls._watched):
            one._inherited = True
            one._enter_child()


os.register_at_fork(after_in_child=Inheritable.enter_child)
