"""Access control: bearer tokens with rights per topic. Pure, except for reading the token file.

    {"tokens": [{"name": "billing", "sha256": "<64 hex digits of the token's SHA-256>",
                 "rights": {"orders": ["read"], "invoices": ["read", "write"], "*": ["admin"]},
                 "groups": ["billing", "billing-*"]}]}

The file stores hashes, no tokens. "*" means every topic; admin includes write and read, write does not include read.
"groups" is optional: names of consumer groups that the token owns, or prefixes followed by "*". Only its owners may use
a group that a token owns.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from seglog.errors import ConfigError, Forbidden, Unauthorized
from seglog.format.foreign import UNREADABLE
from seglog.topic.layout.names import is_group_name

Right = Literal["read", "write", "admin"]
RIGHTS: tuple[Right, ...] = ("read", "write", "admin")
EVERY = "*"
TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. rights: topic or "*" -> what it may do; groups: the consumer groups that it owns."""

    name: str
    rights: Mapping[str, frozenset[Right]]
    groups: tuple[str, ...] = ()

    def owns(self, group: str) -> bool:
        """Whether the caller owns a consumer group."""
        return any(_names(pattern, group) for pattern in self.groups)

    def may(self, right: Right, topic: str) -> bool:
        """Whether the caller has a right on a topic."""
        given = self.rights.get(topic, frozenset()) | self.rights.get(EVERY, frozenset())
        return right in given or "admin" in given

    def may_anything(self, topic: str) -> bool:
        """Whether the caller has any right on a topic, and so may know that it exists."""
        return any(self.may(right, topic) for right in RIGHTS)

    def require(self, right: Right, topic: str) -> None:
        """Raise Forbidden unless the caller has the right."""
        if not self.may(right, topic):
            where = "on all topics" if topic == EVERY else f"on topic {topic!r}"
            raise Forbidden(f"the token {self.name!r} does not have the right {right!r} {where}")


NOBODY = Caller("nobody", {})
ANYBODY = Caller("anybody", {EVERY: frozenset(RIGHTS)})


class Access:
    """Recognises callers by their tokens; without a token file every caller may do everything."""

    def __init__(self, callers: Mapping[bytes, Caller] | None) -> None:
        """callers: SHA-256 of a token -> caller; None: no tokens."""
        self._callers = callers

    @classmethod
    def of_file(cls, path: Path | None) -> Access:
        """Read a token file. Raises ConfigError, with the path, if the file is malformed."""
        if path is None:
            return cls(None)
        try:
            return cls(dict(_callers(json.loads(path.read_bytes()))))
        except OSError as error:
            raise ConfigError(f"{path}: the token file cannot be read: {error.strerror}") from error
        except UNREADABLE as error:
            raise ConfigError(f"{path} is not a token file ({error}); see `seglog token --help`") from error

    def is_owned(self, group: str) -> bool:
        """Whether some token owns a consumer group."""
        return any(caller.owns(group) for caller in (self._callers or {}).values())

    def callers(self) -> list[Caller]:
        """Return the callers that the token file names, by name."""
        return sorted((self._callers or {}).values(), key=lambda caller: caller.name)

    @property
    def asks(self) -> bool:
        """Whether a token is required."""
        return self._callers is not None

    def caller(self, authorization: str | None) -> Caller:
        """Return the sender of this Authorization header. Raises Unauthorized for an unknown token."""
        if self._callers is None:
            return ANYBODY
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthorized("a token is required: send the header `Authorization: Bearer <token>`")
        digest = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        found = [caller for known, caller in self._callers.items() if hmac.compare_digest(known, digest)]
        if not found:
            raise Unauthorized("the server does not know this token; `seglog token` creates one")
        return found[0]


def new_token(name: str, rights: Mapping[str, Iterable[str]], groups: Iterable[str] = ()) -> tuple[str, dict[str, Any]]:
    """Return a new token and its entry for the file. Raises ValueError for invalid rights or groups."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    given = {topic: sorted(words) for topic, words in rights.items()}
    _rights(given)  # never create an entry that cannot be read
    entry = {"name": name, "sha256": hashlib.sha256(token.encode()).hexdigest(), "rights": given}
    owned = _groups(list(groups))
    return token, {**entry, "groups": list(owned)} if owned else entry


def _callers(values: Any) -> Iterable[tuple[bytes, Caller]]:
    if set(values) != {"tokens"}:
        raise ValueError('it must hold "tokens" and nothing else')
    for entry in values["tokens"]:
        if set(entry) - {"groups"} != {"name", "sha256", "rights"}:
            raise ValueError('an entry has "name", "sha256", "rights" and, if it owns groups, "groups"')
        digest = bytes.fromhex(entry["sha256"])
        if len(digest) != hashlib.sha256().digest_size:
            raise ValueError(f"the sha256 of {entry['name']!r} is not 64 hex digits")
        yield digest, Caller(str(entry["name"]), _rights(entry["rights"]), _groups(entry.get("groups", [])))


def _groups(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(one, str) and _is_pattern(one) for one in values):
        raise ValueError('"groups" must be a list of group names without *, or of prefixes followed by *')
    return tuple(values)


def _is_pattern(text: str) -> bool:
    stem = text.removesuffix("*")
    return is_group_name(stem) and "*" not in stem


def _names(pattern: str, group: str) -> bool:
    return group.startswith(pattern[:-1]) if pattern.endswith("*") else group == pattern


def _rights(values: Mapping[str, Iterable[str]]) -> dict[str, frozenset[Right]]:
    rights: dict[str, frozenset[Right]] = {}
    for topic, words in values.items():
        unknown = set(words) - set(RIGHTS)
        if unknown or isinstance(words, str):
            raise ValueError(f"the rights on {topic!r} must be a list of {', '.join(RIGHTS)}")
        rights[topic] = frozenset(word for word in RIGHTS if word in set(words))
    return rights
