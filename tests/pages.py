"""The examples of a page of docs/ as a test runs them. The page is named by a mark, and the test must run its examples.

    @pytest.mark.examples("howto/backup.md")     # with languages if the test does not run all, as "table.md", "py"
    def test_the_guide_to_backups_runs_as_it_stands(examples, tmp_path):
        assert "ann one" in examples.run(tmp_path)

Blocks of `python` and `sh` are complete; those of `py` need names that a test passes to them.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from tests import tools
from tools import examples as as_programs

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
LANGUAGES = ("python", "sh")
BLOCK = re.compile(r"^```(python|sh|py)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


class Examples:
    """The examples of one page in some languages; records which of them were run."""

    def __init__(self, page: str, *languages: str) -> None:
        self.text = (DOCS / page).read_text("utf-8")
        named = languages or LANGUAGES
        self._blocks = [(language, block) for language, block in blocks(self.text) if language in named]
        self._run: set[str] = set()

    def run(self, directory: Path, url: str = "") -> str:
        """Run all as one shell session, as they stand but for the server's address; return what they print."""
        script = as_programs.program(self.text, sys.executable, url)
        tools.require("bash", *(["curl"] if re.search(r"\bcurl ", script) else []))
        self._run.update(LANGUAGES)
        return _printed(["bash", "-c", script], directory)

    def run_as_one_program(self, directory: Path) -> str:
        """Run the blocks of Python as one program: later ones use names of the first; return what it prints."""
        program = "\n".join(block for _, block in self.take("python"))
        return _printed([sys.executable, "-c", program], directory)

    def take(self, *languages: str) -> list[tuple[str, str]]:
        """Return the blocks of these languages, each with its own, for a test that runs them in its own way."""
        self._run.update(languages)
        return [(language, block) for language, block in self._blocks if language in languages]

    def unrun(self) -> set[str]:
        """Return the languages of examples that were not run."""
        return {language for language, _ in self._blocks} - self._run


def _printed(command: list[str], directory: Path) -> str:
    """Run a command with this process's modules; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the examples of a page with their languages, without those that only start a server."""
    found = [(match[1], match[2]) for match in BLOCK.finditer(text)]
    return [
        (language, block) for language, block in found if re.search(r"^(?!seglog serve).", block, flags=re.MULTILINE)
    ]


def shown() -> set[tuple[str, str]]:
    """Return every page that has examples, with each language of them."""
    return {
        (path.relative_to(DOCS).as_posix(), language)
        for path in DOCS.rglob("*.md")
        for language, _ in blocks(path.read_text("utf-8"))
    }


def marked() -> set[tuple[str, str]]:
    """Return what the marks of all tests name, in the same way."""
    texts = (path.read_text("utf-8") for path in HERE.rglob("test_*.py"))
    nodes = [node for text in texts if "mark.examples(" in text for node in ast.walk(ast.parse(text))]
    marks = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.examples"]
    given = [[ast.literal_eval(argument) for argument in mark.args] for mark in marks]
    return {(page, language) for page, *languages in given for language in languages or LANGUAGES}
