"""`python -m seglog`: the same program as the `seglog` command."""

from __future__ import annotations

import sys

from seglog.cli import main

if __name__ == "__main__":
    sys.exit(main())
