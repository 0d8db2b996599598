"""An argument parser whose refusals are errors of our own tree."""

from __future__ import annotations

import argparse
from typing import NoReturn

from seglog.errors import InvalidArgument


class Parser(argparse.ArgumentParser):
    """An argument parser that raises InvalidArgument, so that a usage error ends like every other error."""

    def error(self, message: str) -> NoReturn:
        """Raise `message` with a pointer to the help."""
        raise InvalidArgument(f"{message}; see `{self.prog} --help`")
