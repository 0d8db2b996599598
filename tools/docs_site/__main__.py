"""Collect the pages of the site and build it: `python -m tools.docs_site`. Exits with 1 after any warning."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.docs_site import api, pages

DOCSTRINGS = "griffe: "  # how a line begins that complains about a docstring; --strict does not count these
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def main(root: Path = pages.ROOT, reference: Sequence[api.Page] | None = None) -> int:
    """Build the site of a repository into build/site/html; return the exit status.

    Args:
        root: The repository: its README.md, docs/, src/ and zensical.toml.
        reference: The pages of the reference; default: all.
    """
    build = root / "build" / "site"
    shutil.rmtree(build, ignore_errors=True)
    count = pages.collect(build / "pages", root)
    api.write(build / "pages" / "api", api.pages() if reference is None else reference)
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    done = subprocess.run(  # noqa: S603 - the generator
        command,
        cwd=root,
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
    print(f"{count} pages and the reference: {(build / 'html' / 'index.html').relative_to(root)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
