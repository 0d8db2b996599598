"""Parse a command line as `seglog` does, and run nothing."""

from __future__ import annotations

from collections.abc import Sequence

import click

from seglog.cli import build_program


def parse(words: Sequence[str]) -> click.Context:
    """Return the context of the command that these words name. Raises click's errors."""
    command: click.Command = build_program()
    context, rest = None, list(words)
    while isinstance(command, click.Group):
        context = command.make_context(command.name, rest, parent=context)
        _, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command = found
    return command.make_context(command.name, rest, parent=context)
