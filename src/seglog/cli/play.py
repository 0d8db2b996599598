"""`demo`: the whole system on real data. It lives in seglog.demo and is loaded when it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from seglog.cli.options import Commands, add_command

if TYPE_CHECKING:
    import argparse


def add_parsers(commands: Commands) -> None:
    """Declare `demo`."""
    parser = add_command(
        commands,
        "demo",
        _demo,
        summary="run the demo: real data through a log and through Spark, with figures and pictures",
        story="Needs the extra: pip install 'seglog[demo]', and Java for Spark.",
        examples=["seglog demo", "seglog demo --output demo-output"],
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        type=Path,
        default=Path("demo-output"),
        help="results go here; default: demo-output",
    )


def _demo(args: argparse.Namespace) -> int:
    from seglog import demo  # Spark and matplotlib are the demo's alone

    return int(demo.run(output=args.output) or 0)
