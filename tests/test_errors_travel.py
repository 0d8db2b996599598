"""Every error of the tree comes out of another process as it went in."""

from __future__ import annotations

import pickle

import pytest

import seglog
from seglog.errors import SeglogError

ERRORS: list[SeglogError] = [
    seglog.InvalidArgument("no"),
    seglog.OffsetOutOfRange(5, 0, 3),
    seglog.OffsetCompacted(5, 9),
    seglog.OffsetConflict(1, 2),
    seglog.RecordTooLarge(100, 10, row=3),
    seglog.KeyRequired(row=2),
    seglog.StreamOverflow(7),
    seglog.CorruptRecord("00.store", 3, 64, "its checksum does not hold"),
    seglog.CorruptLog("gone"),
    seglog.LogLocked(11, "held", "orders"),
    seglog.TopicNotFound("orders"),
    seglog.TopicExists("orders"),
    seglog.GroupNotFound("billing"),
    seglog.OnceConflict("used before"),
    seglog.StorageError(28, "No space left on device", "orders/MANIFEST"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error: SeglogError) -> None:
    error.add_note("a note")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    if isinstance(error, OSError):
        assert (again.errno, again.filename) == (error.errno, error.filename)
