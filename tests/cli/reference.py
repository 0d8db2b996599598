"""docs/cli.md from the parser: `python -m tests.cli.reference` writes it, a test compares the two.

What comes before the first command is text of its own, kept as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from seglog.cli import catalog
from seglog.cli.frame import Command, Verbs, load

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
MARK = "<!-- The rest is written by `python -m tests.cli.reference`. -->\n"


def page() -> str:
    """Return the page as it should be: the text before the mark, and the reference."""
    before, _, _ = PAGE.read_text().partition(MARK)
    return before + MARK + reference()


def reference() -> str:
    """Return every command with its arguments, options and examples."""
    parts = []
    for heading, section in catalog.SECTIONS.items():
        parts.append(f"\n## {heading}\n")
        parts += [_command(name, load(name)) for name in section]
    return "".join(parts)


def _command(name: str, command: click.Command) -> str:
    assert isinstance(command, (Command, Verbs))
    lines = [f"\n### seglog {name}\n", f"{command.help}\n"]
    if command.story:
        lines.append(f"```text\n{command.story}\n```\n")
    if isinstance(command, Verbs):
        for verb, one in command.commands.items():
            lines += [f"#### seglog {name} {verb}\n", f"{one.help}\n", _params(f"{name} {verb}", one)]
    else:
        lines.append(_params(name, command))
    lines.append("```console\n" + "".join(f"$ {example}\n" for example in command.examples) + "```\n")
    return "\n".join(lines)


def _params(words: str, command: click.Command) -> str:
    context = click.Context(command, info_name=words)
    pieces = " ".join(command.collect_usage_pieces(context))
    rows = [param.get_help_record(context) for param in command.params if isinstance(param, click.Argument)]
    rows += [param.get_help_record(context) for param in command.params if not isinstance(param, click.Argument)]
    shown = "".join(f"| `{_cell(name)}` | {_cell(text)} |\n" for name, text in filter(None, rows))
    return f"`seglog {words} {pieces}`\n\n| | |\n|---|---|\n{shown}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.exit(0)
