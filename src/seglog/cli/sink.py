"""What `append` and `import` write to: a log, a topic or one of its partitions, here or on a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from seglog.cli.config_options import config_from
from seglog.cli.frame import Args
from seglog.cli.location import Remote, check_may_create, client_for, locate
from seglog.cli.lock_wait import patiently
from seglog.cli.open_log import opened
from seglog.errors import InvalidArgument, LogLocked
from seglog.terminal.units import format_count

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.client.topic import RemoteTopic
    from seglog.log.log import Log
    from seglog.topic import Topic


class Sink(Protocol):
    """Where records go. partitioned: whether an append reports the record's partition."""

    partitioned: bool

    def append(self, value: bytes | None, **fields: Any) -> tuple[int, int]:
        """Append one record and return (partition, offset); fields: key, timestamp, headers."""

    def append_stream(self, chunks: Iterable[bytes], **fields: Any) -> tuple[int, int]:
        """Append one record whose value comes in chunks."""

    def append_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows with checked times; in a topic those of each partition are appended completely or not at all."""

    def sync(self) -> None:
        """Return when everything appended is on disk."""

    def span(self) -> tuple[int, int | None, int | None]:
        """Return how many records were appended and, for one log, the first and the next offset."""


@contextmanager
def writing(args: Args, *, durable: bool = False) -> Iterator[Sink]:
    """Open what LOG names for writing; create a missing log, but never a topic.

    durable: ask a server for acknowledgements that survive power loss. Raises LogLocked, TopicNotFound, ...
    """
    place = locate(args)
    with ExitStack() as resources:
        if isinstance(place, Remote):
            _refuse_config(args, "a topic on a server")
            client = resources.enter_context(client_for(args, place))
            yield RemoteSink(client.topic(place.topic), place.partition, durable=durable)
        elif place.topic is not None:
            _refuse_config(args, "a topic")
            yield TopicSink(resources.enter_context(open_topic(place.topic, args.wait)), place.partition)
        else:
            check_may_create(place)
            config = config_from(args)
            yield LogSink(resources.enter_context(patiently(lambda: opened(place.path, config, mode="a"), args.wait)))


def _refuse_config(args: Args, what: str) -> None:
    from seglog.cli.config_options import config_given

    if config_given(args):
        raise InvalidArgument(f"{what} has its own config: set it with `seglog topics create` or `topics alter`")


def open_topic(path: Path, wait: float | None) -> Topic:
    """Open a topic for writing. wait: seconds to wait for another process that has it."""
    import seglog

    try:
        return patiently(lambda: seglog.Topic.open(path), wait)
    except LogLocked as error:
        error.add_note("if that process is `seglog serve`, write through it: --url http://HOST:PORT TOPIC")
        raise


class LogSink:
    """A standalone log."""

    partitioned = False

    def __init__(self, log: Log) -> None:
        self._log, self._first = log, log.next_offset

    def append(self, value: bytes | None, **fields: Any) -> tuple[int, int]:
        return 0, self._log.append(value, **fields)

    def append_stream(self, chunks: Iterable[bytes], **fields: Any) -> tuple[int, int]:
        return 0, self._log.append_stream(chunks, **fields)

    def append_batch(self, batch: pa.RecordBatch) -> None:
        self._log.append_batch(batch, force_timestamp=True)

    def sync(self) -> None:
        self._log.sync()

    def span(self) -> tuple[int, int | None, int | None]:
        return self._log.next_offset - self._first, self._first, self._log.next_offset


class TopicSink:
    """A topic, or one partition of it."""

    def __init__(self, topic: Topic, partition: int | None) -> None:
        self._topic, self._partition = topic, partition
        self.partitioned = partition is None
        self._first = self._ends()

    def append(self, value: bytes | None, **fields: Any) -> tuple[int, int]:
        return self._topic.append(value, partition=self._partition, **fields)

    def append_stream(self, chunks: Iterable[bytes], **fields: Any) -> tuple[int, int]:
        return self._topic.append_stream(chunks, partition=self._partition, **fields)

    def append_batch(self, batch: pa.RecordBatch) -> None:
        self._topic.append_batch(batch, partition=self._partition, force_timestamp=True)

    def sync(self) -> None:
        self._topic.sync()

    def span(self) -> tuple[int, int | None, int | None]:
        now = self._ends()
        count = sum(now) - sum(self._first)
        return (count, None, None) if self._partition is None else (count, self._first[0], now[0])

    def _ends(self) -> list[int]:
        numbers = range(self._topic.partitions) if self._partition is None else [self._partition]
        return [self._topic.partition(number).next_offset for number in numbers]


class RemoteSink:
    """A topic on a server, or one partition of it. Counts acknowledged records."""

    def __init__(self, topic: RemoteTopic, partition: int | None, *, durable: bool) -> None:
        self._topic, self._partition = topic, partition
        self._ack: Any = "durable" if durable else "appended"
        self.partitioned = partition is None
        self._count = 0

    def append(self, value: bytes | None, **fields: Any) -> tuple[int, int]:
        return self._counted(self._topic.append(value, partition=self._partition, ack=self._ack, **fields))

    def append_stream(self, chunks: Iterable[bytes], **fields: Any) -> tuple[int, int]:
        return self._counted(self._topic.append_stream(chunks, partition=self._partition, ack=self._ack, **fields))

    def append_batch(self, batch: pa.RecordBatch) -> None:
        self._topic.append_batch(batch, partition=self._partition, ack=self._ack, force_timestamp=True)
        self._count += batch.num_rows

    def sync(self) -> None:
        """Do nothing: the acknowledgements already promise what was asked for."""

    def span(self) -> tuple[int, int | None, int | None]:
        return self._count, None, None

    def _counted(self, where: tuple[int, int]) -> tuple[int, int]:
        self._count += 1
        return where


@contextmanager
def saying_what_went_in(sink: Sink) -> Iterator[None]:
    """Add to any error how many records had been appended before it."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        count, first, after = sink.span()
        span = f": offsets {first} to {(after or 0) - 1}" if count and first is not None else ""
        error.add_note(f"{format_count(count, 'record')} appended before that{span}")
        raise
