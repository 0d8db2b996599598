from __future__ import annotations

import json

import pytest

from seglog import errors
from seglog.terminal.exits import Exit, exit_of, exit_table, json_of, message_of


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.CorruptRecord("a.store", 3, 64, "checksum"), 1),
        (errors.CorruptLog("no manifest"), 1),
        (errors.InvalidArgument("x"), 2),
        (errors.InvalidType("x"), 2),
        (errors.ConfigError("x"), 2),
        (errors.RecordTooLarge(9, 8), 2),
        (errors.StreamOverflow(8), 2),
        (errors.MissingExtra("x"), 2),
        (errors.LogNotFound("x"), 3),
        (errors.NotALog("x"), 3),
        (errors.TopicNotFound("x"), 3),
        (errors.GroupNotFound("x"), 3),
        (errors.TopicExists("x"), 2),
        (errors.OnceConflict("x"), 2),
        (errors.GroupConflict("x"), 2),
        (errors.UnknownMember("x"), 2),
        (errors.NotAssigned("x"), 2),
        (FileNotFoundError(2, "No such file", "x"), 3),
        (errors.LogLocked("x"), 4),
        (errors.Busy("x"), 4),
        (errors.ConnectionFailed("x", sent=False), 6),
        (errors.ServerError("x", status=500), 6),
        (errors.OffsetOutOfRange(9, 0, 5), 5),
        (errors.OffsetCompacted(1, 5), 5),
        (errors.LogTruncated("x"), 5),
        (errors.LogPoisoned("x"), 6),
        (errors.StorageError("x"), 6),
        (errors.LogReadOnly("x"), 6),
        (PermissionError(13, "Permission denied", "x"), 6),
        (errors.FormatVersionError("x"), 7),
        (KeyError("x"), 70),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert exit_of(error) == code


def test_every_error_of_the_project_has_an_exit_code_of_its_own_making() -> None:
    tree = [errors.SeglogError]
    for known in tree:
        tree.extend(known.__subclasses__())
    for known in tree:
        assert exit_of(known.__new__(known)) is not Exit.BUG


def test_every_exit_code_is_in_the_table() -> None:
    table = exit_table()
    for code in Exit:
        assert f"{code.value:>3}  {code.meaning}" in table


def test_a_message_is_one_line_with_its_notes() -> None:
    error = errors.InvalidArgument("two\nlines")
    error.add_note("3 records went in")
    assert message_of(error) == "two lines; 3 records went in"
    assert message_of(FileNotFoundError(2, "No such file", "x.csv")) == "x.csv: No such file"
    assert message_of(KeyboardInterrupt()) == "interrupted"
    assert "KeyError" in message_of(KeyError("x"))


def test_an_error_in_json_says_where() -> None:
    told = json.loads(json_of(errors.CorruptRecord("a.store", 3, 64, "checksum")))
    assert told["error"] == "CorruptRecord"
    assert (told["path"], told["offset"], told["position"], told["exit"]) == ("a.store", 3, 64, 1)
    assert json.loads(json_of(errors.LogLocked("x")))["retriable"] is True
    assert json.loads(json_of(FileNotFoundError(2, "No such file", "x.csv")))["path"] == "x.csv"
