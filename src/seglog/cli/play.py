"""`demo`: the whole system on real data. It lives in seglog.demo and is loaded when it is asked for."""

from __future__ import annotations

from pathlib import Path

from seglog.cli.frame import Args, Command, File, option


def _demo(args: Args) -> int:
    from seglog import demo  # Spark and matplotlib are the demo's alone

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
                help="results go here; default: demo-output",
            )
        ],
        story="Needs the extra: pip install 'seglog[demo]', and Java for Spark.",
        examples=["seglog demo", "seglog demo --output demo-output"],
    ),
)
