"""The examples of a page of docs/ as one shell program, for the test suite and for `make package`."""

from __future__ import annotations

import re

KEPT = ("import ", "config = ")  # lines that later blocks of Python rely on
ADDRESS = "http://127.0.0.1:3000"  # of the server that the pages name


def program(text: str, python: str, url: str = "") -> str:
    """Return a page's examples as a program for bash, in the order in which the page shows them.

    Each block of Python runs by itself, after those lines of earlier ones that only define names. Lines that start a
    server are left out; `url` takes the place of its address.

    Args:
        text: The page as Markdown.
        python: The interpreter, which has seglog.
        url: The address of a running server.
    """
    parts = [f'seglog() {{ "{python}" -m seglog "$@"; }}', "set -eo pipefail"]
    shown = ""
    for language, block in re.findall(r"```(python|sh)\n(.*?)```", text, flags=re.DOTALL):
        if language == "python":
            parts.append(f"\"{python}\" - <<'END'\n{shown}{block}END")
            shown += "".join(line + "\n" for line in block.splitlines() if line.startswith(KEPT))
        else:
            lines = [re.sub(r"\s#.*", "", line).strip() for line in block.splitlines()]
            parts += [line for line in lines if not line.startswith("seglog serve")]
    return "\n".join(parts).replace(ADDRESS, url)
