"""Optional packages: whether they are installed, and how a user installs the extra that has them. Imports none."""

from __future__ import annotations

from importlib.util import find_spec

from seglog.errors import MissingExtra


def require(needs: str, *packages: str, extra: str) -> None:
    """Raise MissingExtra unless all these packages are installed.

    Args:
        needs: What needs them, with the verb: "tables need".
        packages: Their names in Python.
        extra: The extra of seglog that installs them.
    """
    missing = [package for package in packages if not _is_installed(package)]
    if missing:
        names = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
        raise MissingExtra(f"{needs} {names}: {how_to_install(extra)}")


def how_to_install(extra: str) -> str:
    """Return how to install an extra, as the end of a sentence. To change when seglog is on a package index."""
    return f"install seglog[{extra}] (in a checkout: pip install '.[{extra}]')"


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package that contains it is missing
        return False
