"""What LOG names on the command line: a log, a partition, a topic, or one on a server. Opens nothing.

orders                              a standalone log
shop/orders, shop/orders/0          a topic in a directory of topics; one of its partitions
http://host:3000/orders[/0]         the same on a server; also `--url http://host:3000 orders/0`
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from seglog.cli.frame import Args, File, option
from seglog.errors import InvalidArgument, TopicNotFound

if TYPE_CHECKING:
    from seglog.client.client import Client

_GROUP = "Server"
ACCESS = (
    option(
        "--token-file",
        metavar="FILE",
        type=File(),
        help="the file with the server's token; default: the variable SEGLOG_TOKEN",
        group=_GROUP,
    ),
    option(
        "--tls-ca",
        metavar="FILE",
        type=File(),
        help="for https: trust the certificates in this file (PEM)",
        group=_GROUP,
    ),
)
SERVER = (
    option("--url", metavar="URL", help="LOG is TOPIC or TOPIC/PARTITION on this server", group=_GROUP),
    *ACCESS,
)
SERVER_AS_ROOT = (option("--url", metavar="URL", help="this server, in place of ROOT", group=_GROUP), *ACCESS)


class LocalPath(File):
    """A path of this machine, for commands that read or write the files themselves."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse a location on a server."""
        from seglog.topic.layout.locations import is_location

        if is_location(value):
            raise click.UsageError(no_server(ctx, value))
        return super().convert(value, param, ctx)


def no_server(ctx: click.Context | None, place: str) -> str:
    """Return why a command does not take a location on a server."""
    command = "this command" if ctx is None else f"`{ctx.command_path}`"
    return f"{command} works on files, and {place} is on a server: run it on that machine, on the server's directory"


class Local(NamedTuple):
    """A directory. topic: the topic's directory if it is a topic or a partition; partition: its number, or None."""

    path: str
    topic: Path | None
    partition: int | None


class Remote(NamedTuple):
    """A topic on a server. partition: None for all."""

    url: str
    topic: str
    partition: int | None


def locate(args: Args) -> Local | Remote:
    """Return what LOG, with --url, names. Raises InvalidArgument if it names nothing valid."""
    place: str = args.log
    from seglog.topic.layout.locations import is_location, parse_location, topic_and_partition

    if args.url is not None:
        if is_location(place):
            raise InvalidArgument(f"{place} is a URL: omit --url")
        return Remote(args.url, *topic_and_partition(place, place))
    if is_location(place):
        return Remote(*parse_location(place))
    return _local(place)


def local(args: Args) -> Local:
    """Return what LOG names, for a command that has no server."""
    return _local(args.log)


def _local(place: str) -> Local:
    from seglog.topic.layout import description

    path = Path(place)
    if description.is_topic(path):
        return Local(place, path, None)
    parent = Path(os.path.abspath(path)).parent  # noqa: PTH100 - resolve() would follow a link to the log
    if description.is_topic(parent):
        count = description.read(parent).partitions
        name = path.name
        if not (name.isascii() and name.isdecimal() and int(name) < count):
            raise InvalidArgument(f"topic {parent.name!r} has partitions 0 to {count - 1}, not {name!r}")
        if not path.exists():  # a lost partition: `repair` can create it as an empty log
            return Local(place, None, None)
        return Local(place, parent, int(name))
    return Local(place, None, None)


def no_topic(path: Path) -> TopicNotFound:
    """Return the error for a topic that does not exist in a directory of topics, with the command that creates it."""
    error = TopicNotFound(path.name)
    error.add_note(f"`seglog topics create {path.parent} {path.name}` creates it")
    return error


def check_may_create(place: Local) -> None:
    """Raise TopicNotFound if a log would be created beside topics: most likely a mistyped topic."""
    from seglog.topic.layout import description
    from seglog.topic.layout.root import OFFSETS

    path = Path(os.path.abspath(place.path))  # noqa: PTH100 - as above
    if path.exists():
        return
    root = path.parent
    if (root / OFFSETS).is_dir() or description.below(root):
        raise no_topic(path)


def client_for(args: Args, place: Remote, *, patient: bool = False) -> Client:
    """Return a client for the place's server. patient: wait while a server restarts. Raises MissingExtra."""
    return client_at(args, place.url, patient=patient)


def client_at(args: Args, url: str, *, patient: bool = False) -> Client:
    """Return a client of a server; see `client_for`."""
    import seglog

    token = token_of(args)
    retries = 8 if patient else 3
    return seglog.Client(url, token=token, retries=retries, verify=True if args.tls_ca is None else args.tls_ca)


def token_of(args: Args) -> str | None:
    """Return the server's token, from --token-file or the environment."""
    if args.token_file is not None:
        return Path(args.token_file).read_text(encoding="utf-8").strip()
    return os.environ.get("SEGLOG_TOKEN") or None
