"""`mirror`, `diff` and `promote`: copies that follow a leader."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from seglog.cli.frame import Args, Command, argument, flag, option
from seglog.cli.location import ACCESS, LocalPath, token_of
from seglog.cli.lock_wait import WAIT, patiently
from seglog.cli.stopping import on_signals
from seglog.errors import SeglogError
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count, format_size

if TYPE_CHECKING:
    from seglog.replication.diff import DiffReport
    from seglog.replication.mirror import Mirror
    from seglog.topic.layout.places import Partition


def _mirror(args: Args) -> int:
    from seglog.replication import Mirror

    verify = True if args.tls_ca is None else args.tls_ca
    options = {"restart": args.restart, "pin": not args.no_pin, "token": token_of(args), "verify": verify}
    with patiently(lambda: Mirror(args.source, args.target, **options), args.wait) as mirror:
        return _once(args, mirror) if args.once else _run(args, mirror)


def _once(args: Args, mirror: Mirror) -> int:
    try:
        copied = mirror.catch_up()
    except SeglogError:
        _say_failures(mirror)
        raise
    if args.json:
        output.say_json({"bytes": copied, "logs": len(mirror.lags)})
    else:
        output.say(f"{format_size(copied)} copied; {format_count(len(mirror.lags), 'log')} up to date at {args.target}")
    return Exit.OK


def _run(args: Args, mirror: Mirror) -> int:
    with on_signals(mirror.stop):
        output.note(f"seglog: {args.target} follows {args.source}; Ctrl-C stops it")
        mirror.run(on_failure=_say_failure)
    return Exit.FAILED if mirror.failures else Exit.OK


def _say_failures(mirror: Mirror) -> None:
    for place, error in mirror.failures.items():
        _say_failure(place, error)


def _say_failure(place: Partition, error: SeglogError) -> None:
    topic, number = place
    output.note(f"seglog: {f'{topic}/{number}' if topic else 'the log'} is not copied on: {error}")


def _diff(args: Args) -> int:
    from seglog.replication.diff import diff

    report = diff(args.one, args.other, token=token_of(args))
    if args.json:
        output.say_json({"same": report.same, **asdict(report)})
    else:
        _say(report)
    return Exit.OK if report.same else Exit.FAILED


def _say(report: DiffReport) -> None:
    for one in report.differences:
        where = "" if one.offset is None else f" offset {one.offset}"
        output.say(f"{one.log or 'log'}{where}: {one.detail}")
    if report.count > len(report.differences):
        output.say(f"... and {format_count(report.count - len(report.differences), 'more difference')}")
    for log, records in report.behind.items():
        which = "second" if records > 0 else "first"
        output.say(f"{log or 'log'}: the {which} copy ends {format_count(abs(records), 'offset')} earlier")
    what = f"{format_count(report.records, 'record')} in {format_count(report.logs, 'log')} compared"
    output.say(f"{what}: {format_count(report.count, 'difference')}")


def _promote(args: Args) -> int:
    from seglog.replication.promote import fence, promote

    if args.archive is None:
        term = patiently(lambda: promote(args.target), args.wait)
        if args.json:
            output.say_json({"term": term})
        else:
            output.say(f"{args.target} is a leader now, with term {term}")
    else:
        term = _promote_from_archive(args)
    output.flush()
    if args.fence is not None:
        fence(args.fence, term, token=token_of(args))
        output.note(f"seglog: {args.fence} accepts no more changes")
    return Exit.OK


def _promote_from_archive(args: Args) -> int:
    from seglog.archive.leading import Leading, this_process
    from seglog.archive.lease import ObjectLease
    from seglog.archive.promotion import promote_from_archive

    lease = ObjectLease(args.archive, holder=this_process())
    patiently(lambda: lease.acquire(0), args.wait)
    with Leading(lease, lease.ttl):
        promotion = patiently(lambda: promote_from_archive(args.target, args.archive), args.wait)
    if args.json:
        output.say_json({"term": promotion.term, "copied": promotion.copied})
    else:
        output.say(
            f"{args.target} is a leader now, with term {promotion.term}, and continues {args.archive}; "
            f"{format_size(promotion.copied)} copied from there"
        )
    return promotion.term


COMMANDS = (
    Command(
        "mirror",
        _mirror,
        [
            argument("source", help="a log, a topic, a directory of topics, or the URL of a server or of its topic"),
            argument("target", help="the directory of the copy", type=LocalPath()),
            flag("--once", help="copy what there is now, and end"),
            flag("--restart", help="if the copy cannot continue, delete what it does not share with its source"),
            flag("--no-pin", help="do not store the copy's position at the source; it may then miss tombstones"),
            *ACCESS,
            WAIT,
        ],
        story=(
            "The copy has the records of the source at the same offsets, and follows truncates, expiry, and topics\n"
            "that are created or deleted. It can be read, but written only by this command, until `seglog promote`.\n"
            "It may be killed at any moment and started again. See docs/replication.md."
        ),
        examples=["seglog mirror events /copy/events --once", "seglog mirror http://10.0.0.1:3000 /copy/events"],
    ),
    Command(
        "diff",
        _diff,
        [
            argument("one", help="a log, a topic, a directory of topics, or the URL of a server"),
            argument("other", help="what to compare it with"),
            *ACCESS,
        ],
        story=(
            "Reads all of both. Copies compact and expire on their own: of a compacted log it compares the latest\n"
            "record of every key. A copy that only ends earlier does not disagree. Exit code 1: they disagree."
        ),
        examples=["seglog diff events /copy/events", "seglog diff http://10.0.0.1:3000 /copy/events"],
    ),
    Command(
        "promote",
        _promote,
        [
            argument("target", help="a copy that `seglog mirror` made; stop the mirror first", type=LocalPath()),
            option(
                "--archive",
                metavar="URL",
                help="the archive of the old leader: wait for its lease, copy what is missing here, and continue it",
            ),
            option("--fence", metavar="LEADER", help="then make the old leader, a URL or a path, reject all changes"),
            *ACCESS,
            WAIT,
        ],
        story=(
            "Stop the old leader first, or use --fence. A leader that runs on and cannot be reached still accepts\n"
            "records, which are then only there: see docs/replication.md. With --archive nothing that was\n"
            "acknowledged as archived is lost, and the old leader gives no such acknowledgement from then on."
        ),
        examples=[
            "seglog promote /copy/events --fence http://10.0.0.1:3000",
            "seglog promote /copy/events --archive s3://backups/events --wait 1h",
        ],
    ),
)
