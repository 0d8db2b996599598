"""Authentication by SASL/PLAIN: the user is the name of a token, and the password the token."""

from __future__ import annotations

import hmac
from collections import Counter

from seglog.errors import Unauthorized
from seglog.kafka import codes
from seglog.kafka.requests.call import Call, Values
from seglog.kafka.requests.operations import cluster_refusal
from seglog.server.rights.access import Caller

PLAIN = "PLAIN"
MOST_BYTES = 4096


async def sasl_handshake(call: Call) -> Values:
    """Choose the mechanism."""
    known = call.values["mechanism"] == PLAIN
    call.sender.mechanism = PLAIN if known else None
    return {"error_code": codes.NONE if known else codes.UNSUPPORTED_SASL_MECHANISM, "mechanisms": [PLAIN]}


async def sasl_authenticate(call: Call) -> Values:
    """Recognise the sender by its token; its rights count for the whole connection."""
    if call.sender.mechanism is None:
        return _refused(codes.ILLEGAL_SASL_STATE, "send SaslHandshake with the mechanism PLAIN first")
    call.sender.mechanism = None
    try:
        call.sender.caller = _caller(call, bytes(call.values["auth_bytes"][:MOST_BYTES]))
    except Unauthorized as error:
        call.sender.caller = None
        return _refused(codes.SASL_AUTHENTICATION_FAILED, str(error))
    return {"auth_bytes": b""}


def _refused(code: int, text: str) -> Values:
    return {"error_code": code, "error_message": text, "auth_bytes": b""}


def _caller(call: Call, message: bytes) -> Caller:
    """Return the caller that a message of PLAIN names: [other user] NUL user NUL password. Raises Unauthorized."""
    parts = message.split(b"\0")
    if len(parts) != 3:
        raise Unauthorized("the message of SASL/PLAIN is not: user, password")
    access = call.services.access
    other, user, token = (part.decode("utf-8", "replace") for part in parts)
    caller = access.caller(f"Bearer {token}")
    names_match = hmac.compare_digest(caller.name.encode(), user.encode()) and other in ("", user)
    if access.asks and not names_match:
        raise Unauthorized("the user is not the name of the token; `seglog token` has created it under another name")
    return caller


async def describe_user_scram_credentials(call: Call) -> Values:
    """Return that no user has any, as Kafka does then; for callers that may administer every topic."""
    refusal = cluster_refusal(call.caller)
    if refusal is not None:
        return refusal
    times = Counter(one["name"] for one in call.values["users"] or ())
    return {"results": [_unknown_user(name, twice=count > 1) for name, count in times.items()]}


def _unknown_user(name: str, *, twice: bool) -> Values:
    if twice:
        return {"user": name, "error_code": codes.DUPLICATE_RESOURCE, "error_message": "the request has it twice"}
    text = "there are no users of SCRAM here: clients authenticate by SASL/PLAIN with a token"
    return {"user": name, "error_code": codes.RESOURCE_NOT_FOUND, "error_message": text}
