"""Files of a table, durable once they are closed. pyiceberg writes all files of a table through this class."""

from __future__ import annotations

import io
import os
from pathlib import Path

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import Properties

NAME = "seglog.table.durable_files.DurableFileIO"


class DurableFileIO(PyArrowFileIO):
    """pyiceberg's files. On the local file system, closing a new file syncs the file and its name.

    A commit writes its metadata file and then points the catalog at it. After a power failure the catalog would
    otherwise point at a file that the system had not written yet.
    """

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)

    def new_output(self, location: str) -> PyArrowFile:
        """Return a file to write."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        filesystem = self.fs_by_scheme(scheme, netloc)
        kind = _LocalFile if scheme == "file" else PyArrowFile
        return kind(fs=filesystem, location=location, path=path)


class _LocalFile(PyArrowFile):
    """A file of the local file system."""

    def create(self, overwrite: bool = False) -> io.BufferedWriter:
        """Create the file; FileExistsError if it exists and is not to be replaced."""
        path = Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return _SyncedWriter(io.FileIO(path, "w" if overwrite else "x"), 1 << 20)


class _SyncedWriter(io.BufferedWriter):
    """A file whose close makes it durable."""

    def close(self) -> None:
        """Write and sync the file and its directory, then close it."""
        if self.closed:
            return
        try:
            self.flush()
            os.fsync(self.fileno())
            directory = os.open(Path(os.fsdecode(self.name)).parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        finally:
            super().close()
