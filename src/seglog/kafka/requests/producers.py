"""Identities of idempotent producers."""

from __future__ import annotations

import secrets

from seglog.kafka import codes
from seglog.kafka.requests.call import Call, Values

ID_BITS = 62


async def init_producer_id(call: Call) -> Values:
    """Return a new id. It is random, so none is given twice, also after a restart, and nothing is stored for it."""
    if call.values["transactional_id"] is not None:
        return {"error_code": codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "producer_id": -1, "producer_epoch": -1}
    return {"producer_id": secrets.randbits(ID_BITS), "producer_epoch": 0}
