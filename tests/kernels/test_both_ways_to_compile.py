"""Kernels that were compiled ahead of time, and numba where they are not: neither runs code from other sources."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh64_intdigest

import seglog
from seglog.kernels import aot, native
from seglog.kernels.checksum import xxh64, xxh64_rows
from seglog.kernels.scan import scan_store
from tests import tools

ROOT = Path(__file__).parents[2]


@pytest.fixture
def library() -> None:
    """Skip a test if the package has no library for this processor, or if numba is to compile instead of it."""
    if os.environ.get("SEGLOG_KERNELS") == "jit":
        tools.forbidden("linker", "SEGLOG_KERNELS=jit asks for what numba compiles")
    if native.find() is None:
        tools.missing("linker", "`python -m seglog.kernels.aot` has not compiled the kernels")


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in another process."""
    command = [sys.executable, "-c", program, *arguments]
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    return subprocess.run(command, env={**unmeasured, **environment}, capture_output=True, text=True, check=False)


BATCH = """
import sys, pyarrow, seglog
with seglog.open(seglog.MemoryStorage()) as log:
    log.append_batch(pyarrow.table({"value": [b"v"] * 100}))
    assert log.to_arrow().num_rows == 100
print("numba" in sys.modules, "llvmlite" in sys.modules)
"""


@pytest.mark.usefixtures("library")
def test_a_batch_is_written_and_read_without_numba() -> None:
    assert run(BATCH, SEGLOG_KERNELS="native").stdout == "False False\n"


def test_code_that_was_compiled_from_other_sources_is_not_used(tmp_path: Path) -> None:
    package = tmp_path / "seglog"
    ignored = shutil.ignore_patterns("__pycache__", "compiled")
    shutil.copytree(Path(seglog.__file__).parent, package, ignore=ignored)
    program = "from seglog.kernels import native; print(native.source_hash()); native.DIRECTORY.mkdir(exist_ok=True)"
    before = run(program, PYTHONPATH=str(tmp_path), SEGLOG_KERNELS="jit").stdout.strip()
    library = package / "kernels" / "compiled" / f"{before}.{native.levels()[-1]}.so"
    library.write_bytes(b"no library, so that loading it is noticed")
    ask = "from seglog.kernels import native; native.find()"
    assert f"{before}.{native.levels()[-1]}.so: " in run(ask, PYTHONPATH=str(tmp_path), SEGLOG_KERNELS="native").stderr
    for edited in ("kernels/validate.py", "format/codec.py"):
        with (package / edited).open("a") as source:
            source.write("\n# edited\n")
        error = run(ask, PYTHONPATH=str(tmp_path), SEGLOG_KERNELS="native").stderr
        assert "no library there" in error and before not in error


@pytest.mark.parametrize(
    ("missing", "first"), [((), "x86-64-v4"), (("avx512dq",), "x86-64-v3"), (("avx512vl", "bmi2"), "x86-64")]
)
def test_a_processor_gets_no_library_with_instructions_it_lacks(
    missing: tuple[str, ...], first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(native, "_flags", lambda: native.V4 - set(missing))
    assert native.levels()[0] == first
    assert native.levels()[-1] == "x86-64"


@pytest.mark.usefixtures("library")
def test_an_array_of_another_kind_is_refused_not_misread() -> None:
    good, out = np.zeros(4, np.int64), np.zeros(4, np.uint64)
    for wrong in (np.zeros(4), np.zeros((4, 1), np.int64), np.zeros(8, np.int64)[::2], np.zeros(4, np.int32), None, 7):
        with pytest.raises((TypeError, ValueError, BufferError)):
            xxh64_rows(wrong, good, out)
    with pytest.raises((ValueError, BufferError)):
        xxh64_rows(good, good, memoryview(bytes(32)).cast("Q"))
    with pytest.raises(TypeError):
        xxh64_rows(good, good)
    with pytest.raises(ValueError):
        xxh64(np.zeros(4, np.uint8), 0, "four", np.uint64(0))


@pytest.mark.usefixtures("library")
def test_a_kernel_holds_no_buffer_after_the_call() -> None:
    data = bytearray(64)
    xxh64(data, 0, 64, np.uint64(0))
    with pytest.raises(TypeError):
        xxh64(data, 0, None, np.uint64(0))
    data.append(1)  # BufferError while anything holds it


@pytest.mark.usefixtures("library")
def test_calls_leave_the_counts_of_references_as_they_were() -> None:
    data, found = bytearray(b"x" * 64), object()
    gc.collect()  # what earlier tests left refers to None, too
    before = sys.getrefcount(data), sys.getrefcount(None), sys.getrefcount(found)
    for _ in range(1000):
        xxh64(data, 0, 64, np.uint64(0))
        scan_store(b"", salt=1, relative=0, position=0, end=0, dense=True, interval=64)
        with pytest.raises(TypeError):
            xxh64(found, 0, 64, np.uint64(0))
    after = sys.getrefcount(data), sys.getrefcount(None), sys.getrefcount(found)
    assert all(abs(one - other) < 100 for one, other in zip(before, after, strict=True))


SLOW_FIRST_CALL = """
import sys, numpy
from seglog.kernels import jit
jit.PATIENCE_S = 0.0
from seglog.kernels.checksum import xxh64
from seglog.kernels.headers import is_utf8
assert is_utf8(0, 0)
xxh64(numpy.zeros(8, "uint8"), 0, 8, numpy.uint64(0))
print(jit.cache_directory())
"""


def test_a_process_that_compiles_says_so_once_and_the_next_finds_the_code(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = run(SLOW_FIRST_CALL, SEGLOG_KERNELS="jit", SEGLOG_CACHE_DIR=str(cache))
    assert first.stdout == f"{cache}\n"
    assert first.stderr.count("\n") == 1 and f"the code is cached in {cache}" in first.stderr
    assert any(cache.glob("*.nbi"))
    assert run(SLOW_FIRST_CALL, SEGLOG_KERNELS="jit", SEGLOG_CACHE_DIR=str(cache)).stderr == ""


def test_code_is_cached_only_where_no_other_user_can_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seglog.kernels import jit  # noqa: PLC0415 - it imports numba, which takes seconds

    mine, shared, linked, missing = (tmp_path / name for name in ("mine", "shared", "linked", "missing"))
    mine.mkdir(mode=0o700)
    shared.mkdir()
    shared.chmod(0o777)
    linked.symlink_to(mine)
    assert [jit._is_usable(path) for path in (mine, shared, linked, missing)] == [True, False, False, True]
    assert missing.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(jit, "_candidates", lambda: iter([shared, linked]))
    jit.cache_directory.cache_clear()
    try:
        assert jit.cache_directory() is None
    finally:
        monkeypatch.undo()
        jit.cache_directory.cache_clear()


def test_without_compiled_kernels_and_numba_the_error_says_what_to_install() -> None:
    program = "import sys; sys.modules['numba'] = None\nimport seglog.arrow.convert"
    error = run(program, SEGLOG_KERNELS="jit").stderr.splitlines()[-1]
    assert error.startswith("seglog.errors.MissingExtra: ") and "install seglog[jit]" in error


ONLY_NUMBA = ("tests/kernels/test_memory.py", "tests/kernels/test_returns.py")


def pass_with_numba(*words: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", *words, "-m", "not proof and not deep"]
    environment = {**os.environ, "SEGLOG_KERNELS": "jit"}
    done: Any = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.proof
@pytest.mark.usefixtures("library")
def test_what_only_numba_compiles_passes_its_tests() -> None:
    pass_with_numba(*ONLY_NUMBA)


@pytest.mark.proof
def test_the_kernels_pass_their_tests_where_numba_compiles_them() -> None:
    """But those of this file, which choose the compiler themselves, and those of the test above."""
    here = Path(__file__).relative_to(ROOT)
    pass_with_numba("tests/kernels", *(f"--ignore={path}" for path in (here, *ONLY_NUMBA)))


ONE_KERNEL = """
import sys
from seglog.kernels import aot, jit
jit.compile_everything()
from seglog.kernels.memory import KERNELS
for module in aot.iter_modules([str(aot.HERE)]):
    aot.import_module(f"seglog.kernels.{module.name}")
KERNELS[:] = [kernel for kernel in KERNELS if kernel.__name__ == "xxh64"]  # all of them take a minute
aot.compile_here(sys.argv[1], ["x86-64"])
"""


@pytest.mark.needs("linker")
def test_a_library_gets_its_name_once_it_is_complete_and_nothing_else_is_left(tmp_path: Path) -> None:
    done = run(ONE_KERNEL, str(tmp_path), **aot.FOR_ANY)
    assert not done.stderr
    assert list(tmp_path.iterdir()) == [native.path_of("x86-64", tmp_path)]
    hashed = native.Library(native.path_of("x86-64", tmp_path)).function(xxh64_of_library)
    data = np.arange(64, dtype=np.uint8)
    assert hashed(data, 0, data.size, np.uint64(5)) == xxh64_intdigest(data, 5)


def xxh64_of_library() -> None:
    """Stands for the kernel of that name."""


xxh64_of_library.__module__, xxh64_of_library.__name__ = "seglog.kernels.checksum", "xxh64"
