"""Files of a table, durable once they are closed. pyiceberg writes all files of a table through this class."""

from __future__ import annotations

import io
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import Properties

from seglog.storage import system_calls

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

SYNC_BYTES = 32 << 20
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
    """A file whose close makes it durable. A thread syncs it meanwhile, so that little is left to wait for."""

    def __init__(self, raw: io.FileIO, buffer_size: int) -> None:
        super().__init__(raw, buffer_size)
        self._unsynced = 0
        self._sync: Future[None] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write bytes."""
        self._unsynced += (size := super().write(data))
        if self._unsynced >= SYNC_BYTES and (self._sync is None or self._sync.done()):
            self._wait()
            self._thread = self._thread or ThreadPoolExecutor(1, "seglog-table-sync")
            self._unsynced, self._sync = 0, self._thread.submit(system_calls.sync_data, self.fileno())
        return size

    def _wait(self) -> None:
        """Wait for the sync that runs. Raises OSError if it failed: no later one would report that."""
        running, self._sync = self._sync, None
        if running is not None:
            running.result()

    def close(self) -> None:
        """Write and sync the file and its directory, then close it."""
        if self.closed:
            return
        try:
            self.flush()
            self._wait()
            system_calls.sync_descriptor(self.fileno())
            directory = os.open(Path(os.fsdecode(self.name)).parent, os.O_RDONLY)
            try:
                system_calls.sync_descriptor(directory)
            finally:
                os.close(directory)
        finally:
            if self._thread is not None:
                self._thread.shutdown()  # if the flush has failed, a sync still uses the file
            super().close()
