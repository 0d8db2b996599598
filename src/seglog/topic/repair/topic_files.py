"""Restore a damaged `topic.json` or file of `txn/` exactly. Pure: bytes in, bytes or values out.

Both carry a checksum. So one changed byte is found by trying all values (in a larger file: one flipped bit), and a
partly lost `topic.json` is rebuilt from the rest and the directories: what the checksum confirms is certain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import product

from seglog.errors import ConfigError, CorruptLog, FormatVersionError
from seglog.format.foreign import UNREADABLE
from seglog.policies import Policies
from seglog.topic.layout.description import Description, check_of, parse

TRIED_BYTE_BY_BYTE = 1024
TRIED_BIT_BY_BIT = 32 * 1024
"""Up to this size, trying takes a second or two."""


def turned_back(data: bytes, holds: Callable[[bytes], bool]) -> bytes | None:
    """Return the bytes with the one byte, or bit, restored that makes them valid; None if no single change does."""
    if len(data) > TRIED_BIT_BY_BIT:
        return None
    changes = range(1, 256) if len(data) <= TRIED_BYTE_BY_BYTE else [1 << bit for bit in range(8)]
    tried = bytearray(data)
    for place, change in product(range(len(tried)), changes):
        tried[place] ^= change
        if holds(bytes(tried)):
            return bytes(tried)
        tried[place] ^= change
    return None


@lru_cache(maxsize=64)  # every following step asks again, and it takes a second
def mended_description(text: bytes, directory: str, partitions: int) -> Description | None:
    """Return the certain content of a damaged topic.json, None if it cannot be determined.

    directory: the name of the topic's directory; partitions: how many partition directories there are.
    """
    whole = turned_back(text, _is_checked)
    if whole is not None:
        return parse(whole, directory)
    check = _field(text, "check", r'"([0-9a-f]{16})"')
    identity = _field(text, "id", r'"([0-9a-f]{32})"')
    names = {directory, _field(text, "name", r'"([^"\\]*)"') or directory}
    counts = {partitions, told_partitions(text) or partitions}
    for name, count, policies in product(names, counts, {None, _told_policies(text)}):
        guess = Description(name=name, partitions=count, id=identity or "", policies=policies)
        if check_of(guess) == check:
            return guess
    return None


def told_partitions(text: bytes) -> int | None:
    """Return the number of partitions that a damaged topic.json seems to contain."""
    count = _field(text, "partitions", r"([0-9]{1,5})\b")
    return None if count is None else int(count)


def _told_policies(text: bytes) -> Policies | None:
    """Return the policies that a damaged topic.json seems to contain."""
    found = _field(text, "policies", r"(\{(?:[^{}]|\{[^{}]*\})*\})")
    try:
        return None if found is None else Policies.from_json(json.loads(found))
    except (*UNREADABLE, ConfigError, TypeError):
        return None


def _is_checked(text: bytes) -> bool:
    try:
        parse(text, "")
    except (CorruptLog, FormatVersionError):
        return False
    return b'"check"' in text


def _field(text: bytes, name: str, value: str) -> str | None:
    found = re.search(rf'"{name}": {value}', text.decode("utf-8", "replace"))
    return None if found is None else found[1]
