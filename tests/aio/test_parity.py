"""The awaited classes have the names, parameters and annotations of the blocking ones: they cannot drift apart."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import seglog
import seglog.aio
from seglog.log.tail import Tail
from seglog.topic.groups.consumer import Consumer
from seglog.topic.partition_writer import PartitionWriter
from seglog.types import AsyncPartitionWriter

PAIRS: list[tuple[Any, Any]] = [
    (seglog.Log, seglog.aio.AsyncLog),
    (Tail, seglog.aio.AsyncTail),
    (seglog.Topic, seglog.aio.AsyncTopic),
    (PartitionWriter, AsyncPartitionWriter),
    (seglog.Broker, seglog.aio.AsyncBroker),
    (Consumer, seglog.aio.AsyncConsumer),
]
PROTOCOLS = ("__len__", "__bool__", "__arrow_c_stream__", "__repr__")
INTERNAL = {"enter_child"}  # of Broker, for its forked child

INSTANT = {  # calls that wait for nothing, and are not awaited
    "AsyncLog": {"is_ready", "records_from"},
    "AsyncTopic": {"is_ready", "partition", "route", "with_serializers", "writer"},
    "AsyncPartitionWriter": {"is_ready"},
    "AsyncBroker": {"if_open"},
}
AWAITED = {
    "AsyncLog": {"pins", "table_offset"},
    "AsyncBroker": {"groups"},
    "AsyncConsumer": {"positions"},
}  # properties that read files

RENAMED = {  # what an awaited signature says in place of a blocking one
    r"\bAsync(Log|Tail|Topic|PartitionWriter|Broker|Consumer)\b": r"\1",
    r"\bAsyncIterator\b": "Iterator",
    r"AsyncIterable\[bytes\] \| ": "",
}


def public(kind: type) -> set[str]:
    own = {name for base in kind.__mro__ if base.__module__.startswith("seglog") for name in vars(base)}
    return {name for name in own if not name.startswith("_")} - INTERNAL


def shown(annotation: Any) -> str:
    text = str(annotation)
    for awaited, blocking in RENAMED.items():
        text = re.sub(awaited, blocking, text)
    return text


def signature(call: Any) -> list[tuple[str, Any, Any, str]]:
    """Return name, kind, default and annotation of each parameter, and the annotation of the result."""
    found = inspect.signature(call)
    parameters = [(one.name, one.kind, one.default, shown(one.annotation)) for one in found.parameters.values()]
    return [*parameters, ("return", None, None, shown(found.return_annotation))]


def calls(blocking: type, awaited: type) -> list[str]:
    there = public(blocking) & public(awaited)
    here = {name for name in there if getattr(getattr(awaited, name), "__module__", "") != "seglog.deprecated"}
    return sorted(name for name in here if callable(getattr(blocking, name)))


PAIRED_CALLS = [
    pytest.param(blocking, awaited, name, id=f"{awaited.__name__}.{name}")
    for blocking, awaited in PAIRS
    for name in calls(blocking, awaited)
]


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS)
def test_no_name_of_a_blocking_class_is_missing(blocking: type, awaited: type) -> None:
    missing = public(blocking) - public(awaited) - set(getattr(awaited, "__annotations__", ()))
    if blocking is PartitionWriter:
        missing -= {"place", "log"}  # attributes of an instance
    if blocking is Tail:
        missing -= {"view", "position"}
    assert not missing
    assert all(hasattr(awaited, name) for name in PROTOCOLS if name in vars(blocking) or name in vars(object))


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS)
def test_nothing_is_there_that_the_blocking_class_lacks(blocking: type, awaited: type) -> None:
    with_instances = {"position", "view", "path", "closed", "recovery", "root", "recovered", "open"}
    assert public(awaited) - public(blocking) <= with_instances


@pytest.mark.parametrize(("blocking", "awaited", "name"), PAIRED_CALLS)
def test_an_awaited_call_has_the_parameters_of_the_blocking_one(blocking: Any, awaited: Any, name: str) -> None:
    there, here = signature(getattr(blocking, name)), signature(getattr(awaited, name))
    if name in ("create", "open"):  # class methods that return their class
        there[-1] = here[-1]
    assert here == there
    assert (inspect.getdoc(getattr(awaited, name)) or "").strip()


@pytest.mark.parametrize(("blocking", "awaited", "name"), PAIRED_CALLS)
def test_a_call_is_awaited_unless_it_waits_for_nothing(blocking: Any, awaited: Any, name: str) -> None:
    call = getattr(awaited, name)
    is_awaited = inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
    assert is_awaited is (name not in INSTANT.get(awaited.__name__, ()))


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS)
def test_a_fact_is_a_property_there_and_here(blocking: type, awaited: type) -> None:
    for name in public(blocking) & public(awaited):
        there, here = inspect.getattr_static(blocking, name), inspect.getattr_static(awaited, name)
        if isinstance(there, property):
            assert isinstance(here, property)
            assert inspect.iscoroutinefunction(here.fget) is (name in AWAITED.get(awaited.__name__, ()))
            assert signature(here.fget) == signature(there.fget), name


def test_opening_takes_what_the_blocking_calls_take() -> None:
    assert signature(seglog.aio.open) == signature(seglog.open)
    assert signature(seglog.aio.AsyncBroker.open)[:-1] == signature(seglog.Broker)[:-1]
