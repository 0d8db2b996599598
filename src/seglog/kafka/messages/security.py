"""Authentication."""

from __future__ import annotations

from seglog.kafka.messages.shared import ERROR, MESSAGE
from seglog.kafka.wire.schema import BYTES, INT64, STRING, Api, Array, Field, Struct

SASL_HANDSHAKE = Api(
    17,
    "SaslHandshake",
    range(1, 2),  # after version 0 messages of SASL would follow that are no requests,
    Struct(Field("mechanism", STRING)),
    Struct(ERROR, Field("mechanisms", Array(STRING))),
)

SASL_AUTHENTICATE = Api(
    36,
    "SaslAuthenticate",
    range(2),
    Struct(Field("auth_bytes", BYTES)),
    Struct(ERROR, MESSAGE, Field("auth_bytes", BYTES), Field("session_lifetime_ms", INT64, since=1, default=0)),
)
