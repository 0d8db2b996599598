"""SASL/PLAIN with the server's tokens and rights, and TLS with its certificate."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import ExitStack

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from seglog.kafka.messages.core import METADATA
from seglog.kafka.messages.security import SASL_AUTHENTICATE, SASL_HANDSHAKE
from seglog.server.rights.access import new_token
from tests.kafka.clients import AioKafka, Confluent, KafkaPython, Sent
from tests.kafka.conftest import KafkaServer
from tests.tls import certify
from tests.waiting import HANG_SECONDS, until


def tokens_in(path, **rights):
    """Write a token file; return the tokens by name."""
    made = {name: new_token(name, given, groups) for name, (given, groups) in rights.items()}
    path.write_text(json.dumps({"tokens": [entry for _, entry in made.values()]}))
    return {name: token for name, (token, _) in made.items()}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with tokens and TLS, and the tokens by name."""
    place = tmp_path_factory.mktemp("guarded")
    tokens = tokens_in(
        place / "tokens.json",
        ops=({"*": ["admin"]}, ()),
        writer=({"orders": ["write"]}, ()),
        reader=({"orders": ["read"]}, ("mine",)),
        other=({"orders": ["read"]}, ()),
    )
    certificate, key = certify(place)
    options = ["--tokens", str(place / "tokens.json"), "--tls-cert", certificate, "--tls-key", key]
    server = KafkaServer(place / "root", options)
    server.tokens, server.certificate = tokens, certificate
    try:
        admin = AdminClient(options_of(server, "ops"))
        for created in admin.create_topics([NewTopic("orders", 1), NewTopic("secret", 1)]).values():
            created.result()
        yield server
    finally:
        server.stop()


def options_of(server, name, **options):
    return {
        "bootstrap.servers": server.address,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": name,
        "sasl.password": server.tokens.get(name, "no token"),
        "ssl.ca.location": server.certificate,
        "log_level": 0,
        **options,
    }


pytestmark = pytest.mark.needs("openssl")


def test_each_client_authenticates_over_tls(guarded):
    Confluent(guarded.address, **options_of(guarded, "writer")).produce("orders", [Sent(b"librdkafka")])
    same = {"sasl_mechanism": "PLAIN", "security_protocol": "SASL_SSL"}
    options = {**same, "sasl_plain_username": "ops", "sasl_plain_password": guarded.tokens["ops"]}
    KafkaPython(guarded.address, **options, ssl_cafile=guarded.certificate).produce("orders", [Sent(b"kafka-python")])
    context = ssl.create_default_context(cafile=guarded.certificate)
    AioKafka(guarded.address, **options, ssl_context=context).produce("orders", [Sent(b"aiokafka")])
    found = Confluent(guarded.address, **options_of(guarded, "reader", **{"group.id": "mine"})).consume("orders", 3)
    assert [one.value for one in found] == [b"librdkafka", b"kafka-python", b"aiokafka"]


def test_rights_are_those_of_the_token(guarded):
    reader, writer = AdminClient(options_of(guarded, "reader")), AdminClient(options_of(guarded, "writer"))
    with pytest.raises(KafkaException) as caught:
        Confluent(guarded.address, **options_of(guarded, "reader")).produce("orders", [Sent(b"v")])
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException) as caught:
        Confluent(guarded.address, **options_of(guarded, "writer")).consume("orders", 1)
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert sorted(writer.list_topics().topics) == ["orders"]  # others are not shown
    for refused in (
        reader.create_topics([NewTopic("new", 1)])["new"],
        reader.delete_topics(["orders"])["orders"],
        reader.create_partitions([NewPartitions("orders", 5)])["orders"],
        *reader.delete_records([confluent_kafka.TopicPartition("orders", 0, 0)]).values(),
        *reader.describe_configs([ConfigResource(ResourceType.TOPIC, "secret")]).values(),
    ):
        with pytest.raises(KafkaException) as caught:
            refused.result()
        assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_group_that_a_token_owns_is_its_own(guarded):
    consumer = confluent_kafka.Consumer(options_of(guarded, "other", **{"group.id": "mine"}))
    with pytest.raises(KafkaException) as caught:
        consumer.committed([confluent_kafka.TopicPartition("orders", 0)], timeout=HANG_SECONDS)
    assert caught.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()


@pytest.mark.parametrize(("user", "password"), [("ops", "wrong"), ("writer", None), ("", "")])
def test_a_wrong_password_or_another_user_is_refused(guarded, user, password):
    given = guarded.tokens["ops"] if password is None else password
    errors = []
    options = options_of(guarded, "ops", **{"sasl.username": user or "x", "sasl.password": given or "x"})
    client = confluent_kafka.Producer({**options, "error_cb": errors.append})
    until(lambda: client.poll(0.1) is not None and errors)
    assert errors[0].code() == KafkaError._AUTHENTICATION


def test_without_authentication_nothing_is_answered(own_kafka, tmp_path):
    token = tokens_in(tmp_path / "tokens.json", ops=({"*": ["admin"]}, ()))["ops"]
    kafka = own_kafka("--tokens", str(tmp_path / "tokens.json"))
    with kafka.connection() as raw:
        raw.request(3, 4, b"\xff\xff\xff\xff\x01")
        assert raw.response() == b""
    with kafka.connection() as raw:
        assert raw.ask(SASL_AUTHENTICATE, 0, {"auth_bytes": b"\0ops\0" + token.encode()})["error_code"] == 34
        assert raw.ask(SASL_HANDSHAKE, 1, {"mechanism": "GSSAPI"}) == {"error_code": 33, "mechanisms": ["PLAIN"]}
        for message, code in ((b"", 58), (b"\0ops\0wrong", 58), (b"\0ops\0" + token.encode(), 0)):
            assert raw.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})["error_code"] == 0
            assert raw.ask(SASL_AUTHENTICATE, 1, {"auth_bytes": message})["error_code"] == code
        found = raw.ask(METADATA, 4, {"topics": None, "allow_auto_topic_creation": True})
        assert [one["name"] for one in found["topics"]] == ["default"]


def test_a_server_without_tokens_accepts_any_password(kafka):
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "log_level": 0}
    client = AdminClient({"bootstrap.servers": kafka.address, "sasl.username": "a", "sasl.password": "b", **options})
    assert "default" in client.list_topics(timeout=HANG_SECONDS).topics


def test_connections_without_a_handshake_are_counted(guarded, own_kafka, tmp_path):
    key = guarded.certificate.replace("cert.pem", "key.pem")
    kafka = own_kafka("--tls-cert", guarded.certificate, "--tls-key", key, "--connections", "4")
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", kafka.kafka_port), timeout=HANG_SECONDS))
            for _ in range(8)
        ]
        assert all(map(_is_closed, silent[4:]))
        for one in silent[:4]:
            one.setblocking(False)  # a handshake may take ten seconds
            with pytest.raises(BlockingIOError):
                one.recv(1)


def _is_closed(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
