"""Print the tests that a change can break: those of the packages that changed, and of those above them.

`make affected` runs their proofs. What imports what is read from the code by grimp, which import-linter uses, too.
Prints the directory `tests` if something changed that every test uses.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
SOURCE = "src"
SHARED = ("pyproject.toml", "constraints.txt", "Makefile")
HELPERS = ("tests", "tools", "benchmarks")
"""Directories of which tests import modules by name."""
STARTS = {"attack": "server", "crash": "log", "recovery": "log", "site": "cli"}
"""Directory of tests -> the package that it starts as a process. Others start the one of their name."""


def main() -> None:
    """Print the paths of the tests, for pytest."""
    parser = argparse.ArgumentParser(prog="python -m tools.affected", description=__doc__)
    parser.add_argument("base", help="the commit since which changes count; those that are not committed count, too")
    print(*affected(changed(parser.parse_args().base)))


def changed(base: str) -> list[str]:
    """Return the paths that differ from a commit, those that git does not track yet included."""
    differing = ["git", "diff", "--name-only", "--no-renames", f"{base}..."], ["git", "diff", "--name-only", "HEAD"]
    new = ["git", "ls-files", "--others", "--exclude-standard"]
    return sorted({path for command in (*differing, new) for path in _lines(command)})


def _lines(command: list[str]) -> list[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()  # noqa: S603 - git


def affected(paths: list[str]) -> list[str]:
    """Return the test files that a change of these paths can break, or `tests` for all."""
    if any(path in SHARED or _is_helper(path) for path in paths):
        return ["tests"]
    graph = imports()
    modules = downstream(graph, [_module(path) for path in paths if path.startswith(f"{SOURCE}/")])
    helpers = [path for path in paths if Path(path).parts[0] in HELPERS and not _is_test(path)]
    modules = modules.union(*({_dotted(path)} | _for(path) for path in helpers))
    tests = {path for path in paths if _is_test(path)}
    tests |= {path for path, used in imports_of_tests().items() if used & modules}
    return sorted(path for path in tests if (ROOT / path).exists())


@cache
def imports() -> grimp.ImportGraph:
    """Return which module imports which. `seglog` imports its public names when they are used, but declares them."""
    graph = grimp.build_graph("seglog", "pyspark_seglog", exclude_type_checking_imports=True)
    for name in grimp.build_graph("seglog").find_modules_directly_imported_by("seglog"):
        graph.add_import(importer="seglog", imported=name)
    return graph


def _is_helper(path: str) -> bool:
    """Whether tests use the file without importing it by a name of their own: a conftest, or a helper of all tests."""
    return not _is_test(path) and Path(path).parent == Path("tests")


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and Path(path).name.startswith("test_")


def _dotted(path: str) -> str:
    """Return the module of a file in one of the directories of helpers."""
    return path.removesuffix(".py").replace("/", ".")


def _module(path: str) -> str:
    """Return the module of a source file; a file that is no module belongs to its package."""
    parts = Path(path).relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts if path.endswith(".py") and parts[-1] != "__init__" else parts[:-1])


def downstream(graph: grimp.ImportGraph, changed: list[str]) -> set[str]:
    """Return these modules, all that import them, directly or not, and what tests of their packages are named here."""
    known = {_known(module, graph.modules) for module in changed}
    modules = known.union(*(graph.find_downstream_modules(one, as_package=True) for one in known))
    return modules | {f"tests of {one.split('.')[1]}" for one in modules if "." in one}


def _known(module: str, modules: set[str]) -> str:
    """Return the module, or the next package above it that exists: it may be gone."""
    while module not in modules:
        module = module.rpartition(".")[0]
    return module


@cache
def imports_of_tests() -> dict[str, set[str]]:
    """Return test file -> the modules that it uses, itself or by its helpers, and the package that it is for."""
    modules = imports().modules
    files = {str(path.relative_to(ROOT)): path for one in HELPERS for path in sorted((ROOT / one).rglob("*.py"))}
    direct = {name: _imported(path, modules) for name, path in files.items()}
    return {name: _followed(name, direct) | _for(name) for name in files if _is_test(name)}


def _for(name: str) -> set[str]:
    """Return the package that a file below `tests` is for."""
    where, directory, *_ = Path(name).parts
    return {f"tests of {STARTS.get(directory, directory)}"} if where == "tests" else set()


def _followed(name: str, direct: dict[str, set[str]]) -> set[str]:
    """Return what a file of tests imports, with what its helpers import."""
    used: set[str] = set()
    ahead, seen = [name, *_conftests(name, direct)], set()
    while ahead:
        here = ahead.pop()
        if here in seen or here not in direct:
            continue
        seen.add(here)
        used |= direct[here]
        ahead += [one.replace(".", "/") + ".py" for one in direct[here] if one.startswith(HELPERS)]
    return used | {_dotted(one) for one in seen}


def _conftests(name: str, direct: dict[str, set[str]]) -> list[str]:
    return [
        found
        for above in Path(name).parents
        if (found := str(above / "conftest.py")) in direct and above != Path("tests")
    ]


def _imported(path: Path, modules: set[str]) -> set[str]:
    """Return the modules that a file imports, and those of helpers."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(one if one in modules or node.module in HELPERS else node.module for one in named)
    return found


if __name__ == "__main__":
    main()
