"""Every request that this server answers: its message and its handler."""

from __future__ import annotations

from typing import NamedTuple

from seglog.kafka import codes
from seglog.kafka.messages.admin import (
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_TOPIC_PARTITIONS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
    UPDATE_FEATURES,
)
from seglog.kafka.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from seglog.kafka.messages.core import (
    API_VERSIONS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
from seglog.kafka.messages.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from seglog.kafka.messages.producers import DESCRIBE_PRODUCERS, INIT_PRODUCER_ID
from seglog.kafka.messages.security import DESCRIBE_USER_SCRAM_CREDENTIALS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from seglog.kafka.messages.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    LIST_TRANSACTIONS,
    TXN_OFFSET_COMMIT,
)
from seglog.kafka.requests.call import Call, Handler, Values
from seglog.kafka.requests.commits import offset_commit, offset_fetch
from seglog.kafka.requests.configs import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from seglog.kafka.requests.consumer_groups import consumer_group_describe, consumer_group_heartbeat
from seglog.kafka.requests.elections import elect_leaders
from seglog.kafka.requests.epochs import offset_for_leader_epoch
from seglog.kafka.requests.features import shown_features, update_features
from seglog.kafka.requests.fetch import fetch
from seglog.kafka.requests.forgetting import offset_delete
from seglog.kafka.requests.groups import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    sync_group,
)
from seglog.kafka.requests.listed_transactions import describe_transactions, list_transactions
from seglog.kafka.requests.log_dirs import describe_log_dirs
from seglog.kafka.requests.metadata import describe_cluster, metadata
from seglog.kafka.requests.offsets import list_offsets
from seglog.kafka.requests.partitions import create_partitions, delete_records
from seglog.kafka.requests.produce import produce
from seglog.kafka.requests.producers import describe_producers, init_producer_id
from seglog.kafka.requests.sasl import describe_user_scram_credentials, sasl_authenticate, sasl_handshake
from seglog.kafka.requests.topic_pages import describe_topic_partitions
from seglog.kafka.requests.topics import create_topics, delete_topics
from seglog.kafka.requests.transactions import add_offsets_to_txn, add_partitions_to_txn, end_txn, txn_offset_commit
from seglog.kafka.wire.schema import Api

LONGEST_SOFTWARE = 100


class Known(NamedTuple):
    """A request. open: whether it is answered before a client has authenticated."""

    api: Api
    handler: Handler
    open: bool = False


async def _api_versions(call: Call) -> Values:
    """Return what this server answers; note the library of the client."""
    named = call.values["client_software_name"], call.values["client_software_version"]
    call.sender.software, call.sender.software_version = (text[:LONGEST_SOFTWARE] for text in named)
    return versions(codes.NONE)


def versions(code: int) -> Values:
    """Return the response to ApiVersions."""
    keys = [
        {"api_key": one.api.key, "min_version": one.api.versions.start, "max_version": one.api.versions.stop - 1}
        for one in CATALOG.values()
    ]
    return {"error_code": code, "api_keys": keys, **shown_features()}


CATALOG = {
    one.api.key: one
    for one in (
        Known(PRODUCE, produce),
        Known(FETCH, fetch),
        Known(LIST_OFFSETS, list_offsets),
        Known(METADATA, metadata),
        Known(OFFSET_COMMIT, offset_commit),
        Known(OFFSET_FETCH, offset_fetch),
        Known(FIND_COORDINATOR, find_coordinator),
        Known(JOIN_GROUP, join_group),
        Known(HEARTBEAT, heartbeat),
        Known(LEAVE_GROUP, leave_group),
        Known(SYNC_GROUP, sync_group),
        Known(DESCRIBE_GROUPS, describe_groups),
        Known(LIST_GROUPS, list_groups),
        Known(SASL_HANDSHAKE, sasl_handshake, open=True),
        Known(API_VERSIONS, _api_versions, open=True),
        Known(CREATE_TOPICS, create_topics),
        Known(DELETE_TOPICS, delete_topics),
        Known(DELETE_RECORDS, delete_records),
        Known(INIT_PRODUCER_ID, init_producer_id),
        Known(OFFSET_FOR_LEADER_EPOCH, offset_for_leader_epoch),
        Known(CREATE_PARTITIONS, create_partitions),
        Known(ADD_PARTITIONS_TO_TXN, add_partitions_to_txn),
        Known(ADD_OFFSETS_TO_TXN, add_offsets_to_txn),
        Known(END_TXN, end_txn),
        Known(TXN_OFFSET_COMMIT, txn_offset_commit),
        Known(DESCRIBE_CONFIGS, describe_configs),
        Known(ALTER_CONFIGS, alter_configs),
        Known(DESCRIBE_LOG_DIRS, describe_log_dirs),
        Known(SASL_AUTHENTICATE, sasl_authenticate, open=True),
        Known(DELETE_GROUPS, delete_groups),
        Known(ELECT_LEADERS, elect_leaders),
        Known(INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs),
        Known(OFFSET_DELETE, offset_delete),
        Known(DESCRIBE_USER_SCRAM_CREDENTIALS, describe_user_scram_credentials),
        Known(DESCRIBE_PRODUCERS, describe_producers),
        Known(DESCRIBE_TRANSACTIONS, describe_transactions),
        Known(LIST_TRANSACTIONS, list_transactions),
        Known(UPDATE_FEATURES, update_features),
        Known(DESCRIBE_CLUSTER, describe_cluster),
        Known(CONSUMER_GROUP_HEARTBEAT, consumer_group_heartbeat),
        Known(CONSUMER_GROUP_DESCRIBE, consumer_group_describe),
        Known(LIST_CONFIG_RESOURCES, list_config_resources),
        Known(DESCRIBE_TOPIC_PARTITIONS, describe_topic_partitions),
    )
}
