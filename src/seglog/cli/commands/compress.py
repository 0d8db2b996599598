"""`compress`: store the sealed segments of a log or topic in another form."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from seglog.cli.frame import Args, Command, option
from seglog.cli.location import local
from seglog.cli.lock_wait import WAIT
from seglog.cli.options import LOG, QUIET
from seglog.cli.partitions import is_whole_topic, logs_to_change, logs_to_read
from seglog.cli.progress import progress
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size, parse_size

if TYPE_CHECKING:
    from seglog.log.info import CompressionReport


def _compress(args: Args) -> int:
    place, damaged = local(args), False
    with logs_to_read(place):
        pass  # raises if there is no log, which opening for writing would create
    with logs_to_change(args, place) as logs, progress("compress", unit="B", quiet=args.quiet) as report:
        if args.codec is not None:
            for log in logs.values():  # all of them first: a pass that fails must not leave a topic with two codecs
                log.alter(compression=args.codec)
        for number, log in logs.items():
            started = time.monotonic()
            done = log.compress(progress=report, bytes_per_second=args.rate)
            _say_compressed(args, number if is_whole_topic(place) else None, done, time.monotonic() - started)
            damaged |= bool(done.damaged)
    return Exit.FAILED if damaged else Exit.OK


def _say_compressed(args: Args, number: int | None, done: CompressionReport, seconds: float) -> None:
    if args.json:
        named = {} if number is None else {"partition": number}
        output.say_json(named | output.plain(done) | {"seconds": round(seconds, 3)})
        return
    for error in done.damaged:
        output.note(f"not compressed: {error}")
    where = "" if number is None else f"partition {number}: "
    size = f"{format_size(done.bytes_before)} -> {format_size(done.bytes_after)}"
    stored = f"{done.rewritten:,} of {format_count(done.segments, 'segment')} stored again"
    output.say(f"{where}{stored}, {size}, {seconds:.1f} s")


COMMANDS = (
    Command(
        "compress",
        _compress,
        [
            LOG,
            option(
                "--codec",
                choices=["lz4", "zstd", "none"],
                help="change the codec of the log, or of all partitions, first; none: plain",
            ),
            option(
                "--rate",
                metavar="SIZE",
                type=parse_size,
                help="read and write at most this many bytes a second in total (64MiB)",
            ),
            QUIET,
            WAIT,
        ],
        story=(
            "Sealed segments are stored in compressed blocks of 64 KiB, records and offsets stay as they are. Without\n"
            "--codec: with the codec of the log's config (--compression of `seglog append`). A segment that would not\n"
            "become an eighth smaller stays plain. Readers go on meanwhile. Of a topic: every partition; those added\n"
            "later get the codec, too. A server compresses its topics by itself. Earlier versions of seglog refuse to\n"
            "open the log from then on; --codec none is the way back."
        ),
        examples=[
            "seglog compress orders --codec zstd",
            "seglog compress shop/orders --rate 50MiB",
            "seglog compress orders --codec none",
        ],
    ),
)
