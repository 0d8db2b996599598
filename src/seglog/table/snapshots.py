"""How snapshots of a table are made: each on the state that its round has read, or not at all.

pyiceberg repeats a commit on a newer state if another program was first. The other program may have added the same
records, so ours are never repeated: they fail, and the next round finds what the table then holds.
"""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _MergeAppendFiles, _OverwriteFiles
from pyiceberg.typedef import EMPTY_DICT


class _Added(_MergeAppendFiles):
    def _refresh_for_retry(self) -> None:
        raise changed()


class _Changed(_OverwriteFiles):
    def _refresh_for_retry(self) -> None:
        raise changed()

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        """Return an evaluator with a state of its own for each manifest: pyiceberg calls it in several threads.

        Its own one keeps the manifest at hand in an attribute, so a file to delete may not be found (pyiceberg 0.12).
        """
        build = super()._build_manifest_evaluator
        return lambda manifest: build(spec_id)(manifest)  # noqa: PLW0108 - one call would build one for all


class _Rewritten(_Changed):
    """Changes files and no rows. Who reads a table's changes skips it."""

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        found = super()._summary(snapshot_properties)
        return Summary(operation=Operation.REPLACE, **found.additional_properties)


Update = _MergeAppendFiles | _OverwriteFiles


def added(transaction: Transaction, properties: dict[str, str]) -> Update:
    """Return a snapshot that only adds files. properties: of the snapshot."""
    return _Added(Operation.APPEND, transaction, transaction._table.io, snapshot_properties=properties)


def changed_rows(transaction: Transaction, properties: dict[str, str]) -> Update:
    """Return a snapshot that adds and removes files."""
    return _Changed(Operation.OVERWRITE, transaction, transaction._table.io, snapshot_properties=properties)


def rewritten(transaction: Transaction, properties: dict[str, str]) -> Update:
    """Return a snapshot with the same rows in other files."""
    return _Rewritten(Operation.OVERWRITE, transaction, transaction._table.io, snapshot_properties=properties)


def changed() -> CommitFailedException:
    """Return the error of a table that another program has changed."""
    return CommitFailedException("another program has committed to the table since it was read")
