"""`table`: logs as Apache Iceberg tables. The work is done by seglog.table."""

from __future__ import annotations

import threading
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from seglog.cli.frame import Args, Command, Verbs, argument, flag, option
from seglog.cli.location import LocalPath
from seglog.cli.stopping import on_signals
from seglog.cli.table_catalog import catalog_from, catalog_option
from seglog.extras import how_to_install
from seglog.terminal import output
from seglog.terminal.exits import Exit, message_of
from seglog.terminal.units import format_count, format_size, parse_duration

if TYPE_CHECKING:
    from seglog.table.describe import TableState
    from seglog.table.rounds import TableReport

_STORY = f"""\
WAREHOUSE is a directory; catalog.db in it is the catalog. Each topic becomes the table WAREHOUSE/TOPIC. Spark, DuckDB,
Polars and every engine that reads Iceberg or Parquet read it without seglog.
`sync` adds the records of sealed segments, each once, in one commit for all partitions; it works beside a writer.
Needs an extra: {how_to_install("table")}."""


def _sync(args: Args) -> int:
    from seglog.table import TableSync, require_pyiceberg

    require_pyiceberg()
    from seglog.table.schema_file import named_schema

    with TableSync(
        args.root,
        args.warehouse,
        name=args.name,
        active=args.all,
        on_truncate=args.on_truncate,
        skip_expired=args.skip_expired,
        restart=args.restart,
        latest=args.latest,
        hold=args.hold,
        schema=named_schema(args.schema),
        snapshots=None if args.snapshots is None else timedelta(seconds=args.snapshots),
        catalog=catalog_from(args.catalog, "--catalog"),
    ) as tables:
        if args.interval is None:
            try:
                tables.step()
            finally:
                for report in tables.reports:
                    _say(args, report)
            return Exit.OK
        stop, failing = threading.Event(), _Failing()
        with on_signals(stop.set):
            tables.run(args.interval, stop.wait, lambda report: _say(args, report), failing)
    return Exit.FAILED if tables.failures else Exit.OK


class _Failing:
    """Prints why topics have no round, each reason once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, failures: dict[str, Exception]) -> None:
        """Print what is new."""
        now = {name: message_of(error) for name, error in failures.items()}
        for name, why in now.items():
            if self._known.get(name) != why:
                output.note(f"{name} has no round, the others go on: {why}")
        self._known = now


def _say(args: Args, report: TableReport) -> None:
    if args.json:
        output.say_json(asdict(report))
    else:
        deleted = f", {format_count(report.deleted, 'row')} deleted" if report.deleted else ""
        held = ", ".join(f"{number}: {offset}" for number, offset in report.held.items())
        unfit = f", {format_count(report.unfit, 'value')} unfit" if report.unfit else ""
        clamped = f", {format_count(report.clamped, 'timestamp')} clamped" if report.clamped else ""
        merged = f", {format_count(report.merged, 'small file')} merged" if report.merged else ""
        output.say(
            f"{report.table}: {format_count(report.records, 'record')} added in {format_count(report.files, 'file')} "
            f"({format_size(report.bytes)}){unfit}{clamped}{deleted}{merged}; complete up to offset {held}"
        )
    output.flush()


def _info(args: Args) -> int:
    from seglog.table import require_pyiceberg

    require_pyiceberg()
    from seglog.table.describe import describe

    for one in describe(args.warehouse, catalog_from(args.catalog, "--catalog")):
        if args.json:
            output.say_json(asdict(one))
            continue
        held = ", ".join(f"{number}: {offset}" for number, offset in one.held.items()) or "nothing"
        output.say(
            f"{one.table}: {format_count(one.rows, 'row')} in {format_count(one.files, 'file')} "
            f"({format_size(one.bytes)}), {format_count(one.snapshots, 'snapshot')}{_typed(one)}; from {one.source}, "
            f"complete up to offset {held}"
        )
    return Exit.OK


def _typed(one: TableState) -> str:
    if one.schema is None:
        return ""
    return f", {format_count(len(one.typed), 'typed column')} ({format_count(one.unfit, 'value')} unfit)"


def _release(args: Args) -> int:
    from seglog.table import release

    released = release(args.root, args.table)
    if args.json:
        output.say_json({"released": released})
    else:
        output.say(f"retention no longer waits for {format_count(released, 'hold')} of tables")
    return Exit.OK


_ROOT = argument("root", help="a log's directory, a topic, or a directory of topics", type=LocalPath())
_WAREHOUSE = argument("warehouse", metavar="WAREHOUSE", help="the directory of the tables")
_CATALOG = catalog_option("--catalog")

COMMANDS = (
    Verbs(
        "table",
        [
            Command(
                "sync",
                _sync,
                [
                    _ROOT,
                    _WAREHOUSE,
                    option("--name", metavar="NAME", help="of the table; default: the topic's"),
                    flag("--all", help="also take the active segments, as far as they are synced"),
                    option(
                        "--interval",
                        metavar="DURATION",
                        type=parse_duration,
                        help="continue, with a round this often, such as 30s or 15m; default: one round",
                    ),
                    option(
                        "--on-truncate",
                        metavar="delete|refuse",
                        default="delete",
                        help="rows of records that were cut off: delete them, or refuse to go on; default delete",
                    ),
                    flag("--skip-expired", help="go on if the log has deleted records that the table lacks"),
                    flag("--restart", help="delete the rows of a partition whose log is another one now"),
                    flag("--latest", help="also keep NAME_latest: the newest record of each key, without tombstones"),
                    flag("--hold", help="from now on retention deletes no record before the table has it"),
                    option(
                        "--schema",
                        metavar="infer|FILE",
                        help="let the fields of JSON values be typed columns, too: these, or those that they have",
                    ),
                    option(
                        "--snapshots",
                        metavar="DURATION",
                        type=parse_duration,
                        help="age at which snapshots and their files are deleted; default 5d, and 1h for NAME_latest",
                    ),
                    _CATALOG,
                ],
                summary="add to tables what the logs hold and the tables lack",
            ),
            Command("info", _info, [_WAREHOUSE, _CATALOG], summary="show the tables of a warehouse and what they hold"),
            Command(
                "release",
                _release,
                [_ROOT, option("--table", metavar="WAREHOUSE/NAME", help="only for this table; default: for all")],
                summary="end that retention waits for tables (sync --hold)",
            ),
        ],
        story=_STORY,
        examples=[
            "seglog table sync shop warehouse",
            "seglog table sync shop/orders warehouse --all --interval 10s",
            "seglog table sync shop/orders warehouse --schema infer",
            "seglog table info warehouse",
        ],
    ),
)
