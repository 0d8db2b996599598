"""A bank: accounts, whose only stored form is the ledger of all deposits and transfers, with snapshots.

    python examples/bank.py DIRECTORY deposit ann 100
    python examples/bank.py DIRECTORY transfer ann bob 30
    python examples/bank.py DIRECTORY balances
    python examples/bank.py DIRECTORY balances 2026-05-01T12:00:00      # as of that time (UTC)

A transfer of money that an account does not have is in the ledger, too, and every replay declines it: the decision
depends only on the records before it, so all replicas decide the same.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

import seglog
from seglog.types import Replayed

State = dict[str, Any]
"""balances: account -> cents; declined: offsets of transfers that were not possible."""


class Bank:
    """The state machine of the bank."""

    version = 1
    """Snapshots of another version are not used: increase it when `apply` changes."""

    def initial(self) -> State:
        """Return a bank without accounts."""
        return {"balances": {}, "declined": []}

    def apply(self, state: State, record: seglog.Record) -> State:
        """Execute one order."""
        order, balances = json.loads(record.value or b"{}"), state["balances"]
        source, target, amount = order.get("from"), order["to"], order["amount"]
        if source is not None:
            if balances.get(source, 0) < amount:
                state["declined"].append(record.offset)
                return state
            balances[source] -= amount
        balances[target] = balances.get(target, 0) + amount
        return state

    def encode(self, state: State) -> bytes:
        """Return the state as JSON."""
        return json.dumps(state).encode()

    def decode(self, data: bytes) -> State:
        """Return the state that `encode` wrote."""
        state: State = json.loads(data)
        return state


def order(directory: str, **fields: Any) -> int:
    """Append an order to the ledger, durably; return its offset. It is executed by whoever replays the ledger."""
    with seglog.open(f"{directory}/ledger", seglog.LogConfig(flush_records=1), wait=10) as ledger:
        return ledger.append(json.dumps(fields).encode())


def bank_at(directory: str, moment: datetime | None = None) -> Replayed[State]:
    """Return the bank as it is, or as it was at a moment."""
    return seglog.replay(f"{directory}/ledger", Bank(), stop=moment, snapshots=f"{directory}/snapshots")


def main(directory: str, command: str, *words: str) -> None:
    """Execute a command."""
    if command == "deposit":
        order(directory, to=words[0], amount=int(words[1]))
    elif command == "transfer":
        offset = order(directory, **{"from": words[0], "to": words[1], "amount": int(words[2])})
        print("declined" if offset in bank_at(directory).state["declined"] else "done")
    else:
        found = bank_at(directory, datetime.fromisoformat(words[0]) if words else None)
        for account, balance in sorted(found.state["balances"].items()):
            print(account, balance)
        resumed = found.partitions[0].resumed_at
        print(f"{found.records} orders executed after {'the beginning' if resumed is None else f'offset {resumed}'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
