"""What may be set, and to which values: the settings of a config, declared once, beside its fields.

A setting is a field of a frozen dataclass with a `Setting` in its annotation. Its name, type and default are those of
the field, its meaning is in the docstring of the class. From this follow the checks of the
class, the stored form, the HTTP interface, the options of the commands, Kafka's configs, and docs/options.md.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import timedelta
from enum import Enum
from functools import cache
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from seglog.errors import ConfigError

MAX_INT64 = 2**63 - 1
DAY = 86_400.0
MIN_SECONDS = 1e-6  # the resolution of the clock
MAX_SECONDS = 36_525 * DAY  # 100 years: any clock plus this fits 64 bits of microseconds, and a thread can wait for it
MOST_TEXTS, MOST_CHARACTERS = 100, 4096
_ARGUMENT = re.compile(r"^(\w+): (.*)$")


class Kind(Enum):
    """What a value is; numbers without a unit are counts."""

    SIZE = "bytes"
    COUNT = "count"
    DURATION = "seconds"
    SHARE = "share"
    SWITCH = "switch"
    CHOICE = "choice"
    TEXTS = "texts"


class Scope(Enum):
    """What a setting is about."""

    STORAGE = "how segments are stored"
    RETENTION = "which records are deleted"
    COMPACTION = "how a log is compacted by key"
    KAFKA = "what Kafka's clients may append"


_PREFIXES = {Scope.RETENTION: "retention-", Scope.KAFKA: "kafka-"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What the type of a field does not say.

    Args:
        kind: What a value is.
        scope: What it is about.
        least: The lowest value. Of a duration: 0, or `MIN_SECONDS` if it cannot be 0.
        most: The highest value.
        altered: Whether it may change for a topic that exists.
        later: Whether it is stored only if it is not the default: the first version does not know it, and must not open
            a log that has it.
    """

    kind: Kind
    scope: Scope = Scope.STORAGE
    least: float = 0
    most: float = MAX_INT64
    altered: bool = False
    later: bool = False


class Declared(NamedTuple):
    """A setting with what its field and docstring say. choices: of Kind.CHOICE; optional: whether None is a value."""

    name: str
    setting: Setting
    default: Any
    about: str
    choices: tuple[str, ...]
    optional: bool

    @property
    def option(self) -> str:
        """Its option on the command line; "" if there is none."""
        if self.setting.kind is Kind.TEXTS:
            return ""
        return "--" + _PREFIXES.get(self.setting.scope, "") + self.name.replace("_", "-")

    def checked(self, value: Any, what: str) -> Any:
        """Return a value as it is kept: durations as seconds.

        Raises ConfigError: it has the wrong type or is out of bounds. what: the name in the error.
        """
        if value is None and self.optional:
            return None
        match self.setting.kind:
            case Kind.DURATION:
                return self._seconds(value, what)
            case Kind.CHOICE:
                if value not in self.choices:
                    raise ConfigError(f"{what} must be {_any_of(self.choices)}, not {_shown(value)}")
            case Kind.SWITCH:
                if not isinstance(value, bool):
                    kinds = "True, False or None" if self.optional else "True or False"
                    raise ConfigError(f"{what} must be {kinds}, not {type(value).__name__}")
            case Kind.TEXTS:
                return _texts(value, what)
            case Kind.SHARE:
                self._check_number(value, what, (int, float), "a number between 0 and 1")
            case _:
                self._check_number(value, what, int, "an int")
        return value

    def _check_number(self, value: Any, what: str, kinds: Any, needed: str) -> None:
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ConfigError(f"{what} must be {needed}, not {type(value).__name__}")
        if not self.setting.least <= value <= self.setting.most:  # also refuses NaN
            raise ConfigError(
                f"{what} is {_shown(value)}; it must be between {self.setting.least} and {self.setting.most}"
            )

    def _seconds(self, value: Any, what: str) -> float:
        if isinstance(value, timedelta):
            value = value.total_seconds()
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"{what} must be seconds or a timedelta, not {type(value).__name__}")
        zero = self.setting.least == 0
        if not (MIN_SECONDS <= value <= MAX_SECONDS or (value == 0 and zero)):  # also refuses NaN
            least = f"0, or from {MIN_SECONDS:f}" if zero else f"from {MIN_SECONDS:f}"
            raise ConfigError(f"{what} is {_shown(value)}; it must be {least} to {MAX_SECONDS:.0f} seconds (100 years)")
        return float(value)


def size(least: int = 0, most: int = MAX_INT64, **more: Any) -> Setting:
    """Return a setting in bytes."""
    return Setting(kind=Kind.SIZE, least=least, most=most, **more)


def count(least: int = 0, most: int = MAX_INT64, **more: Any) -> Setting:
    """Return a setting that is a whole number."""
    return Setting(kind=Kind.COUNT, least=least, most=most, **more)


def duration(*, zero: bool = True, **more: Any) -> Setting:
    """Return a setting in seconds. zero: whether it may be 0."""
    return Setting(kind=Kind.DURATION, least=0 if zero else MIN_SECONDS, most=MAX_SECONDS, **more)


def share(**more: Any) -> Setting:
    """Return a setting that is a number from 0 to 1."""
    return Setting(kind=Kind.SHARE, most=1, **more)


def switch(**more: Any) -> Setting:
    """Return a setting that is True or False."""
    return Setting(kind=Kind.SWITCH, **more)


def choice(**more: Any) -> Setting:
    """Return a setting that is one of the texts of its type."""
    return Setting(kind=Kind.CHOICE, **more)


def texts(**more: Any) -> Setting:
    """Return a setting that is texts by name, at most MOST_TEXTS of them; None if there is none.

    Programs keep it for their clients: the command line and the console's forms do not offer it.
    """
    return Setting(kind=Kind.TEXTS, **more)


def declared(config: type) -> dict[str, Declared]:
    """Return the settings of a config class, by name, in the order of its fields; other fields have none."""
    return _declared(config)


@cache
def _declared(config: type) -> dict[str, Declared]:
    about, hints = arguments_of(config), get_type_hints(config, include_extras=True)
    found = {}
    for field in fields(config):
        setting = next(
            (one for one in getattr(hints[field.name], "__metadata__", ()) if isinstance(one, Setting)), None
        )
        if setting is not None:
            choices, optional = _values_of(hints[field.name].__origin__)
            default = None if field.default is MISSING else field.default
            found[field.name] = Declared(field.name, setting, default, about.get(field.name, ""), choices, optional)
    return found


def arguments_of(kind: type) -> dict[str, str]:
    """Return the sentences of a docstring about each argument, as one line each; nothing under `python -OO`."""
    lines = inspect.cleandoc(kind.__doc__ or "").splitlines()
    found: dict[str, str] = {}
    name = ""
    for line in lines[lines.index("Args:") + 1 :] if "Args:" in lines else ():
        if not line.startswith(" "):
            break
        if entry := _ARGUMENT.match(line.removeprefix("    ")):
            name = entry[1]
            found[name] = entry[2]
        else:
            found[name] += " " + line.strip()
    return found


def known_values(config: type, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values that a config class takes, and the others: of unknown settings, or out of their bounds."""
    found: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    for name, value in within_bounds(config, dict(values)).items():
        one = declared(config).get(name)
        try:
            if one is None:
                raise ConfigError(f"there is no setting {name}")
            found[name] = one.checked(value, name)
        except ConfigError:
            unknown[name] = value
    return found, unknown


def within_bounds(config: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return stored values, with durations that an earlier version accepted clamped to the bounds."""
    found = {**values}
    for name, one in declared(config).items():
        value = found.get(name)
        if one.setting.kind is Kind.DURATION and isinstance(value, (int, float)) and not isinstance(value, bool):
            if value > MAX_SECONDS:
                found[name] = MAX_SECONDS
            elif 0 < value < MIN_SECONDS:
                found[name] = MIN_SECONDS
    return found


def _values_of(hint: Any) -> tuple[tuple[str, ...], bool]:
    """Return the texts that a type has, and whether it has None."""
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    texts = tuple(text for part in parts if get_origin(part) is Literal for text in get_args(part))
    return texts, type(None) in parts


def _texts(value: Any, what: str) -> dict[str, str] | None:
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise ConfigError(f"{what} must be texts by name, not {type(value).__name__}")
    if len(value) > MOST_TEXTS:
        raise ConfigError(f"{what} has {len(value)} texts; it may have {MOST_TEXTS}")
    for name, text in value.items():
        if max(len(name), len(text)) > MOST_CHARACTERS:
            raise ConfigError(f"{what}: {name[:80]!r} is longer than {MOST_CHARACTERS} characters")
    return dict(sorted(value.items())) or None


def _any_of(choices: tuple[str, ...]) -> str:
    *others, last = (f'"{one}"' for one in choices)
    return f"{', '.join(others)} or {last}"


def _shown(value: object) -> str:
    """Format a value for a message; an int of more than 4,300 digits cannot be printed."""
    return (
        f"an int of {value.bit_length()} bits" if isinstance(value, int) and value.bit_length() > 128 else repr(value)
    )
