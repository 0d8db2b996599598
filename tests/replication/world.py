"""The processes of the combined proof: a leader, two followers, and an S3 server; all can be killed and restarted."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import Served
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

BUCKET = "logs"


def versitygw() -> str | None:
    """Return the path of versitygw; `go install` puts it into ~/go/bin."""
    return shutil.which("versitygw", path=f"{os.environ['PATH']}{os.pathsep}{Path.home() / 'go' / 'bin'}")


class ObjectServer:
    """An S3 server: versitygw keeps its objects when it is killed, moto does not, so it is never killed."""

    def __init__(self, kind: str, root: Path) -> None:
        """kind: "moto" or "versitygw"."""
        self.survives = kind == "versitygw"
        self.kills = 0
        (root / BUCKET).mkdir(parents=True)
        if self.survives:
            program = versitygw() or "versitygw"
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = int(free.getsockname()[1])
            self._command = [program, "--port", f"127.0.0.1:{self.port}", "--access", "test", "--secret", "secret"]
            self._command += ["posix", str(root)]
        else:
            self._command = [sys.executable, "-m", "tests.moto_server"]
        self.start()
        if not self.survives:
            self._until(self._has_made_bucket)

    def start(self) -> None:
        told = subprocess.DEVNULL if self.survives else subprocess.PIPE
        self.process = subprocess.Popen(self._command, stdout=told, stderr=subprocess.DEVNULL)
        if self.process.stdout is not None:
            self.port = int(self.process.stdout.readline())
        self._until(self._answers)

    def kill(self) -> None:
        """End it as the kernel does."""
        self.kills += 1
        self.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def _until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while not ready():
            assert time.monotonic() < deadline, "the S3 server does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        return False

    def _has_made_bucket(self) -> bool:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{BUCKET}", method="PUT")
        with suppress(OSError):
            urllib.request.urlopen(request, timeout=5).close()  # noqa: S310 - as above
            return True
        return False


class Follower:
    """A `seglog mirror` process, which is started again whenever it ends."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.kills = self.restarts = 0
        self._process: subprocess.Popen[str] | None = None
        self._source = ""

    def follow(self, source: str, *options: str) -> None:
        """Follow another source from now on. options: of its first process."""
        self.stop()
        self._source = source
        self._start(*options)

    def _start(self, *options: str) -> None:
        command = [sys.executable, "-m", "seglog", "mirror", self._source, str(self.target), "--wait", "10s", *options]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def look(self) -> None:
        """Start it again if it has ended: with --restart if it said that the copy cannot continue."""
        process = self._process
        if process is None or process.poll() is None:
            return
        said = process.communicate()[1]
        restart = "--restart" in said
        self.restarts += restart
        self._start(*(["--restart"] if restart else []))

    def kill(self) -> None:
        """End it as the kernel does, and start it again."""
        self.kills += 1
        self.stop()
        self._start()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


class Leader(Served):
    """A `seglog serve` process with an archive, which can also be paused."""

    def __init__(self, root: Path, archive: str) -> None:
        super().__init__(root, ["--archive", archive, "--archive-interval", "200ms"])

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)
