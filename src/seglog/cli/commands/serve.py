"""`serve` and `token`: topics over HTTP, and who may use them. The server itself is seglog.server."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from seglog.cli.frame import Args, Command, File, argument, flag, option
from seglog.cli.leading import LEASE, lead
from seglog.cli.location import LocalPath, token_of
from seglog.cli.lock_wait import WAIT, patiently
from seglog.cli.options import dest
from seglog.cli.table_catalog import catalog_from, catalog_option
from seglog.errors import ConfigError, InvalidArgument
from seglog.extras import how_to_install, require
from seglog.terminal import output
from seglog.terminal.units import parse_count, parse_duration, parse_size

if TYPE_CHECKING:
    from seglog.server.beside import Beside
    from seglog.server.settings import Settings
    from seglog.telemetry.exporting import Wrap

# option, name in Limits, parser, metavar, help
_LIMITS: tuple[tuple[str, str, Callable[[str], object], str, str], ...] = (
    ("--body-bytes", "body_bytes", parse_size, "SIZE", "largest value; default 1GiB"),
    ("--batch-bytes", "batch_bytes", parse_size, "SIZE", "largest batch, which is held in memory; default 64MiB"),
    ("--partitions", "partitions", parse_count, "N", "most partitions of a topic that a client creates; default 1000"),
    ("--memory", "memory_bytes", parse_size, "SIZE", "memory for all clients' data; default 384MiB"),
    ("--memory-bytes", "memory_bytes", parse_size, "SIZE", "the older name of --memory"),
    ("--batch-records", "batch_records", parse_count, "N", "most records of a batch; default 1000000"),
    ("--spool-bytes", "spool_bytes", parse_size, "SIZE", "disk space for bodies too large for memory; default 8GiB"),
    ("--shown-bytes", "shown_bytes", parse_size, "SIZE", "longest value in JSON, longer ones are cut; default 1MiB"),
    ("--connections", "connections", parse_count, "N", "most open connections; default 1000"),
    ("--tails", "tails", parse_count, "N", "most live tails; default 256"),
    ("--sync-interval", "sync_seconds", parse_duration, "DURATION", "sync appended records this often; default 1s"),
    ("--stop-time", "stop_seconds", parse_duration, "DURATION", "time for running requests at shutdown; default 30s"),
)
_STORY = f"""\
Topics are directories below ROOT; the topic "default" is created if it does not exist. The console is at /, the
OpenAPI description of all requests at /openapi.json. Ctrl-C or SIGTERM stops the server: it completes running
requests and syncs everything it acknowledged. Needs an extra:
{how_to_install("server")}."""
_TOKENS_STORY = """\
Prints the token on stdout, once: the file stores only its hash. A right is TOPIC=read, TOPIC=write or TOPIC=admin
(which includes the others); * means every topic. Start the server with --tokens FILE; it reads the file when it
starts.

    {"tokens": [{"name": "billing", "sha256": "<of the token>", "rights": {"orders": ["read"], "*": ["admin"]},
                 "groups": ["billing", "billing-*"]}]}

"groups" is optional. Only its owners and `*=admin` may use a consumer group that a token owns; any other group is open
to every token that may read the topics it reads."""


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _server_module() -> ModuleType:
    from seglog.server import require_server

    require_server()
    from seglog.server import serving  # needs an extra and is slow to import

    return serving


def _serve(args: Args) -> int:
    serving = _server_module()
    from seglog.server.settings import Limits, Settings  # comes with the server

    given = [(name, getattr(args, dest(opt))) for opt, name, *_ in _LIMITS]
    named = {name: value for name, value in given if value is not None}
    settings = Settings(
        host=args.host,
        port=args.port,
        tokens=_path(args.tokens),
        anonymous=args.anonymous,
        certificate=_path(args.tls_cert),
        key=_path(args.tls_key),
        spool=_path(args.spool),
        archive=args.archive,
        archive_seconds=args.archive_interval,
        archive_reads=args.archive_reads,
        table=args.table,
        table_seconds=args.table_interval,
        table_all=args.table_all,
        table_latest=args.table_latest,
        table_schema=args.table_schema,
        table_catalog=catalog_from(args.table_catalog, "--table-catalog"),
        follow=args.follow,
        follow_token=None if args.follow is None else token_of(args),
        limits=Limits(**named),
    )

    beside = _beside(args, settings)
    _warn(settings)

    def say(text: str) -> None:
        with suppress(OSError, ValueError):  # the reader may be gone, as in `| head -1`; the server goes on
            if args.json:
                output.say_json({"message": text})
            else:
                output.say(f"seglog: {text}")
            output.flush()

    with ExitStack() as resources:
        leading = None
        if args.lease is not None:
            if settings.archive is None:
                raise InvalidArgument("--lease needs --archive: the lease is beside the archive")
            leading = resources.enter_context(lead(settings.archive, args.lease, args.holder))
        wrap = resources.enter_context(_telemetry()) if args.otel else None
        patiently(lambda: serving.serve(args.root, settings, say, leading, beside, wrap=wrap), args.wait)
    return 0


def _telemetry() -> AbstractContextManager[Wrap]:
    """Return what reports the server's requests and metrics."""
    require("`--otel` needs", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http", extra="otel")
    from seglog.telemetry.exporting import exporting

    return exporting()


def _beside(args: Args, settings: Settings) -> list[Beside]:
    """Return the other protocols that the operator wants."""
    if args.kafka is None:
        for name in ("--kafka-advertise", "--kafka-partitions"):
            if getattr(args, dest(name)) is not None:
                raise ConfigError(f"{name} has no effect without a Kafka listener; give --kafka HOST:PORT, too")
        return []
    from seglog.kafka.listener import KafkaListener  # needs an extra
    from seglog.kafka.settings import KafkaSettings, parse_address  # comes with the listener

    host, port = parse_address(args.kafka)
    advertised = None if args.kafka_advertise is None else parse_address(args.kafka_advertise)
    replace(settings, host=host)  # raises if other machines could reach it without tokens
    given = _kafka_partitions(args.kafka_partitions, settings.limits.partitions)
    return [KafkaListener(KafkaSettings(host=host, port=port, advertised=advertised, **given))]


def _kafka_partitions(given: int | None, most: int) -> dict[str, int]:
    """Return the partitions of a topic that a Kafka client creates by using it, if they are given.

    Raises ConfigError for a number below 0 or above `most`.
    """
    if given is None:
        return {}
    if not 0 <= given <= most:
        raise ConfigError(f"--kafka-partitions is {given}; it must be 0 to {most}; --partitions raises that")
    return {"topic_partitions": given}


def _warn(settings: Settings) -> None:
    """Warn an operator about insecure settings."""
    if settings.is_local:
        return
    if settings.anonymous and settings.tokens is None:
        output.note("warning: every machine that reaches this address can read, write and delete all (--anonymous)")
    if settings.certificate is None:
        output.note("warning: without --tls-cert tokens and records cross the network unencrypted")


def _token(args: Args) -> int:
    _server_module()
    from seglog.server.rights.access import Access, new_token  # comes with the server
    from seglog.topic.layout.names import checked_name

    rights: dict[str, list[str]] = {}
    for right in args.rights:
        topic, found, word = right.rpartition("=")
        if not found or not topic:
            raise InvalidArgument(f"a right is TOPIC=read, TOPIC=write or TOPIC=admin, not {right!r}")
        if topic != "*":
            checked_name(topic, "topic")
        rights.setdefault(topic, []).append(word)
    try:
        token, entry = new_token(args.name, rights, args.group or ())
    except ValueError as error:
        raise InvalidArgument(str(error)) from error
    entries = []
    path = Path(args.file)
    if path.exists():
        Access.of_file(path)  # reject a file that is not a token file before writing to it
        entries = json.loads(path.read_bytes())["tokens"]
    if any(known["name"] == args.name for known in entries):
        raise InvalidArgument(f"{args.file} already has a token named {args.name!r}; remove that entry first")
    with output.target(str(args.file), force=True) as file:
        file.write(json.dumps({"tokens": [*entries, entry]}, indent=2).encode() + b"\n")
    if args.json:
        output.say_json({"name": args.name, "token": token})
    else:
        output.say(token)
    return 0


COMMANDS = (
    Command(
        "serve",
        _serve,
        [
            argument("root", type=LocalPath(), help="the directory of topics; created if it does not exist"),
            option(
                "--host", default="127.0.0.1", help="the address to listen on; default 127.0.0.1: this machine only"
            ),
            option("--port", type=click.INT, default=3000, help="the port, 0 for any free one; default 3000"),
            option("--tokens", metavar="FILE", type=File(), help="the token file (see `seglog token`)"),
            flag("--anonymous", help="accept other machines without tokens: all may do everything"),
            option("--follow", metavar="URL", help="copy the topics of this server, and only read them"),
            option(
                "--token-file",
                metavar="FILE",
                type=File(),
                help="with --follow: the file with that server's token; default: the variable SEGLOG_TOKEN",
            ),
            option("--archive", metavar="URL", help="copy everything to this archive (see `seglog archive`)"),
            option(
                "--archive-interval",
                metavar="DURATION",
                type=parse_duration,
                default="1s",
                help="archive new records this often; default 1s",
            ),
            flag("--archive-reads", help="serve from the archive what retention has deleted here"),
            *LEASE,
            option(
                "--table",
                metavar="WAREHOUSE",
                help="keep every topic as a table here (see `seglog table`)",
            ),
            option(
                "--table-interval",
                metavar="DURATION",
                type=parse_duration,
                default="1m",
                help="add new records to the tables this often, such as 30s or 15m; default 1m",
            ),
            flag("--table-all", help="also take the active segments into the tables, as far as they are synced"),
            flag("--table-latest", help="also keep TOPIC_latest: the newest record of each key, without tombstones"),
            option(
                "--table-schema",
                metavar="infer|FILE",
                help="let the fields of JSON values be typed columns, too (see `seglog table sync --schema`)",
            ),
            catalog_option("--table-catalog"),
            option("--kafka", metavar="HOST:PORT", help="also listen here for Kafka's clients; 127.0.0.1:9092, say"),
            option(
                "--kafka-advertise",
                metavar="HOST:PORT",
                help="the address that Kafka's clients are given; default: the one they connected to",
            ),
            option(
                "--kafka-partitions",
                metavar="N",
                type=click.INT,
                help="partitions of a topic that a Kafka client creates by using it, 0: none is created; default 1",
            ),
            flag(
                "--otel",
                help="send traces and metrics with OpenTelemetry, to OTEL_EXPORTER_OTLP_ENDPOINT; needs the extra otel",
            ),
            option("--tls-cert", metavar="FILE", type=File(), help="the certificate chain, PEM"),
            option("--tls-key", metavar="FILE", type=File(), help="its private key, PEM"),
            option(
                "--spool", metavar="DIRECTORY", type=File(), help="for large bodies; default: the temporary directory"
            ),
            WAIT,
            *(
                option(
                    name,
                    metavar=metavar,
                    type=parse,
                    help=text,
                    group="Limits (SIZE as 512, 64MiB, 1GB; DURATION as 90s, 15m)",
                )
                for name, _, parse, metavar, text in _LIMITS
            ),
        ],
        story=_STORY,
        examples=[
            "seglog serve events",
            "seglog serve events --kafka 127.0.0.1:9092",
            "seglog serve events --host 0.0.0.0 --tokens tokens.json --tls-cert cert.pem --tls-key key.pem",
        ],
    ),
    Command(
        "token",
        _token,
        [
            argument("file", type=File(), help="the token file; created if it does not exist"),
            argument("name", help="the token's name"),
            argument("rights", metavar="TOPIC=RIGHT", nargs=-1, help="the token's rights"),
            option(
                "--group",
                multiple=True,
                metavar="NAME",
                help="a consumer group that only this token may use, or a prefix, as NAME*; repeatable",
            ),
        ],
        story=_TOKENS_STORY,
        examples=[
            "seglog token tokens.json billing orders=read invoices=write",
            "seglog token tokens.json ops '*=admin'",
            "seglog token tokens.json search 'orders=read' --group 'search-*'",
        ],
    ),
)
