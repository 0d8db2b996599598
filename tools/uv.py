"""Run uv as pip would run here: with pip's index, and with the certificates of the system.

`make install` uses it because it takes a third of pip's time: `python -m tools.uv pip install ...`. Needs pip and uv in
the environment of this Python, and nothing else.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
WHEELS = Path(sys.prefix) / ".wheels"


def main() -> None:
    """Run uv with this program's arguments, for this program's Python; exit with its status."""
    environment = {**os.environ, **settings(), "VIRTUAL_ENV": sys.prefix}
    sys.exit(subprocess.run([program(), *sys.argv[1:]], env=environment, check=False).returncode)  # noqa: S603 - uv


def program() -> Path:
    """Return uv's path in the environment of this Python."""
    return Path(sys.executable).parent / "uv"


@cache
def settings() -> dict[str, str]:
    """Return the environment variables that let uv find what pip finds."""
    pip = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(pip, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S603 - pip
    index = re.search(r"^[\w.:]*index-url='(.*)'$", listed, flags=re.MULTILINE)
    return {
        "UV_SYSTEM_CERTS": "1",
        "UV_FIND_LINKS": str(wheels()),
        **({"UV_DEFAULT_INDEX": index[1]} if index else {}),
    }


def wheels() -> Path:
    """Return the directory with pyspark's wheel, made once: pyspark is published only as source.

    uv would build it for each environment. It is not compressed, for its jars are.
    """
    (version,) = re.findall(r"^pyspark==(.*)$", CONSTRAINTS.read_text("utf-8"), flags=re.MULTILINE)
    if not any(WHEELS.glob(f"pyspark-{version}-*.whl")):
        # an older pip, as Debian has, builds without pep517 only if `wheel` is installed
        options = ["--quiet", "--use-pep517", "--no-deps", "--config-settings=--build-option=--compression=stored"]
        command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(WHEELS), f"pyspark=={version}"]
        subprocess.run(command, check=True)  # noqa: S603 - pip
    return WHEELS


if __name__ == "__main__":
    main()
