"""The transactional ids on disk: a compacted log, `.producers`, of which the latest record of each id counts.

key    the id
value  {"owner": "...", "producer": 12, "epoch": 3, "timeout": 60.0, "state": "committed", "at": 17...,
        "transaction": the name of the last one's journal, "aborted": [[topic id, partition, next sequence], ...]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from seglog.errors import CorruptLog
from seglog.format.foreign import UNREADABLE
from seglog.kafka.transactions.state import State, Transactional

if TYPE_CHECKING:
    from seglog.log.log import Log


def encode(one: Transactional) -> bytes:
    """Return the value of an id's record."""
    values = {
        "owner": one.owner,
        "producer": one.producer_id,
        "epoch": one.epoch,
        "timeout": one.timeout,
        "state": one.state.value,
        "at": one.used_at,
        "transaction": one.transaction,
        "aborted": [[*place, following] for place, following in one.aborted.items()],
    }
    return json.dumps(values, separators=(",", ":")).encode()


def decode(key: bytes, value: bytes) -> Transactional:
    """Parse a record. Raises ValueError, TypeError or KeyError for anything else than `encode` returns."""
    values = json.loads(value)
    return Transactional(
        name=key.decode(),
        owner=values["owner"],
        producer_id=int(values["producer"]),
        epoch=int(values["epoch"]),
        timeout=float(values["timeout"]),
        state=State(values["state"]),
        used_at=int(values["at"]),
        transaction=values.get("transaction", ""),
        aborted={(topic, int(number)): int(following) for topic, number, following in values["aborted"]},
    )


class Store:
    """The log of ids. Called on threads."""

    def __init__(self, log: Callable[[bool], Log | None]) -> None:
        """log: returns the log, None if it does not exist and its argument is False."""
        self._log = log

    def load(self) -> Iterator[Transactional]:
        """Yield all ids. Raises CorruptLog, naming the record, for an unknown one."""
        log = self._log(False)
        latest = {} if log is None else {record.key: record for record in log.scan()}
        for key, record in latest.items():
            if record.value is None:
                continue
            try:
                yield decode(key or b"", record.value)
            except UNREADABLE as error:
                raise CorruptLog(
                    f"{log and log.path}: offset {record.offset} is no transactional id: {error}. Nothing was changed; "
                    "restore the log, or move it away to forget all ids"
                ) from error

    def write(self, one: Transactional, *, durable: bool = True) -> None:
        """Store an id; it survives kill -9, and power loss if durable."""
        self._append(one.name.encode(), encode(one), durable=durable)

    def forget(self, name: str) -> None:
        """Remove an id."""
        self._append(name.encode(), None, durable=False)

    def _append(self, key: bytes, value: bytes | None, *, durable: bool) -> None:
        log = self._log(True)
        assert log is not None  # noqa: S101 - it is created
        log.append(value, key=key)
        if durable:
            log.sync()
        else:
            log.flush()
