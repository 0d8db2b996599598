"""Declare a message once: its fields, their types, and the versions that have them; reading and writing follow.

Values: a structure is a dict, an array a list, bytes and records a memoryview (read) or any buffer (written). In
flexible versions lengths are varints and a structure ends with tagged fields; unknown tagged fields are skipped.

A type has its code for one version (`read_code`, `write_code`); the code of a whole message is compiled once,
which takes a quarter of the time of a call for each field.

A few bytes of a message can become a thousand times as many in memory. So a reader passes a `Take`, which is called
before values are allocated, and can refuse them.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from seglog.kafka.wire.buffers import Malformed, Reader, Writer, size_of
from seglog.kafka.wire.code import Code

ALWAYS = 2**15
MOST_TAGGED = 64
MOST_TEXT = 2**15 - 1
"""Bytes of a string, in all versions; as in Kafka."""
Take = Callable[[int], None]
"""Called with the bytes of memory that the next values take, before there are any; raises to refuse them."""
SHORT_TEXT = 64
"""Bytes up to which the letters of a string count as part of it."""
ENTRY_BYTES = 24
"""Of a field in a dict, beside its value."""


def ignore(size: int) -> None:
    """Refuse nothing: a `Take` for messages that are not from outside."""


class Form(NamedTuple):
    """The version of a message, and whether that version is flexible."""

    version: int
    flexible: bool


class Kind(ABC):
    """A type of values.

    least: the fewest bytes of a message that a value takes, which limits arrays before they are read. cost: about the
    bytes of memory that a value takes, without the values of arrays and the letters of long strings.
    """

    __slots__ = ()
    least: int
    cost: int

    def read(self, source: Reader, form: Form, take: Take = ignore) -> Any:
        """Read a value. Raises Malformed if the bytes are not one, and what `take` raises."""
        data = source.bytes
        try:
            value, source.position = _reader(self, form)(data, source.position, len(data), take)
        except (IndexError, struct.error) as error:
            raise Malformed(f"the message ends at byte {len(data)}, within a field") from error
        except UnicodeDecodeError as error:
            raise Malformed("a string is not UTF-8") from error
        return value

    def write(self, target: Writer, value: Any, form: Form) -> None:
        """Write a value. Raises Malformed or KeyError if something is missing."""
        _writer(self, form)(target, value)

    @abstractmethod
    def read_code(self, code: Code, form: Form) -> str:
        """Add what reads a value; return the name of its variable."""

    @abstractmethod
    def write_code(self, code: Code, value: str, form: Form) -> None:
        """Add what writes the value of a variable."""


@cache
def _reader(kind: Kind, form: Form) -> Callable[[memoryview, int, int, Take], tuple[Any, int]]:
    code = Code()
    return code.reader(kind.read_code(code, form))


@cache
def _writer(kind: Kind, form: Form) -> Callable[[Writer, Any], None]:
    code = Code()
    code.add("tail = out.tail")
    kind.write_code(code, "value", form)
    return code.writer()


# --- values of a fixed size -------------------------------------------------------------------------------------------


class Fixed(Kind):
    """Values of a fixed size. letter: their format in `struct`; those that follow each other are read in one step."""

    __slots__ = ()
    cost = 40

    @property
    @abstractmethod
    def letter(self) -> str:
        """The format."""

    def made(self, read: str) -> str:
        """Return the expression of the value that `read`, what struct has unpacked, stands for."""
        return read

    def packed(self, value: str) -> str:
        """Return the expression that struct packs for a value."""
        return value

    def read_code(self, code: Code, form: Form) -> str:  # noqa: ARG002 - the contract's parameter
        """Read one."""
        found = code.read_number(self.letter)
        if (made := self.made(found)) != found:
            code.add(f"{found} = {made}")
        return found

    def write_code(self, code: Code, value: str, form: Form) -> None:  # noqa: ARG002 - as above
        """Write one."""
        code.add(f"tail += {code.layout(self.letter)}.pack({self.packed(value)})")


@dataclass(frozen=True, slots=True)
class Number(Fixed):
    """A signed number of `least` bytes."""

    least: int

    @property
    def letter(self) -> str:
        """The format."""
        return {1: "b", 2: "h", 4: "i", 8: "q"}[self.least]


@dataclass(frozen=True, slots=True)
class Bool(Fixed):
    """One byte; any but 0 means True."""

    least: int = 1

    @property
    def letter(self) -> str:
        """The format."""
        return "?"


@dataclass(frozen=True, slots=True)
class Identity(Fixed):
    """A UUID, as 32 hex digits: the form of a topic's id in `topic.json`."""

    least: int = 16
    cost: int = 96

    @property
    def letter(self) -> str:
        """The format."""
        return f"{self.least}s"

    def made(self, read: str) -> str:
        """Return the digits."""
        return f"{read}.hex()"

    def packed(self, value: str) -> str:
        """Return the bytes."""
        return f"bytes.fromhex({value})"


# --- values that may be None ------------------------------------------------------------------------------------------


class _Sized(Kind):
    """A type with a length; with `nullable`, it may be None from version `nullable_since` on.

    letter: of its length, unless that is a varint.
    """

    __slots__ = ()
    letter = "i"
    nullable: bool
    nullable_since: int

    def may_be_null(self, form: Form) -> bool:
        """Whether a version allows None."""
        return self.nullable and form.version >= self.nullable_since

    @abstractmethod
    def read_content(self, code: Code, length: str, found: str, form: Form) -> None:
        """Add what reads a value of a length into `found`."""

    @abstractmethod
    def write_content(self, code: Code, value: str, form: Form) -> None:
        """Add what writes the length of a value, and the value."""

    def read_code(self, code: Code, form: Form) -> str:
        """Read a value."""
        found = code.name()
        length = code.read_length(self.letter, flexible=form.flexible)
        with code.block(f"if {length} < 0:"):
            code.add(f"{found} = None" if self.may_be_null(form) else "null()")
        with code.block("else:"):
            self.read_content(code, length, found, form)
        return found

    def write_code(self, code: Code, value: str, form: Form) -> None:
        """Write a value."""
        with code.block(f"if {value} is None:"):
            if self.may_be_null(form):
                code.write_length(self.letter, "-1", flexible=form.flexible)
            else:
                code.add("null()")
        with code.block("else:"):
            self.write_content(code, value, form)


@dataclass(frozen=True, slots=True)
class Text(_Sized):
    """A string in UTF-8; with `nullable`, or None."""

    nullable: bool = False
    nullable_since: int = 0
    least: int = 1
    cost: int = 128
    letter = "h"

    def read_content(self, code: Code, length: str, found: str, form: Form) -> None:  # noqa: ARG002 - the contract's
        """Read a string."""
        code.add(f"if {length} > {SHORT_TEXT}: take_text({length}, {MOST_TEXT}, take)")
        code.read_slice(length, 'str({}, "utf-8")', found)

    def write_content(self, code: Code, value: str, form: Form) -> None:
        """Write a string."""
        data = code.name()
        code.add(f"{data} = {value}.encode()")
        code.write_length(self.letter, f"len({data})", flexible=form.flexible)
        code.add(f"tail += {data}")


@dataclass(frozen=True, slots=True)
class Data(_Sized):
    """Bytes, among them batches of records; with `nullable`, or None. They are read without a copy."""

    nullable: bool = False
    nullable_since: int = 0
    least: int = 1
    cost: int = 192

    def read_content(self, code: Code, length: str, found: str, form: Form) -> None:  # noqa: ARG002 - the contract's
        """Read bytes."""
        code.read_slice(length, "{}", found)

    def write_content(self, code: Code, value: str, form: Form) -> None:
        """Write bytes: a buffer, or a list of buffers."""
        parts, part = code.name(), code.name()
        code.add(f"{parts} = {value} if isinstance({value}, list) else [{value}]")
        code.write_length(self.letter, f"{code.constant(size_of)}({parts})", flexible=form.flexible)
        code.add(f"for {part} in {parts}: out.data({part})", "tail = out.tail")


@dataclass(frozen=True)
class Array(_Sized):
    """Values of one type; with `nullable`, or None."""

    of: Kind
    nullable: bool = False
    nullable_since: int = 0
    least: int = 1
    cost: int = 64

    def read_content(self, code: Code, length: str, found: str, form: Form) -> None:
        """Read the values, if as many can follow."""
        code.add(f"if {length} * {self.of.least} > end - at: too_many({length}, end - at)")
        code.add(f"if {length}: take({length} * {self.of.cost})", f"{found} = []")
        with code.block(f"for _ in range({length}):"):
            code.add(f"{found}.append({self.of.read_code(code, form)})")

    def write_content(self, code: Code, value: str, form: Form) -> None:
        """Write the values."""
        one = code.name()
        code.write_length(self.letter, f"len({value})", flexible=form.flexible)
        with code.block(f"for {one} in {value}:"):
            self.of.write_code(code, one, form)


# --- structures -------------------------------------------------------------------------------------------------------

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

    def taken_from(self, code: Code, values: str) -> str:
        """Return the expression of the value that a structure has for the field, or of its default."""
        if self.default is NO_DEFAULT:
            return f"{values}[{self.name!r}]"
        return f"{values}.get({self.name!r}, {code.constant(self.default)})"


@dataclass(frozen=True, eq=False)  # compared and hashed by identity: the compiled functions are found by it
class Struct(Kind):
    """Fields in order. Values are dicts with every field's name; those of other versions have their default."""

    fields: tuple[Field, ...]

    def __init__(self, *fields: Field) -> None:
        object.__setattr__(self, "fields", fields)

    @cached_property
    def least(self) -> int:  # type: ignore[override] # not stored
        """The bytes of the fields that every version has."""
        return max(sum(one.kind.least for one in self.fields if one.since == 0 and one.until == ALWAYS), 1)

    @cached_property
    def cost(self) -> int:  # type: ignore[override] # as above
        """The bytes of a dict with all fields, about."""
        return 128 + sum(ENTRY_BYTES + one.kind.cost for one in self.fields)

    def read_code(self, code: Code, form: Form) -> str:
        """Read the fields of a version."""
        values, found = code.name(), dict[str, str]()
        for run in self._runs(form):
            kinds = _fixed(run)
            if kinds:
                read = code.read_numbers(*(kind.letter for kind in kinds))
                found |= {one.name: kind.made(each) for one, kind, each in zip(run, kinds, read, strict=True)}
            else:
                found[run[0].name] = run[0].kind.read_code(code, form)
        for one in self.fields:
            if one.name not in found and one.default is not NO_DEFAULT:
                found[one.name] = code.constant(one.default)
        code.add(f"{values} = {{{', '.join(f'{name!r}: {one}' for name, one in found.items())}}}")
        if form.flexible:
            known = code.constant({one.tag: (one.name, one.kind) for one in self._tagged(form)})
            code.add("if data[at] == 0: at += 1")
            fields = f"{code.constant(form)}, {known}, {values}, take"
            code.add(f"else: at = {code.constant(_read_tagged)}(data, at, {fields})")
        return values

    def write_code(self, code: Code, value: str, form: Form) -> None:
        """Write the fields of a version; one that is missing in `value` gets its default."""
        for run in self._runs(form):
            kinds = _fixed(run)
            if kinds:
                layout = code.layout("".join(kind.letter for kind in kinds))
                given = (kind.packed(one.taken_from(code, value)) for one, kind in zip(run, kinds, strict=True))
                code.add(f"tail += {layout}.pack({', '.join(given)})")
            else:
                taken = code.name()
                code.add(f"{taken} = {run[0].taken_from(code, value)}")
                run[0].kind.write_code(code, taken, form)
        if form.flexible:
            self._write_tagged(code, value, form)

    def _runs(self, form: Form) -> list[list[Field]]:
        """Return the plain fields of a version in order: those of a fixed size that follow each other together."""
        runs: list[list[Field]] = []
        for one in self.fields:
            if one.is_in(form.version) and one.tag is None:
                if runs and _fixed([runs[-1][0], one]):
                    runs[-1].append(one)
                else:
                    runs.append([one])
        return runs

    def _tagged(self, form: Form) -> list[Field]:
        return [one for one in self.fields if one.is_in(form.version) and one.tag is not None]

    def _write_tagged(self, code: Code, value: str, form: Form) -> None:
        tagged = self._tagged(form)
        if not tagged:
            code.add("tail.append(0)")
            return
        with code.block(f"if {' or '.join(f'{one.name!r} in {value}' for one in tagged)}:"):
            code.add(f"{code.constant(_write_tagged)}(out, {code.constant(tagged)}, {value}, {code.constant(form)})")
            code.add("tail = out.tail")
        code.add("else: tail.append(0)")


def _fixed(run: list[Field]) -> list[Fixed]:
    """Return the types of fields that all have a fixed size; nothing if one has none."""
    kinds = [one.kind for one in run if isinstance(one.kind, Fixed)]
    return kinds if len(kinds) == len(run) else []


def _read_tagged(
    data: memoryview, at: int, form: Form, known: dict[int, tuple[str, Kind]], values: dict[str, Any], take: Take
) -> int:
    """Read the tagged fields of a structure; return the position after them."""
    source = Reader(data, at)
    count = source.varint()
    if count > MOST_TAGGED:
        raise Malformed(f"a structure has {count} tagged fields; at most {MOST_TAGGED} are read")
    for _ in range(count):
        tag, size = source.varint(), source.varint()
        inner = source.data(size)
        if tag in known:
            name, kind = known[tag]
            values[name] = kind.read(Reader(inner), form, take)
    return source.position


def _write_tagged(target: Writer, tagged: list[Field], values: dict[str, Any], form: Form) -> None:
    """Write the tagged fields of a structure that are not the default."""
    given = [one for one in tagged if one.name in values and not one.is_default(values[one.name])]
    target.varint(len(given))
    for one in given:
        inner = Writer()
        one.kind.write(inner, values[one.name], form)
        parts = inner.parts()
        assert one.tag is not None  # noqa: S101 - the caller chose the tagged fields
        target.varint(one.tag)
        target.varint(size_of(parts))
        for part in parts:
            target.data(part)


@dataclass(frozen=True)
class Maybe(Kind):
    """A structure or None, after a byte that is negative for None."""

    of: Struct
    least: int = 1

    @property
    def cost(self) -> int:  # type: ignore[override] # not stored
        """That of the structure."""
        return self.of.cost

    def read_code(self, code: Code, form: Form) -> str:
        """Read a structure, if there is one."""
        found, there = code.name(), code.read_number("b")
        code.add(f"if {there} < 0: {found} = None")
        with code.block("else:"):
            code.add(f"{found} = {self.of.read_code(code, form)}")
        return found

    def write_code(self, code: Code, value: str, form: Form) -> None:
        """Write a structure, or that there is none."""
        code.add(f"tail.append(255 if {value} is None else 1)")
        with code.block(f"if {value} is not None:"):
            self.of.write_code(code, value, form)


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
