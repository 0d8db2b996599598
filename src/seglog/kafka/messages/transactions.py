"""Transactions: which partitions and groups one has, and its end."""

from __future__ import annotations

from seglog.kafka.messages.shared import ERROR, THROTTLE, rows, topics
from seglog.kafka.wire.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    Api,
    Array,
    Field,
    Struct,
)

WHO = (Field("transactional_id", STRING), Field("producer_id", INT64), Field("producer_epoch", INT16))

ADD_PARTITIONS_TO_TXN = Api(
    24,
    "AddPartitionsToTxn",
    range(3),
    Struct(*WHO, Field("topics", rows(Field("name", STRING), Field("partitions", Array(INT32))))),
    Struct(
        THROTTLE,
        Field(
            "results_by_topic",
            rows(
                Field("name", STRING),
                Field(
                    "results_by_partition", rows(Field("partition_index", INT32), Field("partition_error_code", INT16))
                ),
            ),
        ),
    ),
)

ADD_OFFSETS_TO_TXN = Api(
    25,
    "AddOffsetsToTxn",
    range(3),
    Struct(*WHO, Field("group_id", STRING)),
    Struct(THROTTLE, ERROR),
)

END_TXN = Api(
    26,
    "EndTxn",
    range(3),
    Struct(*WHO, Field("committed", BOOL)),
    Struct(THROTTLE, ERROR),
)

TXN_OFFSET_COMMIT = Api(
    28,
    "TxnOffsetCommit",
    range(4),
    Struct(
        Field("transactional_id", STRING),
        Field("group_id", STRING),
        Field("producer_id", INT64),
        Field("producer_epoch", INT16),
        Field("generation_id", INT32, since=3, default=-1),
        Field("member_id", STRING, since=3, default=""),
        Field("group_instance_id", NULLABLE_STRING, since=3, default=None),
        topics(
            Field("partition_index", INT32),
            Field("committed_offset", INT64),
            Field("committed_leader_epoch", INT32, since=2, default=-1),
            Field("committed_metadata", NULLABLE_STRING),
        ),
    ),
    Struct(
        THROTTLE,
        topics(Field("partition_index", INT32), ERROR),
    ),
    flexible_since=3,
)

LIST_TRANSACTIONS = Api(
    66,
    "ListTransactions",
    range(1),
    Struct(Field("state_filters", Array(STRING)), Field("producer_id_filters", Array(INT64))),
    Struct(
        THROTTLE,
        ERROR,
        Field("unknown_state_filters", Array(STRING)),
        Field(
            "transaction_states",
            rows(Field("transactional_id", STRING), Field("producer_id", INT64), Field("transaction_state", STRING)),
        ),
    ),
    flexible_since=0,
)

DESCRIBE_TRANSACTIONS = Api(
    65,
    "DescribeTransactions",
    range(1),
    Struct(Field("transactional_ids", Array(STRING))),
    Struct(
        THROTTLE,
        Field(
            "transaction_states",
            rows(
                ERROR,
                Field("transactional_id", STRING),
                Field("transaction_state", STRING),
                Field("transaction_timeout_ms", INT32),
                Field("transaction_start_time_ms", INT64),
                Field("producer_id", INT64),
                Field("producer_epoch", INT16),
                Field("topics", rows(Field("topic", STRING), Field("partitions", Array(INT32)))),
            ),
        ),
    ),
    flexible_since=0,
)
