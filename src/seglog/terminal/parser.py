"""An argument parser that raises seglog's errors."""

from __future__ import annotations

import argparse
from typing import NoReturn

from seglog.errors import InvalidArgument


class Parser(argparse.ArgumentParser):
    """An argument parser that raises InvalidArgument, so that usage errors are reported like all others."""

    def error(self, message: str) -> NoReturn:
        """Raise InvalidArgument with `message` and a pointer to the help."""
        raise InvalidArgument(f"{message}; see `{self.prog} --help`")
