"""Authentication."""

from __future__ import annotations

from seglog.kafka.messages.shared import ERROR, MESSAGE, THROTTLE, rows
from seglog.kafka.wire.schema import BYTES, INT8, INT32, INT64, STRING, Api, Array, Field, Struct

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

DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    50,
    "DescribeUserScramCredentials",
    range(1),
    Struct(Field("users", rows(Field("name", STRING), nullable=True))),
    Struct(
        THROTTLE,
        ERROR,
        MESSAGE,
        Field(
            "results",
            rows(
                Field("user", STRING),
                ERROR,
                MESSAGE,
                Field("credential_infos", rows(Field("mechanism", INT8), Field("iterations", INT32)), default=()),
            ),
        ),
    ),
    flexible_since=0,
)
