"""What a forked child inherits: objects whose locks other threads of its parent may hold, and which it must not use to
write. After a fork every such object is put into the state that it has in a child.
"""

from __future__ import annotations

import errno
import os
from typing import ClassVar
from weakref import WeakSet

from seglog.errors import LogReadOnly


class Inheritable:
    """Has its `_enter_child` called in every forked child, once it has called `_watch_forks`."""

    _watched: ClassVar[WeakSet[Inheritable]] = WeakSet()
    _inherited = False

    def _watch_forks(self) -> None:
        Inheritable._watched.add(self)

    def _enter_child(self) -> None:
        """Renew the locks: no other thread goes on here."""
        raise NotImplementedError

    def _check_not_inherited(self, what: str) -> None:
        """Raise LogReadOnly in a forked child, before anything is changed. what: the kind of object."""
        if self._inherited:
            raise LogReadOnly(
                errno.EPERM, f"the {what} was inherited through fork; only the parent writes, open another one here"
            )

    @classmethod
    def enter_child(cls) -> None:
        """Put all of them into the state that they have in a child."""
        for one in list(cls._watched):
            one._inherited = True
            one._enter_child()


os.register_at_fork(after_in_child=Inheritable.enter_child)
