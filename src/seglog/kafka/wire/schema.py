"""Declare a message once: its fields, their types, and the versions that have them; reading and writing follow.

Values: a structure is a dict, an array a list, bytes and records a memoryview (read) or any buffer (written). In
flexible versions lengths are varints and a structure ends with tagged fields; unknown tagged fields are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from seglog.kafka.wire.buffers import Malformed, Reader, Writer, size_of

ALWAYS = 2**15
MOST_TAGGED = 64


class Form(NamedTuple):
    """The version of a message, and whether that version is flexible."""

    version: int
    flexible: bool


class Kind(Protocol):
    """A type of values. least: the fewest bytes that a value takes, which limits arrays before they are read."""

    @property
    def least(self) -> int: ...  # noqa: D102 - described above

    def read(self, source: Reader, form: Form, /) -> Any: ...  # noqa: D102 - the contract is the class's

    def write(self, target: Writer, value: Any, form: Form, /) -> None: ...  # noqa: D102 - as above


@dataclass(frozen=True, slots=True)
class Number:
    """A signed number of `least` bytes."""

    least: int

    def read(self, source: Reader, _form: Form) -> int:
        """Read a number."""
        return source.number(self.least)

    def write(self, target: Writer, value: int, _form: Form) -> None:
        """Write a number."""
        target.number(self.least, value)


@dataclass(frozen=True, slots=True)
class Bool:
    """One byte; any but 0 means True."""

    least: int = 1

    def read(self, source: Reader, _form: Form) -> bool:
        """Read a truth value."""
        return source.number(1) != 0

    def write(self, target: Writer, value: bool, _form: Form) -> None:
        """Write a truth value."""
        target.number(1, int(value))


def _read_length(source: Reader, form: Form, size: int) -> int:
    """Return the length of what follows, -1 for null."""
    return source.varint() - 1 if form.flexible else source.number(size)


def _write_length(target: Writer, form: Form, size: int, length: int) -> None:
    if form.flexible:
        target.varint(length + 1)
    else:
        target.number(size, length)


class _MayBeNull:
    """A type that may be None, from a version on."""

    __slots__ = ()
    nullable: bool
    nullable_since: int

    def may_be_null(self, form: Form) -> bool:
        """Whether a version allows None."""
        return self.nullable and form.version >= self.nullable_since


@dataclass(frozen=True, slots=True)
class Text(_MayBeNull):
    """A string in UTF-8; with `nullable`, or None. nullable_since: the first version in which it may be None."""

    nullable: bool = False
    nullable_since: int = 0
    least: int = 1

    def read(self, source: Reader, form: Form) -> str | None:
        """Read a string."""
        length = _read_length(source, form, 2)
        if length < 0:
            _check_null(self.may_be_null(form))
            return None
        return source.text(length)

    def write(self, target: Writer, value: str | None, form: Form) -> None:
        """Write a string."""
        if value is None:
            _check_null(self.may_be_null(form))
            _write_length(target, form, 2, -1)
            return
        data = value.encode()
        _write_length(target, form, 2, len(data))
        target.data(data)


@dataclass(frozen=True, slots=True)
class Identity:
    """A UUID, as 32 hex digits: the form of a topic's id in `topic.json`."""

    least: int = 16

    def read(self, source: Reader, _form: Form) -> str:
        """Read a UUID."""
        return source.data(self.least).hex()

    def write(self, target: Writer, value: str, _form: Form) -> None:
        """Write a UUID."""
        target.data(bytes.fromhex(value))


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes, among them batches of records; with `nullable`, or None."""

    nullable: bool = False
    least: int = 1

    def read(self, source: Reader, form: Form) -> memoryview | None:
        """Read bytes, without a copy."""
        length = _read_length(source, form, 4)
        if length < 0:
            _check_null(self.nullable)
            return None
        return source.data(length)

    def write(self, target: Writer, value: Any, form: Form) -> None:
        """Write bytes: a buffer, or a list of buffers."""
        if value is None:
            _check_null(self.nullable)
            _write_length(target, form, 4, -1)
            return
        parts = value if isinstance(value, list) else [value]
        _write_length(target, form, 4, size_of(parts))
        for part in parts:
            target.data(part)


@dataclass(frozen=True)
class Array(_MayBeNull):
    """Values of one type; with `nullable`, or None. nullable_since: the first version in which it may be None."""

    of: Kind
    nullable: bool = False
    nullable_since: int = 0

    @property
    def least(self) -> int:
        """The bytes of a short length."""
        return 1

    def read(self, source: Reader, form: Form) -> list[Any] | None:
        """Read the values, if as many can follow."""
        count = _read_length(source, form, 4)
        if count < 0:
            _check_null(self.may_be_null(form))
            return None
        if count * self.of.least > source.left:
            raise Malformed(f"an array of {count} values cannot fit in the {source.left} bytes that follow")
        return [self.of.read(source, form) for _ in range(count)]

    def write(self, target: Writer, value: Any, form: Form) -> None:
        """Write the values."""
        if value is None:
            _check_null(self.may_be_null(form))
            _write_length(target, form, 4, -1)
            return
        _write_length(target, form, 4, len(value))
        for one in value:
            self.of.write(target, one, form)


def _check_null(nullable: bool) -> None:
    if not nullable:
        raise Malformed("a field that must have a value is null")


NO_DEFAULT: Any = object()


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a structure.

    since, until: the first and the last version that has it. default: its value in other versions, and what is written
    if none is given. tag: its number among the tagged fields of flexible versions, None for a plain field.
    """

    name: str
    kind: Kind
    since: int = 0
    until: int = ALWAYS
    default: Any = NO_DEFAULT
    tag: int | None = None

    def is_in(self, version: int) -> bool:
        """Whether this version has the field."""
        return self.since <= version <= self.until

    def is_default(self, value: Any) -> bool:
        """Whether a value is the default; an empty array may be a list."""
        return bool(value == self.default or (value == [] and self.default == ()))


@dataclass(frozen=True)
class Struct:
    """Fields in order. Values are dicts with every field's name; those of other versions have their default."""

    fields: tuple[Field, ...]
    _by_version: dict[int, tuple[tuple[Field, ...], tuple[Field, ...]]] = field(default_factory=dict, compare=False)

    def __init__(self, *fields: Field) -> None:
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "_by_version", {})

    @cached_property
    def least(self) -> int:
        """The bytes of the fields that every version has."""
        return max(sum(one.kind.least for one in self.fields if one.since == 0 and one.until == ALWAYS), 1)

    def _plain_and_tagged(self, version: int) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
        found = self._by_version.get(version)
        if found is None:
            present = [one for one in self.fields if one.is_in(version)]
            found = self._by_version[version] = (
                tuple(one for one in present if one.tag is None),
                tuple(one for one in present if one.tag is not None),
            )
        return found

    def read(self, source: Reader, form: Form) -> dict[str, Any]:
        """Read the fields of a version."""
        plain, tagged = self._plain_and_tagged(form.version)
        values = {one.name: one.kind.read(source, form) for one in plain}
        if form.flexible:
            self._read_tagged(source, form, tagged, values)
        for one in self.fields:
            if one.name not in values and one.default is not NO_DEFAULT:
                values[one.name] = one.default
        return values

    @staticmethod
    def _read_tagged(source: Reader, form: Form, tagged: tuple[Field, ...], values: dict[str, Any]) -> None:
        known = {one.tag: one for one in tagged}
        count = source.varint()
        if count > MOST_TAGGED:
            raise Malformed(f"a structure has {count} tagged fields; at most {MOST_TAGGED} are read")
        for _ in range(count):
            tag, size = source.varint(), source.varint()
            inner = source.data(size)
            if tag in known:
                values[known[tag].name] = known[tag].kind.read(Reader(inner), form)

    def write(self, target: Writer, value: dict[str, Any], form: Form) -> None:
        """Write the fields of a version; one that is missing in `value` gets its default."""
        plain, tagged = self._plain_and_tagged(form.version)
        for one in plain:
            found = value.get(one.name, one.default)
            if found is NO_DEFAULT:
                raise KeyError(one.name)
            one.kind.write(target, found, form)
        if form.flexible:
            given = [one for one in tagged if one.name in value and not one.is_default(value[one.name])]
            target.varint(len(given))
            for one in given:
                self._write_tagged(target, one, value[one.name], form)

    @staticmethod
    def _write_tagged(target: Writer, one: Field, value: Any, form: Form) -> None:
        inner = Writer()
        one.kind.write(inner, value, form)
        parts = inner.parts()
        assert one.tag is not None  # noqa: S101 - the caller chose the tagged fields
        target.varint(one.tag)
        target.varint(size_of(parts))
        for part in parts:
            target.data(part)


@dataclass(frozen=True)
class Maybe:
    """A structure or None, after a byte that is negative for None."""

    of: Struct
    least: int = 1

    def read(self, source: Reader, form: Form) -> dict[str, Any] | None:
        """Read a structure, if there is one."""
        return None if source.number(1) < 0 else self.of.read(source, form)

    def write(self, target: Writer, value: dict[str, Any] | None, form: Form) -> None:
        """Write a structure, or that there is none."""
        target.number(1, -1 if value is None else 1)
        if value is not None:
            self.of.write(target, value, form)


INT8, INT16, INT32, INT64 = Number(1), Number(2), Number(4), Number(8)
BOOL = Bool()
STRING, NULLABLE_STRING = Text(), Text(nullable=True)
UUID, NO_UUID = Identity(), 32 * "0"
BYTES, NULLABLE_BYTES = Data(), Data(nullable=True)
RECORDS = NULLABLE_BYTES


@dataclass(frozen=True)
class Api:
    """A request and its response. flexible_since: the first flexible version.

    The head of a response is never flexible for ApiVersions, which a client sends before it knows any version.
    """

    key: int
    name: str
    versions: range
    request: Struct
    response: Struct
    flexible_since: int = ALWAYS

    def form(self, version: int) -> Form:
        """Return the form of a version."""
        return Form(version, version >= self.flexible_since)
