"""Identities of producers, and what partitions know of them."""

from __future__ import annotations

from seglog.kafka.messages.shared import ERROR, MESSAGE, THROTTLE, rows, topics
from seglog.kafka.wire.schema import INT16, INT32, INT64, NULLABLE_STRING, STRING, Api, Array, Field, Struct

INIT_PRODUCER_ID = Api(
    22,
    "InitProducerId",
    range(2),
    Struct(Field("transactional_id", NULLABLE_STRING), Field("transaction_timeout_ms", INT32)),
    Struct(THROTTLE, ERROR, Field("producer_id", INT64, default=-1), Field("producer_epoch", INT16)),
)

DESCRIBE_PRODUCERS = Api(
    61,
    "DescribeProducers",
    range(1),
    Struct(Field("topics", rows(Field("name", STRING), Field("partition_indexes", Array(INT32))))),
    Struct(
        THROTTLE,
        topics(
            Field("partition_index", INT32),
            ERROR,
            MESSAGE,
            Field(
                "active_producers",
                rows(
                    Field("producer_id", INT64),
                    Field("producer_epoch", INT32),
                    Field("last_sequence", INT32, default=-1),
                    Field("last_timestamp", INT64, default=-1),
                    Field("coordinator_epoch", INT32),
                    Field("current_txn_start_offset", INT64, default=-1),
                ),
            ),
        ),
    ),
    flexible_since=0,
)
