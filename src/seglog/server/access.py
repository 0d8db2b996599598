"""Who may do what: bearer tokens with rights per topic. Pure but for reading the file.

    {"tokens": [{"name": "billing", "sha256": "<64 hex digits of the token's SHA-256>",
                 "rights": {"orders": ["read"], "invoices": ["read", "write"], "*": ["admin"]}}]}

The file holds no token, only what one can be recognised by. "*" means every topic; admin includes write and read,
write does not include read.
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

Right = Literal["read", "write", "admin"]
RIGHTS: tuple[Right, ...] = ("read", "write", "admin")
EVERY = "*"
TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who may do some things. rights: topic, or "*", -> what."""

    name: str
    rights: Mapping[str, frozenset[Right]]

    def may(self, right: Right, topic: str) -> bool:
        """Whether the caller has a right on a topic."""
        given = self.rights.get(topic, frozenset()) | self.rights.get(EVERY, frozenset())
        return right in given or "admin" in given

    def may_anything(self, topic: str) -> bool:
        """Whether the caller may know of a topic at all."""
        return any(self.may(right, topic) for right in RIGHTS)

    def require(self, right: Right, topic: str) -> None:
        """Raise Forbidden unless the caller has the right."""
        if not self.may(right, topic):
            where = "on all topics" if topic == EVERY else f"on topic {topic!r}"
            raise Forbidden(f"the token {self.name!r} does not have the right {right!r} {where}")


NOBODY = Caller("nobody", {})
ANYBODY = Caller("anybody", {EVERY: frozenset(RIGHTS)})


class Access:
    """Recognises callers by their tokens; without tokens anybody may do anything."""

    def __init__(self, callers: Mapping[bytes, Caller] | None) -> None:
        """callers: SHA-256 of a token -> caller."""
        self._callers = callers

    @classmethod
    def of_file(cls, path: Path | None) -> Access:
        """Read a file of tokens; ConfigError, naming it, where it is not what the module says."""
        if path is None:
            return cls(None)
        try:
            return cls(dict(_callers(json.loads(path.read_bytes()))))
        except OSError as error:
            raise ConfigError(f"{path}: the tokens cannot be read: {error.strerror}") from error
        except UNREADABLE as error:
            raise ConfigError(f"{path} is no file of tokens ({error}); `seglog token --help` shows one") from error

    @property
    def asks(self) -> bool:
        """Whether a token is needed."""
        return self._callers is not None

    def caller(self, authorization: str | None) -> Caller:
        """Return who sends this Authorization header; Unauthorized for nobody that is known."""
        if self._callers is None:
            return ANYBODY
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthorized("this needs a token: send the header `Authorization: Bearer <token>`")
        digest = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        found = [caller for known, caller in self._callers.items() if hmac.compare_digest(known, digest)]
        if not found:
            raise Unauthorized("this token is not known here")
        return found[0]


def new_token(name: str, rights: Mapping[str, Iterable[str]]) -> tuple[str, dict[str, Any]]:
    """Return a new token, and the entry that goes into the file."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    given = {topic: sorted(words) for topic, words in rights.items()}
    _rights(given)  # so that nothing is made that cannot be read
    return token, {"name": name, "sha256": hashlib.sha256(token.encode()).hexdigest(), "rights": given}


def _callers(values: Any) -> Iterable[tuple[bytes, Caller]]:
    if set(values) != {"tokens"}:
        raise ValueError('it must hold "tokens" and nothing else')
    for entry in values["tokens"]:
        if set(entry) != {"name", "sha256", "rights"}:
            raise ValueError('an entry has "name", "sha256" and "rights"')
        digest = bytes.fromhex(entry["sha256"])
        if len(digest) != hashlib.sha256().digest_size:
            raise ValueError(f"the sha256 of {entry['name']!r} is not 64 hex digits")
        yield digest, Caller(str(entry["name"]), _rights(entry["rights"]))


def _rights(values: Mapping[str, Iterable[str]]) -> dict[str, frozenset[Right]]:
    rights: dict[str, frozenset[Right]] = {}
    for topic, words in values.items():
        unknown = set(words) - set(RIGHTS)
        if unknown or isinstance(words, str):
            raise ValueError(f"the rights on {topic!r} must be a list of {', '.join(RIGHTS)}")
        rights[topic] = frozenset(word for word in RIGHTS if word in set(words))
    return rights
