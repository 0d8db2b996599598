"""`import seglog` is light: what a batch, an operator or another extra needs is loaded when first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pyarrow", "numba", "numpy", "llvmlite", "tqdm", "pyspark", "matplotlib", "asyncio")


def loaded(program: str, *names: str) -> set[str]:
    """Run a program in a new interpreter; return which of the modules it loaded."""
    program += f"\nimport sys; print([name for name in {names!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    return set(eval(answer.splitlines()[-1]))  # noqa: S307 - a list of names that we have just printed


def test_importing_loads_neither_pyarrow_nor_numba() -> None:
    assert loaded("import seglog", *HEAVY) == set()


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
    assert {"pyarrow", "numba", "numpy"} <= loaded(program, *HEAVY)


@pytest.mark.parametrize("module", ["seglog.aio", "seglog.cli", "seglog.topic", "seglog.topic.cleaning"])
def test_its_parts_are_as_light(module: str) -> None:
    assert loaded(f"import {module}", "pyarrow", "numba", "numpy", "pyspark", "matplotlib") == set()


def test_spark_finds_the_source_without_loading_anything() -> None:
    assert loaded("import pyspark_seglog", "numba", "numpy", "pandas") == set()
