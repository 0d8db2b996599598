"""Request parameters, declared once: how they are parsed, and how the OpenAPI description shows them.

An undeclared parameter is rejected, so that a misspelt name is never ignored. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

from seglog.errors import InvalidArgument

Where = Literal["path", "query", "header"]
INT64 = (-(2**63), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. read: parses its decoded bytes or raises InvalidArgument; many: it is repeatable."""

    name: str
    where: Where
    read: Callable[[bytes], Any]
    schema: Mapping[str, Any]
    about: str
    required: bool = False
    many: bool = False
    default: Any = None

    def in_path(self) -> Parameter:
        """Return the same parameter as a part of the path."""
        return replace(self, where="path", required=True)

    def openapi(self) -> dict[str, Any]:
        """Return its OpenAPI description."""
        schema = dict(self.schema)
        if self.default is not None:
            schema["default"] = self.default
        if self.many:
            schema = {"type": "array", "items": schema}
        told = {"name": self.name, "in": self.where, "description": self.about, "required": self.required}
        return {**told, "schema": schema}


def integer(
    name: str,
    about: str,
    *,
    least: int = INT64[0],
    most: int = INT64[1],
    default: int | None = None,
    required: bool = False,
) -> Parameter:
    """Declare a whole number between two bounds."""

    def read(data: bytes) -> int:
        if not re.fullmatch(rb"-?[0-9]{1,20}", data):
            raise InvalidArgument(f"{name} must be a whole number, not {_shown(data)}")
        value = int(data)
        if not least <= value <= most:
            raise InvalidArgument(f"{name} is {value}; it must be between {least} and {most}")
        return value

    schema = {"type": "integer", "format": "int64", "minimum": least, "maximum": most}
    return Parameter(name, "query", read, schema, about, default=default, required=required)


def seconds(name: str, about: str, *, most: float) -> Parameter:
    """Declare a number of seconds, 0 to `most`; default: 0."""

    def read(data: bytes) -> float:
        try:
            value = float(data)
        except ValueError:
            value = math.nan
        if not 0 <= value <= most:
            raise InvalidArgument(f"{name} must be a number of seconds between 0 and {most:g}, not {_shown(data)}")
        return value

    schema = {"type": "number", "minimum": 0, "maximum": most}
    return Parameter(name, "query", read, schema, about, default=0)


def choice(name: str, about: str, *values: str) -> Parameter:
    """Declare one of several words; the first is the default."""

    def read(data: bytes) -> str:
        word = data.decode("ascii", "replace")
        if word not in values:
            raise InvalidArgument(f"{name} must be one of {', '.join(values)}, not {_shown(data)}")
        return word

    return Parameter(name, "query", read, {"type": "string", "enum": [*values]}, about, default=values[0])


def data(name: str, about: str, *, pattern: str | None = None, required: bool = False, many: bool = False) -> Parameter:
    """Declare percent-encoded bytes. pattern: what the parser requires, for the description."""
    schema = {"type": "string"} if pattern is None else {"type": "string", "pattern": pattern}
    return Parameter(name, "query", bytes, schema, about, required=required, many=many)


def text(
    name: str,
    about: str,
    *,
    pattern: str,
    longest: int | None = 200,
    where: Where = "path",
    examples: tuple[str, ...] = (),
) -> Parameter:
    """Declare text that must match a pattern completely. longest: None if something else limits it."""
    shape = re.compile(pattern)
    told: dict[str, Any] = {} if longest is None else {"minLength": 1, "maxLength": longest}
    if examples:
        told["examples"] = [*examples]

    def read(data: bytes) -> str:
        try:
            word = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"{name} must be UTF-8, not {_shown(data)}") from error
        if not shape.fullmatch(word) or (longest is not None and len(word) > longest):
            most = "" if longest is None else f" and have at most {longest} characters"
            raise InvalidArgument(f"{name} must match {pattern}{most}, not {_shown(data)}")
        return word

    schema = {"type": "string", "pattern": f"^{pattern}$", **told}
    return Parameter(name, where, read, schema, about, required=where == "path")


def read_query(query: bytes, parameters: Iterable[Parameter]) -> dict[str, Any]:
    """Return name -> value of every query parameter, with defaults. Raises InvalidArgument for undeclared ones."""
    known = {parameter.name: parameter for parameter in parameters if parameter.where == "query"}
    found: dict[str, Any] = {}
    for pair in query.split(b"&") if query else ():
        if not pair:
            continue
        raw_name, _, raw_value = pair.partition(b"=")
        name = unquote_to_bytes(raw_name.replace(b"+", b" ")).decode("utf-8", "replace")
        parameter = known.get(name)
        if parameter is None:
            raise InvalidArgument(f"unknown parameter {name[:80]!r}; known are {', '.join(known) or 'none'}")
        value = parameter.read(unquote_to_bytes(raw_value.replace(b"+", b" ")))
        if parameter.many:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise InvalidArgument(f"{name} is given twice")
        else:
            found[name] = value
    for name, parameter in known.items():
        if parameter.required and name not in found:
            raise InvalidArgument(f"the parameter {name} is missing: {parameter.about}")
        found.setdefault(name, [] if parameter.many else parameter.default)
    return found


def _shown(data: bytes) -> str:
    return repr(data[:80].decode("utf-8", "backslashreplace"))
