"""Consumers that read until stdin ends and their groups have read everything, and write down what they took.

    soak_consumers.py URL TOPIC LEDGER GROUP ...        a consumer for each GROUP named, the same one several times

A record is entered once its commit is acknowledged: a JSON line [group, consumer, taken at, partition, offset, name].
A commit whose answer is lost is asked for again. Each consumer leaves now and then and comes back as another member.
Last, a line of what could not be committed for good, which is not entered: ["refused", group, consumer, error].
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from seglog.client.client import Client
from seglog.errors import Busy, ConnectionFailed, GroupNotFound, NotAssigned, UnknownMember

POLL_SECONDS = 1.0
STAYS = (20, 60)  # polls until a consumer leaves and comes back

Enter = Callable[[list[Any]], None]


def until_answered(call: Callable[[], Any]) -> Any:
    while True:
        try:
            return call()
        except (ConnectionFailed, Busy):
            continue


def all_is_read(client: Client, group: str) -> bool:
    try:
        return not any(until_answered(lambda: client.group(group)).lag.values())
    except GroupNotFound:
        return False


def stay(client: Client, topic: str, group: str, number: int, polls: int, over: threading.Event, enter: Enter) -> None:
    """Be a member for so many polls."""
    consumer = until_answered(lambda: client.consumer(group, [topic]))
    try:
        for _ in range(polls):
            records = until_answered(lambda: consumer.poll(timeout=POLL_SECONDS))
            taken = time.monotonic_ns()
            if records:
                until_answered(consumer.commit)
                for one in records:
                    enter([group, number, taken, one.partition, one.offset, one.value.split()[0].decode()])
            elif over.is_set() and all_is_read(client, group):
                return
    finally:
        until_answered(consumer.close)


def consume(client: Client, topic: str, group: str, number: int, over: threading.Event, enter: Enter) -> None:
    chance = random.Random(number)
    while not (over.is_set() and all_is_read(client, group)):
        try:
            stay(client, topic, group, number, chance.randint(*STAYS), over, enter)
        except (NotAssigned, UnknownMember) as error:
            enter(["refused", group, number, str(error)])


def main(url: str, topic: str, ledger_path: str, *groups: str) -> None:
    over, alone = threading.Event(), threading.Lock()
    failures: list[BaseException] = []
    with open(ledger_path, "w") as file, Client(url) as client:  # noqa: PTH123 - a program's argument

        def enter(line: list[Any]) -> None:
            with alone:  # a text file is not made for threads
                file.write(json.dumps(line) + "\n")

        def run(group: str, number: int) -> None:
            try:
                consume(client, topic, group, number, over, enter)
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=run, args=(group, number)) for number, group in enumerate(groups)]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise SystemExit(f"{len(failures)} consumers failed")


if __name__ == "__main__":
    main(*sys.argv[1:])
