"""Collect the pages of the site and build it: `python -m tools.docs_site`. Exits with 1 after any warning."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.docs_site import api, pages

BUILD = pages.ROOT / "build" / "site"
DOCSTRINGS = "griffe: "  # how a line begins that complains about a docstring; --strict does not count these
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def main() -> int:
    """Build the site into build/site/html; return the exit status."""
    shutil.rmtree(BUILD, ignore_errors=True)
    count = pages.collect(BUILD / "pages")
    api.write(BUILD / "pages" / "api")
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    done = subprocess.run(  # noqa: S603 - the generator
        command,
        cwd=pages.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    said = COLOURS.sub("", done.stdout)
    warned = [line for line in said.splitlines() if line.startswith(DOCSTRINGS)]
    if done.returncode or warned:
        print(said, end="", file=sys.stderr)
        return 1
    print(f"{count} pages and the reference: {(BUILD / 'html' / 'index.html').relative_to(pages.ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
