"""Become the writer of an archive for one directory, which notes durably that it continues it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.archive import lineage
from seglog.archive.history import Writer, new_owner
from seglog.archive.lineage import Lineage

if TYPE_CHECKING:
    from collections.abc import Callable

    from seglog.archive.commit import Commit
    from seglog.archive.objects import ObjectStore
    from seglog.clock import Clock
    from seglog.storage import Storage


def claim(
    root: Storage,
    store: ObjectStore,
    clock: Clock,
    *,
    kind: str,
    may_follow: Callable[[Commit | None, Lineage], None],
) -> Writer:
    """Commit the archive's present state again with the next term, and return its writer.

    kind: of the directory. may_follow: raises if this directory, of this lineage, must not continue the newest commit.

    Raises ArchiveMismatch if the archive is of another kind, ArchiveFenced if another writer claims it just now.
    """
    known, owner = lineage.read(root, store.url), new_owner()

    def noted(newest: Commit | None) -> None:
        may_follow(newest, known)
        followed = {} if newest is None else {newest.owner: known.owners.get(newest.owner)}
        Lineage(store.url, {**followed, owner: None}).write(root)

    writer = Writer.claim(store, clock, kind=kind, owner=owner, may_follow=noted)
    Lineage(store.url, {owner: None}).write(root)
    return writer
