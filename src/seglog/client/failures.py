"""Refusals as errors: the same error that the call raises locally. Pure.

The server sends the error's class in `error` and its attributes; for an unknown class the status decides.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from seglog import errors
from seglog.errors import Busy, Forbidden, InvalidArgument, SeglogError, ServerError, Unauthorized
from seglog.format.foreign import UNREADABLE

if TYPE_CHECKING:
    from seglog.client.requests.call import Answer

_NO_SUCH_REQUEST = (404, 405)
_UNKNOWN_FIELD = "there is no field '"
_PASSING = (408, 429, 503)
_OF_PROBLEMS = frozenset({"type", "title", "status", "detail", "error", "retriable"})
_SHOWN_BYTES = 200


def is_refusal(answer: Answer) -> bool:
    """Whether the server refused the request."""
    return not 200 <= answer.status < 300


def passes(answer: Answer) -> bool:
    """Whether the same request may succeed later: a timeout, a busy server, a retriable storage error."""
    return answer.status in _PASSING or (answer.status >= 500 and bool(_problem(answer).get("retriable")))


def retry_after(answer: Answer) -> float | None:
    """Return how many seconds the server asks to wait."""
    try:
        return max(0.0, float(answer.headers["retry-after"]))
    except (KeyError, ValueError):  # absent, or a date, which seglog never sends
        return None


def error_of(answer: Answer) -> SeglogError:
    """Return the error of a refusal, with the attributes that the server sent."""
    problem = _problem(answer)
    detail = str(problem.get("detail") or _shown(answer))
    if _UNKNOWN_FIELD in detail:  # this client sends only what its own version has
        detail = f"{detail}: the server is older than this client, and must be upgraded"
    kind = getattr(errors, str(problem.get("error")), None)
    if not (isinstance(kind, type) and issubclass(kind, SeglogError)) or kind is SeglogError:
        return _by_status(answer, detail)
    if kind is Busy:
        return Busy(detail, retry_after=retry_after(answer))
    error = kind.__new__(kind, detail)  # bypass the constructor, which would build another message
    error.args = (detail,)
    error.__dict__.update({name: value for name, value in problem.items() if name not in _OF_PROBLEMS})
    if kind is ServerError:
        error.__dict__["status"] = answer.status
    return error


def _by_status(answer: Answer, detail: str) -> SeglogError:
    if answer.status == 401:
        return Unauthorized(detail)
    if answer.status == 403:
        return Forbidden(detail)
    if answer.status in _PASSING:
        return Busy(detail, retry_after=retry_after(answer))
    if answer.status in _NO_SUCH_REQUEST and "error" in _problem(answer):
        return InvalidArgument(
            f"the server does not have this request ({detail}): it is older than this client, and must be upgraded, or "
            "it is no seglog server"
        )
    if 400 <= answer.status < 500 and "error" in _problem(answer):  # an HTTP refusal such as 405 or 413
        return InvalidArgument(detail)
    return ServerError(detail, status=answer.status)


def _problem(answer: Answer) -> dict[str, Any]:
    try:
        problem = json.loads(answer.body)
    except UNREADABLE:
        return {}
    return problem if isinstance(problem, dict) else {}


def _shown(answer: Answer) -> str:
    body = answer.body[:_SHOWN_BYTES].decode("utf-8", "replace").strip()
    return f"the server answered {answer.status}: {body}" if body else f"the server answered {answer.status}"
