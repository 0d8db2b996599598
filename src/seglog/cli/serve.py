"""`serve` and `token`: topics over HTTP, and who may use them. The server lives in seglog.server."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from seglog.cli.options import Commands, add_command
from seglog.errors import InvalidArgument, MissingExtra
from seglog.terminal import output
from seglog.terminal.units import parse_count, parse_duration, parse_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from types import ModuleType

    from seglog.server.settings import Settings

# option, name in Limits, parser, what it shows as a value, help
_LIMITS: tuple[tuple[str, str, Callable[[str], object], str, str], ...] = (
    ("--body-bytes", "body_bytes", parse_size, "SIZE", "largest value; default 1GiB"),
    ("--batch-bytes", "batch_bytes", parse_size, "SIZE", "largest batch, which is worked on in memory; default 64MiB"),
    ("--partitions", "partitions", parse_count, "N", "most partitions of a topic made over HTTP; default 1000"),
    ("--memory-bytes", "memory_bytes", parse_size, "SIZE", "for bodies and answers under way, each; default 256MiB"),
    ("--spool-bytes", "spool_bytes", parse_size, "SIZE", "for files of bodies that memory does not hold; default 8GiB"),
    ("--shown-bytes", "shown_bytes", parse_size, "SIZE", "of a value in JSON, longer ones are cut; default 1MiB"),
    ("--connections", "connections", parse_count, "N", "open at a time; default 1000"),
    ("--tails", "tails", parse_count, "N", "live tails at a time; default 256"),
    ("--stop-time", "stop_seconds", parse_duration, "DURATION", "for requests under way at the end; default 30s"),
)
_STORY = """\
Topics are directories below ROOT; the topic "default" is made if it is not there. The console is the page at /,
the description of all requests is at /openapi.json. Ctrl-C or SIGTERM stops: requests under way are finished, and
everything that was acknowledged is on disk. Needs the extra: pip install 'seglog[server]'."""
_TOKENS_STORY = """\
Prints the token on stdout, once: the file keeps only what it is recognised by. A right is TOPIC=read, TOPIC=write or
TOPIC=admin (which includes the others); * stands for every topic. Start the server with --tokens FILE; it reads the
file when it starts.

    {"tokens": [{"name": "billing", "sha256": "<of the token>", "rights": {"orders": ["read"], "*": ["admin"]}}]}"""


def add_parsers(commands: Commands) -> None:
    """Declare `serve` and `token`."""
    _add_serve(commands)
    parser = add_command(
        commands,
        "token",
        _token,
        summary="make a token for the server, and add it to a file of tokens",
        story=_TOKENS_STORY,
        examples=[
            "seglog token tokens.json billing orders=read invoices=write",
            "seglog token tokens.json ops '*=admin'",
        ],
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the file of tokens; made if it is not there")
    parser.add_argument("name", metavar="NAME", help="whose token it is")
    parser.add_argument("rights", metavar="TOPIC=RIGHT", nargs="+", help="what it allows")


def _add_serve(commands: Commands) -> None:
    parser = add_command(
        commands,
        "serve",
        _serve,
        summary="serve topics over HTTP",
        story=_STORY,
        examples=[
            "seglog serve events",
            "seglog serve events --host 0.0.0.0 --tokens tokens.json --tls-cert cert.pem --tls-key key.pem",
        ],
    )
    parser.add_argument("root", metavar="ROOT", help="the directory of topics; made if it is not there")
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on; default 127.0.0.1: this machine alone"
    )
    parser.add_argument("--port", type=int, default=3000, help="the port, 0 for any free one; default 3000")
    parser.add_argument("--tokens", metavar="FILE", type=Path, help="who may do what (see `seglog token`)")
    parser.add_argument(
        "--anonymous", action="store_true", help="let other machines in without tokens: all may do everything"
    )
    parser.add_argument("--tls-cert", metavar="FILE", type=Path, help="the certificate chain, PEM")
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="its private key, PEM")
    limits = parser.add_argument_group("limits (SIZE as 512, 64MiB, 1GB; DURATION as 90s, 15m)")
    for option, name, parse, metavar, text in _LIMITS:
        limits.add_argument(option, dest=name, metavar=metavar, type=parse, help=text)


def _server_module() -> ModuleType:
    try:
        from seglog.server import serving  # needs an extra, and is heavy
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "seglog":
            raise
        raise MissingExtra(f"`seglog serve` needs {error.name}: pip install 'seglog[server]'") from error
    return serving


def _serve(args: argparse.Namespace) -> int:
    serving = _server_module()
    from seglog.server.settings import Limits, Settings  # comes with the server

    named = {name: getattr(args, name) for _, name, *_ in _LIMITS if getattr(args, name) is not None}
    settings = Settings(
        host=args.host,
        port=args.port,
        tokens=args.tokens,
        anonymous=args.anonymous,
        certificate=args.tls_cert,
        key=args.tls_key,
        limits=Limits(**named),
    )

    _warn(settings)

    def say(text: str) -> None:
        with suppress(OSError, ValueError):  # whoever read it is gone, as in `| head -1`; the server is not
            if args.json:
                output.say_json({"message": text})
            else:
                output.say(f"seglog: {text}")
            output.flush()

    serving.serve(args.root, settings, say)
    return 0


def _warn(settings: Settings) -> None:
    """Say what an operator should have meant."""
    if settings.is_local:
        return
    if settings.anonymous and settings.tokens is None:
        output.note("warning: whoever reaches this address can read, write and delete everything (--anonymous)")
    if settings.certificate is None:
        output.note("warning: without --tls-cert tokens and records cross the network in the clear")


def _token(args: argparse.Namespace) -> int:
    _server_module()
    from seglog.server.access import Access, new_token  # comes with the server
    from seglog.topic.names import checked_name

    rights: dict[str, list[str]] = {}
    for right in args.rights:
        topic, found, word = right.rpartition("=")
        if not found or not topic:
            raise InvalidArgument(f"a right is TOPIC=read, TOPIC=write or TOPIC=admin, not {right!r}")
        if topic != "*":
            checked_name(topic, "topic")
        rights.setdefault(topic, []).append(word)
    try:
        token, entry = new_token(args.name, rights)
    except ValueError as error:
        raise InvalidArgument(str(error)) from error
    entries = []
    if args.file.exists():
        Access.of_file(args.file)  # refuses what is no file of tokens, before it is written
        entries = json.loads(args.file.read_bytes())["tokens"]
    if any(known["name"] == args.name for known in entries):
        raise InvalidArgument(f"{args.file} has a token of {args.name!r} already; take that entry out first")
    with output.target(str(args.file), force=True) as file:
        file.write(json.dumps({"tokens": [*entries, entry]}, indent=2).encode() + b"\n")
    if args.json:
        output.say_json({"name": args.name, "token": token})
    else:
        output.say(token)
    return 0
