"""Opens a log for writing, which recovers it, and waits to be killed: mostly before the recovery is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import seglog

if TYPE_CHECKING:
    from tests.crash.programs.zygote import Say


def run(say: Say, request: dict[str, Any]) -> None:
    """Say when it begins."""
    say(do="open")
    with seglog.open(request["path"]):
        say(did="open")
        say.wait()
