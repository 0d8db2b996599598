"""Every error that the server can tell of is raised by the client as what it was, with what it carried."""

from __future__ import annotations

import httpx
import pytest

import seglog
from seglog.client.failures import error_of, passes, retry_after
from seglog.client.requests.call import Answer
from seglog.errors import SeglogError
from seglog.server.problems import problem

ERRORS: list[SeglogError] = [
    seglog.InvalidArgument("no"),
    seglog.InvalidType("no"),
    seglog.ConfigError("no"),
    seglog.OffsetOutOfRange(5, 0, 3),
    seglog.OffsetCompacted(5, 9),
    seglog.OffsetConflict(1, 2),
    seglog.RecordTooLarge(100, 10, row=3),
    seglog.KeyRequired(row=2),
    seglog.StreamOverflow(7),
    seglog.CorruptRecord("00.store", 3, 64, "its checksum does not hold"),
    seglog.CorruptLog("gone"),
    seglog.LogTruncated("cut"),
    seglog.CompactionAborted("stopped"),
    seglog.TopicNotFound("orders"),
    seglog.TopicExists("orders"),
    seglog.OnceConflict("another payload"),
    seglog.GroupNotFound("billing"),
    seglog.GroupConflict("members"),
    seglog.UnknownMember("gone"),
    seglog.NotAssigned("not yours"),
    seglog.LogPoisoned("a sync failed"),
    seglog.Unauthorized("who are you"),
    seglog.Forbidden("not you"),
    seglog.Busy("full"),
]


def told(error: BaseException) -> Answer:
    response = problem(error)
    return Answer(response.status_code, httpx.Headers(response.headers.raw), bytes(response.body))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_through_the_server_as_itself(error: SeglogError) -> None:
    again = error_of(told(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    for name in ("offset", "next_offset", "lowest_offset", "size", "limit", "row", "path", "position"):
        assert getattr(again, name, None) == getattr(error, name, None), name


def test_a_bug_of_the_server_is_a_server_error() -> None:
    again = error_of(told(ZeroDivisionError("secret")))
    assert isinstance(again, seglog.ServerError)
    assert again.status == 500
    assert "secret" not in str(again)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, seglog.Unauthorized),
        (403, seglog.Forbidden),
        (429, seglog.Busy),
        (503, seglog.Busy),
        (408, seglog.Busy),
        (404, seglog.ServerError),
        (502, seglog.ServerError),
        (302, seglog.ServerError),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"\xff", b'{"error":"SeglogError"}', b'{"error":"Any"}'])
def test_what_another_program_answers_is_an_error_all_the_same(status: int, kind: type, body: bytes) -> None:
    error = error_of(Answer(status, {}, body))
    assert isinstance(error, kind) or (status == 404 and b"error" in body)
    assert str(error)


def test_only_what_may_pass_is_tried_again() -> None:
    assert passes(told(seglog.Busy("full")))
    assert passes(told(seglog.StorageError(28, "No space left on device")))
    assert not passes(told(seglog.CompactionAborted("stopped"))), "nobody asked to compact again"
    assert not passes(told(seglog.CorruptLog("gone")))
    assert not passes(told(ZeroDivisionError()))


@pytest.mark.parametrize(
    ("said", "seconds"), [({"retry-after": "2"}, 2.0), ({"retry-after": "Sat, 1 Jan"}, None), ({}, None)]
)
def test_the_server_says_when_to_come_back(said: dict[str, str], seconds: float | None) -> None:
    assert retry_after(Answer(503, said, b"")) == seconds
