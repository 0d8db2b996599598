"""Recover the seglog error from an error of Spark.

An error of an executor or of the planner reaches the driver as text, inside a traceback. Pure: text in, error out.
"""

from __future__ import annotations

import re

from seglog import errors

# The message, then the notes: lines of a traceback that are not indented.
_TOLD = re.compile(
    r"^(?:\w+: )?seglog\.errors\.(\w+): (.+(?:\n(?!Traceback|During|The above|JVM)\S.*)*)$", re.MULTILINE
)
_PYTHON = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)): (.*)$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+(?:\n(?!\tat |\t\.\.\.|Caused by).*)*)", re.MULTILINE)
_SENTENCE = 300  # characters of an unstructured text


def named(name: str, message: str) -> errors.SeglogError:
    """Return an error of a class of `seglog.errors` with a message of one or more lines."""
    kind = getattr(errors, name, errors.SeglogError)
    found: errors.SeglogError = kind.__new__(kind, "; ".join(message.splitlines()))
    return found


def behind(error: BaseException) -> BaseException:
    """Return the seglog error inside an error of Spark, or one with its last cause; other errors unchanged."""
    if isinstance(error, errors.SeglogError) or not type(error).__module__.startswith(("pyspark", "py4j")):
        return error
    text = str(error)
    told = _TOLD.findall(text)
    if told:
        return named(*told[-1])
    python = _PYTHON.findall(text.partition("\nJVM stacktrace")[0])
    if python:
        return errors.SeglogError(": ".join(python[-1]))
    cause = (_CAUSE.findall(text) or [text])[-1]
    return errors.SeglogError(f"Spark: {' '.join(cause.split())[:_SENTENCE]}")
