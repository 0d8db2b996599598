"""Appends that wait in the buffer: few of them load no compiler, many have it loaded beside their work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

FEW = """
import sys, seglog
with seglog.open(sys.argv[1], seglog.LogConfig(buffer_bytes=100_000)) as log:
    for number in range(5000):
        log.append(b"v" * 100, key=b"%d" % number, timestamp=number)
print("numba" in sys.modules, "numpy" in sys.modules)
"""

MANY = """
import sys, seglog
from seglog.segment import calls, held
held.KERNELS_PAY_FROM_ROWS = 2000
with seglog.open(sys.argv[1], seglog.LogConfig(buffer_bytes=100_000)) as log:
    def append(numbers):
        for number in numbers:
            log.append(b"v" * 100, key=b"%d" % number, timestamp=number)
    append(range(5000))
    calls._Helpers.pool.submit(int).result()  # stands in line behind the loading
    codec, held._by_codec = held._by_codec, None
    append(range(5000, 9000))
    log.view()
    held._by_codec = codec
print(seglog.verify(sys.argv[1]).ok)
with seglog.open(sys.argv[1], mode="r") as log:
    print(all(record == (n, n, b"%d" % n, b"v" * 100, ()) for n, record in enumerate(log.scan())), log.next_offset)
"""


def test_a_process_that_holds_few_rows_loads_no_kernels(path: Path, script: Any) -> None:
    assert script(FEW, path) == "False False\n"


def test_a_process_that_holds_many_rows_has_the_kernels_loaded_and_goes_on_with_them(path: Path, script: Any) -> None:
    assert script(MANY, path) == "True\nTrue 9000\n"
