"""What a command reads, copied to a temporary file before any of it is used: a slow reader of the output, or a pause of
the process, cannot make it expire. For readers whose files nothing keeps, or that a server or archive keeps for a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from tempfile import TemporaryFile, gettempdir
from typing import TYPE_CHECKING, Any, Protocol

from seglog.cli.frame import flag
from seglog.storage.system_calls import errors_naming

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.record import Record

HOLD = flag(
    "--hold",
    help="copy what is read to a temporary file first: a slow reader of the output cannot make it expire",
)


class Ranges(Protocol):
    """What is copied: ranges of partitions."""

    def batches(self, partition: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Iterate over the records start <= offset < stop."""


class HeldSource:
    """A source whose ranges are copied when they are asked for. files: closes the copies."""

    def __init__(self, source: Ranges, files: ExitStack) -> None:
        self._source, self._files = source, files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def batches(self, partition: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Copy a range and return its batches; raises what reading it does, such as SnapshotExpired."""
        return _copied(self._source.batches(partition, start, stop), self._files)

    def scan(self, partition: int, start: int, stop: int) -> Iterator[Record]:
        """Copy a range and return its records; errors as `batches`."""
        return _records(self.batches(partition, start, stop))


def _copied(batches: Iterator[pa.RecordBatch], files: ExitStack) -> Iterator[pa.RecordBatch]:
    first = next(batches, None)
    if first is None:
        return iter(())
    import pyarrow as pa

    file = files.enter_context(TemporaryFile(prefix="seglog-"))  # noqa: SIM115 - closed by `files`
    writer = pa.ipc.new_stream(file, first.schema)
    for batch in chain([first], batches):
        with errors_naming(gettempdir()):
            writer.write_batch(batch)
    with errors_naming(gettempdir()):
        writer.close()
        file.seek(0)
    return iter(pa.ipc.open_stream(file))


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[Record]:
    from seglog.arrow.to_records import pieces_of

    return (record for batch in batches for piece in pieces_of(batch) for record in piece)
