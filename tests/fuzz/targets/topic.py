"""What makes logs a topic: `topic.json`, the files of transactions, the segments that those name."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from xxhash import xxh64_hexdigest

from seglog.errors import SeglogError
from seglog.log.staging import StagedSegment
from seglog.topic.layout.description import Description, parse
from seglog.topic.transaction import Transaction
from tests.fuzz.choices import Choices, mangled_text
from tests.fuzz.targets.manifest import SEALED

if TYPE_CHECKING:
    from collections.abc import Iterator

DESCRIPTION = (json.dumps(asdict(Description("orders", 4, "ab" * 16))) + "\n").encode()
STAGED = StagedSegment(directory="staging/batch/5-ab", entry=SEALED)
TRANSACTION = Transaction(query="query", batch=7, staged={0: [STAGED], 3: [STAGED, STAGED]}).encode()
AS_IT_IS, CHANGED_TOPIC, CHANGED_TRANSACTION = b"\0", b"\1", b"\2"


def seeds() -> Iterator[bytes]:
    yield b""
    yield AS_IT_IS + DESCRIPTION
    yield AS_IT_IS + TRANSACTION
    for number in range(0, 250, 20):
        yield CHANGED_TOPIC + bytes([1, number, number % 21])
        yield CHANGED_TRANSACTION + bytes([1, number, 0, number % 21])


def target(data: bytes) -> None:
    kind, text = data[:1], data[1:]
    if kind in (CHANGED_TOPIC, CHANGED_TRANSACTION):
        choices, text = Choices(text), DESCRIPTION if kind == CHANGED_TOPIC else TRANSACTION
        for _ in range(1 + choices.below(3)):
            text = mangled_text(text, choices)
    with suppress(SeglogError):
        found = parse(text, "topic.json")  # type: ignore[arg-type,unused-ignore] # a path, used only in errors
        assert asdict(found).items() <= json.loads(text).items()
    for body in (text, checked(text)):
        with suppress(SeglogError):
            decoded = Transaction.decode(body, "txn")
            assert Transaction.decode(decoded.encode(), "txn") == decoded


def checked(text: bytes) -> bytes:
    """Return a transaction's file whose check holds for its first line."""
    body = text.partition(b"\n")[0]
    return body + b"\n" + xxh64_hexdigest(body).encode() + b"\n"
