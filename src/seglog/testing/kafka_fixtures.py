"""`KafkaBroker` as fixtures of pytest: `pytest_plugins = ["seglog.testing.kafka_fixtures"]` in conftest.py.

def test_my_program(kafka_broker):
    my_program.run(bootstrap_servers=kafka_broker.address)
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from seglog.testing.kafka import KafkaBroker


@pytest.fixture
def kafka_broker() -> Iterator[KafkaBroker]:
    """A broker in memory for one test."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def shared_kafka_broker() -> Iterator[KafkaBroker]:
    """A broker in memory for all tests, which use topics of their own."""
    with KafkaBroker() as broker:
        yield broker
