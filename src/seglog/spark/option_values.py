"""Parsers from option strings to values, one per kind of value, shared by the options of the source and the sink.

Pure. Every error is an InvalidArgument that starts with the option's name. `options` explains the options.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from seglog.errors import InvalidArgument
from seglog.format.foreign import UNREADABLE
from seglog.storage.urls import is_storage_url

_DURATION = re.compile(r"(\d+) *(us|ms|s|m|min|h|d)?")
TABLE_ADVICE = (
    "a table takes its options from CREATE TABLE ... USING seglog OPTIONS (path '...'), "
    "without a list of columns and without AS SELECT"
)
TOKEN_VARIABLE = "SEGLOG_TOKEN"  # noqa: S105 - a name, not a secret
# As Spark parses its own times; a bare number is milliseconds there.
_SECONDS = {"us": 1e-6, "ms": 1e-3, None: 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def canonical(options: Mapping[str, str], names: Iterable[str], who: str = "format seglog") -> dict[str, str]:
    """Return the options under the spelling of `names`, from any case. Raises InvalidArgument for an unknown one."""
    known = {name.lower(): name for name in names}
    given = {}
    for name, value in options.items():
        if name.lower() not in known:
            raise InvalidArgument(f"option {name} is unknown; {who} takes {', '.join(known.values())}")
        given[known[name.lower()]] = value
    return given


def boolean(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return true or false, in any case."""
    return choice(given, name, ("true", "false"), "true" if default else "false") == "true"


def choice(given: Mapping[str, str], name: str, words: tuple[str, ...], default: str) -> str:
    """Return one of some words, in any case."""
    text = given.get(name, default)
    if text.strip().lower() not in words:
        raise InvalidArgument(f"option {name} is {text!r}; it must be {' or '.join(words)}")
    return text.strip().lower()


def count(given: Mapping[str, str], name: str, *, least: int = 1) -> int | None:
    """Return a whole number from `least` up, None if the option is not given."""
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise InvalidArgument(f"option {name} is {text!r}; it must be a whole number from {least} up")
    return int(text)


def duration(given: Mapping[str, str], name: str, default: str) -> float:
    """Return seconds from text in Spark's form: 500ms, 30s, 15m (or min), 1h, 2d; a bare number is milliseconds."""
    text = given.get(name, default)
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise InvalidArgument(f"option {name} is {text!r}; it must be a time such as 500ms, 30s, 15m or 1h")
    return int(match[1]) * _SECONDS[match[2]]


def word_list(given: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    """Return the words of a comma-separated list, in order, None if the option is not given."""
    text = given.get(name)
    if text is None:
        return None
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise InvalidArgument(f"option {name} is {text!r}; it must be names separated by commas")
    if len(set(words)) < len(words):
        raise InvalidArgument(f"option {name} is {text!r}; it names something twice")
    return words


def json_object(given: Mapping[str, str], name: str, *, is_secret: bool = False) -> dict[str, Any] | None:
    """Return the content of a JSON object, None if the option is not given. is_secret: errors do not repeat it."""
    text = given.get(name)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except UNREADABLE as error:
        raise InvalidArgument(f"option {name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidArgument(f"option {name} must be a JSON object" + ("" if is_secret else f", not {text!r}"))
    return value


def partition_number(name: str, text: str) -> int:
    """Return the partition number of a JSON name: plain decimal digits."""
    if not (text.isascii() and text.isdecimal() and str(int(text)) == text):
        raise InvalidArgument(f"option {name}: {text!r} is not a partition number")
    return int(text)


def server_url(given: Mapping[str, str]) -> str:
    """Return option url. Errors do not repeat it: it may contain a secret."""
    text = given["url"].strip()
    try:
        parts = urlsplit(text)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidArgument(
            "option url must be like http://127.0.0.1:3000, without a user, a password or a query; "
            "a token goes into option token"
        )
    return text.rstrip("/")


def token(given: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Return option token, else the environment's, else None; errors do not show it."""
    text = given.get("token", environment.get(TOKEN_VARIABLE, "")).strip()
    if not (text.isascii() and text.isprintable()):
        raise InvalidArgument("option token: a token must be printable ASCII, as `seglog token` prints it")
    return text or None


def is_archive(path: str) -> bool:
    """Whether a path is the URL of an archive on object storage, or of another storage (see register_scheme).

    file: is a path of a mounted file system here.
    """
    return is_storage_url(path) and not path.startswith("file:")


def place_path(path: object) -> str:
    """Return the place of a job's path: the URL of an archive, or a local path."""
    text = str(path)
    return text if is_archive(text) else local_path({"path": text})


def local_path(given: Mapping[str, str]) -> str:
    """Return option path as a local path: file: is accepted, any other scheme is not."""
    if "paths" in given:
        raise InvalidArgument("option path: load takes one path, not several; read each and union the frames")
    text = given.get("path", "")
    scheme, separator, _ = text.partition(":/")
    if not separator or "/" in scheme:
        return text
    parts = urlsplit(text)
    if scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        raise InvalidArgument(f"option path is {text!r}; it must be a directory of a mounted file system")
    return unquote(parts.path)
