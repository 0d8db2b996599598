"""In what seglog differs from Kafka 4.3.1 by the suite `configs`, and why: the one list of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.kafka.suites.verdicts import Verdicts, different


class Expected(NamedTuple):
    """Differences that are known. check, there, here: regular expressions of the whole name and of both answers."""

    reason: str
    check: str
    there: str = ".*"
    here: str = ".*"


EXPECTED = (
    Expected(
        "records are stored uncompressed by default", r"(default|delete) compression\.type", here=".*uncompressed"
    ),
    Expected(
        "the limit is that of the server, --batch-bytes", r"(default|delete|create|set|source) max\.message\.bytes.*"
    ),
    Expected("a segment of a new topic has no age", r"(default|delete) segment\.ms", here=".*9223372036854775807"),
    Expected("Kafka keeps this default for the cluster", r"default source min\.insync\.replicas", "broker", "default"),
    Expected(
        "a limit of retention is refused if it is negative, but -1", r"(create|set|source) retention\.bytes=-[23]"
    ),
    Expected(
        "a policy of nothing does not exist", r"(create|set|source) cleanup\.policy=\(empty\)|subtract delete to delete"
    ),
    Expected("at most 100 copies follow", r"(create|set|source) min\.insync\.replicas=2147483647"),
    Expected("NaN is no ratio", r"(create|set|source) min\.cleanable\.dirty\.ratio=NaN"),
    Expected("a sync takes time; acks=all waits for it", r"(create|set|source) flush\.ms=0"),
    Expected("segments may be small", r"(create|set|source) segment\.bytes=1048575", "INVALID_CONFIG|not run"),
    Expected("segments may have 4 GiB", r"(create|set|source) segment\.bytes=2147483648", "INVALID_CONFIG|not run"),
    Expected("records may be compacted at once", r"(create|set|source) max\.compaction\.lag\.ms=0"),
    Expected(
        "members do not survive a restart of the server; after UNKNOWN_MEMBER_ID clients join again",
        "group, missing: (OffsetCommit|ConsumerGroupHeartbeat).*",
        "GROUP_ID_NOT_FOUND",
        "UNKNOWN_MEMBER_ID",
    ),
)


def unexpected(theirs: Verdicts, ours: Verdicts, known: Sequence[Expected] = EXPECTED) -> Iterator[str]:
    """Yield each difference that is not known, and each known one that is none any more."""
    used = set()
    for check, there, here, _ in different(theirs, ours):
        fits = {one for one in known if all(map(re.fullmatch, one[1:], (check, there, here), (re.DOTALL,) * 3))}
        used |= fits
        if not fits:
            yield f"{check}: {there!r} there, {here!r} here"
    for one in known:
        if one not in used:
            yield f"no difference any more: {one.check} ({one.reason})"
