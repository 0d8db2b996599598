"""Put together, line by line, the function that reads or writes a message in one version, and compile it.

Reading functions have the message as `data` (memoryview), the position as `at`, the end as `end`, and a `Take`; they
return the value and the position after it. Writing functions have the `Writer` as `out`, its `tail`, and the `value`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NoReturn

from seglog.kafka.wire.buffers import Malformed, Writer, refuse_end, varint_at

INDENT = "    "
LETTER_BYTES = 4  # the most that a byte of UTF-8 takes in a string
VARINT = "varint(data, at)"


class Code:
    """The body of a function, and the constants that it uses."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 1
        self._numbers = count()
        self._scope: dict[str, Any] = {
            "varint": varint_at,
            "null": _null,
            "short": refuse_end,
            "too_many": _too_many,
            "take_text": _take_text,
        }

    def add(self, *lines: str) -> None:
        """Add lines."""
        self._lines += [self._depth * INDENT + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent the lines that are added meanwhile, below `head`."""
        self.add(head)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.add("pass")
        self._depth -= 1

    def name(self) -> str:
        """Return a new name for a variable."""
        return f"v{next(self._numbers)}"

    def constant(self, value: Any) -> str:
        """Return a name for a value that exists now."""
        name = f"c{next(self._numbers)}"
        self._scope[name] = value
        return name

    def layout(self, letters: str) -> str:
        """Return a name for a struct.Struct of numbers."""
        return self.constant(struct.Struct(f">{letters}"))

    def reader(self, found: str) -> Callable[[memoryview, int, int, Callable[[int], None]], tuple[Any, int]]:
        """Return the function that reads `found`."""
        run: Callable[[memoryview, int, int, Callable[[int], None]], tuple[Any, int]] = self._compiled(
            "data, at, end, take", f"return {found}, at"
        )
        return run

    def writer(self) -> Callable[[Writer, Any], None]:
        """Return the function that writes."""
        run: Callable[[Writer, Any], None] = self._compiled("out, value", "return")
        return run

    def _compiled(self, parameters: str, last: str) -> Any:
        self.add(last)
        source = "\n".join([f"def run({parameters}):", *self._lines])
        exec(compile(source, "<a message of Kafka>", "exec"), self._scope)  # noqa: S102 - made of our declarations only
        return self._scope["run"]

    # --- reading ----------------------------------------------------------------------------------------------------

    def read_number(self, letter: str) -> str:
        """Read one number; return its name."""
        [found] = self.read_numbers(letter)
        return found

    def read_numbers(self, *letters: str) -> list[str]:
        """Read numbers that follow each other; return their names."""
        layout, found = "".join(letters), [self.name() for _ in letters]
        self.add(f"{', '.join(found)}, = {self.layout(layout)}.unpack_from(data, at)")
        self.add(f"at += {struct.calcsize(f'>{layout}')}")
        return found

    def read_length(self, letter: str, *, flexible: bool) -> str:
        """Read the length of what follows, negative for null; return its name."""
        if not flexible:
            return self.read_number(letter)
        found = self.name()
        self.add(f"{found} = data[at] - 1", "at += 1")
        with self.block(f"if {found} > 126:"):
            self.add("at -= 1", f"{found}, at = {VARINT}", f"{found} -= 1")
        return found

    def read_slice(self, length: str, form: str, found: str) -> None:
        """Read `length` bytes; `form` makes the value of them."""
        stop = self.name()
        self.add(f"{stop} = at + {length}")
        self.add(f"if {stop} > end: short(end, at)")
        self.add(f"{found} = {form.format(f'data[at:{stop}]')}", f"at = {stop}")

    # --- writing ----------------------------------------------------------------------------------------------------

    def write_length(self, letter: str, length: str, *, flexible: bool) -> None:
        """Write a length, an expression; -1 for null."""
        if not flexible:
            self.add(f"tail += {self.layout(letter)}.pack({length})")
            return
        found = self.name()
        self.add(f"{found} = {length} + 1")
        self.add(f"if {found} < 128: tail.append({found})", f"else: out.varint({found})")


def _null() -> NoReturn:
    raise Malformed("a field that must have a value is null")


def _too_many(values: int, left: int) -> NoReturn:
    raise Malformed(f"an array of {values} values cannot fit in the {left} bytes that follow")


def _take_text(size: int, most: int, take: Callable[[int], None]) -> None:
    """Take the memory for a string of `size` bytes. Raises Malformed if it has more than `most`."""
    if size > most:
        raise Malformed(f"a string has {size} bytes; it may have {most}")
    take(LETTER_BYTES * size)
