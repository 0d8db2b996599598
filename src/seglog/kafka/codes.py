"""Kafka's error codes, and the code with which each error of seglog is answered."""

from __future__ import annotations

from seglog.errors import (
    Busy,
    ConfigError,
    CorruptRecord,
    Forbidden,
    GroupConflict,
    GroupNotFound,
    InvalidArgument,
    InvalidType,
    KeyRequired,
    LogClosed,
    LogPoisoned,
    LogReadOnly,
    OffsetError,
    OnceConflict,
    RecordTooLarge,
    SeglogError,
    TopicExists,
    TopicNotFound,
    Unauthorized,
    UnknownMember,
)
from seglog.kafka.faults import (
    BadRegex,
    BadTimeout,
    Completing,
    FencedInstance,
    FencedMember,
    FewCopies,
    FutureEpoch,
    GroupFull,
    LargeTransaction,
    NotCopied,
    NotOwner,
    OldProducerEpoch,
    OutOfOrderSequence,
    StaleEpoch,
    Undecided,
    UnknownProducer,
    UnknownTopicId,
    UnreleasedInstance,
    UnsupportedAssignor,
    WrongState,
)
from seglog.kafka.records.faults import BadBatch, BadTimes, DamagedBatch, OldFormat, TooLarge
from seglog.server.runtime.shares import ShareFull

NONE = 0
OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER = 6
REQUEST_TIMED_OUT = 7
MESSAGE_TOO_LARGE = 10
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
INVALID_TOPIC = 17
NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
INVALID_REQUIRED_ACKS = 21
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
CLUSTER_AUTHORIZATION_FAILED = 31
INVALID_TIMESTAMP = 32
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
UNSUPPORTED_VERSION = 35
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
INVALID_CONFIG = 40
INVALID_REQUEST = 42
UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
POLICY_VIOLATION = 44
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
INVALID_PRODUCER_ID_MAPPING = 49
INVALID_TRANSACTION_TIMEOUT = 50
CONCURRENT_TRANSACTIONS = 51
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
OPERATION_NOT_ATTEMPTED = 55
STORAGE_ERROR = 56
SASL_AUTHENTICATION_FAILED = 58
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
MEMBER_ID_REQUIRED = 79
GROUP_MAX_SIZE_REACHED = 81
FENCED_INSTANCE_ID = 82
ELECTION_NOT_NEEDED = 84
GROUP_SUBSCRIBED_TO_TOPIC = 86
INVALID_RECORD = 87
UNSTABLE_OFFSET_COMMIT = 88
PRODUCER_FENCED = 90
RESOURCE_NOT_FOUND = 91
DUPLICATE_RESOURCE = 92
INVALID_UPDATE_VERSION = 95
UNKNOWN_TOPIC_ID = 100
TRANSACTIONAL_ID_NOT_FOUND = 105
FENCED_MEMBER_EPOCH = 110
UNRELEASED_INSTANCE_ID = 111
UNSUPPORTED_ASSIGNOR = 112
STALE_MEMBER_EPOCH = 113
MISMATCHED_ENDPOINT_TYPE = 114
UNSUPPORTED_ENDPOINT_TYPE = 115
INVALID_REGULAR_EXPRESSION = 128

_CODES: tuple[tuple[type[SeglogError], int], ...] = (  # the first one that fits counts
    (FewCopies, NOT_ENOUGH_REPLICAS),
    (NotCopied, NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    (StaleEpoch, FENCED_LEADER_EPOCH),
    (FutureEpoch, UNKNOWN_LEADER_EPOCH),
    (OldProducerEpoch, INVALID_PRODUCER_EPOCH),
    (WrongState, INVALID_TXN_STATE),
    (UnknownProducer, INVALID_PRODUCER_ID_MAPPING),
    (BadTimeout, INVALID_TRANSACTION_TIMEOUT),
    (Completing, CONCURRENT_TRANSACTIONS),
    (LargeTransaction, POLICY_VIOLATION),
    (Undecided, COORDINATOR_NOT_AVAILABLE),
    (NotOwner, TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    (OutOfOrderSequence, OUT_OF_ORDER_SEQUENCE_NUMBER),
    (DamagedBatch, CORRUPT_MESSAGE),
    (OldFormat, UNSUPPORTED_FOR_MESSAGE_FORMAT),
    (TooLarge, MESSAGE_TOO_LARGE),
    (BadTimes, INVALID_TIMESTAMP),
    (BadBatch, INVALID_RECORD),
    (RecordTooLarge, MESSAGE_TOO_LARGE),
    (KeyRequired, INVALID_RECORD),
    (UnknownTopicId, UNKNOWN_TOPIC_ID),
    (TopicNotFound, UNKNOWN_TOPIC_OR_PARTITION),
    (TopicExists, TOPIC_ALREADY_EXISTS),
    (OffsetError, OFFSET_OUT_OF_RANGE),
    (OnceConflict, OUT_OF_ORDER_SEQUENCE_NUMBER),
    (GroupNotFound, GROUP_ID_NOT_FOUND),
    (GroupConflict, INCONSISTENT_GROUP_PROTOCOL),
    (UnknownMember, UNKNOWN_MEMBER_ID),
    (FencedMember, FENCED_MEMBER_EPOCH),
    (FencedInstance, FENCED_INSTANCE_ID),
    (UnreleasedInstance, UNRELEASED_INSTANCE_ID),
    (UnsupportedAssignor, UNSUPPORTED_ASSIGNOR),
    (BadRegex, INVALID_REGULAR_EXPRESSION),
    (GroupFull, GROUP_MAX_SIZE_REACHED),
    (Unauthorized, CLUSTER_AUTHORIZATION_FAILED),
    (Forbidden, TOPIC_AUTHORIZATION_FAILED),
    (ConfigError, INVALID_CONFIG),
    (CorruptRecord, CORRUPT_MESSAGE),
    (LogReadOnly, POLICY_VIOLATION),
    (LogPoisoned, STORAGE_ERROR),
    (LogClosed, NOT_LEADER),
    (ShareFull, POLICY_VIOLATION),
    (Busy, REQUEST_TIMED_OUT),
    (InvalidArgument, INVALID_REQUEST),
    (InvalidType, INVALID_REQUEST),
    (SeglogError, STORAGE_ERROR),
)


def code_of(error: SeglogError) -> int:
    """Return the code with which an error is answered."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def coordinator_code_of(error: SeglogError) -> int:
    """Return the same for a request to a coordinator: clients do not repeat each of them after a timeout."""
    code = code_of(error)
    return COORDINATOR_NOT_AVAILABLE if code == REQUEST_TIMED_OUT else code
