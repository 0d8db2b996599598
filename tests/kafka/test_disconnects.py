"""Clients that close their connections while the server works for them."""

from __future__ import annotations

import io

from kio.records.schema import NewRecordBatch
from kio.records.writers import write_batch

from seglog.kafka.messages.core import PRODUCE
from seglog.kafka.messages.groups import LIST_GROUPS
from seglog.kafka.wire.buffers import Writer
from seglog.testing.internals import state_of
from tests.kafka.conftest import connected, until
from tests.kafka.test_record_batches import kio_records

pytest_plugins = ["seglog.testing.kafka_fixtures"]


def test_records_that_have_arrived_are_appended_although_the_client_is_gone(kafka_broker):
    log = kafka_broker.broker.create_topic("orders").partition(0)
    with state_of(log).mutex:  # so both appends wait
        for value in (b"first", b"second"):
            _produce_and_leave(kafka_broker.address, value)
        with connected(kafka_broker.address) as raw:
            raw.ask(LIST_GROUPS, 0, {})  # answered after the server has seen that the clients are gone
        assert log.view().next_offset == 0
    until(lambda: log.next_offset == 2)
    assert sorted(record.value for record in log.scan()) == [b"first", b"second"]


def _produce_and_leave(address, value):
    target = io.BytesIO()
    head = {"producer_id": -1, "producer_epoch": -1, "partition_leader_epoch": 0, "base_sequence": -1, "attributes": 0}
    write_batch(target, NewRecordBatch(records=kio_records([(1000, None, value, ())]), **head))
    part = {"index": 0, "records": target.getvalue()}
    request = {"acks": 0, "timeout_ms": 1000, "topic_data": [{"name": "orders", "partition_data": [part]}]}
    wanted = Writer()
    PRODUCE.request.write(wanted, request, PRODUCE.form(8))
    with connected(address) as raw:
        raw.request(PRODUCE.key, 8, b"".join(bytes(one) for one in wanted.parts()))
