"""What docs/keyed.md shows works, in the order it is shown: one shell session in an empty directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "keyed.md").read_text()
BLOCKS = re.findall(r"```(python|sh)\n(.*?)```", PAGE, flags=re.DOTALL)


def test_every_example_of_the_page_on_keyed_logs_runs_as_it_stands(tmp_path: Path) -> None:
    parts = [f'seglog() {{ "{sys.executable}" -m seglog "$@"; }}', "set -e"]
    shown = ""
    for language, text in BLOCKS:
        if language == "python":
            # Each block runs by itself, behind those before it that only define names.
            parts.append(f"\"{sys.executable}\" - <<'END'\n{shown}{text}END")
            shown += "".join(line + "\n" for line in text.splitlines() if line.startswith(("import ", "config = ")))
        else:
            parts += [line.split("#")[0].strip() for line in text.splitlines()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        ["bash", "-c", "\n".join(parts)], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("2 242 170\n")
    assert "search-index" in done.stdout
