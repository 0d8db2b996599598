"""The classroom of arindas' article on segmented logs: who reads the same sheets gets the same number, however late.

    python examples/classroom.py DIRECTORY

The teacher writes instructions to a log. The front row follows it. The back row cannot hear the teacher: it gets a copy
of the log, sheet by sheet. A student who was absent reads the copy on the next day. All of them are processes of their
own, and none of them ever sees the number of another.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import seglog

SHEET = 50  # instructions
LESSON = 230
END = b"End"


class Student:
    """A state machine. Its state is the student's number, an exact fraction."""

    def initial(self) -> Fraction:
        """Return the number on the board."""
        return Fraction(42)

    def apply(self, state: Fraction, record: seglog.Record) -> Fraction:
        """Return the number after an instruction."""
        word, _, operand = (record.value or b"").decode().partition(" ")
        if word == "Add":
            return state + int(operand)
        if word == "Sub":
            return state - int(operand)
        if word == "Mul":
            return state * int(operand)
        if word == "Div":
            return state / int(operand)
        return state  # the lesson ends

    def encode(self, state: Fraction) -> bytes:
        """Return the number as text."""
        return str(state).encode()

    def decode(self, data: bytes) -> Fraction:
        """Return the number that `encode` wrote."""
        return Fraction(data.decode())


def teach(lesson: str) -> None:
    """Give the lesson."""
    draw = random.Random(1)  # noqa: S311 - a lesson, no secret
    with seglog.open(lesson) as log:
        for _ in range(LESSON):
            time.sleep(0.002)  # a teacher speaks slowly
            log.append(f"{draw.choice(['Add', 'Sub', 'Mul', 'Div'])} {draw.randint(1, 9)}".encode())
        log.append(END)


def listen(lesson: str, row: str) -> None:
    """Follow the lesson while it is given, and print the number at its end."""
    student = Student()
    number = student.initial()
    with seglog.open(lesson, mode="r") as log:
        for record in log.follow(0):
            number = student.apply(number, record)
            if record.value == END:
                print(f"{row}: {number}")
                return


def pass_sheets(lesson: str, copy: str) -> None:
    """Copy the lesson for the back row, a sheet at a time."""
    with seglog.open(lesson, mode="r") as log, seglog.Mirror(lesson, copy) as mirror:
        mirror.step()
        print("sheet 0", flush=True)
        for record in log.follow(0):
            if (record.offset + 1) % SHEET == 0 or record.value == END:
                lag = log.next_offset - mirror_end(copy)
                mirror.step()
                print(f"sheet {record.offset // SHEET + 1}: the back row was {lag} instructions behind", flush=True)
            if record.value == END:
                return


def mirror_end(copy: str) -> int:
    """Return how far a copy is."""
    with seglog.open(copy, mode="r") as log:
        return log.next_offset


def role(*words: str) -> subprocess.Popen[str]:
    """Start one of the functions as a process."""
    return subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True)


def main(directory: str) -> None:
    """Let everybody take part, and compare the numbers."""
    lesson, copy = f"{directory}/lesson", f"{directory}/copy"
    seglog.open(lesson).close()
    sheets = role("pass_sheets", lesson, copy)
    assert sheets.stdout is not None
    sheets.stdout.readline()  # the copy exists
    rows = [role("listen", lesson, "front row"), role("listen", copy, "back row")]
    teach(lesson)
    numbers = [row.communicate()[0].strip() for row in rows]
    print(sheets.communicate()[0] + "\n".join(numbers))
    absent = seglog.replay(copy, Student(), snapshots=f"{directory}/notes")  # the next day
    print(f"absent student: {absent.state}")


if __name__ == "__main__":
    if sys.argv[1] in ("listen", "pass_sheets"):
        globals()[sys.argv[1]](*sys.argv[2:])
    else:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        main(sys.argv[1])
