"""`python -m tests.fuzz.record`: record what the Python clients send, as the corpus of the target kafka_sessions.

Each session is one client that uses one feature of a new broker, as tests/kafka/matrix.py does. Requests that only
repeat the one before are left out: the client was waiting.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from seglog.kafka import connection
from seglog.testing.kafka import KafkaBroker
from tests.fuzz.runner import HERE
from tests.fuzz.targets.kafka_sessions import LONGEST, joined, predictable
from tests.kafka import matrix
from tests.kafka.clients import Sent

FILE = HERE / "corpus" / "kafka_sessions.txt"
BEFORE = {"consume": ("produce", "idempotent"), "group": ("produce",), "transactional": ("produce",)}
COUNT = 3
CORRELATION = slice(4, 8)  # differs in each request of a connection


@contextmanager
def recorded() -> Iterator[list[bytes]]:
    """Give the requests that a broker of this process gets."""
    found: list[bytes] = []
    answer = connection.answer

    def listen(parts: Any, sender: Any, data: Any) -> Any:
        found.append(bytes(data))
        return answer(parts, sender, data)

    with mock.patch.object(connection, "answer", listen):
        yield found


def session(client: str, feature: str) -> list[bytes]:
    """Return what a client sends to use a feature, with what it needs before: a topic, and records."""
    features = matrix.PYTHON[client]
    with predictable(), KafkaBroker() as kafka, recorded() as found:
        for one in dict.fromkeys(("admin", *BEFORE.get(feature, ()), feature)):
            features[one](kafka.address, f"{feature}-topic")
    kept: list[bytes] = []
    for request in found:
        if all(_same(request) != _same(one) for one in kept[-4:]):
            kept.append(request)
    while len(joined(kept)) > LONGEST:
        kept.pop()
    return kept


def _same(request: bytes) -> bytes:
    return request[: CORRELATION.start] + request[CORRELATION.stop :]


def main() -> None:
    """Write the corpus."""
    lines = ["# What the Python clients send (python -m tests.fuzz.record): a session a line in base64."]
    small = {"COUNT": COUNT, "RECORDS": [Sent(b"%d" % number, b"k") for number in range(COUNT)]}
    with mock.patch.multiple(matrix, **small):
        for client, features in matrix.PYTHON.items():
            for feature in features:
                requests = session(client, feature)
                lines += [
                    f"# {client}, {feature}: {len(requests)} requests",
                    base64.b64encode(joined(requests)).decode(),
                ]
                print(lines[-2], flush=True)
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
