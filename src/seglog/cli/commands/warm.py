"""`warm`: load or compile the kernels before the first batch, when a container image is built."""

from __future__ import annotations

from seglog.cli.frame import Args, Command
from seglog.terminal import output


def _warm(args: Args) -> int:
    from seglog.topic.warm import warm

    warmed = warm()
    if args.json:
        output.say_json({"kernels": warmed.kind, "path": warmed.path})
    elif warmed.path is None:
        output.say(f"kernels {warmed.kind}; no cache directory is writable: every process will compile them")
    else:
        output.say(f"kernels {warmed.kind}: {warmed.path}")
    return 0


COMMANDS = (
    Command(
        "warm",
        _warm,
        [],
        story=(
            "A wheel for this platform ships compiled kernels; then this only checks that they load. Otherwise numba "
            "compiles all of them now and caches the code: beside the package if that is writable, else in "
            "SEGLOG_CACHE_DIR, the user's cache directory or the temporary directory. Run it when a container image is "
            "built, as the user that will run seglog, so that the first batch does not wait."
        ),
        examples=["seglog warm", "seglog warm --json"],
    ),
)
