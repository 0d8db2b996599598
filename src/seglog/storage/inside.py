"""Names of files and directories inside a storage: none may lead out of it. Pure.

Every path of a storage is made by `inside`, so a name that came from outside (an archive, a leader, a message) cannot
reach another directory, whatever its reader forgot to check. topic/layout/names.py has what such readers accept.
"""

from __future__ import annotations

from seglog.errors import InvalidArgument

PARENT = ".."


def inside(path: str, name: str) -> str:
    """Return the path of a name in the directory `path`, which is the directory itself for "".

    Raises:
        InvalidArgument: If a part of the name is "..", or it has a NUL.
    """
    if not name:
        return path
    if (PARENT in name and PARENT in name.split("/")) or "\0" in name:
        raise InvalidArgument(f"{name!r} leads out of {path or 'its directory'}; nothing was read or changed there")
    return f"{path}/{name}" if path else name
