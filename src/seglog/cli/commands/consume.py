"""`consume`: print and commit the records that a consumer group has not read, from a directory of topics or a server.

A record is committed after it was written to standard output and flushed: after an interruption the group reads some
records again and loses none. A directory of topics is opened exclusively; on a server many members share the work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import seglog
from seglog.cli.filters import FILTERS, filter_from
from seglog.cli.frame import Args, Command, File, argument, flag, option
from seglog.cli.location import SERVER, Local, Remote, client_for, locate, no_topic
from seglog.cli.lock_wait import WAIT, patiently
from seglog.cli.open_broker import looking
from seglog.cli.options import EXPOSE, delimiter_from, delimiter_options, expose_from
from seglog.cli.record_formats import format_of, format_option, printer
from seglog.errors import InvalidArgument, LogLocked, NotALog
from seglog.record import Record, TopicRecord
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import parse_count, parse_duration

if TYPE_CHECKING:
    from seglog.cli.source import Row
    from seglog.client.consumer import RemoteConsumer
    from seglog.topic.groups.consumer import Consumer

POLL_RECORDS = 500
POLL_S = 1.0  # how long a poll waits; Ctrl-C ends it immediately


def _consume(args: Args) -> int:
    delimiter_from(args)
    if len(args.log) > 1 and format_of(args) in ("csv", "table"):
        raise InvalidArgument(f"{format_of(args)} has no topic column: consume one topic, or use --format ndjson")
    with _consumer(args) as consumer:
        try:
            return _print_and_commit(args, consumer)
        except KeyboardInterrupt:  # the usual way to end --follow; uncommitted records are read again
            return Exit.INTERRUPTED


def _print_and_commit(args: Args, consumer: Consumer | RemoteConsumer) -> int:
    write, sink, left = _writer(args), output.stdout(), args.limit
    wait = POLL_S if args.follow else args.timeout
    while left != 0:
        records = consumer.poll(max_records=min(POLL_RECORDS, left or POLL_RECORDS), timeout=wait)
        for record in records:
            write(record)
        sink.flush()
        if records:
            consumer.commit()
            left = None if left is None else left - len(records)
        elif not args.follow and not sum(consumer.lag().values()):
            if not consumer.assignment:
                output.note("no partition was assigned: other members of the group own them; try --timeout 30s")
            return Exit.OK
    return Exit.OK


def _writer(args: Args) -> Callable[[TopicRecord], None]:
    """Return a function that prints a record of any topic, if it passes the filters."""
    test, printers = filter_from(args), {}

    def write(one: TopicRecord) -> None:
        row: Row = one.partition, Record(one.offset, one.timestamp, one.key, one.value, one.headers)
        if test is None or test(row[1]):
            if one.topic not in printers:
                printers[one.topic] = printer(args, output.stdout(), one.topic, partitioned=True, named=True)
            printers[one.topic](row)

    return write


@contextmanager
def _consumer(args: Args) -> Iterator[Consumer | RemoteConsumer]:
    places = [locate(Args(log=log, url=args.url)) for log in args.log]
    expose = expose_from(args)
    options: dict[str, Any] = {"start": args.start}
    with ExitStack() as resources:
        if isinstance(places[0], Remote):
            remote = [place for place in places if isinstance(place, Remote)]
            topics, server = [place.topic for place in remote], remote[0]
            if len({place.url for place in remote}) > 1 or len(remote) < len(places):
                raise InvalidArgument("all topics of one consumer must be on one server")
            if any(place.partition is not None for place in remote):
                raise InvalidArgument("the group assigns the partitions: give the topic without a partition")
            client = resources.enter_context(client_for(args, server, patient=args.follow))
            yield resources.enter_context(client.consumer(args.group, topics, **options, expose=expose))
            return
        roots, names = zip(*map(_topic_of, places), strict=True)
        if len(set(roots)) > 1:
            raise InvalidArgument("all topics of one consumer must be in one directory of topics")
        looking(roots[0]).close()  # raises if it is missing: Broker would create it
        broker = resources.enter_context(_alone(roots[0], args.wait))
        yield resources.enter_context(broker.consumer(args.group, names, **options))


def _topic_of(place: Local | Remote) -> tuple[str, str]:
    """Return the directory of topics and the name of a topic in it."""
    if isinstance(place, Remote):
        raise InvalidArgument("all topics of one consumer must be in one directory of topics, or on one server")
    if place.partition is not None:
        raise InvalidArgument(f"{place.path}: the group assigns the partitions: give the topic without a partition")
    if place.topic is None:
        path = Path(os.path.abspath(place.path))  # noqa: PTH100 - keeps symbolic links, as in location
        raise NotALog(f"{path} is not a topic; a consumer group reads topics") if path.exists() else no_topic(path)
    topic = place.topic.resolve()
    return str(topic.parent), topic.name


def _alone(root: str, wait: float | None) -> seglog.Broker:
    try:
        return patiently(partial(seglog.Broker, root), wait)
    except LogLocked as error:
        error.add_note("if that process is `seglog serve`, consume from it: --url http://HOST:PORT TOPIC")
        raise


COMMANDS = (
    Command(
        "consume",
        _consume,
        [
            argument(
                "log",
                metavar="TOPIC",
                nargs=-1,
                type=File(),
                help="topics (shop/orders), all in one directory or on one server (http://host:3000/orders)",
            ),
            option("-g", "--group", metavar="NAME", required=True, help="the consumer group"),
            option(
                "--start",
                choices=["earliest", "latest"],
                default="earliest",
                help="where to start in partitions without a committed offset; default: earliest",
            ),
            option("-n", "--limit", metavar="N", type=parse_count, help="end after this many records"),
            flag("-f", "--follow", help="wait for more records until interrupted (exit code 130)"),
            option(
                "--timeout",
                metavar="DURATION",
                type=parse_duration,
                default=0.0,
                help="end after this long without a record (10s, 15m); default 0: at the end of the partitions",
            ),
            format_option(),
            *FILTERS,
            *delimiter_options("raw: printed after every value"),
            *EXPOSE,
            WAIT,
            *SERVER,
        ],
        story=(
            "Prints each record, then commits it: after an interruption the group reads some records again and\n"
            "loses none. Filters select what is printed; every record read is committed. A directory of topics is\n"
            "opened exclusively, which syncs all of it; on a server the members of a group share the partitions."
        ),
        examples=[
            "seglog consume shop/orders --group billing",
            "seglog consume shop/orders shop/users --group billing --format ndjson -n 100",
            "seglog consume http://127.0.0.1:3000/orders --group billing --follow",
            r"seglog consume --url http://127.0.0.1:3000 orders -g billing --format '%p %o %k %s\n'",
        ],
    ),
)
