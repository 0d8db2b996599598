"""Errors as answers: application/problem+json (RFC 9457), with the error's class and attributes.

A client raises the same class again from `error`. This module alone maps errors to statuses.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from seglog import errors

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
DETAIL_CHARACTERS = 2000  # longest text of an error: it may quote the request

PROTECTING = ((b"x-content-type-options", b"nosniff"), (b"cross-origin-resource-policy", b"same-origin"))
"""Headers of every answer: no browser takes it for something else, or gives it to a page of another site."""

# The first match counts: a class precedes its bases.
_STATUS: tuple[tuple[tuple[type[BaseException], ...], int], ...] = (
    ((errors.Unauthorized,), 401),
    ((errors.Forbidden,), 403),
    ((errors.TopicNotFound, errors.GroupNotFound, errors.LogNotFound), 404),
    ((errors.SnapshotExpired,), 410),
    ((errors.OffsetConflict,), 409),
    ((errors.OffsetError,), 404),
    ((errors.TopicExists, errors.NotAssigned, errors.UnknownMember, errors.GroupConflict), 409),
    ((errors.LogTruncated, errors.CompactionAborted, errors.KeyRequired), 409),
    ((errors.CopyStopped, errors.LogFenced), 409),
    # Each value was checked on its own before: this one contradicts another value, or the topic.
    ((errors.ConfigError,), 409),
    ((errors.NotMirrored,), 504),
    ((errors.RecordTooLarge, errors.StreamOverflow), 413),
    ((errors.OnceConflict,), 422),
    ((errors.Busy,), 429),
    ((errors.CorruptRecord, errors.CorruptLog, errors.FormatVersionError, errors.NotALog), 500),
    ((errors.LogLocked, errors.LogPoisoned, errors.LogClosed, errors.LogReadOnly, errors.StorageError), 503),
    ((errors.SeglogError,), 400),
    ((OSError,), 503),
)
_ATTRIBUTES = (
    "offset",
    "next_offset",
    "lowest_offset",
    "path",
    "position",
    "size",
    "limit",
    "row",
    "topic",
    "partition",
    "group",
    "copies",
)


class HttpProblem(errors.SeglogError):
    """A refusal that HTTP itself defines, such as 405 or 415."""

    def __init__(self, status: int, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers or {}


def status_of(error: BaseException) -> int:
    """Return the status for an error; 500 for a bug."""
    if isinstance(error, HttpProblem):
        return error.status
    return next((status for kinds, status in _STATUS if isinstance(error, kinds)), 500)


def problem(error: BaseException) -> Response:
    """Return the answer for an error. The text of a bug appears only in the server's log."""
    status = status_of(error)
    known = isinstance(error, (errors.SeglogError, OSError))
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _detail(error) if known else "internal error in seglog; see the server's log",
        "error": type(error).__name__ if known else "ServerError",
        "retriable": status in (408, 429, 503) or bool(getattr(error, "retriable", False)),
    }
    for name in _ATTRIBUTES:
        value = getattr(error, name, None)
        if isinstance(value, (int, str)):
            body[name] = value
    headers = dict(error.headers) if isinstance(error, HttpProblem) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        headers["Retry-After"] = str(RETRY_SECONDS)
    return Response(json.dumps(body), status, headers, MEDIA_TYPE)


def _detail(error: BaseException) -> str:
    text = "; ".join([str(error) or type(error).__name__, *getattr(error, "__notes__", ())])
    return text if len(text) <= DETAIL_CHARACTERS else f"{text[:DETAIL_CHARACTERS]} ..."
