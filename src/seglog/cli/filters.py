"""Filters on records: by key, by text in the value, by JSON path, by share. Pure functions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from seglog.cli.frame import Args, option
from seglog.errors import InvalidArgument
from seglog.format.foreign import UNREADABLE
from seglog.record import Record, Share, checked_share

Test = Callable[[Record], bool]

_GROUP = "Filters (a record must match all of them)"


def parse_share(words: str) -> Share | None:
    """Parse I/N. Raises InvalidArgument unless 0 <= I < N."""
    number, slash, workers = words.partition("/")
    if not (slash and number.isdecimal() and workers.isdecimal()):
        raise InvalidArgument(f"{words!r} is not a share; write I/N, such as 0/3 for the first of three workers")
    return checked_share((int(number), int(workers)))


FILTERS = (
    option("--key", metavar="KEY", help="only records with this key", group=_GROUP),
    option("--text", metavar="TEXT", help="only values that contain this text", group=_GROUP),
    option(
        "--where",
        metavar="EXPR",
        help="only JSON values that match: a filter of RFC 9535, as '@.qty > 2 && @.user.name == \"Ann\"', or a path "
        "that must exist, as '$.items[0].price'",
        group=_GROUP,
    ),
    option(
        "--share",
        metavar="I/N",
        type=parse_share,
        help="only records whose offset % N is I: N workers, from 0/N on, share the records",
        group=_GROUP,
    ),
)


def filter_from(args: Args) -> Test | None:
    """Return the FILTERS options as one test, None if none is given."""
    tests: list[Test] = []
    if args.key is not None:
        key = os.fsencode(args.key)
        tests.append(lambda record: record.key == key)
    if args.text is not None:
        text = os.fsencode(args.text)
        tests.append(lambda record: record.value is not None and text in record.value)
    if args.where is not None:
        matches = _where(args.where)
        tests.append(lambda record: record.value is not None and matches(record.value))
    if args.share is not None:
        number, workers = args.share
        tests.append(lambda record: record.offset % workers == number)
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda record: all(test(record) for test in tests)


def _where(expression: str) -> Callable[[bytes], bool]:
    """Return a test: whether a value is JSON that the expression matches."""
    import jsonpath  # takes 50 ms: only this filter pays for it

    whole = expression.strip().startswith("$")
    try:
        path = jsonpath.compile(expression.strip() if whole else f"$[?({expression})]")
    except jsonpath.JSONPathError as error:
        why = f"{str(error).splitlines()[0]}; start fields with @. or $."
        raise InvalidArgument(f"--where {expression!r} is not a JSON path: {why}") from error

    def matches(value: bytes) -> bool:
        try:
            found: Any = json.loads(value)
        except UNREADABLE:
            return False
        try:
            return path.match(found if whole else [found]) is not None
        except (jsonpath.JSONPathError, RecursionError):
            return False

    return matches
