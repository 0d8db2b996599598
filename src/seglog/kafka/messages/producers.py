"""Identities of producers."""

from __future__ import annotations

from seglog.kafka.messages.shared import ERROR, THROTTLE
from seglog.kafka.wire.schema import INT16, INT32, INT64, NULLABLE_STRING, Api, Field, Struct

INIT_PRODUCER_ID = Api(
    22,
    "InitProducerId",
    range(2),
    Struct(Field("transactional_id", NULLABLE_STRING), Field("transaction_timeout_ms", INT32)),
    Struct(THROTTLE, ERROR, Field("producer_id", INT64, default=-1), Field("producer_epoch", INT16)),
)
