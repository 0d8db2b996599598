"""--wait: a command waits for the process that has a lock, says for which one, and then does its work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Broker, LocalStorage
from seglog.log.locks.write_lock import try_lock_log
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with Broker(tmp_path / "shop") as broker:
        broker.create_topic("orders", config=seglog.LogConfig(retention=seglog.Retention(compact=True)))
        broker.groups.commit("billing", {"orders": {0: 0}})
    seglog.open(tmp_path / "log", seglog.LogConfig(retention=seglog.Retention(compact=True))).close()
    (tmp_path / "log" / "MANIFEST.prev").write_text("damaged")
    seglog.backup(tmp_path / "log", tmp_path / "copy")
    return tmp_path / "shop"


COMMANDS = {
    "append": "append log --key k v",
    "import": "import log - --format ndjson",
    "truncate": "truncate log 0 --yes",
    "expire": "expire shop/orders",
    "compact": "compact shop/orders",
    "repair": "repair log --yes",
    "consume": "consume shop/orders --group billing",
    "topics create": "topics create shop users",
    "topics alter": "topics alter shop orders --retention-age 7d",
    "topics delete": "topics delete shop orders --yes",
    "groups reset": "groups reset shop billing --topic orders --to latest",
    "groups delete": "groups delete shop billing --yes",
    "backup": "backup log copy",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_takes_a_lock_names_the_process_that_has_it_and_can_wait_for_it(
    cli: Callable[..., Any], shop: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.parent)
    words = COMMANDS[command].split()
    held: Any = Broker(shop) if "shop" in COMMANDS[command] else None
    if held is None:
        held = try_lock_log(LocalStorage(str(shop.parent / ("copy" if command == "backup" else "log"))))
    end = getattr(held, "close", None) or held.release
    refused = cli(*words)
    assert refused.code == 4, refused.err
    assert f"by this process ({os.getpid()})" in refused.err
    assert "; --wait 30s waits for" in refused.err
    assert "wait=10" not in refused.err, "that is for Python programs"
    ending = threading.Timer(0.05, end)
    ending.start()
    done = cli(*words, "--wait", f"{HANG_SECONDS}s")
    ending.join()
    assert done.code == 0, done.err


def test_a_server_waits_for_the_process_that_has_its_directory(shop: Path) -> None:
    command = [sys.executable, "-m", "seglog", "serve", str(shop), "--port", "0", "--wait", "1h"]
    with Broker(shop):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.match(rf"seglog: waiting up to 1h: .*shop: .*, by process {os.getpid()} \(", line), line
    assert "listening on" in process.stdout.readline()
    process.terminate()
    process.communicate(timeout=HANG_SECONDS)
