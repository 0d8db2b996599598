"""`demo`: the whole system on real data. seglog.demo is imported only when this runs."""

from __future__ import annotations

from pathlib import Path

from seglog.cli.frame import Args, Command, File, option
from seglog.extras import how_to_install


def _demo(args: Args) -> int:
    from seglog import demo  # only the demo needs Spark and matplotlib

    return int(demo.run(output=Path(args.output)) or 0)


COMMANDS = (
    Command(
        "demo",
        _demo,
        [
            option(
                "--output",
                metavar="DIR",
                type=File(),
                default="demo-output",
                help="the directory for the results; default: demo-output",
            )
        ],
        story=f"Needs Java for Spark, and an extra: {how_to_install('demo')}.",
        examples=["seglog demo", "seglog demo --output demo-output"],
    ),
)
