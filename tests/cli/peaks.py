"""How much memory the program takes."""

from __future__ import annotations

import subprocess
import sys

# Not by wait4, which tells the greatest of all children: and a process that is forked and replaced begins with the peak
# of the one that forked it.
PROGRAM = """
import sys
from seglog.cli import main
status = main()
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")), file=sys.stderr)
sys.exit(status)
"""


def with_peak(*words: object) -> tuple[int, int]:
    """Run the program; return its exit code, and the most bytes that were resident in its process."""
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    return done.returncode, int(done.stderr.split()[-1]) * 1024
