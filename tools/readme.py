"""The README's examples, for the test suite and for `make package`, which runs them from an installed wheel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

TEXT = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
NOT_PASTED = ("seglog", "Install")  # sections: these work in a checkout, and install what the others need
ADDRESS = "http://127.0.0.1:3000"


class Block(NamedTuple):
    """A block of code: the heading above it, its language, its text."""

    section: str
    language: str
    text: str


def blocks(text: str) -> list[Block]:
    """Return all blocks of a page, in its order."""
    section = ""
    found = []
    for heading, language, code in re.findall(r"^#+ (.*)$|^```(.*)\n((?s:.*?))^```$", text, flags=re.MULTILINE):
        section = heading or section
        if not heading:
            found.append(Block(section, language, code))
    return found


BLOCKS = blocks(TEXT)
PASTED = [block for block in BLOCKS if block.section not in NOT_PASTED]


def _of(section: str, language: str) -> list[str]:
    return [block.text for block in PASTED if (block.section, block.language) == (section, language)]


PYTHON = _of("Ten lines of Python", "python")
COMMANDS = "".join(_of("From the shell", "sh")).splitlines()
CLIENT = _of("As a server", "python")
SPARK = _of("In Spark", "python")
