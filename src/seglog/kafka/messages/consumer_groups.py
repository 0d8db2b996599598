"""The consumer protocol (KIP-848): one request keeps a member alive, subscribes, and brings its assignment."""

from __future__ import annotations

from seglog.kafka.messages.shared import ERROR, MESSAGE, THROTTLE, UNKNOWN_RIGHTS, rows
from seglog.kafka.wire.schema import (
    BOOL,
    INT8,
    INT32,
    NULLABLE_STRING,
    STRING,
    UUID,
    Api,
    Array,
    Field,
    Maybe,
    Struct,
)

PARTITIONS = Field("partitions", Array(INT32))
ASSIGNMENT = Struct(
    Field("topic_partitions", rows(Field("topic_id", UUID), Field("topic_name", STRING), PARTITIONS)),
)

CONSUMER_GROUP_HEARTBEAT = Api(
    68,
    "ConsumerGroupHeartbeat",
    range(2),
    Struct(
        Field("group_id", STRING),
        Field("member_id", STRING),
        Field("member_epoch", INT32),
        Field("instance_id", NULLABLE_STRING, default=None),
        Field("rack_id", NULLABLE_STRING, default=None),
        Field("rebalance_timeout_ms", INT32, default=-1),
        Field("subscribed_topic_names", Array(STRING, nullable=True), default=None),
        Field("subscribed_topic_regex", NULLABLE_STRING, since=1, default=None),
        Field("server_assignor", NULLABLE_STRING, default=None),
        Field("topic_partitions", Array(Struct(Field("topic_id", UUID), PARTITIONS), nullable=True), default=None),
    ),
    Struct(
        THROTTLE,
        ERROR,
        MESSAGE,
        Field("member_id", NULLABLE_STRING, default=None),
        Field("member_epoch", INT32, default=0),
        Field("heartbeat_interval_ms", INT32, default=0),
        Field(
            "assignment",
            Maybe(Struct(Field("topic_partitions", rows(Field("topic_id", UUID), PARTITIONS)))),
            default=None,
        ),
    ),
    flexible_since=0,
)

CONSUMER_GROUP_DESCRIBE = Api(
    69,
    "ConsumerGroupDescribe",
    range(2),
    Struct(Field("group_ids", Array(STRING)), Field("include_authorized_operations", BOOL, default=False)),
    Struct(
        THROTTLE,
        Field(
            "groups",
            rows(
                ERROR,
                MESSAGE,
                Field("group_id", STRING),
                Field("group_state", STRING, default=""),
                Field("group_epoch", INT32, default=0),
                Field("assignment_epoch", INT32, default=0),
                Field("assignor_name", STRING, default=""),
                Field(
                    "members",
                    rows(
                        Field("member_id", STRING),
                        Field("instance_id", NULLABLE_STRING, default=None),
                        Field("rack_id", NULLABLE_STRING, default=None),
                        Field("member_epoch", INT32),
                        Field("client_id", STRING),
                        Field("client_host", STRING),
                        Field("subscribed_topic_names", Array(STRING)),
                        Field("subscribed_topic_regex", NULLABLE_STRING, default=None),
                        Field("assignment", ASSIGNMENT),
                        Field("target_assignment", ASSIGNMENT),
                        Field("member_type", INT8, since=1, default=-1),
                    ),
                    default=(),
                ),
                Field("authorized_operations", INT32, default=UNKNOWN_RIGHTS),
            ),
        ),
    ),
    flexible_since=0,
)
