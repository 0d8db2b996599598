"""Shared by the jobs' programs: options, the session, output, exit codes; in the style of the `seglog` command.

Uses a session that runs in this process (a notebook, a test), else the one that spark-submit prepared, else starts one
for `--master`. Only this module and each job's `__main__` use parts of the command line.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from seglog.errors import InvalidArgument
from seglog.record import EPOCH
from seglog.spark import register, require_pyspark
from seglog.spark.interpreter import use_this_python
from seglog.spark.java import use_java
from seglog.spark.jobs.failures import behind
from seglog.spark.jobs.pins import Moment, refuse_overlap
from seglog.spark.session import local_session
from seglog.terminal import output
from seglog.terminal.exits import Exit, exit_of, json_of, message_of
from seglog.terminal.parser import Parser
from seglog.terminal.units import parse_moment
from seglog.topic.positions import from_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Run = Callable[[SparkSession, argparse.Namespace], int]

_EPILOG = """\
A PATH is a log, a topic or a broker's directory. It must mean the same on every executor, as on a shared file system.
Jobs that only read take the URL of an archive, too, such as s3://bucket/prefix/orders.

examples:
{examples}
  spark-submit --master spark://host:7077 {program} ...

Exit codes and errors are those of the `seglog` command (see `seglog --help`).
"""


def job_parser(module: str, program: str, *, summary: str, story: str, examples: Sequence[str]) -> Parser:
    """Return the parser of a job's program with the shared options.

    module: as after `python -m`; program: the file for spark-submit; examples: arguments only.
    """
    lines = "\n".join(f"  python -m {module} {example}" for example in examples)
    parser = Parser(
        prog=f"python -m {module}",
        description=f"{summary}\n\n{story}",
        epilog=_EPILOG.format(examples=lines, program=program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("path", metavar="PATH", help="a log, a topic or a broker's directory")
    parser.add_argument(
        "--master",
        default="local[*]",
        help="where Spark runs, unless spark-submit sets it; default: local[*], all cores of this machine",
    )
    parser.add_argument("--json", action="store_true", help="results on stdout and errors on stderr as JSON objects")
    parser.add_argument(
        "--traceback", action="store_true", help="print Python's traceback of an error (or set SEGLOG_TRACEBACK=1)"
    )
    return parser


def add_moment(parser: argparse.ArgumentParser, name: str, help_text: str) -> None:
    """Add --NAME, a position in the logs, and --NAME-time."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        f"--{name}",
        metavar="OFFSETS",
        help=f'{help_text}: an offset if PATH is one log, or JSON such as {{"topic": {{"0": 23}}}}',
    )
    group.add_argument(
        f"--{name}-time",
        metavar="TIME",
        type=parse_moment,
        help="the same, as the first record at or after this time: ISO 8601, '1h ago', @seconds or microseconds",
    )


def moment(args: argparse.Namespace, name: str) -> Moment:
    """Return the value of the options of `add_moment`, None if they are not given."""
    words: str | None = getattr(args, name.replace("-", "_"))
    time_us: int | None = getattr(args, f"{name.replace('-', '_')}_time")
    if time_us is not None:
        try:
            return EPOCH + timedelta(microseconds=time_us)
        except OverflowError:
            raise InvalidArgument(f"--{name}-time is outside the years 1 to 9999") from None
    if words is None:
        return None
    return int(words) if words.strip().isdecimal() else from_json(words, f"--{name}")


def main(parser: Parser, run: Run, argv: Sequence[str] | None) -> int:
    """Run a job's program with `argv` (default: the process's arguments) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        args = parser.parse_args(words)
        with session(parser.prog.rpartition(".")[2], args.master) as spark:
            code = int(run(spark, args))
        output.flush()
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except BrokenPipeError:
        output.silence_stdout()
        return Exit.OK
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 - every error becomes an exit code and one line
        return _report(error, words)
    return code


def _report(error: BaseException, words: list[str]) -> Exit:
    """Print the error on stderr and return the exit code."""
    told = behind(error)
    if "--traceback" in words or os.environ.get("SEGLOG_TRACEBACK", "0") not in ("", "0"):
        traceback.print_exception(error)
    if "--json" in words:
        print(json_of(told), file=sys.stderr)
    else:
        output.note(message_of(told))
    return exit_of(told)


@contextmanager
def session(name: str, master: str) -> Iterator[SparkSession]:
    """Yield the session of this process, or one that ends with the block."""
    require_pyspark()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an optional dependency

    running = SparkSession.getActiveSession()
    if running is not None:
        register(running)
        yield running
        return
    spark = _started(SparkSession, f"seglog {name}", master)
    try:
        yield spark
    finally:
        spark.stop()


def _started(kind: type[SparkSession], name: str, master: str) -> SparkSession:
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit's JVM is waiting for its Python program
    if not submitted and master.startswith("local"):
        return local_session(name, master=master)
    builder = kind.builder.appName(name)
    if not submitted:
        use_java()
        use_this_python()
        builder = builder.master(master)
    spark: SparkSession = builder.getOrCreate()
    # Plain microseconds: Spark's own default, INT96, is deprecated and reads as nanoseconds elsewhere.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    register(spark)
    return spark


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add --plan."""
    parser.add_argument(
        "--plan",
        choices=("partition", "shuffle"),
        default="partition",
        help="one task per partition (default: fastest, keeps a partition's keys in memory), or many, by a shuffle",
    )


def add_incomplete(parser: argparse.ArgumentParser) -> None:
    """Add --incomplete."""
    parser.add_argument(
        "--incomplete",
        action="store_true",
        help="continue if retention or compaction removed records that the result depends on; default: refuse",
    )


def add_table_output(parser: argparse.ArgumentParser) -> None:
    """Add --output and --mode, for a job whose result is a table, and --limit for showing it."""
    parser.add_argument("--output", metavar="DIR", help="write Parquet here; default: show rows on stdout")
    parser.add_argument(
        "--mode",
        choices=("error", "overwrite"),
        default="error",
        help="if DIR exists: refuse (default) or replace it",
    )
    parser.add_argument("--limit", metavar="N", type=int, default=20, help="rows to show without --output; default: 20")


def put(frame: DataFrame, args: argparse.Namespace, report: dict[str, Any]) -> None:
    """Write or show a table as the options of `add_table_output` say, then print the report (JSON with --json)."""
    if args.output is None:
        for row in frame.limit(args.limit).toLocalIterator():
            shown = {name: readable(value) for name, value in row.asDict(recursive=True).items()}
            if args.json:
                output.say_json(shown)
            else:
                output.say("  ".join(f"{name}={value}" for name, value in shown.items()))
        return
    refuse_overlap(args.path, args.output)
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - an optional dependency

    count = Observation()
    frame.observe(count, functions.count(functions.lit(1)).alias("rows")).write.mode(args.mode).parquet(args.output)
    written = count.get["rows"]
    if args.json:
        output.say_json(report | {"rows": written, "output": args.output})
    else:
        output.say(f"{written:,} rows -> {args.output}", *(f"{name}: {value}" for name, value in report.items()))


def readable(value: object) -> object:
    """Return bytes as text if they are UTF-8, else as hex with 0x; other values unchanged."""
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return f"0x{bytes(value).hex()}"
    return value
