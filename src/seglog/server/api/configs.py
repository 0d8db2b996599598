"""Configs in bodies: their JSON schemas, and JSON values -> values of a config; from the declared settings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from seglog.config import LogConfig, Retention
from seglog.policies import Policies, parted
from seglog.settings import MAX_SECONDS, MIN_SECONDS, MOST_CHARACTERS, MOST_TEXTS, Declared, Kind, declared

Schema = dict[str, Any]
RETENTION, CONFIG, POLICIES = "RetentionModel", "ConfigModel", "PoliciesModel"
_INTEGERS = (Kind.SIZE, Kind.COUNT)
_RETENTION_REFERENCE: Schema = {"allOf": [{"$ref": f"#/components/schemas/{RETENTION}"}]}  # pydantic follows a bare one
_CONFIG_REFERENCE: Schema = {"allOf": [{"$ref": f"#/components/schemas/{CONFIG}"}]}
_POLICIES_REFERENCE: Schema = {"allOf": [{"$ref": f"#/components/schemas/{POLICIES}"}]}


def whole(value: Any) -> Any:
    """Accept 3.0 as 3: JSON has no separate integers (JSON Schema, 6.1.1)."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def schema_of(one: Declared) -> Schema:
    """Return the JSON schema of a setting, with what the console makes a field of; it makes none of texts."""
    if one.setting.kind is Kind.TEXTS:
        return {**_or_null(_kind_of(one)), "description": one.about}
    return _described(one, _or_null(_kind_of(one)) if one.optional else _kind_of(one))


def schemas() -> dict[str, Schema]:
    """Return the schemas of configs, by the names that others refer to. null in a config: the default."""
    kept = {name: {**schema_of(one), "default": one.default} for name, one in _KEPT.items()}
    wanted = {name: {**schema_of(one), "default": one.default} for name, one in _WANTED.items()}
    moved = {name: _deprecated(wanted[name]) for name in _MOVED}
    config = {name: _described(one, _or_null(_kind_of(one))) for name, one in _LOG.items()}
    return {
        RETENTION: _object("Fields of seglog.Retention; a field that is not named keeps its value.", kept | moved),
        POLICIES: _object("Fields of seglog.Policies; a field that is not named keeps its value.", wanted),
        CONFIG: _object("Fields of seglog.LogConfig.", {**config, "retention": _or_null(_RETENTION_REFERENCE)}),
    }


def _deprecated(schema: Schema) -> Schema:
    """Return the schema of a setting at the place where it was before: no form shows it there."""
    own = {name: value for name, value in schema.items() if not name.startswith("x-")}
    return {**own, "deprecated": True, "description": f"A field of {POLICIES}; deprecated here."}


def _described(one: Declared, schema: Schema) -> Schema:
    return {
        **schema,
        "description": one.about,
        "x-kind": one.setting.kind.value,
        "x-scope": one.setting.scope.name.lower(),
        "x-altered": one.setting.altered,
        "x-optional": one.optional,
        "x-choices": list(one.choices),
        "x-default": one.default,
    }


def _kind_of(one: Declared) -> Schema:
    """Return the JSON schema of the values of a setting, other than null."""
    setting = one.setting
    match setting.kind:
        case Kind.SWITCH:
            return {"type": "boolean"}
        case Kind.CHOICE:
            return {"type": "string", "enum": list(one.choices)}
        case Kind.TEXTS:
            text = {"type": "string", "maxLength": MOST_CHARACTERS}
            return {"type": "object", "additionalProperties": text, "maxProperties": MOST_TEXTS}
        case Kind.SHARE:
            return {"type": "number", "minimum": setting.least, "maximum": setting.most}
        case Kind.DURATION:
            positive = {"type": "number", "minimum": MIN_SECONDS, "maximum": MAX_SECONDS}
            return positive if setting.least else {"anyOf": [positive, {"type": "number", "enum": [0]}]}
    return {"type": "integer", "minimum": setting.least, "maximum": setting.most}


def _object(about: str, properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "description": about, "properties": dict(properties), "additionalProperties": False}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


# --- values -----------------------------------------------------------------------------------------------------------


def _values(settings: Mapping[str, Declared], prefix: str, given: Any, *more: str) -> dict[str, Any]:
    """Return the values of a JSON object's settings. Raises ValueError. more: other fields that it may have."""
    if not isinstance(given, dict):
        raise ValueError("it must be an object")
    refuse_unknown(given, (*settings, *more))
    return {
        name: value if name in more else _value(settings[name], value, prefix + name) for name, value in given.items()
    }


def refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an object at the first field that is unknown; there may be tens of thousands."""
    for name in given:
        if name not in known:
            raise ValueError(f"there is no field {name[:80]!r} here; there are {', '.join(known)}")


def _value(one: Declared, value: Any, what: str) -> Any:
    return one.checked(whole(value) if one.setting.kind in _INTEGERS else value, what)


def _retention(given: Any) -> dict[str, Any]:
    return _values({**_KEPT, **_MOVED}, "retention.", given)


def _policies(given: Any) -> dict[str, Any]:
    return _values(_WANTED, "policies.", given)


def _config(given: Any) -> dict[str, Any]:
    """Return the values of a config that are not null."""
    named = {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else given
    values = _values(_LOG, "", named, "retention")
    return values | ({"retention": _retention(values["retention"])} if "retention" in values else {})


def typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked values with their retention and policies as such; also policies that are in the retention.

    Raises ConfigError if they contradict each other.
    """
    found = dict(values)
    retention, moved = parted(found.get("retention") or {})
    if "retention" in found:
        found["retention"] = Retention(**retention)
    if moved or "policies" in found:
        found["policies"] = Policies(**{**moved, **(found.get("policies") or {})})
    return found


def has_moved(values: Mapping[str, Any] | None) -> bool:
    """Return whether checked values have policies in the retention, as clients of earlier versions send them."""
    return bool(parted((values or {}).get("retention") or {})[1])


_LOG, _KEPT, _WANTED = declared(LogConfig), declared(Retention), declared(Policies)
_MOVED = parted(_WANTED)[1]
RetentionChanges = Annotated[dict[str, Any], PlainValidator(_retention), WithJsonSchema(_RETENTION_REFERENCE)]
"""The fields of a retention that are named, checked one by one."""
PoliciesChanges = Annotated[dict[str, Any], PlainValidator(_policies), WithJsonSchema(_POLICIES_REFERENCE)]
"""The policies that are named, likewise."""
NewConfig = Annotated[dict[str, Any], PlainValidator(_config), WithJsonSchema(_CONFIG_REFERENCE)]
"""The values of the config of a new topic, likewise."""


def altered() -> dict[str, Any]:
    """Return the settings of a log that may change later, as fields of a model; none has a default."""
    return {name: _field(name, one) for name, one in _LOG.items() if one.setting.altered}


def _field(name: str, one: Declared) -> tuple[Any, Any]:
    check = PlainValidator(partial(_value, one, what=name))
    return Annotated[Any, check, WithJsonSchema(schema_of(one))], Field(default_factory=lambda: None)
