"""What the kernels stand on: compiling where nothing can be cached, and the numbers of the format."""

import subprocess
import sys

import numpy as np

from seglog.format.index import DENSE_ENTRY, MARK
from seglog.kernels import layout


def test_arrays_of_entries_and_marks_are_what_the_lookup_files_hold():
    entry = (2**64 - 1, 2**32 - 2, 7)
    assert np.array([entry], layout.ENTRY).tobytes() == DENSE_ENTRY.pack(*entry)
    mark = (-(2**63), 3, 2**32 - 1)
    assert np.array([mark], layout.MARK).tobytes() == MARK.pack(*mark)


def test_importing_seglog_compiles_nothing():
    program = "import seglog, sys; sys.exit('numba' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
