"""A progress bar on stderr: only on a terminal, never with --quiet. tqdm is imported when a bar is shown."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def progress(what: str, *, unit: str, quiet: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function to call with (done, total or None if unknown), in `unit` ("B" or " records")."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, total: None  # noqa: ARG005 # the names are the signature of a report
        return
    from tqdm import tqdm  # takes 50 ms: only a bar on a terminal pays for it

    scaled: dict[str, Any] = {"unit_scale": True, "unit_divisor": 1024 if unit == "B" else 1000}
    with tqdm(desc=what, unit=unit, leave=False, file=sys.stderr, **scaled) as bar:

        def report(done: int, total: int | None) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield report
