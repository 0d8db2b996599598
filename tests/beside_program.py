"""Run a command of seglog that stops at one of its system calls until the log has been changed; see BesideCommand.

    python -m tests.beside_program DIRECTORY CALL DESCRIPTOR WORD...

DESCRIPTOR: of a socket, which gets STOPPED at the call and then, when the command has ended, how many calls there were.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from seglog.cli import main
from tests.beside import STOPPED, Beside


def run(directory: str, at: str, descriptor: str, *words: str) -> int:
    """Run a command; return its exit code."""
    with socket.socket(fileno=int(descriptor)) as control:

        def change() -> None:
            control.sendall(STOPPED)
            control.recv(1)

        with Beside(Path(directory), int(at), change) as system:
            code = main(words)
        control.sendall(b"%d" % system.made)
    return code


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
