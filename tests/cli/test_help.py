from __future__ import annotations

import importlib
import io
import itertools
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

import seglog
from seglog.cli import catalog
from seglog.cli.frame import load
from seglog.errors import InvalidArgument
from seglog.kernels import native
from seglog.terminal import output
from seglog.terminal.exits import Exit
from tests.cli import reference
from tests.cli.parsing import parse
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = list(catalog.COMMANDS)
ROOT = Path(__file__).parents[2]


def each_command() -> list[tuple[str, click.Command]]:
    """Return every command and verb with its words, as `topics create`."""
    found: list[tuple[str, click.Command]] = []
    for name in COMMANDS:
        command = load(name)
        found.append((name, command))
        found += [(f"{name} {verb}", of) for verb, of in getattr(command, "commands", {}).items()]
    return found


EACH = each_command()
NAMES = [words for words, _ in EACH]


def help_of(command: click.Command, words: str) -> str:
    return command.get_help(click.Context(command, info_name=f"seglog {words}"))


def test_every_module_of_commands_is_in_the_catalog() -> None:
    modules = {importlib.import_module(f"seglog.cli.commands.{entry.module}") for entry in catalog.COMMANDS.values()}
    assert sorted(command.name for module in modules for command in module.COMMANDS) == sorted(COMMANDS)


@pytest.mark.parametrize(("words", "command"), EACH, ids=NAMES)
def test_every_command_and_option_is_documented(words: str, command: click.Command) -> None:
    assert command.help
    for param in command.params:
        assert getattr(param, "help", None), f"{words} {param.opts} has no help"


@pytest.mark.parametrize(("words", "command"), [one for one in EACH if " " not in one[0]], ids=COMMANDS)
def test_every_command_has_an_example_that_parses(words: str, command: click.Command) -> None:
    examples = [line for line in command.examples if f"seglog {words}" in line]
    assert examples
    for example in examples:
        parse(words_of(example))


def words_of(example: str) -> list[str]:
    """Return what the shell gives `seglog` of an example, which may be a pipeline or run in the background."""
    lexer = shlex.shlex(example, posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    words = list(lexer)
    after = words[words.index("seglog") + 1 :]
    return list(itertools.takewhile(lambda word: word not in ("|", "||", "&", "<", ">"), after))


def test_every_command_in_a_block_of_a_page_is_one() -> None:
    commands = []
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        blocks = re.findall(r"```(?:sh|text|console)\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
        lines = "".join(blocks).replace("\\\n", " ").splitlines()
        commands += [re.sub(r"\s#.*", "", line) for line in lines if re.match(r"(\$ )?(\w+=\S+ )*seglog [^\[]+$", line)]
    assert len(commands) > 250
    for command in commands:
        with suppress(click.exceptions.Exit):  # --help, --version
            parse(words_of(command))


@pytest.mark.parametrize(("words", "command"), EACH, ids=NAMES)
def test_sizes_times_and_durations_say_their_unit(words: str, command: click.Command) -> None:
    text = help_of(command, words)
    for metavar, unit in (("SIZE", "64MiB"), ("DURATION", "15m"), ("TIME", "microseconds")):
        if any(param.metavar == metavar for param in command.params):
            assert unit in text, f"{words} takes a {metavar} and does not say how it is written"


def test_the_help_lists_every_exit_code(cli: Callable[..., Any]) -> None:
    shown = cli("--help")
    assert shown.code == 0
    for code in Exit:
        assert code.meaning in shown.text


def test_a_wrong_command_line_is_one_line_and_exit_code_2(cli: Callable[..., Any]) -> None:
    for words in (
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


def test_a_mistyped_word_is_named_with_the_word_that_was_probably_intended(cli: Callable[..., Any]) -> None:
    for words, wrong, meant in (
        (["raed", "x"], "'raed'", "'read'"),
        (["read", "x", "--strat", "1"], "'--strat'", "'--start'"),
        (["append", "x", "--key", "k", "v", "--segment-byte", "1MiB"], "'--segment-byte'", "'--segment-bytes'"),
        (["topics", "craete", "shop", "orders"], "'craete'", "'create'"),
        (["read", "x", "--format", "ndjsn"], "'ndjsn'", "ndjson"),
    ):
        ended = cli(*words)
        assert ended.code == 2
        assert wrong in ended.err, ended.err
        assert meant in ended.err, ended.err


def test_the_program_without_arguments_prints_its_help(cli: Callable[..., Any]) -> None:
    for words in ([], ["topics"], ["groups"]):
        shown = cli(*words)
        assert (shown.code, shown.out) == (2, b"")
        assert "Usage: seglog" in shown.err
        assert cli(*words, "--help").text in shown.err


def test_options_and_arguments_come_in_any_order(cli: Callable[..., Any], path: Any) -> None:
    for words in (
        ["append", path, "--key", "k", "Hello"],
        ["append", "--key", "k", path, "Hello"],
        ["append", path, "Hello", "--key", "k"],
        ["--json", "append", path, "Hello", "--key", "k"][1:],
    ):
        assert cli(*words).code == 0
    assert cli("read", "--format", "ndjson", path).text.count('"key":"k","value":"Hello"') == 4


def test_a_negative_number_is_a_value_and_no_option(cli: Callable[..., Any], path: Any) -> None:
    assert cli("append", path, "-5").code == 0
    assert cli("append", path, "-0.5", "--key", "-1").code == 0
    assert cli("append", path, "--", "-x").code == 0
    assert cli("read", path).lines == [b"-5", b"-0.5", b"-x"]
    assert "unexpected extra argument (-7)" in cli("append", path, "a", "-7").err


def test_the_words_before_a_verb_are_options_of_the_verb(cli: Callable[..., Any], tmp_path: Any) -> None:
    assert cli("topics", "--json", "create", tmp_path, "orders").json["name"] == "orders"
    assert cli("topics", "--json", tmp_path).json["topics"][0]["name"] == "orders"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_verbs_options_and_choices(
    shell: str, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "_SEGLOG_COMPLETE" in cli("completion", shell).text
    assert cli("completion", shell, "--json").json["shell"] == shell
    monkeypatch.setenv("_SEGLOG_COMPLETE", f"{shell}_complete")
    for words, expected in (
        ("seglog ver", "verify"),
        ("seglog topics cr", "create"),
        ("seglog read orders --from", "--from-time"),
        ("seglog read orders --format nd", "ndjson"),
    ):
        last = words.split()[-1]
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", last if shell == "fish" else str(len(words.split()) - 1))
        assert expected in cli().text


@pytest.mark.needs("bash")
def test_bash_takes_the_completion_script(cli: Callable[..., Any]) -> None:
    script = cli("completion", "bash").text + "\ncomplete -p seglog\n"
    done = subprocess.run(
        ["bash", "--norc"], input=script.encode(), capture_output=True, timeout=HANG_SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"seglog" in done.stdout


def test_a_bug_is_one_line_and_its_trace_is_there_for_who_asks(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("seglog.cli.build_program", broken)
    assert cli("info", "x").code == 70
    assert cli("info", "x").err.count("\n") == 1
    assert "Traceback" in cli("info", "x", "--traceback").err
    monkeypatch.setenv("SEGLOG_TRACEBACK", "1")
    assert "Traceback" in cli("info", "x").err


def test_the_version_is_printed_and_whether_the_kernels_are_compiled(cli: Callable[..., Any]) -> None:
    assert cli("--version").text == cli("-V").text
    version, kernels = cli("--version").text.splitlines()
    assert version == f"seglog {seglog.__version__}"
    library = native.find()
    assert kernels == f"kernels: compiled ahead of time for {library.level}" if library else "by numba" in kernels


def test_the_version_says_that_nothing_can_compile_the_kernels(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "find", lambda: None)
    assert "kernels: compiled by numba" in cli("--version").text
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "seglog.kernels")
    assert "kernels: none: this installation" in cli("--version").text


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


def test_the_page_on_the_command_line_is_what_the_parser_says() -> None:
    assert reference.PAGE.read_text() == reference.page(), "run `python -m tests.cli.reference`"
    for code in Exit:
        assert f"- {code.value}: {code.meaning}\n" in reference.PAGE.read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["append", "LOG", "v", "--segment-age", "9999999999d"],
        ["append", "LOG", "v", "--retention-age", "99999999999999999999h"],
        ["append", "LOG", "v", "--flush-interval", "0.0000001s"],
        ["append", "LOG", "v", "--flush-records", "9" * 29],
        ["append", "LOG", "v", "--flush-records", "9" * 5000],
        ["append", "LOG", "v", "--segment-bytes", "99999PiB"],
        ["append", "LOG", "v", "--timestamp", "@" + "9" * 20],
        ["read", "LOG", "-n", "9" * 29],
        ["read", "LOG", "--start", "9" * 29],
        ["tail", "LOG", "-n", "-1"],
        ["serve", "LOG", "--port", "99999999"],
        ["topics", "create", "LOG", "t", "--partitions", "99999999999"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_a_number_that_is_out_of_all_bounds_is_one_line_and_creates_nothing(
    words: list[str], cli: Callable[..., Any], path: Any
) -> None:
    ended = cli(*(path if word == "LOG" else word for word in words))
    assert ended.err.count("\n") == 1
    assert (ended.code, ended.out) == (2, b"")
    assert not path.exists()


def test_help_is_a_word_as_well_as_an_option(cli: Callable[..., Any]) -> None:
    for words in (["append"], ["topics", "create"], []):
        assert cli("help", *words).text == cli(*words, "--help").text
    assert "no such command 'nonsense'" in cli("help", "nonsense").err


def test_who_forgets_a_required_option_is_told_its_name(cli: Callable[..., Any], tmp_path: Any) -> None:
    assert "missing option '-g' / '--group'" in cli("consume", tmp_path / "orders").err
    assert "missing option '--topic'" in cli("groups", "reset", tmp_path, "billing", "--to", "latest").err


def test_who_mistypes_a_path_is_asked_about_the_one_beside_it(cli: Callable[..., Any], tmp_path: Any) -> None:
    assert cli("append", tmp_path / "orders", "v").code == 0
    assert cli("topics", "create", tmp_path / "shop", "users").code == 0
    for words, meant in (
        (["read", tmp_path / "ordres"], tmp_path / "orders"),
        (["topics", tmp_path / "shp"], tmp_path / "shop"),
        (["info", tmp_path / "shop" / "user"], tmp_path / "shop" / "users"),
    ):
        refused = cli(*words)
        assert refused.code == 3
        assert f"; did you mean {str(meant)!r}?" in refused.err
    assert "did you mean" not in cli("read", tmp_path / "nothing" / "orders").err
    for topic in (tmp_path / "shop" / "usres", tmp_path / "orders"):
        refused = cli("consume", topic, "--group", "g")
        assert refused.code == 3
        assert ("`seglog topics create" in refused.err) == (topic.name == "usres")
        assert ("a consumer group reads topics" in refused.err) == (topic.name == "orders")
