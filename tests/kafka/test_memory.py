"""What a fetch holds in memory is bounded, however long the records are."""

from __future__ import annotations

from seglog.client import Client
from seglog.kafka import codes
from seglog.kafka.messages.core import FETCH

MIB = 1024 * 1024


def test_a_record_that_needs_more_memory_than_all_responses_may_have_is_reported(own_kafka):
    kafka = own_kafka("--memory", "64MiB")  # of which responses have a half, and a record is there twice
    with Client(kafka.url) as http:
        for size in (12 * MIB, 20 * MIB):
            http.topic("default").append(bytes(size))
    found = []
    for offset in (0, 1):
        place = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1}
        topics = [{"topic": "default", "partitions": [place]}]
        with kafka.connection() as raw:
            answer = raw.ask(FETCH, 4, {"max_wait_ms": 10, "min_bytes": 1, "max_bytes": 1, "topics": topics})
        [partition] = answer["responses"][0]["partitions"]
        found.append((partition["error_code"], len(partition["records"] or b"") // MIB))
    assert found == [(codes.NONE, 12), (codes.MESSAGE_TOO_LARGE, 0)]
