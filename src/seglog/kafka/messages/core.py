"""Produce, fetch, and what a client asks first: versions, metadata, offsets."""

from __future__ import annotations

from seglog.kafka.messages.shared import ERROR, THROTTLE, UNKNOWN_RIGHTS, rows, throttle, topics
from seglog.kafka.wire.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    NO_UUID,
    NULLABLE_STRING,
    RECORDS,
    STRING,
    UUID,
    Api,
    Array,
    Field,
    Struct,
    Text,
)

MOST = 2**31 - 1
UNKNOWN_HIGH_WATERMARK = 2**63 - 1
NO_REPLICA = {"replica_id": -1, "replica_epoch": -1}
NO_EPOCH = {"epoch": -1, "end_offset": -1}
NO_LEADER = {"leader_id": -1, "leader_epoch": -1}
NO_SNAPSHOT = {"end_offset": -1, "epoch": -1}
LEADER = Struct(Field("leader_id", INT32, default=-1), Field("leader_epoch", INT32, default=-1))
ENDPOINTS = rows(
    Field("node_id", INT32),
    Field("host", STRING),
    Field("port", INT32),
    Field("rack", NULLABLE_STRING, default=None),
)
PRODUCE = Api(
    0,
    "Produce",
    range(12),
    Struct(
        Field("transactional_id", NULLABLE_STRING, since=3, default=None),
        Field("acks", INT16),
        Field("timeout_ms", INT32),
        Field(
            "topic_data",
            rows(
                Field("name", STRING), Field("partition_data", rows(Field("index", INT32), Field("records", RECORDS)))
            ),
        ),
    ),
    Struct(
        Field(
            "responses",
            rows(
                Field("name", STRING),
                Field(
                    "partition_responses",
                    rows(
                        Field("index", INT32),
                        ERROR,
                        Field("base_offset", INT64),
                        Field("log_append_time_ms", INT64, since=2, default=-1),
                        Field("log_start_offset", INT64, since=5, default=-1),
                        Field(
                            "record_errors",
                            rows(Field("batch_index", INT32), Field("batch_index_error_message", NULLABLE_STRING)),
                            since=8,
                            default=(),
                        ),
                        Field("error_message", NULLABLE_STRING, since=8, default=None),
                        Field("current_leader", LEADER, since=10, default=NO_LEADER, tag=0),
                    ),
                ),
            ),
        ),
        throttle(1),
        Field("node_endpoints", ENDPOINTS, since=10, default=(), tag=0),
    ),
    flexible_since=9,
)

FETCH = Api(
    1,
    "Fetch",
    range(4, 19),
    Struct(
        Field("cluster_id", NULLABLE_STRING, since=12, default=None, tag=0),
        Field("replica_id", INT32, until=14, default=-1),
        Field(
            "replica_state",
            Struct(Field("replica_id", INT32, default=-1), Field("replica_epoch", INT64, default=-1)),
            since=15,
            default=NO_REPLICA,
            tag=1,
        ),
        Field("max_wait_ms", INT32),
        Field("min_bytes", INT32),
        Field("max_bytes", INT32, default=MOST),
        Field("isolation_level", INT8, default=0),
        Field("session_id", INT32, since=7, default=0),
        Field("session_epoch", INT32, since=7, default=-1),
        Field(
            "topics",
            rows(
                Field("topic", STRING, until=12, default=None),
                Field("topic_id", UUID, since=13, default=None),
                Field(
                    "partitions",
                    rows(
                        Field("partition", INT32),
                        Field("current_leader_epoch", INT32, since=9, default=-1),
                        Field("fetch_offset", INT64),
                        Field("last_fetched_epoch", INT32, since=12, default=-1),
                        Field("log_start_offset", INT64, since=5, default=-1),
                        Field("partition_max_bytes", INT32),
                        Field("replica_directory_id", UUID, since=17, default=NO_UUID, tag=0),
                        Field("high_watermark", INT64, since=18, default=UNKNOWN_HIGH_WATERMARK, tag=1),
                    ),
                ),
            ),
        ),
        Field(
            "forgotten_topics_data",
            rows(
                Field("topic", STRING, until=12, default=None),
                Field("topic_id", UUID, since=13, default=None),
                Field("partitions", Array(INT32)),
            ),
            since=7,
            default=(),
        ),
        Field("rack_id", STRING, since=11, default=""),
    ),
    Struct(
        THROTTLE,
        Field("error_code", INT16, since=7, default=0),
        Field("session_id", INT32, since=7, default=0),
        Field(
            "responses",
            rows(
                Field("topic", STRING, until=12),
                Field("topic_id", UUID, since=13),
                Field(
                    "partitions",
                    rows(
                        Field("partition_index", INT32),
                        ERROR,
                        Field("high_watermark", INT64),
                        Field("last_stable_offset", INT64, default=-1),
                        Field("log_start_offset", INT64, since=5, default=-1),
                        Field(
                            "diverging_epoch",
                            Struct(Field("epoch", INT32, default=-1), Field("end_offset", INT64, default=-1)),
                            since=12,
                            default=NO_EPOCH,
                            tag=0,
                        ),
                        Field(
                            "current_leader",
                            LEADER,
                            since=12,
                            default=NO_LEADER,
                            tag=1,
                        ),
                        Field(
                            "snapshot_id",
                            Struct(Field("end_offset", INT64, default=-1), Field("epoch", INT32, default=-1)),
                            since=12,
                            default=NO_SNAPSHOT,
                            tag=2,
                        ),
                        Field(
                            "aborted_transactions",
                            rows(Field("producer_id", INT64), Field("first_offset", INT64), nullable=True),
                            default=(),
                        ),
                        Field("preferred_read_replica", INT32, since=11, default=-1),
                        Field("records", RECORDS),
                    ),
                ),
            ),
        ),
        Field("node_endpoints", ENDPOINTS, since=16, default=(), tag=0),
    ),
    flexible_since=12,
)

LIST_OFFSETS = Api(
    2,
    "ListOffsets",
    range(1, 8),
    Struct(
        Field("replica_id", INT32),
        Field("isolation_level", INT8, since=2, default=0),
        topics(
            Field("partition_index", INT32),
            Field("current_leader_epoch", INT32, since=4, default=-1),
            Field("timestamp", INT64),
        ),
    ),
    Struct(
        throttle(2),
        topics(
            Field("partition_index", INT32),
            ERROR,
            Field("timestamp", INT64, default=-1),
            Field("offset", INT64, default=-1),
            Field("leader_epoch", INT32, since=4, default=-1),
        ),
    ),
    flexible_since=6,
)

METADATA = Api(
    3,
    "Metadata",
    range(4, 14),
    Struct(
        Field(
            "topics",
            rows(
                Field("topic_id", UUID, since=10, default=NO_UUID),
                Field("name", Text(nullable=True, nullable_since=10)),
                nullable=True,
            ),
        ),
        Field("allow_auto_topic_creation", BOOL, default=True),
        Field("include_cluster_authorized_operations", BOOL, since=8, until=10, default=False),
        Field("include_topic_authorized_operations", BOOL, since=8, default=False),
    ),
    Struct(
        THROTTLE,
        Field(
            "brokers",
            rows(
                Field("node_id", INT32),
                Field("host", STRING),
                Field("port", INT32),
                Field("rack", NULLABLE_STRING, default=None),
            ),
        ),
        Field("cluster_id", NULLABLE_STRING, default=None),
        Field("controller_id", INT32, default=-1),
        Field(
            "topics",
            rows(
                ERROR,
                Field("name", Text(nullable=True, nullable_since=12)),
                Field("topic_id", UUID, since=10, default=NO_UUID),
                Field("is_internal", BOOL, default=False),
                Field(
                    "partitions",
                    rows(
                        ERROR,
                        Field("partition_index", INT32),
                        Field("leader_id", INT32),
                        Field("leader_epoch", INT32, since=7, default=-1),
                        Field("replica_nodes", Array(INT32), default=()),
                        Field("isr_nodes", Array(INT32), default=()),
                        Field("offline_replicas", Array(INT32), since=5, default=()),
                    ),
                ),
                Field("topic_authorized_operations", INT32, since=8, default=UNKNOWN_RIGHTS),
            ),
        ),
        Field("cluster_authorized_operations", INT32, since=8, until=10, default=UNKNOWN_RIGHTS),
        Field("error_code", INT16, since=13, default=0),
    ),
    flexible_since=9,
)

API_VERSIONS = Api(
    18,
    "ApiVersions",
    range(5),
    Struct(
        Field("client_software_name", STRING, since=3, default=""),
        Field("client_software_version", STRING, since=3, default=""),
    ),
    Struct(
        ERROR,
        Field("api_keys", rows(Field("api_key", INT16), Field("min_version", INT16), Field("max_version", INT16))),
        throttle(1),
        Field(
            "supported_features",
            rows(Field("name", STRING), Field("min_version", INT16), Field("max_version", INT16)),
            since=3,
            default=(),
            tag=0,
        ),
        Field("finalized_features_epoch", INT64, since=3, default=-1, tag=1),
        Field(
            "finalized_features",
            rows(Field("name", STRING), Field("max_version_level", INT16), Field("min_version_level", INT16)),
            since=3,
            default=(),
            tag=2,
        ),
        Field("zk_migration_ready", BOOL, since=3, default=False, tag=3),
    ),
    flexible_since=3,
)

OFFSET_FOR_LEADER_EPOCH = Api(
    23,
    "OffsetForLeaderEpoch",
    range(2, 4),
    Struct(
        Field("replica_id", INT32, since=3, default=-2),
        Field(
            "topics",
            rows(
                Field("topic", STRING),
                Field(
                    "partitions",
                    rows(
                        Field("partition", INT32),
                        Field("current_leader_epoch", INT32, default=-1),
                        Field("leader_epoch", INT32),
                    ),
                ),
            ),
        ),
    ),
    Struct(
        THROTTLE,
        Field(
            "topics",
            rows(
                Field("topic", STRING),
                Field(
                    "partitions",
                    rows(
                        ERROR,
                        Field("partition", INT32),
                        Field("leader_epoch", INT32, default=-1),
                        Field("end_offset", INT64, default=-1),
                    ),
                ),
            ),
        ),
    ),
)
