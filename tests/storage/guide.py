"""The storage that docs/storage.md shows how to write, from the text of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "storage.md"


def example() -> dict[str, Any]:
    """Return the names of the page's first example, without what it does with them."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[0]
    names: dict[str, Any] = {}
    exec(code.partition("\nwith seglog")[0], names)  # noqa: S102 - it is the example of our own page
    return names


DictStorage: Any = example()["DictStorage"]
