"""The README's examples run when they are pasted whole, in the order of the page: Python into one python, the shell's
into one bash, both in the same directory.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from tests.waiting import until
from tools.readme import ADDRESS, BLOCKS, NOT_PASTED, PASTED, TEXT

pytestmark = pytest.mark.no_cover
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
ENDS = {  # said after a block; the empty line is the Enter that ends an indented block of Python
    "python": "\nimport sys; print('ran', {number}, repr(getattr(sys, 'last_value', None)))\n",
    "sh": "\necho ran {number} $failed None\n",
}
SEGLOG = """#!/bin/sh
[ "$1" = serve ] && set -- "$@" --port 0
exec "{python}" -m seglog "$@"
"""


class Terminal:
    """A program that reads its standard input line by line, as it reads what a user pastes."""

    def __init__(self, language, command, directory, environment):
        self.shown = ""
        self._end = ENDS[language]
        self._pasted = 0
        self._process = subprocess.Popen(
            command, cwd=directory, env=environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def paste(self, text):
        """Paste a block; fail unless it runs to its end without an error."""
        self._pasted += 1
        end = rf"ran {self._pasted} (.*)\n"
        self._process.stdin.write(text + self._end.format(number=self._pasted))
        self._process.stdin.flush()
        until(lambda: re.search(end, self.shown))
        assert re.search(end, self.shown)[1] == "None", self.shown

    def close(self):
        """End the program and all that it has started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._reader.join()
        self._process.communicate()
        print(self.shown)  # for the report of a test that failed

    def _read(self):
        for line in self._process.stdout:
            self.shown += line


@pytest.fixture
def terminals(tmp_path):
    program = tmp_path / "bin" / "seglog"
    program.parent.mkdir()
    program.write_text(SEGLOG.format(python=sys.executable))
    program.chmod(0o755)
    variables = {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    here = tmp_path / "empty"
    here.mkdir()
    python = [sys.executable, "-iqu"]
    bash = ["bash", "--norc", "--noprofile"]
    opened = {
        language: Terminal(language, command, here, os.environ | variables)
        for language, command in (("python", python), ("sh", bash))
    }
    opened["sh"].paste("trap 'failed=$BASH_COMMAND' ERR")
    yield opened
    for terminal in opened.values():
        terminal.close()


@pytest.mark.needs("bash", "java")
def test_every_block_runs_when_the_page_is_pasted_from_top_to_bottom(terminals, tmp_path):
    python, shell = terminals["python"], terminals["sh"]
    address = ADDRESS
    for block in PASTED:
        terminals[block.language].paste(block.text.replace(ADDRESS, address))
        if "seglog serve" in block.text:
            until(lambda: re.search(r"http://127.0.0.1:\d+", shell.shown))
            address = re.search(r"http://127.0.0.1:\d+", shell.shown)[0]
    shell.paste("kill %1; wait $!; [ $? -eq 0 ]")  # as the page says
    assert """0 b'order-17' b'{"qty": 3}'\n""" in python.shown
    assert re.search(r"payments \d b'order-17' b'paid'\n", python.shown)
    assert re.search(r"^\| +2\|greeting\| +Hello\|$", python.shown, flags=re.MULTILINE)
    assert shell.shown.count('"key":"order-17"') == 1
    assert "ok: 3 records" in shell.shown
    assert (tmp_path / "empty" / "orders.parquet").stat().st_size > 0


def test_every_block_is_pasted_except_those_that_work_in_a_checkout():
    assert 2 * len(BLOCKS) == len(re.findall(r"^ *(?:```|~~~)", TEXT, flags=re.MULTILINE))
    assert len(BLOCKS) - len(PASTED) == len(NOT_PASTED)
    assert {block.language for block in PASTED} == {"python", "sh"}
    lines = [line for block in BLOCKS if block not in PASTED for line in block.text.splitlines()]
    assert all(re.match(r"make (demo|test) |pip install '?\.", line) for line in lines)


def test_the_install_section_names_the_extras_that_a_user_may_need():
    (whole,) = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["optional-dependencies"]["all"]
    section = TEXT.partition("## Install\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"[a-z]+", whole)) <= {*re.findall(r"\w+", section)}


def test_the_first_screen_says_the_two_commands():
    first_screen = "\n".join(TEXT.splitlines()[:16])
    assert "make demo" in first_screen
    assert "make test" in first_screen
