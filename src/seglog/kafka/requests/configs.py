"""Describe and alter configs: those of topics; those of the broker and of groups are only described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from seglog.errors import ConfigError, Forbidden, SeglogError
from seglog.kafka import codes
from seglog.kafka.broker_configs import broker_configs, group_configs
from seglog.kafka.configs import (
    ALL_DEFAULTS,
    IGNORED,
    LIST,
    MESSAGE_BYTES,
    SETTINGS,
    TopicConfig,
    changed,
    checked,
    given_texts,
    most_bytes,
    shown_values,
)
from seglog.kafka.requests.call import ENTRY_BYTES, Call, Values
from seglog.kafka.requests.metadata import NODE, refusal_of, visible_names
from seglog.kafka.requests.topics import Refused
from seglog.kafka.requests.turns import in_turns
from seglog.topic.layout.names import is_group_name
from seglog.topic.topic import Topic

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
OF_TOPIC, OF_BROKER, DEFAULT = 1, 4, 5
SET, DELETE, APPEND, SUBTRACT = range(4)

Change = Callable[[TopicConfig], TopicConfig]


async def describe_configs(call: Call) -> Values:
    """Return the configs of topics, of the broker and of groups; of each once, however often the request names it."""
    wanted = {(one["resource_type"], one["resource_name"]): one for one in call.values["resources"]}
    return {"results": [await _described(call, one) async for one in in_turns(wanted.values())]}


async def list_config_resources(call: Call) -> Values:
    """Return what has configs: topics that the sender may see, and the broker; of the other kinds there is nothing.

    Version 0 is only about the metrics of clients.
    """
    kinds = set(call.values["resource_types"]) or {TOPIC, BROKER} if call.version else set[int]()
    if not kinds <= {TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP}:
        return {"error_code": codes.UNSUPPORTED_VERSION, "config_resources": []}
    try:
        named = [(TOPIC, name) for name in await visible_names(call)] if TOPIC in kinds else []
    except SeglogError as error:
        return {"error_code": codes.code_of(error), "config_resources": []}
    named += [(BROKER, str(NODE))] if BROKER in kinds else []
    return {"config_resources": [{"resource_type": kind, "resource_name": name} for kind, name in named]}


async def _described(call: Call, wanted: Values) -> Values:
    kind, name, keys = wanted["resource_type"], wanted["resource_name"], wanted["configuration_keys"]
    shown = {"resource_type": kind, "resource_name": name, "configs": []}
    try:
        await call.room(ENTRY_BYTES)
        found = await _configs(call, kind, name)
        found = found if keys is None else [one for one in found if one["name"] in keys]
        await call.room(len(found) * ENTRY_BYTES)  # those of one resource are made before: they are few
    except SeglogError as error:
        return {**shown, "error_code": refusal_of(error), "error_message": str(error)}
    if not call.values["include_documentation"]:
        found = [{**one, "documentation": None} for one in found]
    return {**shown, "configs": found}


async def _configs(call: Call, kind: int, name: str) -> list[Values]:
    if kind == BROKER:
        return _of_broker(call, name)
    return _of_group(name) if kind == GROUP else await _of_topic(call, kind, name)


def _entry(name: str, value: str, kind: int, source: int, about: str, *, fixed: bool = True) -> Values:
    return {
        "name": name,
        "value": value,
        "read_only": fixed,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": kind,
        "documentation": about,
    }


async def _of_topic(call: Call, kind: int, name: str) -> list[Values]:
    topic = await _topic(call, kind, name, admin=False)
    config = TopicConfig.of(topic)
    values, given = shown_values(config), given_texts(config)
    sources = {
        each: OF_TOPIC if each in given or text != ALL_DEFAULTS[each] else DEFAULT for each, text in values.items()
    }
    most = most_bytes(topic.policies, _most(call))
    if most != topic.policies.batch_bytes:
        values[MESSAGE_BYTES] = str(most)
    return [
        _entry(each, values[each], one.type, sources[each], one.about, fixed=False)
        for each, one in (SETTINGS | IGNORED).items()
    ]


async def _topic(call: Call, kind: int, name: str, *, admin: bool) -> Topic:
    if kind == BROKER:
        raise ConfigError("the configs of the broker are options of `seglog serve`; restart it with others")
    if kind == GROUP:
        raise ConfigError("the configs of groups are the same for all of them, and cannot be altered")
    if kind != TOPIC:
        raise ConfigError(f"resources of kind {kind} have no configs here; topics (2), brokers (4) and groups (32) do")
    if admin:
        call.caller.require("admin", name)
    elif not call.caller.may_anything(name):
        raise Forbidden(f"the token {call.caller.name!r} has no right on topic {name!r}")
    return await call.services.reads.run(partial(call.services.broker.topic, name))


def _of_group(name: str) -> list[Values]:
    """Return the configs of a group, which need not exist."""
    if not is_group_name(name):
        raise ConfigError(f"{name!r} is no name of a group")
    return [_entry(each, one.value, one.type, DEFAULT, one.about) for each, one in group_configs().items()]


def _of_broker(call: Call, name: str) -> list[Values]:
    if name not in ("", str(NODE)):
        raise ConfigError(f"there is no broker {name!r}; the only one is {NODE}")
    host, port = call.advertised
    address = f"{_protocol(call)}://{host}:{port}"
    found = broker_configs(NODE, address, call.parts.settings, call.services.settings)
    return [_entry(each, one.value, one.type, OF_BROKER, one.about) for each, one in found.items()]


def _protocol(call: Call) -> str:
    """Return how clients must connect, as Kafka names it."""
    given = call.services.settings
    secure = "SSL" if given.certificate else "PLAINTEXT"
    return f"SASL_{secure}" if given.tokens else secure


# --- altering ---------------------------------------------------------------------------------------------------------


async def alter_configs(call: Call) -> Values:
    """Replace the configs of topics: those that are not named get their defaults."""

    def change(wanted: Values) -> Change:
        given = {one["name"]: one["value"] for one in wanted["configs"]}
        absent: dict[str, str | None] = dict.fromkeys(SETTINGS | IGNORED)
        return lambda config: changed(config, {**absent, **checked(given, _most(call))})

    return {"responses": [await _alter(call, one, change(one)) for one in call.values["resources"]]}


async def incremental_alter_configs(call: Call) -> Values:
    """Change some configs of topics."""

    def change(wanted: Values) -> Change:
        return lambda config: changed(config, checked(_changes(config, wanted["configs"]), _most(call)))

    return {"responses": [await _alter(call, one, change(one)) for one in call.values["resources"]]}


def _most(call: Call) -> int:
    """Return the most bytes of a batch."""
    return call.services.settings.limits.batch_bytes


def _changes(config: TopicConfig, wanted: list[Values]) -> dict[str, str | None]:
    present, found = shown_values(config), dict[str, str | None]()
    for one in wanted:
        name, value = one["name"], one["value"]
        if name in found:
            raise ConfigError(f"the request changes {name} twice")
        found[name] = _changed_value(present, name, value, one["config_operation"])
    return found


def _changed_value(present: Mapping[str, str], name: str, value: str | None, operation: int) -> str | None:
    if operation == DELETE:
        return None
    if value is None:
        raise Refused(codes.INVALID_REQUEST, f"{name} has no value; give one, or delete the config")
    if operation == SET:
        return value
    one = SETTINGS.get(name) or IGNORED.get(name)
    if operation not in (APPEND, SUBTRACT) or one is None or one.type != LIST:
        raise ConfigError(f"operation {operation} is not possible for {name}; only a list can be extended")
    items = dict.fromkeys(present.get(name, "").split(","))
    for item in value.split(","):
        if operation == APPEND:
            items[item] = None
        else:
            items.pop(item, None)
    return ",".join(item for item in items if item)


async def _alter(call: Call, wanted: Values, change: Change) -> Values:
    kind, name = wanted["resource_type"], wanted["resource_name"]
    shown = {"resource_type": kind, "resource_name": name}
    try:
        topic = await _topic(call, kind, name, admin=True)
        await call.services.care.run(partial(_change, call, topic, change))
        if not call.values["validate_only"]:
            call.services.cleaner.wake()
    except Refused as error:
        return {**shown, "error_code": error.code, "error_message": str(error)}
    except SeglogError as error:
        return {**shown, "error_code": refusal_of(error), "error_message": str(error)}
    return {**shown, "error_code": codes.NONE}


def _change(call: Call, topic: Topic, change: Change) -> None:
    """Store what may change of a topic's config, unless the request only asks whether it could."""
    broker = call.services.broker
    with call.services.altering:
        present = TopicConfig.of(topic)
        config = change(present)
        if not call.values["validate_only"]:
            broker.alter_topic(topic.name, **present.changes_to(config))
