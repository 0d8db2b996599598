"""Tests that define kernels, or ask for numba's types, are for a process in which numba compiles.

`test_both_ways_to_compile` runs them in one.
"""

from seglog.kernels.memory import LIBRARY

collect_ignore = ["test_memory.py", "test_returns.py"] if LIBRARY is not None else []
