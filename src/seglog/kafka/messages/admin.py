"""Topics, their configs and the cluster."""

from __future__ import annotations

from seglog.kafka.messages.shared import ERROR, MESSAGE, THROTTLE, UNKNOWN_RIGHTS, rows, topics
from seglog.kafka.wire.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    NO_UUID,
    NULLABLE_STRING,
    STRING,
    UUID,
    Api,
    Array,
    Field,
    Maybe,
    Struct,
)

CREATE_TOPICS = Api(
    19,
    "CreateTopics",
    range(2, 5),
    Struct(
        Field(
            "topics",
            rows(
                Field("name", STRING),
                Field("num_partitions", INT32),
                Field("replication_factor", INT16),
                Field("assignments", rows(Field("partition_index", INT32), Field("broker_ids", Array(INT32)))),
                Field("configs", rows(Field("name", STRING), Field("value", NULLABLE_STRING))),
            ),
        ),
        Field("timeout_ms", INT32, default=60000),
        Field("validate_only", BOOL, default=False),
    ),
    Struct(THROTTLE, Field("topics", rows(Field("name", STRING), ERROR, MESSAGE))),
)

DELETE_TOPICS = Api(
    20,
    "DeleteTopics",
    range(1, 4),
    Struct(Field("topic_names", Array(STRING)), Field("timeout_ms", INT32)),
    Struct(THROTTLE, Field("responses", rows(Field("name", STRING), ERROR))),
)

DELETE_RECORDS = Api(
    21,
    "DeleteRecords",
    range(2),
    Struct(
        topics(Field("partition_index", INT32), Field("offset", INT64)),
        Field("timeout_ms", INT32),
    ),
    Struct(
        THROTTLE,
        topics(Field("partition_index", INT32), Field("low_watermark", INT64), ERROR),
    ),
)

CREATE_PARTITIONS = Api(
    37,
    "CreatePartitions",
    range(2),
    Struct(
        Field(
            "topics",
            rows(
                Field("name", STRING),
                Field("count", INT32),
                Field("assignments", rows(Field("broker_ids", Array(INT32)), nullable=True)),
            ),
        ),
        Field("timeout_ms", INT32),
        Field("validate_only", BOOL),
    ),
    Struct(THROTTLE, Field("results", rows(Field("name", STRING), ERROR, MESSAGE))),
)

ELECT_LEADERS = Api(
    43,
    "ElectLeaders",
    range(3),
    Struct(
        Field("election_type", INT8, since=1, default=0),
        Field("topic_partitions", rows(Field("topic", STRING), Field("partitions", Array(INT32)), nullable=True)),
        Field("timeout_ms", INT32, default=60000),
    ),
    Struct(
        THROTTLE,
        Field("error_code", INT16, since=1, default=0),
        Field(
            "replica_election_results",
            rows(
                Field("topic", STRING),
                Field("partition_result", rows(Field("partition_id", INT32), ERROR, MESSAGE)),
            ),
        ),
    ),
    flexible_since=2,
)

UPDATE_FEATURES = Api(
    57,
    "UpdateFeatures",
    range(3),
    Struct(
        Field("timeout_ms", INT32, default=60000),
        Field(
            "feature_updates",
            rows(
                Field("feature", STRING),
                Field("max_version_level", INT16),
                Field("allow_downgrade", BOOL, until=0, default=False),
                Field("upgrade_type", INT8, since=1, default=1),
            ),
        ),
        Field("validate_only", BOOL, since=1, default=False),
    ),
    Struct(
        THROTTLE,
        ERROR,
        MESSAGE,
        Field("results", rows(Field("feature", STRING), ERROR, MESSAGE), until=1),
    ),
    flexible_since=0,
)

DESCRIBE_CONFIGS = Api(
    32,
    "DescribeConfigs",
    range(1, 4),
    Struct(
        Field(
            "resources",
            rows(
                Field("resource_type", INT8),
                Field("resource_name", STRING),
                Field("configuration_keys", Array(STRING, nullable=True)),
            ),
        ),
        Field("include_synonyms", BOOL, default=False),
        Field("include_documentation", BOOL, since=3, default=False),
    ),
    Struct(
        THROTTLE,
        Field(
            "results",
            rows(
                ERROR,
                MESSAGE,
                Field("resource_type", INT8),
                Field("resource_name", STRING),
                Field(
                    "configs",
                    rows(
                        Field("name", STRING),
                        Field("value", NULLABLE_STRING),
                        Field("read_only", BOOL),
                        Field("config_source", INT8, default=-1),
                        Field("is_sensitive", BOOL),
                        Field(
                            "synonyms",
                            rows(Field("name", STRING), Field("value", NULLABLE_STRING), Field("source", INT8)),
                        ),
                        Field("config_type", INT8, since=3, default=0),
                        Field("documentation", NULLABLE_STRING, since=3, default=None),
                    ),
                ),
            ),
        ),
    ),
)

ALTER_CONFIGS = Api(
    33,
    "AlterConfigs",
    range(2),
    Struct(
        Field(
            "resources",
            rows(
                Field("resource_type", INT8),
                Field("resource_name", STRING),
                Field("configs", rows(Field("name", STRING), Field("value", NULLABLE_STRING))),
            ),
        ),
        Field("validate_only", BOOL),
    ),
    Struct(
        THROTTLE, Field("responses", rows(ERROR, MESSAGE, Field("resource_type", INT8), Field("resource_name", STRING)))
    ),
)

INCREMENTAL_ALTER_CONFIGS = Api(
    44,
    "IncrementalAlterConfigs",
    range(1),
    Struct(
        Field(
            "resources",
            rows(
                Field("resource_type", INT8),
                Field("resource_name", STRING),
                Field(
                    "configs",
                    rows(Field("name", STRING), Field("config_operation", INT8), Field("value", NULLABLE_STRING)),
                ),
            ),
        ),
        Field("validate_only", BOOL),
    ),
    Struct(
        THROTTLE, Field("responses", rows(ERROR, MESSAGE, Field("resource_type", INT8), Field("resource_name", STRING)))
    ),
)

BROKERS, CONTROLLERS = 1, 2  # what DescribeCluster can be about
DESCRIBE_CLUSTER = Api(
    60,
    "DescribeCluster",
    range(3),
    Struct(
        Field("include_cluster_authorized_operations", BOOL),
        Field("endpoint_type", INT8, since=1, default=BROKERS),
        Field("include_fenced_brokers", BOOL, since=2, default=False),
    ),
    Struct(
        THROTTLE,
        ERROR,
        MESSAGE,
        Field("endpoint_type", INT8, since=1, default=BROKERS),
        Field("cluster_id", STRING, default=""),
        Field("controller_id", INT32, default=-1),
        Field(
            "brokers",
            rows(
                Field("broker_id", INT32),
                Field("host", STRING),
                Field("port", INT32),
                Field("rack", NULLABLE_STRING, default=None),
                Field("is_fenced", BOOL, since=2, default=False),
            ),
            default=(),
        ),
        Field("cluster_authorized_operations", INT32, default=UNKNOWN_RIGHTS),
    ),
    flexible_since=0,
)

CURSOR = Maybe(Struct(Field("topic_name", STRING), Field("partition_index", INT32)))
DESCRIBE_TOPIC_PARTITIONS = Api(
    75,
    "DescribeTopicPartitions",
    range(1),
    Struct(
        Field("topics", rows(Field("name", STRING))),
        Field("response_partition_limit", INT32, default=2000),
        Field("cursor", CURSOR, default=None),
    ),
    Struct(
        THROTTLE,
        Field(
            "topics",
            rows(
                ERROR,
                Field("name", NULLABLE_STRING),
                Field("topic_id", UUID, default=NO_UUID),
                Field("is_internal", BOOL, default=False),
                Field(
                    "partitions",
                    rows(
                        ERROR,
                        Field("partition_index", INT32),
                        Field("leader_id", INT32),
                        Field("leader_epoch", INT32, default=-1),
                        Field("replica_nodes", Array(INT32)),
                        Field("isr_nodes", Array(INT32)),
                        Field("eligible_leader_replicas", Array(INT32, nullable=True), default=()),
                        Field("last_known_elr", Array(INT32, nullable=True), default=()),
                        Field("offline_replicas", Array(INT32), default=()),
                    ),
                ),
                Field("topic_authorized_operations", INT32, default=UNKNOWN_RIGHTS),
            ),
        ),
        Field("next_cursor", CURSOR, default=None),
    ),
    flexible_since=0,
)

LIST_CONFIG_RESOURCES = Api(
    74,
    "ListConfigResources",
    range(2),
    Struct(Field("resource_types", Array(INT8), since=1, default=())),
    Struct(
        THROTTLE,
        ERROR,
        Field(
            "config_resources",
            rows(Field("resource_name", STRING), Field("resource_type", INT8, since=1, default=16)),
        ),
    ),
    flexible_since=0,
)

DESCRIBE_LOG_DIRS = Api(
    35,
    "DescribeLogDirs",
    range(1, 6),
    Struct(Field("topics", rows(Field("topic", STRING), Field("partitions", Array(INT32)), nullable=True))),
    Struct(
        THROTTLE,
        Field("error_code", INT16, since=3, default=0),
        Field(
            "results",
            rows(
                ERROR,
                Field("log_dir", STRING),
                topics(
                    Field("partition_index", INT32),
                    Field("partition_size", INT64),
                    Field("offset_lag", INT64),
                    Field("is_future_key", BOOL, default=False),
                ),
                Field("total_bytes", INT64, since=4, default=-1),
                Field("usable_bytes", INT64, since=4, default=-1),
                Field("is_cordoned", BOOL, since=5, default=False),
            ),
        ),
    ),
    flexible_since=2,
)
