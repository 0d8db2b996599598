"""One request: reads its head and values, runs its handler, writes the response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seglog.clock import system_clock
from seglog.errors import Busy
from seglog.kafka import codes
from seglog.kafka.messages.core import API_VERSIONS
from seglog.kafka.requests.call import Call, Parts, Sender, Values
from seglog.kafka.requests.catalog import CATALOG, Known, versions
from seglog.kafka.requests.holding import Holding
from seglog.kafka.wire.buffers import Malformed, Reader, Writer, size_of
from seglog.kafka.wire.schema import INT16, INT32, NULLABLE_STRING, Field, Form, Struct

LENGTH_BYTES = 4
LONGEST_CLIENT_ID = 1000  # characters, which each connection holds
PLAIN = Form(0, flexible=False)
HEAD = Struct(
    Field("key", INT16), Field("version", INT16), Field("correlation", INT32), Field("client_id", NULLABLE_STRING)
)
NO_TAGS = Struct()


class Refused(Malformed):
    """A request that cannot be answered: the connection is closed, as Kafka does."""


class Unauthenticated(Refused):
    """A request that needs a token, before the client has named one."""


async def answer(
    parts: Parts,
    sender: Sender,
    data: bytearray | memoryview,
    read_on: Callable[[], None],
    free: Callable[[], None],
) -> tuple[Call | None, list[Any]]:
    """Return the call, whose `held` the caller closes, and the buffers of the response, none if it has none.

    Args:
        parts: What all connections share.
        sender: The client.
        data: The request without its length.
        read_on, free: As in `Call`.

    Raises:
        Malformed: The request is not valid.
    """
    source = Reader(data)
    key, version, correlation, client = HEAD.read(source, PLAIN).values()
    sender.requests += 1
    sender.used_at = system_clock()
    sender.client_id = (client or "")[:LONGEST_CLIENT_ID]
    known = CATALOG.get(key)
    if known is None:
        raise Refused(f"this server does not know the request {key}")
    if version not in known.api.versions:
        if known.api is not API_VERSIONS:
            raise Refused(f"this server does not know version {version} of {known.api.name}")
        return None, _response(known, 0, correlation, versions(codes.UNSUPPORTED_VERSION))
    if sender.caller is None and not known.open:
        raise Unauthenticated(f"{known.api.name} needs authentication: this server has tokens")
    limits, form = parts.services.settings.limits, known.api.form(version)
    holding = Holding(parts.services.memory, limits.idle_seconds)
    try:
        values = _read(known, form, source, holding)
    except Busy:
        values = await _read_later(known, form, source, holding)
    call = Call(parts, sender, version, values, read_on, free, holding)
    del data, source, values  # a Produce releases the memory of its request before its end
    try:
        answered = await known.handler(call)
        return call, [] if answered is None else _response(known, version, correlation, answered)
    except BaseException:
        call.held.close()
        raise


def _read(known: Known, form: Form, source: Reader, holding: Holding) -> Values:
    """Read the values of a request. Raises Malformed, and Busy if there is no memory for them now."""
    start = source.position
    try:
        if form.flexible:
            NO_TAGS.read(source, form)
        values: Values = known.api.request.read(source, form, holding.take)
    except BaseException:
        source.position = start
        holding.close()
        raise
    return values


async def _read_later(known: Known, form: Form, source: Reader, holding: Holding) -> Values:
    """Read the values of a request when there is memory for any."""
    await holding.start_again()
    values = _read(known, form, source, holding)
    holding.settle()
    return values


def _response(known: Known, version: int, correlation: int, values: dict[str, Any]) -> list[Any]:
    form, target = known.api.form(version), Writer()
    target.number(LENGTH_BYTES, 0)  # of what follows, when that is known
    target.number(4, correlation)
    if form.flexible and known.api is not API_VERSIONS:  # the head of that response is the same in all versions
        NO_TAGS.write(target, {}, form)
    known.api.response.write(target, values, form)
    parts = target.parts()
    parts[0][:LENGTH_BYTES] = (size_of(parts) - LENGTH_BYTES).to_bytes(LENGTH_BYTES, "big")
    return parts
