r"""Sizes (bytes), durations (seconds) and times (microseconds) as text: parsed and formatted.

    64MiB 1GB 512        units of 1024 and of 1000; a bare M is rejected because it could be either
    90s 15m 1h30m 7d     a bare number is seconds
    2024-05-01T12:00Z    ISO 8601, UTC if no zone is given; digits only: int microseconds since the epoch
    1h ago, now, 5us     times relative to a clock, and numbers with a unit: only on a command line

Pure functions; every parser raises argparse.ArgumentTypeError with the forms that it accepts.
"""

from __future__ import annotations

import os
import re
import time
from argparse import ArgumentTypeError
from datetime import datetime, timedelta
from fractions import Fraction

from seglog.clock import microseconds
from seglog.record import EPOCH, looks_like, unit_hint

_SIZES = {"": 1, "b": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgtp", 1)
    for suffix, base in (("ib", 1024), ("b", 1000))
}
_MILLISECONDS = {"ms": 1, "": 1000, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_NUMBER = r"\d{1,30}(?:\.\d{1,30})?(?![\d.])"  # more digits than any valid number, but few enough for a float
_PART = re.compile(rf"({_NUMBER})\s*([A-Za-z]*)\s*")  # one part of a duration
_DIGITS = r"[+-]?\d{1,30}"
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def parse_size(text: str) -> int:
    """Return a size such as 64MiB, 1GB or 512 in bytes."""
    match = re.fullmatch(rf"\s*({_NUMBER})\s*([A-Za-z]*)\s*", text)
    factor = _SIZES.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ArgumentTypeError(f"{text!r} is not a size; write bytes as 512, 64MiB (1024) or 1GB (1000)")
    size = Fraction(match[1]) * factor
    if size.denominator != 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of bytes")
    return int(size)


def parse_duration(text: str) -> float:
    """Return a duration such as 90s, 15m, 1h30m or 7d in seconds; a bare number is seconds."""
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip() or any(unit.lower() not in _MILLISECONDS for _, unit in parts):
        raise ArgumentTypeError(f"{text!r} is not a duration; write 90s, 15m, 1h30m, 7d, or seconds")
    return float(sum(Fraction(number) * _MILLISECONDS[unit.lower()] for number, unit in parts) / 1000)


def parse_time(text: str, *, force_timestamp: bool = False) -> int:
    """Return ISO 8601 (UTC if no zone is given) or digits (microseconds) as microseconds since the epoch.

    force_timestamp: take digits that look like seconds or milliseconds as they are, instead of refusing them.
    """
    if re.fullmatch(rf"\s*{_DIGITS}\s*", text):
        moment_us = int(text.strip())  # strips more than int() ignores
        if not -(2**63) <= moment_us < 2**63:
            raise ArgumentTypeError(f"{text!r} does not fit 64 bits of microseconds")
        if not force_timestamp and looks_like(moment_us):
            raise ArgumentTypeError(unit_hint(moment_us))
        return moment_us
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ArgumentTypeError(
            f"{text!r} is not a time; write ISO 8601 such as 2024-05-01T12:00:00Z, or int microseconds"
        ) from None
    return microseconds(moment)


def parse_moment(text: str, now_us: int | None = None, *, force_timestamp: bool = False) -> int:
    """Return a time, absolute (as `parse_time`) or relative to now, in microseconds since the epoch.

    Relative forms: now, today, yesterday (midnight, UTC), "1h30m ago"; also @1714564800 (seconds since the epoch) and
    1714564800us (microseconds, whatever they look like). now_us: default: the system's clock.
    """
    words = text.strip().lower()
    if re.fullmatch(_DIGITS, words) and not force_timestamp:
        _refuse_other_unit(int(words))
    if re.fullmatch(f"{_DIGITS}us", words):
        return parse_time(words.removesuffix("us"), force_timestamp=True)
    now = time.time_ns() // 1000 if now_us is None else now_us
    if words == "now":
        return now
    if words in ("today", "yesterday"):
        day = 86_400_000_000
        return now // day * day - (day if words == "yesterday" else 0)
    if words.startswith("@") and re.fullmatch(_NUMBER, words[1:]):
        return parse_time(str(int(Fraction(words[1:]) * 1_000_000)), force_timestamp=True)
    if words.endswith("ago"):
        return max(now - int(parse_duration(words.removesuffix("ago").strip()) * 1_000_000), -(2**63))
    try:
        return parse_time(text, force_timestamp=force_timestamp)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, @seconds, now, today, yesterday, or '1h30m ago'") from None


def _refuse_other_unit(number: int) -> None:
    unit = looks_like(number)
    if unit is not None:
        seconds, rest = divmod(number * unit.factor, 1_000_000)
        shown = f"{seconds}.{rest // 1000:03}" if rest else f"{seconds}"
        raise ArgumentTypeError(
            f"{number} looks like {unit.name}, and numbers are microseconds since the epoch: write @{shown} for "
            f"seconds, or {number}us for microseconds"
        )


def parse_position(text: str) -> int:
    """Return an offset, or a negative number that counts from the end: -10 is the tenth last."""
    digits = text.strip()
    if not re.fullmatch(r"-?\d{1,18}", digits):
        raise ArgumentTypeError(f"{text!r} is not an offset; write a whole number, or -10 for the tenth from the end")
    return int(digits)


def parse_offset(text: str) -> int:
    """Return an offset: a whole number from 0 up."""
    digits = text.strip()
    if not re.fullmatch(r"\d{1,30}", digits):
        raise ArgumentTypeError(f"{text!r} is not an offset; write a whole number from 0 up")
    return int(digits)


def parse_count(text: str) -> int:
    """Return a count: a whole number from 0 that fits 63 bits."""
    digits = text.strip()
    if not re.fullmatch(r"\d{1,19}", digits) or int(digits) >= 2**63:
        raise ArgumentTypeError(f"{text!r} is not a count; write a whole number from 0 up, below 2**63")
    return int(digits)


def parse_delimiter(text: str) -> bytes:
    r"""Return a delimiter's bytes; \n \t \r \0 and \\ are understood."""
    pieces = re.split(r"\\([ntr0\\])", text)  # every second piece is the letter of an escape
    delimiter = b"".join(_ESCAPES[piece] if i % 2 else os.fsencode(piece) for i, piece in enumerate(pieces))
    if not delimiter:
        raise ArgumentTypeError("a delimiter cannot be empty")
    return delimiter


def parse_header(text: str) -> tuple[str, bytes | None]:
    """Return K=V as (K, bytes of V), and K alone as (K, None)."""
    name, equals, value = text.partition("=")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError("a header's name must be UTF-8 text") from None
    if not name:
        raise ArgumentTypeError(f"{text!r} has no name; write NAME=VALUE")
    return name, os.fsencode(value) if equals else None


def format_count(count: int, thing: str) -> str:
    """Return 1 record, 2 records, 1,000 records."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def format_size(size_bytes: int) -> str:
    """Return a size for people: 512 B, 1.5 KiB, 64.0 MiB."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} PiB"


def typed_size(size_bytes: int) -> str:
    """Return a size exactly, as a user would type it: 64 MiB, 1 GiB, 1000 B."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power} {unit}"
    return f"{size_bytes} B"


def typed_duration(seconds: float) -> str:
    """Return a duration exactly, as a user would type it: 7d, 1h30m, 0.5s."""
    left, text = Fraction(str(seconds)), ""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        count, left = divmod(left, length)
        text += f"{count}{unit}" if count else ""
    rest = f"{float(left):.6f}".rstrip("0").rstrip(".")
    return text + (f"{rest}s" if left or not text else "")


def format_time(moment_us: int, *, precise: bool = True) -> str:
    """Return a moment (us) as ISO 8601, UTC, rounded to seconds unless `precise`; after year 9999 as a number."""
    try:
        moment = EPOCH + timedelta(microseconds=moment_us)
    except OverflowError:
        return f"{moment_us} us"
    text = moment.replace(tzinfo=None).isoformat(timespec="auto" if precise else "seconds")
    return f"{text}Z"
