"""`archive`, `lease` and `restore`: a copy on object storage, and back. The work is done by seglog.archive."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

from seglog.cli.frame import Args, Command, argument, flag, option
from seglog.cli.leading import LEASE, lead
from seglog.cli.location import LocalPath
from seglog.cli.lock_wait import WAIT, patiently
from seglog.cli.options import QUIET
from seglog.cli.progress import progress
from seglog.cli.stopping import on_signals
from seglog.extras import how_to_install
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size, format_time, parse_duration, parse_moment, typed_duration

if TYPE_CHECKING:
    from seglog.archive.archiver import Archiver
    from seglog.archive.leading import Leading
    from seglog.archive.report import ArchiveReport

_STORY = f"""\
URL is file:///DIRECTORY, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX. The last three need an extra:
{how_to_install("archive")}.
Their credentials and endpoint come from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...).
Works beside a writer. Sealed segments are uploaded after the roll, new records of the active one every --interval.
The archive keeps segments that retention deletes here; --keep limits that. Retention here deletes nothing before it is
archived, also while this command does not run; --release ends that. Only one writer can commit to an archive:
one that was replaced stops with exit code 4. --once archives what there is and ends."""
_RESTORE_STORY = """\
Verifies every record. TARGET appears when it is complete; an interrupted restore continues where it stopped.
--to 1000 restores the records before offset 1000 of one log; --to '2026-11-01 12:00' restores of each log the records
before its first one with that timestamp or a later one."""


POLL_SECONDS = 0.2
MOST_LOGS = 100  # whose offsets a restore prints


def _archive(args: Args) -> int:
    from seglog.archive.archiver import Archiver

    if args.release:
        return _release(args)
    with ExitStack() as resources:
        leading = None
        if args.lease is not None:
            leading = resources.enter_context(lead(args.archive_url, args.lease, args.holder))
        archiver = patiently(
            lambda: Archiver(
                args.root,
                args.archive_url,
                keep=args.keep,
                grace=args.grace,
                take_over=args.take_over,
                hold=not args.no_hold,
            ),
            args.wait,
        )
        resources.enter_context(archiver)
        if args.once:
            report = archiver.step()
            _say(args, report)
            return Exit.FAILED if report.failed else Exit.OK
        return _run(args, archiver, leading)


def _release(args: Args) -> int:
    from seglog.archive.holding import release
    from seglog.log.opening import storage_at

    released = release(storage_at(args.root))
    if args.json:
        output.say_json({"released": released})
    else:
        output.say(f"retention no longer waits for an archive in {format_count(released, 'log')}")
    return Exit.OK


def _run(args: Args, archiver: Archiver, leading: Leading | None) -> int:
    stop = threading.Event()
    with on_signals(stop.set):
        _say(args, archiver.step())
        with archiver.background(args.interval, output.note) as background:
            while not stop.wait(POLL_SECONDS):
                for part in (background, leading):
                    if part is not None and part.failure is not None:
                        raise part.failure
        output.say(f"stopped at commit {background.commit}") if not args.json else output.say_json(
            {"commit": background.commit}
        )
    return Exit.OK


def _say(args: Args, report: ArchiveReport) -> None:
    if args.json:
        output.say_json(asdict(report))
    else:
        output.say(
            f"commit {report.commit}: {format_count(report.logs, 'log')}, {format_count(report.records, 'record')}; "
            f"{format_size(report.uploaded)} uploaded to {args.archive_url}"
        )
        for problem in report.problems():
            output.note(problem)
    output.flush()


def _lease(args: Args) -> int:
    from seglog.archive.lease import ObjectLease

    state = ObjectLease(args.archive_url).state()
    if args.json:
        output.say_json(asdict(state))
    elif state.holder is None:
        output.say("released" if state.number else "never held")
    else:
        holder, ttl = state.holder or "an unnamed process", typed_duration(state.ttl)
        output.say(f"{holder}, renewal {state.number}; the lease ends {ttl} after the last renewal")
    return Exit.OK if state.holder is not None else Exit.FAILED


def _restore(args: Args) -> int:
    from seglog.archive.restore import restore

    is_offset = args.to is not None and args.to.isascii() and args.to.isdecimal()
    with progress("restore", unit="B", quiet=args.quiet) as report:
        done = restore(
            args.archive_url,
            args.target,
            to_offset=int(args.to) if is_offset else None,
            to_time=None if args.to is None or is_offset else parse_moment(args.to),
            progress=report,
        )
    if args.json:
        output.say_json(asdict(done))
    else:
        output.say(
            f"commit {done.commit} of {format_time(done.written, precise=False)}: {format_count(done.logs, 'log')}, "
            f"{format_count(done.records, 'record')}, {format_count(done.segments, 'segment')}; "
            f"{format_size(done.bytes)} downloaded to {args.target}"
        )
        for name, offset in list(done.offsets.items())[:MOST_LOGS]:
            output.say(f"{name or 'the log'}: up to offset {offset}")
        if len(done.offsets) > MOST_LOGS:
            output.say(f"and {format_count(len(done.offsets) - MOST_LOGS, 'other log')}; --json shows them")
        for warning in done.warnings:
            output.note(f"warning: {warning}")
    return Exit.OK


_URL = argument("archive_url", metavar="URL", help="the archive: s3://BUCKET/PREFIX, file:///DIRECTORY, ...")

COMMANDS = (
    Command(
        "archive",
        _archive,
        [
            argument("root", help="a log's directory, a topic, or a directory of topics", type=LocalPath()),
            _URL,
            flag("--once", help="archive what there is, then end"),
            option(
                "--interval",
                metavar="DURATION",
                type=parse_duration,
                default="1s",
                help="archive new records this often; default 1s",
            ),
            option(
                "--keep",
                metavar="DURATION",
                type=parse_duration,
                help="keep segments that retention has deleted here this long after they were sealed; default: forever",
            ),
            option(
                "--grace",
                metavar="DURATION",
                type=parse_duration,
                default="1h",
                help="keep replaced objects this long, for readers; default 1h",
            ),
            *LEASE,
            flag("--take-over", help="replace the content of an archive that another directory continued"),
            flag("--no-hold", help="let retention delete segments here before they are archived"),
            flag("--release", help="end that retention here waits for an archive, and do nothing else"),
            WAIT,
        ],
        story=_STORY,
        examples=[
            "seglog archive shop s3://backups/shop",
            "seglog archive orders file:///mnt/nas/orders --once",
        ],
    ),
    Command(
        "lease",
        _lease,
        [_URL],
        story=(
            "Shows the holder of the lease that `seglog archive --lease`, `seglog serve --lease` and `seglog promote\n"
            "--archive` take. A lease whose number of renewals does not change for its time to live has ended. Exit\n"
            "code 1: no process holds it."
        ),
        examples=["seglog lease s3://backups/shop"],
    ),
    Command(
        "restore",
        _restore,
        [
            _URL,
            argument("target", help="a directory that does not exist", type=LocalPath()),
            option("--to", metavar="OFFSET|TIME", help="restore only the records before this offset or time"),
            QUIET,
        ],
        story=_RESTORE_STORY,
        examples=[
            "seglog restore s3://backups/shop shop",
            "seglog restore s3://backups/orders orders --to '2026-11-01 12:00'",
        ],
    ),
)
