"""A reader of logs in a process of its own, driven by the machine in test_machine.py.

Every line on stdin is a JSON pair [command, argument], answered with one line: ["open", path], ["scan", null] (all
records), ["begin", count] (the first ones of another scan), ["finish", null] (the rest of that), ["close", null].
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import seglog


class Reader:
    """The log that is open, and the scan that was begun."""

    log: seglog.Log
    begun: Iterator[seglog.Record] = iter(())

    def open(self, path: str) -> None:
        self.log = seglog.open(path, mode="r")

    def scan(self, _: None) -> list[Any]:
        return rows(self.log.scan())

    def begin(self, count: int) -> list[Any]:
        self.begun = self.log.scan()
        return rows(islice(self.begun, count))

    def finish(self, _: None) -> list[Any]:
        return rows(self.begun)

    def close(self, _: None) -> None:
        self.begun = iter(())
        self.log.close()


def rows(records: Iterator[seglog.Record]) -> list[Any]:
    return [[one.offset, *(None if part is None else part.hex() for part in (one.key, one.value))] for one in records]


if __name__ == "__main__":
    reader = Reader()
    for line in sys.stdin:
        command, argument = json.loads(line)
        print(json.dumps(getattr(reader, command)(argument)), flush=True)
