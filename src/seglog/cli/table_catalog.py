"""--catalog of `table` and --table-catalog of `serve`: the properties of a catalog of tables."""

from __future__ import annotations

from collections.abc import Sequence

from seglog.cli.frame import Option, option
from seglog.errors import InvalidArgument


def catalog_option(name: str) -> Option:
    """Declare the option, to be read with `catalog_from`."""
    return option(
        name,
        metavar="KEY=VALUE",
        multiple=True,
        help="a property of another pyiceberg catalog; repeat it; default: WAREHOUSE/catalog.db",
    )


def catalog_from(pairs: Sequence[str] | None, name: str) -> dict[str, str] | None:
    """Return the properties that were given with the option `name`; None if there are none.

    Raises:
        InvalidArgument: One is not KEY=VALUE. The text has nothing of it: it may be a secret.
    """
    found: dict[str, str] = {}
    for number, pair in enumerate(pairs or (), 1):
        key, sign, value = pair.partition("=")
        if not key or not sign:
            usage = "write KEY=VALUE, such as type=rest or uri=http://127.0.0.1:8181"
            raise InvalidArgument(f"number {number} of {name} has no {'key' if sign else 'equals sign'}: {usage}")
        found[key] = value
    return found or None
