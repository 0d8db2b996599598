"""Consumer groups: members, and committed offsets."""

from __future__ import annotations

from seglog.kafka.messages.shared import ERROR, THROTTLE, UNKNOWN_RIGHTS, rows, throttle, topics
from seglog.kafka.wire.schema import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UUID,
    Api,
    Array,
    Field,
    Struct,
    Text,
)

OFFSET_COMMIT = Api(
    8,
    "OffsetCommit",
    range(2, 11),
    Struct(
        Field("group_id", STRING),
        Field("generation_id", INT32, default=-1),  # or the epoch of a member, with the consumer protocol
        Field("member_id", STRING),
        Field("group_instance_id", NULLABLE_STRING, since=7, default=None),
        Field("retention_time_ms", INT64, until=4, default=-1),
        Field(
            "topics",
            rows(
                Field("name", STRING, until=9, default=None),
                Field("topic_id", UUID, since=10, default=None),
                Field(
                    "partitions",
                    rows(
                        Field("partition_index", INT32),
                        Field("committed_offset", INT64),
                        Field("committed_leader_epoch", INT32, since=6, default=-1),
                        Field("committed_metadata", NULLABLE_STRING),
                    ),
                ),
            ),
        ),
    ),
    Struct(
        throttle(3),
        Field(
            "topics",
            rows(
                Field("name", STRING, until=9),
                Field("topic_id", UUID, since=10),
                Field("partitions", rows(Field("partition_index", INT32), ERROR)),
            ),
        ),
    ),
    flexible_since=8,
)

OFFSET_FETCH = Api(
    9,
    "OffsetFetch",
    range(1, 11),
    Struct(
        Field("group_id", STRING, until=7, default=""),
        Field(
            "topics",
            rows(Field("name", STRING), Field("partition_indexes", Array(INT32)), nullable=True, nullable_since=2),
            until=7,
            default=None,
        ),
        Field(
            "groups",
            rows(
                Field("group_id", STRING),
                Field("member_id", NULLABLE_STRING, since=9, default=None),
                Field("member_epoch", INT32, since=9, default=-1),
                Field(
                    "topics",
                    rows(
                        Field("name", STRING, until=9, default=None),
                        Field("topic_id", UUID, since=10, default=None),
                        Field("partition_indexes", Array(INT32)),
                        nullable=True,
                    ),
                ),
            ),
            since=8,
            default=(),
        ),
        Field("require_stable", BOOL, since=7, default=False),
    ),
    Struct(
        throttle(3),
        Field(
            "topics",
            rows(
                Field("name", STRING),
                Field(
                    "partitions",
                    rows(
                        Field("partition_index", INT32),
                        Field("committed_offset", INT64),
                        Field("committed_leader_epoch", INT32, since=5, default=-1),
                        Field("metadata", NULLABLE_STRING),
                        ERROR,
                    ),
                ),
            ),
            until=7,
        ),
        Field("error_code", INT16, since=2, until=7, default=0),
        Field(
            "groups",
            rows(
                Field("group_id", STRING),
                Field(
                    "topics",
                    rows(
                        Field("name", STRING, until=9),
                        Field("topic_id", UUID, since=10),
                        Field(
                            "partitions",
                            rows(
                                Field("partition_index", INT32),
                                Field("committed_offset", INT64),
                                Field("committed_leader_epoch", INT32, default=-1),
                                Field("metadata", NULLABLE_STRING),
                                ERROR,
                            ),
                        ),
                    ),
                ),
                ERROR,
            ),
            since=8,
        ),
    ),
    flexible_since=6,
)

FIND_COORDINATOR = Api(
    10,
    "FindCoordinator",
    range(3),
    Struct(Field("key", STRING), Field("key_type", INT8, since=1, default=0)),
    Struct(
        throttle(1),
        ERROR,
        Field("error_message", NULLABLE_STRING, since=1, default=None),
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
    ),
)

JOIN_GROUP = Api(
    11,
    "JoinGroup",
    range(10),
    Struct(
        Field("group_id", STRING),
        Field("session_timeout_ms", INT32),
        Field("rebalance_timeout_ms", INT32, since=1, default=-1),
        Field("member_id", STRING),
        Field("group_instance_id", NULLABLE_STRING, since=5, default=None),
        Field("protocol_type", STRING),
        Field("protocols", rows(Field("name", STRING), Field("metadata", BYTES))),
        Field("reason", NULLABLE_STRING, since=8, default=None),
    ),
    Struct(
        throttle(2),
        ERROR,
        Field("generation_id", INT32, default=-1),
        Field("protocol_type", NULLABLE_STRING, since=7, default=None),
        Field("protocol_name", Text(nullable=True, nullable_since=7)),
        Field("leader", STRING),
        Field("skip_assignment", BOOL, since=9, default=False),
        Field("member_id", STRING),
        Field(
            "members",
            rows(
                Field("member_id", STRING),
                Field("group_instance_id", NULLABLE_STRING, since=5, default=None),
                Field("metadata", BYTES),
            ),
        ),
    ),
    flexible_since=6,
)

HEARTBEAT = Api(
    12,
    "Heartbeat",
    range(5),
    Struct(
        Field("group_id", STRING),
        Field("generation_id", INT32),
        Field("member_id", STRING),
        Field("group_instance_id", NULLABLE_STRING, since=3, default=None),
    ),
    Struct(throttle(1), ERROR),
    flexible_since=4,
)

LEAVE_GROUP = Api(
    13,
    "LeaveGroup",
    range(6),
    Struct(
        Field("group_id", STRING),
        Field(
            "members",
            rows(
                Field("member_id", STRING),
                Field("group_instance_id", NULLABLE_STRING),
                Field("reason", NULLABLE_STRING, since=5, default=None),
            ),
            since=3,
            default=(),
        ),
        Field("member_id", STRING, until=2, default=""),
    ),
    Struct(
        throttle(1),
        ERROR,
        Field(
            "members",
            rows(Field("member_id", STRING), Field("group_instance_id", NULLABLE_STRING), ERROR),
            since=3,
            default=(),
        ),
    ),
    flexible_since=4,
)

SYNC_GROUP = Api(
    14,
    "SyncGroup",
    range(6),
    Struct(
        Field("group_id", STRING),
        Field("generation_id", INT32),
        Field("member_id", STRING),
        Field("group_instance_id", NULLABLE_STRING, since=3, default=None),
        Field("protocol_type", NULLABLE_STRING, since=5, default=None),
        Field("protocol_name", NULLABLE_STRING, since=5, default=None),
        Field("assignments", rows(Field("member_id", STRING), Field("assignment", BYTES))),
    ),
    Struct(
        throttle(1),
        ERROR,
        Field("protocol_type", NULLABLE_STRING, since=5, default=None),
        Field("protocol_name", NULLABLE_STRING, since=5, default=None),
        Field("assignment", BYTES),
    ),
    flexible_since=4,
)

DESCRIBE_GROUPS = Api(
    15,
    "DescribeGroups",
    range(7),
    Struct(Field("groups", Array(STRING)), Field("include_authorized_operations", BOOL, since=3, default=False)),
    Struct(
        throttle(1),
        Field(
            "groups",
            rows(
                ERROR,
                Field("error_message", NULLABLE_STRING, since=6, default=None),
                Field("group_id", STRING),
                Field("group_state", STRING),
                Field("protocol_type", STRING),
                Field("protocol_data", STRING),
                Field(
                    "members",
                    rows(
                        Field("member_id", STRING),
                        Field("group_instance_id", NULLABLE_STRING, since=4, default=None),
                        Field("client_id", STRING),
                        Field("client_host", STRING),
                        Field("member_metadata", BYTES),
                        Field("member_assignment", BYTES),
                    ),
                ),
                Field("authorized_operations", INT32, since=3, default=UNKNOWN_RIGHTS),
            ),
        ),
    ),
    flexible_since=5,
)

LIST_GROUPS = Api(
    16,
    "ListGroups",
    range(6),
    Struct(
        Field("states_filter", Array(STRING), since=4, default=()),
        Field("types_filter", Array(STRING), since=5, default=()),
    ),
    Struct(
        throttle(1),
        ERROR,
        Field(
            "groups",
            rows(
                Field("group_id", STRING),
                Field("protocol_type", STRING),
                Field("group_state", STRING, since=4, default=""),
                Field("group_type", STRING, since=5, default=""),
            ),
        ),
    ),
    flexible_since=3,
)

DELETE_GROUPS = Api(
    42,
    "DeleteGroups",
    range(3),
    Struct(Field("groups_names", Array(STRING))),
    Struct(THROTTLE, Field("results", rows(Field("group_id", STRING), ERROR))),
    flexible_since=2,
)

OFFSET_DELETE = Api(
    47,
    "OffsetDelete",
    range(1),
    Struct(
        Field("group_id", STRING),
        topics(Field("partition_index", INT32)),
    ),
    Struct(
        ERROR,
        THROTTLE,
        topics(Field("partition_index", INT32), ERROR),
    ),
)
