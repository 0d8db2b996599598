"""Operations: requests that the server understands, declared once for routing, checks and the OpenAPI description.

An `Operation` is data; the routes are lists of them. An `Endpoint` holds all operations on one path and is a Starlette
app: it parses parameters and body, authenticates the caller, and turns errors into answers.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ValidationError
from starlette.responses import Response, StreamingResponse

from seglog.errors import InvalidArgument, SeglogError, TopicNotFound
from seglog.server.api.models import Model
from seglog.server.api.parameters import Parameter, read_query
from seglog.server.http.answers import NeedsRoom, Pieces, SlowReader, send_in_pieces, watched
from seglog.server.problems import PROTECTING, HttpProblem, problem, status_of
from seglog.server.rights.access import EVERY, NOBODY, RIGHTS, Caller
from seglog.server.rights.terms import HEADER
from seglog.server.runtime.memory import PIECE, Claim
from seglog.server.runtime.spool import Body
from seglog.server.runtime.tracebacks import forget_traceback
from seglog.topic.layout.root import OFFSETS
from seglog.visible import visible

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from seglog.server.runtime.workers import Workers
    from seglog.server.services import Services

log = logging.getLogger("seglog.server")

SMALL_JSON_BYTES = 16 * 1024  # a longer body is parsed on a thread: listing all its errors takes a while
# A record's value is arbitrary: no browser may guess its type, nor load it into a foreign page.
PAGES = frozenset({"page", "console", "docs"})  # the only operations that a link on a foreign page may open
_LARGE = Lock()
SINGLE = frozenset(
    {"authorization", "content-encoding", "content-type", "host", "idempotency-key", "last-event-id", "origin", HEADER}
)
READS = frozenset({"fetch"})  # the operations that only read, and are no GET
GROUP_WRITES = frozenset({"join", "commit"})
ANYTHING = "*/*"
Needs = Literal["nothing", "token", "read", "write", "admin"]
Json = TypeVar("Json", bound=Model)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Answer:
    """One kind of answer of an operation. media: content type -> JSON schema; none: without a body."""

    about: str
    media: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """A method on a path.

    needs: the right on the topic in the path ("*" if there is none), a token with any right, or nothing. body: a model
    (JSON), or content type -> JSON schema of a raw body. answers: by status; refusals are described for all alike.
    links: operations that follow the first answer -> their parameters, as OpenAPI runtime expressions.
    """

    method: str
    path: str
    name: str
    about: str
    handler: Callable[[Call], Awaitable[Response]]
    needs: Needs
    answers: Mapping[int, Answer]
    parameters: Sequence[Parameter] = ()
    body: type[BaseModel] | Mapping[str, Mapping[str, Any]] | None = None
    topic: str | None = None
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class Call:
    """One request and its state while an operation handles it.

    headers: by name in lower case. answer: the memory for what is read and for the answer. held: closed when the
    request is over.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        headers: Mapping[str, str],
        operation: Operation,
        services: Services,
        caller: Caller,
        answer: Claim,
        held: ExitStack,
    ) -> None:
        self.headers = headers
        self.operation = operation
        self.services = services
        self.caller = caller
        self.answer = answer
        self.held = held
        self.values = self._values(scope)
        self._host = scope["client"][0] if scope.get("client") else ""
        self.topics: set[str] = set()  # the topics that the request uses
        self.epochs: dict[int, int] = {}  # of partitions before an append that waits for copies
        self._receive = receive

    @property
    def payer(self) -> str:
        """Whose share what is kept for the caller counts against: its token, or its address if there are no tokens."""
        return self.caller.name if self.services.access.asks else self._host

    def _values(self, scope: Scope) -> dict[str, Any]:
        """Return every declared parameter by name. Raises InvalidArgument for undeclared or invalid ones."""
        found = read_query(scope["query_string"], self.operation.parameters)
        for parameter in self.operation.parameters:
            if parameter.where == "path":
                encoded = scope["path_params"][parameter.name].encode("latin-1", "replace")
                found[parameter.name] = parameter.read(unquote_to_bytes(encoded))
            elif parameter.where == "header":
                given = self.headers.get(parameter.name.lower())
                found[parameter.name] = parameter.default if given is None else parameter.read(given.encode("latin-1"))
        return found

    @property
    def declared_length(self) -> int | None:
        """The body's Content-Length, None if it comes in chunks."""
        given = self.headers.get("content-length")
        return None if given is None else int(given)

    def spooled(self, limit: int | None = None) -> AbstractAsyncContextManager[Body]:
        """Receive the whole body."""
        return self.services.spool.body(self._receive, self.declared_length, limit)

    async def read(
        self, read: Callable[[int], Result], room: int, *, free: int = 0, workers: Workers | None = None
    ) -> Result:
        """Run `read` on a thread with a memory budget of `room` bytes; if that is too small, with what it needs.

        free: bytes that need not be reserved, as the reading threads themselves use no more. Raises Busy.
        """
        while True:
            self.answer.resize(room if room > free else 0)
            try:
                return await (workers or self.services.reads).run(partial(read, room))
            except NeedsRoom as error:
                room = error.size
                self._check_share(room)

    def _check_share(self, size: int) -> None:
        """Raise HttpProblem (413) where an answer needs more memory than all answers may have."""
        most = self.services.memory.share("answers")
        if size > most:
            raise HttpProblem(
                413,
                f"this answer needs {size} bytes of memory, and all answers together may have {most}, half of the "
                "server's --memory; read the value alone, at .../records/OFFSET, which needs little, or raise --memory",
            )

    async def json(self, model: type[Json]) -> Json:
        """Return the JSON body as a model. Raises InvalidArgument if it does not fit, 415 for another content type."""
        kind = self.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind not in ("application/json", "application/x-www-form-urlencoded"):  # the latter is curl's --data
            raise HttpProblem(415, f"the body must be application/json, not {kind}")
        async with self.spooled(model.most_bytes) as body:
            if body.size <= SMALL_JSON_BYTES:
                return _model_of(model, body.data())
            return await self.services.reads.run(partial(_model_of_large, model, body.data()))


def _model_of_large(model: type[Json], data: bytes) -> Json:
    """Return the same of a large body, one at a time and at most half of the time.

    Parsing holds the interpreter for up to 30 ms, and one turn of the event loop needs the interpreter several times.
    """
    with _LARGE:
        begun = perf_counter()
        try:
            return _model_of(model, data)
        finally:
            sleep(perf_counter() - begun)


def _model_of(model: type[Json], data: bytes) -> Json:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise InvalidArgument(_sentence(error)) from None


def _sentence(error: ValidationError) -> str:
    found = [
        f"{'.'.join(str(part) for part in one['loc']) or 'the body'}: {one['msg']}"
        for one in error.errors(include_url=False, include_input=False)[:5]
    ]
    return "the body is invalid: " + "; ".join(found)


class Endpoint:
    """All operations on one path; an ASGI app."""

    def __init__(self, operations: Sequence[Operation], services: Services) -> None:
        self._services = services
        self._by_method = {operation.method: operation for operation in operations}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        begun = perf_counter()
        with ExitStack() as held:
            answer = Claim(self._services.memory, "answers")
            held.callback(answer.close)
            try:
                response = await self._answer(scope, receive, answer, held)
                answer.resize(_counted(response))
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - the server's edge: every error becomes an answer
                _note(error, scope)
                response = problem(error)
                forget_traceback(error)
                answer.close()
            if scope["method"] == "HEAD" and isinstance(response, StreamingResponse):
                response = Response(None, response.status_code, response.headers)  # its body is endless
            response.raw_headers.extend(PROTECTING)
            with suppress(SeglogError):  # the server stops
                response.raw_headers.extend(self._services.terms.headers())
            try:
                await _send(response, scope, receive, watched(send, answer))
            except SlowReader as error:  # the connection is closed; the events already sent tell where to continue
                forget_traceback(error)
                self._services.metrics.dropped()
            except (SeglogError, OSError) as error:  # what was to come cannot be read: the answer has no end
                _note(error, scope)
                forget_traceback(error)
            finally:
                operation = self._by_method.get(scope["method"])
                name = "other" if operation is None else operation.name
                self._services.metrics.answered(name, response.status_code, perf_counter() - begun)

    async def _answer(self, scope: Scope, receive: Receive, answer: Claim, held: ExitStack) -> Response:
        operation = self._operation(scope["method"])
        services = self._services
        headers = _headers_of(scope)
        services.guard.check(headers, is_page=operation.name in PAGES)
        caller = NOBODY  # authenticate first: a stranger learns nothing, not even the parameters
        if operation.needs != "nothing":
            caller = services.access.caller(headers.get("authorization"))
            services.check_running()
            if services.following is not None and operation.method != "GET" and operation.name not in READS:
                raise HttpProblem(403, f"this server is a copy that only reads; write to {services.following.leader}")
        _refuse_codings(scope, headers)
        # Parses the parameters, before the body.
        call = Call(scope, receive, headers, operation, services, caller, answer, held)
        if operation.needs in RIGHTS:
            call.caller.require(operation.needs, operation.topic or call.values.get("topic", EVERY))
        if HEADER in headers:
            await self._take_term(call)
        place = _place_written(call)
        try:
            response = await operation.handler(call)
        except Exception as error:
            if place is not None:
                services.space.failed(place, error)
            cause = await true_cause(call, error)
            if cause is error:  # `from` would make it its own cause: a cycle
                raise
            raise cause from error
        if place is not None:
            services.space.worked(place)
        return response

    async def _take_term(self, call: Call) -> None:
        """Take the term that a request carries; see `seglog.server.rights.terms`."""
        operation = call.operation
        changes = operation.method not in ("GET", "HEAD") and operation.name not in READS
        topic = (operation.topic or call.values.get("topic")) if operation.needs in ("write", "admin") else None
        await self._services.terms.check(call.headers[HEADER], call.caller, topic, changes=changes)

    def _operation(self, method: str) -> Operation:
        operation = self._by_method.get("GET" if method == "HEAD" else method)
        if operation is None:
            allowed = ", ".join(sorted({*self._by_method, *(["HEAD"] if "GET" in self._by_method else [])}))
            raise HttpProblem(405, f"this path does not allow {method}; allowed: {allowed}", headers={"Allow": allowed})
        return operation


def _headers_of(scope: Scope) -> dict[str, str]:
    """Return name in lower case -> value; InvalidArgument where one that means one thing is there twice.

    Which of the two counts would else be for each reader to choose: a proxy in front of this server, say.
    """
    found: dict[str, str] = {}
    for raw_name, value in scope["headers"]:
        name = raw_name.decode("latin-1")
        if name in found and name in SINGLE:
            raise InvalidArgument(f"the header {name} is there twice; send it once")
        found[name] = value.decode("latin-1")
    return found


def _place_written(call: Call) -> str | None:
    """Return the topic that a request writes to, ".groups" for group state, None for a read."""
    operation = call.operation
    if operation.needs == "write":
        return str(operation.topic or call.values["topic"])
    return OFFSETS if operation.name in GROUP_WRITES else None


def _refuse_codings(scope: Scope, headers: Mapping[str, str]) -> None:
    """Refuse an encoded body: stored unchanged, its encoded bytes would be taken for the value."""
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise HttpProblem(
            415,
            f"Content-Encoding {headers['content-encoding'][:80]!r} is not supported; send the body unencoded",
            headers={"Accept-Encoding": "identity"},
        )
    if "transfer-encoding" in headers:
        codings = [value.strip().lower() for name, value in scope["headers"] if name == b"transfer-encoding"]
        if codings != [b"chunked"]:
            raise HttpProblem(501, "the only supported Transfer-Encoding is chunked", headers={"Connection": "close"})


def _counted(response: Response) -> int:
    """Return what an answer counts: small ones, of which each connection can have one, and tails are not counted."""
    if isinstance(response, StreamingResponse):
        return response.room if isinstance(response, Pieces) else 0
    return len(response.body) if len(response.body) > PIECE else 0


async def _send(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    large = not isinstance(response, StreamingResponse) and len(response.body) > PIECE
    if large and scope["method"] != "HEAD":
        await send_in_pieces(response, send)
    else:
        await response(scope, receive, send)


async def true_cause(call: Call, error: Exception) -> Exception:
    """Return TopicNotFound if the failure was caused by the deletion of a topic, else the error itself."""
    if isinstance(error, HttpProblem) or status_of(error) < 500:
        return error
    for name in call.topics:
        try:
            await call.services.reads.run(partial(call.services.broker.topic, name))
        except TopicNotFound as gone:
            return gone
        except Exception:  # noqa: BLE001, S112 - the topic exists: report the first failure
            continue
    return error


def _note(error: Exception, scope: Scope) -> None:
    """Log an error that the caller did not cause. The path may have any characters, also a newline."""
    asked = visible(f"{scope['method']} {scope['path']}")
    if not isinstance(error, (SeglogError, OSError)):
        log.error("%s failed", asked, exc_info=error)
    elif status_of(error) >= 500 and not isinstance(error, HttpProblem):
        log.warning("%s: %s", asked, visible(str(error)))


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer."""
    return Response(json.dumps(value), status, headers, "application/json")
