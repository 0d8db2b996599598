"""An example state machine: the classroom of arindas' article on segmented logs.

The teacher gives instructions, `Add x`, `Sub x`, `Mul x`, `Div x`; every student starts from 42 and applies them in
order. All who read the same sheets get the same number, however late.

    python -m seglog.spark.replay lesson --machine seglog.spark.replay.classroom:Classroom
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seglog.record import Record


@dataclass(frozen=True)
class Classroom:
    """A student: `start` is the number on the board. States are exact fractions, free of rounding."""

    start: int = 42

    def initial(self) -> Fraction:
        """Return the number on the board."""
        return Fraction(self.start)

    def apply(self, state: Fraction, record: Record) -> Fraction:
        """Return the number after an instruction. Raises ValueError for an unknown one."""
        word, _, operand = (record.value or b"").decode().partition(" ")
        number = Fraction(operand)
        if word == "Add":
            return state + number
        if word == "Sub":
            return state - number
        if word == "Mul":
            return state * number
        if word == "Div":
            return state / number
        raise ValueError(f"{word!r} is not Add, Sub, Mul or Div")

    def encode(self, state: Fraction) -> bytes:
        """Return the number as text, such as 9 or 45/7."""
        return str(state).encode()

    def decode(self, data: bytes) -> Fraction:
        """Return the number that `encode` wrote."""
        return Fraction(data.decode())
