"""Every public method, called with what it does not take: an error of ours or its result, soon, and nothing is lost.

The methods and their parameters are found by `inspect`, so a new one is tried without a line here.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import math
import signal
from typing import TYPE_CHECKING, Any, Self

import pytest

import seglog
import seglog.aio
from seglog.errors import SeglogError
from tests.conftest import Served
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

DEADLINE = HANG_SECONDS
WAITS = ("timeout", "wait")  # parameters that say how long to wait: these values mean what they say
FOR_LONG = (None, math.inf, 2**70)
STORED = [b"value %d" % number for number in range(5)]


class Mischief(Exception):
    """What an object of the caller raises: it may come through as it is."""


class Raising:
    """An object that can do nothing."""

    def __getattr__(self, name: str) -> Any:
        raise Mischief(name)

    def _refuse(self, *arguments: object) -> Any:
        raise Mischief

    __iter__ = __len__ = __index__ = __int__ = __float__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = __bool__ = __str__ = __getitem__ = __contains__ = __call__ = _refuse

    def __repr__(self) -> str:
        return "Raising()"


class Refusing:
    """A class where an object is expected; it has the methods of a number, but no object."""

    def __new__(cls, *arguments: object) -> Self:
        raise Mischief

    def __index__(self) -> int:
        raise AssertionError("there is no object")


HOSTILE: list[Any] = [
    None,
    True,
    -1,
    FOR_LONG[2],
    -(2**70),
    1.5,
    math.nan,
    math.inf,
    -math.inf,
    "",
    "text",
    "\ud800",
    "a\0b",
    "../up",
    "n" * 300,
    b"",
    b"\xff",
    (),
    [],
    [1],
    [None],
    [("a", "b", "c")],
    [("\ud800", b"v")],
    [("a\0\n", b"v")],
    {},
    {"a": 1},
    {1: {2: 3}},
    {"orders": {0: "x"}},
    {"orders": {0: math.nan}},
    {"orders": None},
    object(),
    Refusing,
    Raising(),
    [Raising()],
]


CHANGES = ("retention", "compression", "segment_age", "segment_bytes")


class Late(BaseException):
    """The call did not end."""


@contextlib.contextmanager
def deadline() -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, DEADLINE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def methods(kind: type, without: frozenset[str] = frozenset()) -> Iterator[tuple[str, list[inspect.Parameter]]]:
    """Yield every public method that takes something."""
    for name, thing in inspect.getmembers(kind, callable):
        if name.startswith("_") or name in without:
            continue
        if getattr(thing, "__module__", "") == "seglog.deprecated":
            continue  # calls `alter`
        parameters = [one for one in inspect.signature(thing).parameters.values() if one.name != "self"]
        if parameters:
            yield name, parameters


def bad_calls(kind: type, good: dict[str, Any], without: frozenset[str] = frozenset()) -> Iterator[Any]:
    """Yield (method, keywords): one bad value a time, and good ones for what else is required."""
    for name, parameters in methods(kind, without):
        sound = {one.name: good[one.name] for one in parameters if one.default is one.empty and one.name in good}
        sound.update({one.name: good[one.name] for one in parameters if one.name in WAITS})
        for parameter, value in itertools.product(parameters, HOSTILE):
            waits = parameter.name in WAITS and any(value is one for one in FOR_LONG)
            for each in () if waits else names_of(name, parameter):
                yield name, {**sound, each: value}


def names_of(method: str, parameter: inspect.Parameter) -> tuple[str, ...]:
    """Return the keywords that a parameter stands for."""
    if parameter.kind is not parameter.VAR_KEYWORD:
        return (parameter.name,)
    return CHANGES if method in ("alter", "alter_topic") else ()


def used(result: Any) -> None:
    """Take what an iterator gives, a few steps far; close what was made for the call."""
    if inspect.isgenerator(result):
        for _ in itertools.islice(result, 2):
            pass
        result.close()
    elif type(result).__name__ in ("Consumer", "RemoteConsumer", "Producer"):
        result.close()


def failures(calls: Iterator[Any], call: Callable[[str, dict[str, Any]], None]) -> list[str]:
    """Make all calls; return those that ended in an error that is not ours, or not at all."""
    found = []
    for name, keywords in calls:
        try:
            with deadline():
                call(name, keywords)
        except (SeglogError, Mischief):
            continue
        except Late:
            found.append(f"{name}({keywords!r}) does not end")
        except BaseException as error:  # noqa: BLE001 - anything else is what is looked for
            found.append(f"{name}({keywords!r}): {type(error).__name__}: {error}")
    return found


def filled(log: seglog.Log) -> seglog.Log:
    for value in STORED:
        log.append(value, key=value)
    return log


def check_nothing_lost(log: seglog.Log) -> None:
    assert [record.value for record in log.scan()][: len(STORED)] == STORED
    end = log.append(b"after", key=b"k")
    assert log.read(end).value == b"after"


GOOD: dict[str, Any] = {
    "age": 60.0,
    "place": "copy",
    "value": b"v",
    "key": b"k",
    "offset": 0,
    "record": seglog.Record(0, 0, b"k", b"v"),
    "data": None,
    "drafts": (),
    "chunks": (b"c",),
    "staged": (),
    "query": "q",
    "batch": 0,
    "name": "nothing",
    "topic": "orders",
    "topics": ["orders"],
    "group": "g",
    "partition": 0,
    "partitions": 1,
    "number": 0,
    "timestamp": 0,
    "retention": seglog.Retention(),
    "codec": "lz4",
    "length": 1,
    "keep": 1,
    "timeout": 0,
    "wait": 0,
    "positions": {"orders": {0: 0}},
    "offsets": {"orders": {0: 0}},
}


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ "text" and "n" * 300 are relative paths like others."""
    monkeypatch.chdir(tmp_path)


def test_a_log_takes_every_bad_call(tmp_path: Path) -> None:
    keyed = seglog.LogConfig(retention=seglog.Retention(compact=True))
    with filled(seglog.open(tmp_path / "log", keyed)) as log:
        calls = bad_calls(type(log), {**GOOD, "plan": log.plan_compaction(), "outcome": None, "directory": "x"})
        assert failures(calls, lambda name, keywords: used(getattr(log, name)(**keywords))) == []
        check_nothing_lost(log)
    with seglog.open(tmp_path / "log", mode="r") as log:
        calls = bad_calls(type(log), {**GOOD, "plan": None, "outcome": None, "directory": "x"})
        assert failures(calls, lambda name, keywords: used(getattr(log, name)(**keywords))) == []
        assert [record.value for record in log.scan()][: len(STORED)] == STORED


def test_a_topic_and_its_broker_take_every_bad_call(tmp_path: Path) -> None:
    with seglog.Broker(tmp_path) as broker:
        topic = broker.create_topic("orders", partitions=2)
        filled(topic.partition(0))
        calls = bad_calls(seglog.Topic, GOOD, frozenset({"create", "open"}))
        found = failures(calls, lambda name, keywords: used(getattr(topic, name)(**keywords)))
        calls = bad_calls(seglog.Broker, GOOD)
        found += failures(calls, lambda name, keywords: used(getattr(broker, name)(**keywords)))
        with broker.consumer("readers", ["orders"]) as consumer:
            calls = bad_calls(type(consumer), GOOD)
            found += failures(calls, lambda name, keywords: used(getattr(consumer, name)(**keywords)))
            consumer.seek("orders", 0, 0)
            assert consumer.poll()[0].value == STORED[0]
        with seglog.Cleaner.of_topic(topic) as cleaner:
            calls = bad_calls(seglog.Cleaner, GOOD, frozenset({"of_topic"}))
            found += failures(calls, lambda name, keywords: used(getattr(cleaner, name)(**keywords)))
        assert found == []
        check_nothing_lost(topic.partition(0))


def test_an_awaited_log_takes_every_bad_call(tmp_path: Path) -> None:
    async def call(log: seglog.aio.AsyncLog, name: str, keywords: dict[str, Any]) -> None:
        result = getattr(log, name)(**keywords)
        if inspect.isasyncgen(result):
            # With a valid start `follow` waits forever, as documented: give it a moment.
            moment = 0.01 if name == "follow" else None
            async with asyncio.timeout(moment), contextlib.aclosing(result):
                await anext(result, None)
        elif inspect.isawaitable(result):
            await result

    async def story() -> list[str]:
        async with await seglog.aio.open(tmp_path / "log") as log:
            filled(log.log)
            found = []
            good = {**GOOD, "plan": None, "outcome": None, "directory": "x"}
            for name, keywords in bad_calls(seglog.aio.AsyncLog, good, frozenset({"fence", "remove"})):
                try:
                    async with asyncio.timeout(DEADLINE):
                        await call(log, name, keywords)
                except (SeglogError, Mischief):
                    continue
                except TimeoutError:
                    if name != "follow":
                        found.append(f"{name}({keywords!r}) does not end")
                except BaseException as error:  # noqa: BLE001 - as in `failures`
                    found.append(f"{name}({keywords!r}): {type(error).__name__}: {error}")
            check_nothing_lost(log.log)
            return found

    assert asyncio.run(story()) == []


def test_an_awaited_topic_its_broker_and_consumer_take_every_bad_call(tmp_path: Path) -> None:
    async def ended(thing: Any, name: str, keywords: dict[str, Any]) -> None:
        result = getattr(thing, name)(**keywords)
        if inspect.isasyncgen(result):
            async with contextlib.aclosing(result):
                await anext(result, None)
            return
        made = await result if inspect.isawaitable(result) else result
        if type(made).__name__ == "AsyncConsumer":
            await made.close()

    async def failed(thing: Any, without: frozenset[str]) -> list[str]:
        found = []
        for name, keywords in bad_calls(type(thing), GOOD, without):
            try:
                async with asyncio.timeout(DEADLINE):
                    await ended(thing, name, keywords)
            except (SeglogError, Mischief):
                continue
            except BaseException as error:  # noqa: BLE001 - as in `failures`
                found.append(f"{name}({keywords!r}): {type(error).__name__}: {error}")
        return found

    async def story() -> list[str]:
        async with await seglog.aio.AsyncBroker.open(tmp_path) as broker:
            topic = await broker.create_topic("orders", partitions=2)
            filled(topic.partition(0).log)
            found = await failed(topic, frozenset({"create", "open"}))
            found += await failed(broker, frozenset({"open"}))
            async with await broker.consumer("readers", ["orders"]) as consumer:
                found += await failed(consumer, frozenset())
            check_nothing_lost(topic.partition(0).log)
            return found

    assert asyncio.run(story()) == []


REMOTE_WAITS = frozenset({"follow"})  # waits for records where its start is sound; its bad starts are tried below


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Served(tmp_path_factory.mktemp("served"), ())
    yield server.url
    server.stop()


def test_a_client_and_what_it_gives_take_every_bad_call(url: str) -> None:
    with seglog.Client(url, retries=0) as client:
        orders = client.create_topic("orders", partitions=2)
        for value in STORED:
            orders.append(value, partition=0)
        found = failures(bad_calls(seglog.Client, GOOD), lambda name, keywords: used(getattr(client, name)(**keywords)))
        calls = bad_calls(type(orders), GOOD, REMOTE_WAITS)
        found += failures(calls, lambda name, keywords: used(getattr(orders, name)(**keywords)))
        calls = (("follow", {"partition": 0, "start": start}) for start in HOSTILE if not isinstance(start, dict))
        found += failures(calls, lambda name, keywords: used(getattr(orders, name)(**keywords)))
        with client.consumer("readers", ["orders"]) as consumer:
            calls = bad_calls(type(consumer), GOOD)
            found += failures(calls, lambda name, keywords: used(getattr(consumer, name)(**keywords)))
        with contextlib.suppress(SeglogError), client.producer("orders") as producer:  # close raises the refusals
            calls = bad_calls(type(producer), GOOD)
            found += failures(calls, lambda name, keywords: used(getattr(producer, name)(**keywords).result(DEADLINE)))
        assert found == []
        assert [record.value for record in orders.records(0)][: len(STORED)] == STORED


def test_an_awaited_client_takes_every_bad_call(url: str) -> None:
    async def call(thing: Any, name: str, keywords: dict[str, Any]) -> None:
        result = getattr(thing, name)(**keywords)
        if inspect.isawaitable(result):
            result = await result
        if inspect.isasyncgen(result):
            async with contextlib.aclosing(result):
                await anext(result, None)
        elif type(result).__name__ in ("AsyncRemoteConsumer", "AsyncProducer"):
            await result.close()

    async def tried(thing: Any, without: frozenset[str] = frozenset()) -> list[str]:
        found = []
        # The calls are built by the same code as above; what differs is who drives them.
        for name, keywords in itertools.islice(bad_calls(type(thing), GOOD, without), 0, None, 5):
            try:
                async with asyncio.timeout(DEADLINE):
                    await call(thing, name, keywords)
            except (SeglogError, Mischief):
                continue
            except BaseException as error:  # noqa: BLE001 - as in `failures`
                found.append(f"{name}({keywords!r}): {type(error).__name__}: {error}")
        return found

    async def story() -> list[str]:
        async with seglog.AsyncClient(url, retries=0) as client:
            orders = await client.create_topic("awaited", partitions=2)
            for value in STORED:
                await orders.append(value, partition=0)
            found = [*await tried(client), *await tried(orders, REMOTE_WAITS)]
            async with await client.consumer("awaiting", ["awaited"]) as consumer:
                found += await tried(consumer, frozenset({"begun"}))
            with contextlib.suppress(SeglogError):  # as in the test above
                async with client.producer("awaited") as producer:
                    found += await tried(producer)
            stored = [record.value async for record in orders.records(0)]
            assert stored[: len(STORED)] == STORED
            return found

    assert asyncio.run(story()) == []


def made(kind: Callable[..., Any], good: dict[str, Any]) -> Iterator[Any]:
    """Yield what `bad_calls` does, of one callable."""
    parameters = inspect.signature(kind).parameters.values()
    sound = {one.name: good[one.name] for one in parameters if one.default is one.empty and one.name in good}
    for parameter, value in itertools.product(parameters, HOSTILE):
        if parameter.kind is not parameter.VAR_KEYWORD:
            yield kind.__name__, {**sound, parameter.name: value}


OPENERS = (seglog.open, seglog.verify, seglog.repair, seglog.Topic.create, seglog.Topic.open, seglog.Broker)
MAKERS = (seglog.Client, seglog.Cleaner, seglog.LogConfig, seglog.Retention)


@pytest.mark.parametrize("kind", [*OPENERS, *MAKERS], ids=lambda kind: kind.__qualname__)
def test_what_makes_or_opens_something_takes_every_bad_call(kind: Callable[..., Any], tmp_path: Path) -> None:
    good: dict[str, Any] = {"place": tmp_path / "l", "path": tmp_path / "t", "root": tmp_path / "r", "url": "http://h"}

    good.update(partitions=1, logs={})

    def call(name: str, keywords: dict[str, Any]) -> None:
        result = kind(**keywords)
        if hasattr(result, "close"):
            result.close()

    assert failures(made(kind, good), call) == []
