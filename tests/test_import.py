"""`import seglog` is light: what a batch, an operator or another extra needs is loaded when first used."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import subprocess
import sys

import pytest

import seglog

HEAVY = ("pyarrow", "numba", "numpy", "llvmlite", "tqdm", "pyspark", "matplotlib", "asyncio")
UNASKED = ("xxhash", "dataclasses", "inspect", "json", "logging", "argparse", "pathlib", "importlib.metadata")


def loaded(program: str, *names: str) -> set[str]:
    """Run a program in a new interpreter; return which of the modules it loaded. Coverage would load some itself."""
    program += f"\nimport sys; print([name for name in {names!r} if name in sys.modules])"
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS_")}
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=unmeasured
    ).stdout
    return set(eval(answer.splitlines()[-1]))  # noqa: S307 - a list of names that we have just printed


def test_importing_loads_neither_pyarrow_nor_numba() -> None:
    assert loaded("import seglog", *HEAVY) == set()


def test_importing_loads_no_other_module_of_it_and_nothing_they_need() -> None:
    program = "import seglog, sys; print([name for name in sys.modules if name.startswith('seglog.')])"
    assert loaded(program, *HEAVY, *UNASKED) == set()
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_batches_are_read_and_appended_without_importing_pandas() -> None:
    program = """
import pyarrow, seglog
with seglog.open(seglog.MemoryStorage()) as log:
    log.append(b"v", key=b"k", headers=[("name", b"value")])
    read = log.to_arrow()
    log.append_batch(read.select(["key", "value"]))
    assert log.to_arrow()["key"].to_pylist() == [b"k", b"k"]"""
    assert loaded(program, "pandas", "pyarrow") == {"pyarrow"}


def what_type_checkers_are_told() -> dict[str, str]:
    """Return public name -> module and name there, as the imports at the top of the package say."""
    told = {}
    for node in ast.walk(ast.parse(inspect.getsource(seglog))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("seglog"):
            told |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return told


def test_each_name_is_found_where_type_checkers_are_told_that_it_is() -> None:
    told = what_type_checkers_are_told()
    assert {*seglog.__all__, "AsyncClient", "Client"} == {*told, "__version__"}
    for name, place in told.items():
        module, _, there = place.rpartition(".")
        expected = (
            importlib.import_module(place) if name == "errors" else getattr(importlib.import_module(module), there)
        )
        assert getattr(seglog, name) is expected, name
        assert name in vars(seglog), "it is looked for once"


def test_dir_lists_the_public_names_only_and_unknown_ones_are_refused() -> None:
    program = "import seglog; print(dir(seglog)); seglog.open; seglog.record; print(hasattr(seglog, 'nothing'))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{sorted({*seglog.__all__, 'AsyncClient', 'Client'})}\nFalse\n"


@pytest.mark.parametrize("system", ["win32", "emscripten"])
@pytest.mark.parametrize("module", ["seglog", "seglog.errors", "seglog.cli", "seglog.spark", "pyspark_seglog"])
def test_on_a_system_that_is_not_supported_importing_fails_with_one_sentence(system: str, module: str) -> None:
    program = f"import sys; sys.platform, sys.modules['fcntl'] = {system!r}, None; import {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: seglog runs on Linux and macOS, not on {system}: ")


@pytest.mark.parametrize("module", ["clock", "config", "errors", "record", "storage"])
def test_these_modules_need_no_import_of_their_own(module: str) -> None:
    assert loaded(f"import seglog; seglog.{module}", f"seglog.{module}") == {f"seglog.{module}"}


def test_single_records_never_load_them() -> None:
    program = """
import seglog
storage = seglog.MemoryStorage()
with seglog.open(storage, seglog.LogConfig(segment_bytes=512)) as log:
    for _ in range(30):
        log.append(b"v", key=b"k", headers=[("h", b"x")])
    log.append_stream([b"v"])
    assert log.read(3).value == b"v" and len(list(log.scan())) == 31
    assert log.offset_at(0) == 0
    log.truncate(20)
    log.sync(), log.expire()
with seglog.open(storage, mode="r") as log:
    assert log.next_offset == 20 and log.segments
"""
    assert loaded(program, *HEAVY) == set()


def test_a_batch_loads_what_it_needs() -> None:
    program = "import seglog\nwith seglog.open(seglog.MemoryStorage()) as log: log.to_arrow()"
    assert {"pyarrow", "numpy"} <= loaded(program, *HEAVY)


@pytest.mark.parametrize("module", ["seglog.aio", "seglog.cli", "seglog.topic", "seglog.topic.cleaning"])
def test_its_parts_are_as_light(module: str) -> None:
    assert loaded(f"import {module}", "pyarrow", "numba", "numpy", "pyspark", "matplotlib") == set()


def test_spark_finds_the_source_without_loading_anything() -> None:
    assert loaded("import pyspark_seglog", "numba", "numpy", "pandas") == set()
