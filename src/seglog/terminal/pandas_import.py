"""Keep pandas, if it is installed, out of the programs that do not use it."""

from __future__ import annotations

import sys
from typing import Any


def skip_pandas() -> None:
    """Make `import pandas` fail in this process, unless it was imported already.

    pyarrow imports pandas when it first converts a Python value or a numpy array, which takes 0.3 s, although it works
    the same without. Only for the start of a program: a library must not call it.
    """
    if _NoPandas not in sys.meta_path:
        sys.meta_path.insert(0, _NoPandas)


class _NoPandas:
    """A finder of modules; None in `sys.modules` would not do, because pyarrow takes it for the module."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("seglog's programs do not import pandas", name=name)
