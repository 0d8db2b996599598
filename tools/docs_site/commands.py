"""The options of the commands and of Spark's programs, from their parsers: a part of docs/options.md.

Options that no class has (`--lease`, `--otel`, `--wait`) are only here.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import click

import seglog.spark
from seglog.cli import build_program, catalog
from seglog.cli.frame import Verbs, load

HEAD = """
## Options of the commands

All options of the `seglog` command, sorted by name. The page on the
[command line](cli.md) shows them by command. Every command and program has `--help`, too.
"""
PROGRAMS_HEAD = """
## Options of Spark's programs

Of `python -m seglog.spark.ingest` and the other programs of the page on [Spark](spark.md).
"""


class Option(NamedTuple):
    """An option as a help page shows it: its names with what they take, and its text."""

    names: str
    text: str


Found = dict[Option, list[str]]
"""Options with the commands that have them."""


def commands() -> dict[str, click.Command]:
    """Return every command, a verb with the command before it; "" is the program itself."""
    found: dict[str, click.Command] = {"": build_program()}
    for name in catalog.COMMANDS:
        command = load(name)
        verbs = command.commands if isinstance(command, Verbs) else {}
        found |= {f"{name} {verb}": one for verb, one in verbs.items()} if verbs else {name: command}
    return found


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each program of Spark."""
    programs = sorted(Path(seglog.spark.__path__[0]).glob("*/__main__.py"))
    modules = {path.parent.name: import_module(f"seglog.spark.{path.parent.name}.__main__") for path in programs}
    return {name: module.build_parser() for name, module in modules.items()}


def of_commands() -> Found:
    """Return the options of all commands."""
    found: Found = {}
    for name, command in commands().items():
        context = click.Context(command, info_name=name)
        for param in command.params:
            if isinstance(param, click.Option) and (record := param.get_help_record(context)):
                found.setdefault(Option(*record), []).append(name)
    return found


def of_programs() -> Found:
    """Return the options of all programs of Spark."""
    found: Found = {}
    for name, parser in parsers().items():
        for action in parser._actions:
            if action.option_strings and action.dest != "help":
                found.setdefault(Option(_names(action), action.help or ""), []).append(name)
    return found


def _names(action: argparse.Action) -> str:
    takes = action.metavar or (f"[{'|'.join(map(str, action.choices))}]" if action.choices else action.dest.upper())
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {takes}")


def sections() -> str:
    """Return both parts of the page."""
    return HEAD + _table(of_commands(), "commands") + PROGRAMS_HEAD + _table(of_programs(), "programs")


def _table(found: Found, kind: str) -> str:
    rows = [f"\n| option | {kind} | |\n|---|---|---|\n"]
    most = max(map(len, found.values()))
    for option in sorted(found, key=lambda one: (one.names.lstrip("-").rpartition(" --")[2], found[one])):
        shown = (
            f"all {kind}"
            if len(found[option]) == most > 2
            else ", ".join(f"`{one or 'seglog'}`" for one in found[option])
        )
        rows.append(f"| `{_cell(option.names)}` | {shown} | {_cell(option.text)} |\n")
    return "".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
