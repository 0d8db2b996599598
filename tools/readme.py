"""The README's examples, for the test suite and for `make package`, which runs them from an installed wheel."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"```(\w+)\n(.*?)```", TEXT, flags=re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python" and "spark." not in text and "Client(" not in text]
CLIENT = [text for language, text in BLOCKS if language == "python" and "Client(" in text]
SPARK = [text for language, text in BLOCKS if language == "python" and "spark." in text]
LINES = [line.split("#")[0].strip() for language, text in BLOCKS if language == "sh" for line in text.splitlines()]
COMMANDS = [line for line in LINES if line.startswith("seglog ") and not line.endswith("-f") and "serve" not in line]
ADDRESS = "http://127.0.0.1:3000"
