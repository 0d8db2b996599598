"""A disk that is really full: a small tmpfs in a mount namespace of its own, where every operation runs out of space.

What is done there is in programs/full_disk.py. Sizes differ so that a write finds other pages taken.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests import tools
from tests.crash.programs.zygote import environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proofs import Tell

SECONDS = 200

pytestmark = [pytest.mark.proof, pytest.mark.timeout(SECONDS + 60)]


@pytest.fixture(scope="module")
def unshare(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command that gives a program mounts of its own; as root, or in a namespace where it is."""
    where = str(tmp_path_factory.mktemp("mount"))
    tools.require("unshare")
    for options in ("-m", "-Urm"):
        command = ["unshare", options]
        mount = [*command, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", where]
        tried = subprocess.run(mount, capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            break
    else:
        tools.forbidden("unshare", f"no file system can be mounted here: {tried.stderr}")
    return command


@pytest.mark.parametrize("kib", [192, 256])
def test_18_whatever_runs_out_of_space_is_rolled_back_and_goes_on_with_space_back(
    unshare: list[str], tmp_path: Path, kib: int, tell: Tell
) -> None:
    command = [*unshare, sys.executable, "-m", "tests.crash.programs.full_disk", str(tmp_path), str(kib)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, err
    tell("a full disk", scenario=f"{kib} KiB", **json.loads(out), lost=0, invented=0)
