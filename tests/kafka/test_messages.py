"""Every message, in every version, is read and written as kio does, which is generated from Kafka's own definitions."""

from __future__ import annotations

import dataclasses
import io
import typing
from contextlib import suppress
from importlib import import_module

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from seglog.kafka.messages.core import PRODUCE
from seglog.kafka.requests.catalog import CATALOG
from seglog.kafka.wire.buffers import Malformed, Reader, Writer
from seglog.kafka.wire.schema import NO_UUID, Array, Bool, Data, Form, Identity, Maybe, Number, Struct, Text

NAMES = {  # kio's name of a field, where it is not Kafka's of these versions
    "generation_id_or_member_epoch": "generation_id",
    "v3_and_below_transactional_id": "transactional_id",
    "v3_and_below_producer_id": "producer_id",
    "v3_and_below_producer_epoch": "producer_epoch",
    "v3_and_below_topics": "topics",
    "results_by_topic_v3_and_below": "results_by_topic",
}
APIS = [one.api for one in CATALOG.values()]
CASES = [
    pytest.param(api, version, part, id=f"{api.name}-{version}-{part}")
    for api in APIS
    for version in api.versions
    for part in ("request", "response")
    if api is not PRODUCE or version >= 3  # Kafka 4, and so kio, has no older ones
]


def kio_class(api, version, part):
    package = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in api.name).lstrip("_")
    module = import_module(f"kio.schema.{package}.v{version}.{part}")
    wanted = f"{api.name}{part}".lower()
    return next(found for name, found in vars(module).items() if name.lower() == wanted)


def values_of(kind, form, name=""):
    """Return values of a type that both can represent."""
    if isinstance(kind, Struct):
        fields = [one for one in kind.fields if one.is_in(form.version)]
        return st.fixed_dictionaries({one.name: values_of(one.kind, form, one.name) for one in fields})
    if isinstance(kind, Array):
        found = st.lists(values_of(kind.of, form, name), max_size=3)
        return st.none() | found if kind.may_be_null(form) else found
    if isinstance(kind, Maybe):
        return st.none() | values_of(kind.of, form)
    if isinstance(kind, Text | Data):
        found = st.text(max_size=9) if isinstance(kind, Text) else st.binary(max_size=9)
        null = kind.may_be_null(form) if isinstance(kind, Text) else kind.nullable
        return st.none() | found if null else found
    return plain_values_of(kind, name)


def plain_values_of(kind, name):
    if isinstance(kind, Bool):
        return st.booleans()
    if isinstance(kind, Identity):
        return st.binary(min_size=16, max_size=16).map(bytes.hex) | st.just(NO_UUID)
    assert isinstance(kind, Number)
    if name.endswith("error_code"):
        return st.sampled_from([code.value for code in ErrorCode])
    if name.endswith("_ms"):
        return st.integers(0, 2**31 - 1)
    return st.integers(-(2 ** (8 * kind.least - 1)), 2 ** (8 * kind.least - 1) - 1)


def written(kind, values, form):
    target = Writer()
    kind.write(target, values, form)
    return b"".join(bytes(part) for part in target.parts())


def covers(found, values):
    """Whether what was read has the values that were written; it also has the defaults of other versions' fields."""
    if isinstance(values, dict):
        return all(covers(found[name], value) for name, value in values.items())
    if isinstance(values, list):
        return len(found) == len(values) and all(map(covers, found, values))
    return found == values


@pytest.mark.parametrize(("api", "version", "part"), CASES)
def test_kio_reads_what_is_written_and_writes_the_same(api, version, part):
    kind, form, other = getattr(api, part), api.form(version), kio_class(api, version, part)
    read, write = entity_reader(other), entity_writer(other)

    @settings(max_examples=5, suppress_health_check=list(HealthCheck))
    @given(values_of(kind, form))
    def check(values):
        data = written(kind, values, form)
        entity, size = read(data, 0)
        assert size == len(data)
        again = io.BytesIO()
        write(again, entity)
        assert again.getvalue() == data
        source = Reader(data)
        assert covers(kind.read(source, form), values)
        assert not source.left

    check()


def names_of(kind, form):
    """Return the names of a structure's fields, with those of the structures within."""
    found = []
    for one in kind.fields:
        if one.is_in(form.version):
            inner = one.kind.of if isinstance(one.kind, Array | Maybe) else one.kind
            found.append((one.name, names_of(inner, form) if isinstance(inner, Struct) else []))
    return found


def kio_names_of(entity):
    found = []
    hints = typing.get_type_hints(entity)
    for one in dataclasses.fields(entity):
        timed = str(one.metadata.get("kafka_type", "")).startswith(("timed", "datet"))
        name = f"{one.name}_ms" if timed else one.name
        parts = [hints[one.name], *typing.get_args(hints[one.name])]
        parts += [each for part in parts for each in typing.get_args(part)]
        inner = next((part for part in parts if dataclasses.is_dataclass(part)), None)
        found.append((NAMES.get(name, name), kio_names_of(inner) if inner else []))
    return found


@pytest.mark.parametrize(("api", "version", "part"), CASES)
def test_the_fields_have_the_names_and_the_order_of_kafkas(api, version, part):
    assert names_of(getattr(api, part), api.form(version)) == kio_names_of(kio_class(api, version, part))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_produce_requests_lack_the_transactional_id(version):
    form = PRODUCE.form(version)
    values = {"acks": -1, "timeout_ms": 5, "topic_data": []}
    data = written(PRODUCE.request, values, form)
    assert data == b"\xff\xff" + (5).to_bytes(4, "big") + bytes(4)
    assert PRODUCE.request.read(Reader(data), form) == {**values, "transactional_id": None}


@given(
    st.sampled_from(APIS).flatmap(lambda api: st.tuples(st.just(api), st.sampled_from(list(api.versions)))), st.data()
)
def test_any_bytes_are_a_request_or_refused(chosen, data):
    api, version = chosen
    form = api.form(version)
    valid = written(api.request, data.draw(values_of(api.request, form)), form)
    cut = data.draw(st.integers(0, len(valid)))
    junk = valid[:cut] + data.draw(st.binary(max_size=16))
    with suppress(Malformed):
        api.request.read(Reader(junk), form)


def test_an_array_longer_than_the_message_is_refused_before_it_is_read():
    kind = Array(Struct())
    with pytest.raises(Malformed, match="cannot fit"):
        kind.read(Reader((2**31 - 1).to_bytes(4, "big") + bytes(100)), Form(0, flexible=False))
