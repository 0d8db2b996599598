"""Kafka's own Java clients and test programs against this server. Deep: Maven fetches them, and each starts a JVM."""

from __future__ import annotations

import pytest

from tests.kafka.programs_run import try_java, try_kcat
from tests.kafka.suites import verifiable

pytestmark = [pytest.mark.deep, pytest.mark.needs("java", "maven")]


def test_each_feature_of_the_java_clients_works(kafka):
    assert set(try_java(kafka.address, ("transactional", "consumer")).values()) == {"yes"}


@pytest.mark.needs("kcat")
def test_each_feature_of_kcat_works(kafka):
    assert set(try_kcat(kafka.address).values()) == {"has none", "yes"}


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_what_the_verifiable_producer_has_sent_the_verifiable_consumer_reads(kafka, name, tmp_path, acks):
    verifiable.read_once(tmp_path, kafka.address, acks=acks, topic=name)
