"""The options that make a log's config and a topic's policies: one for each setting, from the table of settings.

Only `config_from` opens a log, to read the stored config and change only the fields that were given.
"""

from __future__ import annotations

import dataclasses
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import seglog
from seglog.cli.frame import Args, Option, option
from seglog.cli.options import dest
from seglog.config import LogConfig, Retention
from seglog.errors import LogNotFound
from seglog.fields import Fields
from seglog.policies import Policies
from seglog.settings import Declared, Kind, Scope, declared
from seglog.terminal.units import parse_count, parse_duration, parse_size, typed_duration, typed_size

_RETENTION, _POLICIES = "retention", "policies"
_PARTS: dict[str, type] = {_RETENTION: Retention, _POLICIES: Policies}
_UNITS = "(SIZE as 512, 64MiB, 1GB; DURATION as 90s, 15m, 7d)"
_HEADINGS = {
    Scope.STORAGE: f"Storage {_UNITS}",
    Scope.RETENTION: f"Retention {_UNITS}",
    Scope.COMPACTION: "Config of a log compacted by key (see `seglog compact`)",
    Scope.KAFKA: "Config for Kafka's clients",
}
_NEW_HEADING = f"Config, stored with the log: give it once {_UNITS}"
_WORDS = {"None: ": "none: ", "False: ": "no: ", "false: ": "no: ", "True: ": "yes: "}
_NONE = object()
"""The value that "none" gives a setting that may be None: as click takes None for an option that is not given."""


class _Field(NamedTuple):
    """A field of LogConfig, of its retention, or of policies: path: retention.age."""

    path: str
    one: Declared

    @property
    def dest(self) -> str:
        """The name of its option in Args."""
        return dest(self.one.option)


def parse_switch(text: str) -> bool:
    """Return whether it is yes."""
    if text not in ("yes", "no"):
        raise ArgumentTypeError(f"{text!r} is neither yes nor no")
    return text == "yes"


def parse_share(text: str) -> float:
    """Return a share between 0 and 1."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number between 0 and 1") from None


_PARSERS: dict[Kind, tuple[Callable[[str], object], str]] = {
    Kind.SIZE: (parse_size, "SIZE"),
    Kind.COUNT: (parse_count, "N"),
    Kind.DURATION: (parse_duration, "DURATION"),
    Kind.SHARE: (parse_share, "SHARE"),
    Kind.SWITCH: (parse_switch, "yes|no"),
    Kind.CHOICE: (str, ""),
}


def _fields() -> Iterator[_Field]:
    for name, one in declared(LogConfig).items():
        yield _Field(name, one)
    for part, kind in _PARTS.items():
        for name, one in declared(kind).items():
            if one.option:
                yield _Field(f"{part}.{name}", one)


FIELDS = tuple(_fields())
_BY_PATH = {field.path: field.one for field in FIELDS}


# --- the options ------------------------------------------------------------------------------------------------------


def config_options() -> list[Option]:
    """Return the options of a log's config."""
    return _new_options(field for field in FIELDS if not field.path.startswith(f"{_POLICIES}."))


def topic_options() -> list[Option]:
    """Return the options of a topic: of the config of its logs, and of its policies."""
    return _new_options(FIELDS)


def _new_options(chosen: Iterable[_Field]) -> list[Option]:
    return list(_options(chosen, {**_HEADINGS, Scope.STORAGE: _NEW_HEADING, Scope.RETENTION: _NEW_HEADING}))


def alter_options() -> list[Option]:
    """Return the options of what may change later."""
    return list(_options((field for field in FIELDS if field.one.setting.altered), _HEADINGS))


def _options(chosen: Iterable[_Field], headings: dict[Scope, str]) -> Iterator[Option]:
    by_scope: dict[Scope, list[Option]] = {scope: [] for scope in Scope}
    for field in chosen:
        scope = field.one.setting.scope
        by_scope[scope].append(_option(field.one, headings[scope]))
    for found in by_scope.values():
        yield from found


def _option(one: Declared, heading: str) -> Option:
    if one.setting.kind is Kind.SWITCH and not one.optional:
        return option(f"{one.option}/--no-{one.option.removeprefix('--')}", help=_help(one), group=heading)
    parse, metavar = _PARSERS[one.setting.kind]
    metavar = (metavar or "|".join(one.choices)) + ("|none" if one.optional and one.setting.kind is Kind.SWITCH else "")
    parse = _or_none(parse) if one.optional else parse
    return option(one.option, metavar=metavar, type=parse, help=_help(one), group=heading)


def _or_none(parse: Callable[[str], object]) -> Callable[[str], object]:
    def parsed(text: str) -> object:
        return _NONE if text == "none" else parse(text)

    return parsed


def _help(one: Declared) -> str:
    """Return the sentences about a setting as help has them, with the default."""
    about = one.about[:1].lower() + one.about[1:].removesuffix(".")
    for python, word in _WORDS.items():
        about = about.replace(python, word)
    if one.default is None or one.setting.kind is Kind.SWITCH:
        return about
    default = f"default {typed(one, one.default)}"
    return f"{about}; {default}" if about else default


# --- values -----------------------------------------------------------------------------------------------------------


def typed(one: Declared, value: Any) -> str:
    """Return the value of a setting as a user would type it: 7d, 64 MiB."""
    if value is None:
        return "none"
    match one.setting.kind:
        case Kind.SIZE:
            return typed_size(value)
        case Kind.DURATION:
            return typed_duration(value)
        case Kind.SWITCH:
            return "yes" if value else "no"
        case Kind.TEXTS:
            return ", ".join(f"{name}={text}" for name, text in value.items())
    return str(value)


def config_given(args: Args) -> dict[str, object]:
    """Return the fields that were given; those of the retention as `retention.age`."""
    given = ((field.path, getattr(args, field.dest, None)) for field in FIELDS)
    return {path: None if value is _NONE else value for path, value in given if value is not None}


def changes_given(args: Args) -> dict[str, Any]:
    """Return the fields that were given, as `Topic.alter` takes them."""
    found: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for path, value in config_given(args).items():
        part, _, name = path.rpartition(".")
        (parts.setdefault(part, {}) if part else found)[name] = value
    return found | {part: _PARTS[part](**values) for part, values in parts.items()}


def config_from(args: Args) -> LogConfig | None:
    """Return the log's stored config with the given options applied, or None if none was given.

    The options of a new log change the defaults. Raises ConfigError for an invalid config.
    """
    return config_over(args, lambda: _stored_config(args.log))


def config_over(args: Args, stored_config: Callable[[], LogConfig]) -> LogConfig | None:
    """Return what `stored_config` returns with what the options change in it, or None where they change nothing."""
    said = changes_given(args)
    said.pop(_POLICIES, None)
    if not said:
        return None
    stored = stored_config()
    if _RETENTION in said:
        said[_RETENTION] = stored.retention.changed(said[_RETENTION].given())
    if "segment_bytes" in said:
        said.setdefault("segment_overflow_bytes", None)  # the default follows segment_bytes
    return dataclasses.replace(stored, **said)


def _stored_config(path: str) -> LogConfig:
    try:
        with seglog.open(path, mode="r") as log:
            return log.config
    except LogNotFound:
        return LogConfig()


def changed_options(config: LogConfig) -> dict[str, str]:
    """Return the options that differ from the defaults, with values as a user would type them: 7d, 1 GiB."""
    default = LogConfig(segment_bytes=config.segment_bytes)
    shown = {"segment_bytes": typed_size(config.segment_bytes)}
    return (
        shown
        | _changed(config, default)
        | {f"{_RETENTION}.{name}": value for name, value in _changed(config.retention, default.retention).items()}
    )


def changed_part(part: Retention | Policies) -> dict[str, str]:
    """Return the same of a retention, or of policies."""
    return _changed(part, type(part)())


def _changed(config: Fields, default: Fields) -> dict[str, str]:
    values = {name: (getattr(config, name), one) for name, one in declared(type(config)).items()}
    return {name: typed(one, value) for name, (value, one) in values.items() if value != getattr(default, name)}
