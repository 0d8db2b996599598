"""Workers share requests: request number i is handled by worker i % n, without a coordinator.

    python examples/workers.py DIRECTORY submit 1000     # requests
    python examples/workers.py DIRECTORY work 0 3        # the first of three workers; each in a terminal of its own
    python examples/workers.py DIRECTORY results

Each worker writes its results to a log of its own, at the offsets of the requests. So its log shows where it is: a
worker that was killed continues there, and no request is lost or handled twice.
"""

from __future__ import annotations

import sys
from math import isqrt
from pathlib import Path

import seglog


def submit(directory: str, count: str) -> None:
    """Append requests: numbers to factorize."""
    with seglog.open(f"{directory}/requests") as log:
        for number in range(int(count)):
            log.append(b"%d" % (10_000_000 + 7919 * number))
        log.sync()


def work(directory: str, number: str, workers: str) -> None:
    """Handle the requests of one worker, until none has come for a second."""
    share = int(number), int(workers)
    with (
        seglog.open(f"{directory}/requests", mode="r") as requests,
        seglog.open(f"{directory}/results-{number}") as results,
    ):
        begun = results.next_offset
        for request in requests.follow(begun, timeout=1, share=share):
            factors = " ".join(map(str, factorize(int(request.value or b"1"))))
            results.append_at(request.offset, seglog.Record(request.offset, request.timestamp, None, factors.encode()))
            print(f"request {request.offset}", flush=True)


def factorize(number: int) -> list[int]:
    """Return the prime factors of a number."""
    for factor in range(2, isqrt(number) + 1):
        if number % factor == 0:
            return [factor, *factorize(number // factor)]
    return [number]


def results(directory: str) -> None:
    """Print the results of all workers in the order of the requests."""
    found: dict[int, str] = {}
    for path in sorted(Path(directory).glob("results-*")):
        with seglog.open(path, mode="r") as log:
            found |= {record.offset: (record.value or b"").decode() for record in log.scan()}
    for offset, factors in sorted(found.items()):
        print(offset, factors)


if __name__ == "__main__":
    directory, command, *words = sys.argv[1:]
    if command == "submit":
        submit(directory, *words)
    elif command == "work":
        work(directory, *words)
    else:
        results(directory)
