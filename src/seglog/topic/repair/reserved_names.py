"""Topics whose directory's name hides the directory around it: find and rename them.

`topics/topic.json/` makes earlier versions take `topics/` for a topic, and `topics/MANIFEST/` for a log: they open none
of the topics there. The records are intact; only the name must change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from seglog.errors import SeglogError
from seglog.log.repair.reports import Problem
from seglog.storage import Storage, Subdirectory
from seglog.topic.layout import description
from seglog.topic.layout.names import MAX_NAME, hides_directory
from seglog.topic.repair.discover import Site

_SUFFIX = "-renamed"


def name_problems(site: Site, name: str) -> Iterator[Problem]:
    """Yield the problem with the name of a topic's directory, if any."""
    if site.kind == "broker" and hides_directory(name):
        detail = "a topic of this name hides the directory around it: earlier versions open none of the topics there"
        yield Problem(kind="name", path=f"{site.root.path}/{name}", detail=detail)


def free_name(root: Storage, name: str) -> str:
    """Return an unused valid topic name below a directory."""
    base = name[: MAX_NAME - 2 * len(_SUFFIX)] + _SUFFIX
    number, found = 1, base
    while found in root.names():
        number += 1
        found = f"{base}-{number}"
    return found


def rename(root: Storage, name: str, new: str) -> None:
    """Rename a topic durably: in its topic.json, if that can be read, then its directory."""
    place = Subdirectory(root, name)
    with suppress(SeglogError):  # damaged: reported and repaired separately
        known = description.read(place)
        description.write(place, replace(known, name=new))
    root.rename(name, new)
    root.sync_directory()
