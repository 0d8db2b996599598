from __future__ import annotations

import argparse
import io
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

from seglog.cli import build_parser
from seglog.errors import InvalidArgument
from seglog.terminal import output
from seglog.terminal.exits import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = [
    "append",
    "read",
    "tail",
    "info",
    "verify",
    "repair",
    "truncate",
    "expire",
    "compact",
    "explain",
    "pin",
    "audit",
    "import",
    "export",
    "topics",
    "groups",
    "serve",
    "token",
    "demo",
]


def commands() -> dict[str, argparse.ArgumentParser]:
    for action in build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    raise AssertionError("no commands")


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]


def test_the_commands_are_these() -> None:
    assert list(commands()) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    parser = commands()[name]
    assert parser.description
    for action in options(parser):
        assert action.help, f"{name} {action.option_strings or action.dest} has no help"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_that_parses(name: str) -> None:
    epilog = commands()[name].epilog or ""
    examples = [line for line in epilog.splitlines() if f"seglog {name}" in line]
    assert examples
    for example in examples:
        words = re.search(rf"seglog ({name}[^|<>]*)", example)
        assert words
        build_parser().parse_args(shlex.split(words[1]))


@pytest.mark.parametrize("name", COMMANDS)
def test_sizes_times_and_durations_say_their_unit(name: str) -> None:
    parser = commands()[name]
    text = parser.format_help()
    for metavar, unit in (("SIZE", "64MiB"), ("DURATION", "15m"), ("TIME", "microseconds")):
        if any(action.metavar == metavar for action in options(parser)):
            assert unit in text, f"{name} takes a {metavar} and does not say how it is written"


def test_the_help_lists_every_exit_code(cli: Callable[..., Any]) -> None:
    shown = cli("--help")
    assert shown.code == 0
    for code in Exit:
        assert code.meaning in shown.text


def test_a_wrong_command_line_is_one_line_and_exit_code_2(cli: Callable[..., Any]) -> None:
    for words in (
        [],
        ["frobnicate"],
        ["append"],
        ["read", "x", "--strat", "1"],
        ["append", "x", "--segment-bytes", "5M"],
    ):
        ended = cli(*words)
        assert ended.code == 2, words
        assert ended.err.startswith("seglog: ")
        assert ended.err.count("\n") == 1
        assert ended.out == b""


def test_an_option_is_never_guessed_from_its_beginning(cli: Callable[..., Any]) -> None:
    assert cli("read", "x", "--form", "raw").code == 2


def test_a_bug_is_one_line_and_its_trace_is_there_for_who_asks(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("seglog.cli.build_parser", broken)
    assert cli("info", "x").code == 70
    assert cli("info", "x").err.count("\n") == 1
    assert "Traceback" in cli("info", "x", "--traceback").err
    monkeypatch.setenv("SEGLOG_TRACEBACK", "1")
    assert "Traceback" in cli("info", "x").err


def test_the_version_is_printed(cli: Callable[..., Any]) -> None:
    assert cli("--version").text.startswith("seglog ")


def test_standard_input_that_is_closed_is_said(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidArgument, match="closed"):
        output.stdin()
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(InvalidArgument, match="--yes"):
        output.confirmed("Really?", yes=False)


def test_the_demo_is_run_where_it_is_told(
    cli: Callable[..., Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []
    monkeypatch.setattr("seglog.demo.run", lambda output: ran.append(output) or 1)
    assert cli("demo", "--output", tmp_path / "out").code == 1
    assert ran == [tmp_path / "out"]
