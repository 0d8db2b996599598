r"""How a command is declared and parsed: click, with commands that load when they run.

    Program    `seglog`: lists seglog.cli.catalog, imports the module of the command that runs
    Command    a command or a verb: story, examples, parameters, and the function that runs it
    Verbs      a command with subcommands; the first is the default (`seglog topics shop` lists)

A parameter is an `option` or an `argument` with a function that parses its text (seglog.terminal.units). Options and
arguments may be mixed in any order. A negative number is a value, never an option: `seglog append temperatures -5`.
click's errors become InvalidArgument in seglog.cli.main.
"""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from seglog.cli.catalog import COMMANDS, SECTIONS
from seglog.errors import InvalidArgument, MissingExtra
from seglog.terminal.exits import Exit

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Args = SimpleNamespace
"""The values of a command's parameters by name; None for an option that was not given."""

_GUARD = "\0"  # prefixes a word that looks like a negative number; no command-line word can contain it
_NUMBER = re.compile(r"-\.?\d")
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


# --- parameters -----------------------------------------------------------------------------------------------------


class Parsed(click.ParamType[Any]):
    """A click type from a parser function, which raises ArgumentTypeError or InvalidArgument.

    words: completions for the shell.
    """

    name = "text"

    def __init__(self, parse: Callable[[str], Any], words: Sequence[str] = ()) -> None:
        self._parse, self._words = parse, words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse text; keep a default that is not text."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except (ArgumentTypeError, InvalidArgument) as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete the words."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self._words if word.startswith(incomplete)]


class File(click.ParamType[str]):
    """A path; shells complete it."""

    name = "path"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell list files."""
        return _files(incomplete)


def _files(incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


class Option(click.Option):
    """An option; `group` is its heading in the help."""

    group: str | None = None

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the value, without the guard of a negative number."""
        return super().type_cast_value(ctx, _unguarded(value))


class Argument(click.Argument):
    """A positional argument."""

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the value, without the guard of a negative number."""
        return super().type_cast_value(ctx, _unguarded(value))


def option(
    *names: str,
    help: str,
    type: Callable[[str], Any] | click.ParamType[Any] | None = None,
    choices: Sequence[str] | None = None,
    group: str | None = None,
    **more: Any,
) -> Option:
    """Declare an option; `more` goes to click: metavar, default, multiple, is_flag, flag_value, required."""
    default = {} if more.get("required") else {"default": None}  # with any default, click never misses an option
    found = Option(list(names), help=help, type=_type(type, choices), **(default | more))
    found.group = group
    return found


def flag(*names: str, help: str, group: str | None = None) -> Option:
    """Declare an option without a value: False unless it is given."""
    return option(*names, help=help, group=group, is_flag=True, default=False)


def argument(
    name: str,
    *,
    help: str,
    type: Callable[[str], Any] | click.ParamType[Any] | None = None,
    choices: Sequence[str] | None = None,
    required: bool = True,
    nargs: int = 1,
    metavar: str | None = None,
) -> Argument:
    """Declare a positional argument; nargs -1: one or more, or zero or more if it is not required."""
    shown = (metavar or name.upper()) + ("..." if nargs < 0 else "")
    shown = shown if required else f"[{shown}]"
    return Argument([name], help=help, type=_type(type, choices), required=required, nargs=nargs, metavar=shown)


def _type(parse: Callable[[str], Any] | click.ParamType[Any] | None, choices: Sequence[str] | None) -> Any:
    if choices is not None:
        return click.Choice(choices)
    return parse if parse is None or isinstance(parse, click.ParamType) else Parsed(parse)


def _unguarded(value: Any) -> Any:
    if isinstance(value, str):
        return value.removeprefix(_GUARD)
    return type(value)(map(_unguarded, value)) if isinstance(value, (list, tuple)) else value


def refuse_together(args: Args, *names: str) -> None:
    """Raise InvalidArgument if more than one of these options was given."""
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) not in (None, False)]
    if len(given) > 1:
        raise InvalidArgument(f"{' and '.join(given)} exclude each other; give only one of them")


# --- commands -------------------------------------------------------------------------------------------------------


class _Described(click.Command):
    """A command with a story and examples in its help."""

    story = ""
    examples: tuple[str, ...] = ()

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summary and the story, keeping the story's line breaks."""
        super().format_help_text(ctx, formatter)
        if self.story:
            formatter.write_paragraph()
            formatter.write("".join(f"  {line}".rstrip() + "\n" for line in self.story.splitlines()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, keeping their line breaks."""
        if self.examples:
            formatter.write_paragraph()
            formatter.write("Examples:\n" + "".join(f"  {example}\n" for example in self.examples))


class Command(_Described):
    """A command: its parameters, its function and its help."""

    def __init__(
        self,
        name: str,
        run: Callable[[Args], int],
        params: Iterable[click.Parameter],
        *,
        summary: str | None = None,
        story: str = "",
        examples: Sequence[str] = (),
    ) -> None:
        """summary: default: from the catalog. story: paragraphs for the help, printed unchanged."""
        self.summary = COMMANDS[name].summary if summary is None else summary
        self.story, self.examples = story, tuple(examples)
        self._run = run
        super().__init__(
            name,
            params=[*params, *_common()],
            help=f"{self.summary[0].upper()}{self.summary[1:]}.",
            short_help=self.summary,
            context_settings=_SETTINGS,
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; those that look like negative numbers are values."""
        end = args.index("--") if "--" in args else len(args)
        guarded = [_GUARD + word if _NUMBER.match(word) else word for word in args[:end]]
        return super().parse_args(ctx, [*guarded, *args[end:]])

    def invoke(self, ctx: click.Context) -> int:
        """Run the command and return its exit code."""
        return int(self._run(Args(**ctx.params)))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options below their headings."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = None if isinstance(param, click.Argument) else param.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(param, "group", None) or "Options", []).append(record)
        for heading in sorted(groups, key=lambda heading: heading != "Options"):
            with formatter.section(heading):
                formatter.write_dl(groups[heading])


def _common() -> tuple[Option, Option]:
    return (
        flag("--json", help="results on stdout and errors on stderr as JSON objects"),
        flag("--traceback", help="print Python's traceback of an error (or set SEGLOG_TRACEBACK=1)"),
    )


class Verbs(_Described, click.Group):
    """A command with subcommands. The first one is the default."""

    def __init__(self, name: str, verbs: Sequence[Command], *, story: str = "", examples: Sequence[str]) -> None:
        self.summary, self.story, self.examples = COMMANDS[name].summary, story, tuple(examples)
        self._default = str(verbs[0].name)
        super().__init__(
            name,
            commands=list(verbs),
            help=f"{self.summary[0].upper()}{self.summary[1:]}.",
            short_help=self.summary,
            context_settings=_SETTINGS,
            no_args_is_help=False,
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move the verb to the front: its options may come before it, and the default verb may be omitted."""
        if not args and not ctx.resilient_parsing:
            show_help_instead(ctx)
        flags = self._first_word(args)
        completing = ctx.resilient_parsing and flags == len(args)  # the next word may be a verb
        if not completing and not any(word in ("-h", "--help") for word in args[:flags]):
            verb = args[flags] if flags < len(args) else ""
            self._refuse_misspelled(ctx, verb, args[flags + 1 :])
            rest = args[flags + 1 :] if verb in self.commands else args[flags:]
            args = [verb if verb in self.commands else self._default, *args[:flags], *rest]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a verb, or the first argument of the default one, which is a path."""
        return [*super().shell_complete(ctx, incomplete), *_files(incomplete)]

    def _first_word(self, args: Sequence[str]) -> int:
        """Return the position of the first word that is neither an option nor an option's value."""
        params = [param for verb in self.commands.values() for param in verb.params if isinstance(param, Option)]
        take_values = {name for param in params if not param.is_flag for name in param.opts}
        position = 0
        while position < len(args) and args[position].startswith("-"):
            position += 2 if args[position] in take_values else 1
        return min(position, len(args))

    def _refuse_misspelled(self, ctx: click.Context, word: str, rest: list[str]) -> None:
        """Raise UsageError for a misspelled verb followed by more words, as in `topics craete shop orders`."""
        if word in self.commands or all(one.startswith("-") for one in rest) or ctx.resilient_parsing:
            return
        if meant := did_you_mean(word, self.commands):
            raise click.UsageError(f"no such command {word!r}{meant}", ctx)


def show_help_instead(ctx: click.Context) -> None:
    """Print the help on stderr and exit with the usage code: no command was given."""
    click.echo(ctx.get_help(), err=True)
    ctx.exit(Exit.USAGE)


class Program(click.Group):
    """`seglog`: the catalog's commands, each imported when needed."""

    def __init__(self, *, story: str, epilog: str, version: str) -> None:
        self._epilog = epilog
        shown = Option(
            ["-V", "--version"], is_flag=True, is_eager=True, expose_value=False, help="print the version and exit"
        )
        shown.callback = lambda ctx, _, wanted: _show_version(ctx, version) if wanted else None
        super().__init__("seglog", help=story, params=[shown], context_settings=_SETTINGS, no_args_is_help=False)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the catalog's order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None for an unknown name."""
        return load(cmd_name) if cmd_name in COMMANDS else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words before the command; without any words, or for `help COMMAND`, show the help."""
        if not args and not ctx.resilient_parsing:
            show_help_instead(ctx)
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; the error for an unknown one suggests similar names."""
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            raise click.UsageError(f"no such command {args[0]!r}{did_you_mean(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the catalog; import no command."""
        width = max(map(len, COMMANDS))
        for heading, section in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in section.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the epilog unchanged."""
        formatter.write_paragraph()
        formatter.write(self._epilog)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name from the catalog."""
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        found = [CompletionItem(name, help=COMMANDS[name].summary) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def load(name: str) -> click.Command:
    """Import and return a command of the catalog."""
    module = import_module(f"seglog.cli.commands.{COMMANDS[name].module}")
    found: click.Command = next(command for command in module.COMMANDS if command.name == name)
    return found


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the known words similar to `word`, or an empty string."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), cutoff=0.6)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def refusal(error: click.ClickException) -> str:
    """Return click's error as one sentence with a pointer to the help."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and error.option_name == "--url" and context is not None:
        text = f"`{context.command_path}` works on files and takes no --url: run it on the server's machine"
    elif isinstance(error, click.NoSuchOption):
        text = f"no such option {error.option_name!r}" + did_you_mean(error.option_name, error.possibilities or ())
    else:
        text = error.format_message().replace(_GUARD, "").rstrip(".")
        text = f"{text[:1].lower()}{text[1:]}"
    return f"{text}; see `{context.command_path} --help`" if context is not None else text


def _show_version(ctx: click.Context, version: str) -> None:
    click.echo(f"{version}\nkernels: {_kernels()}")
    ctx.exit()


def _kernels() -> str:
    """Return whether this installation has compiled kernels: without them the first batch takes up to half a minute."""
    try:
        from seglog.kernels import native
    except MissingExtra as error:
        return f"none: {error}"
    if (library := native.find()) is not None:
        return f"compiled ahead of time for {library.level}"
    return f"compiled by numba when they are first used, because {_why_none(native.are_packaged())}"


def _why_none(are_packaged: bool) -> str:
    if os.environ.get("SEGLOG_KERNELS") == "jit":
        return "SEGLOG_KERNELS is jit"
    if are_packaged:
        return "those of this installation fit neither this processor nor this version"
    return "this installation has none: install seglog again where there is a linker (gcc, clang or ld)"
