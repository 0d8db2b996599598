"""`verify` and `repair` of a log, a topic or a directory of topics: what is damaged, where, and what can be done.

Written for an operator in an emergency: a line for every log, its problems below it, what can still be read, and what
to do next. `seglog.topic.repair` does the work; this module turns its results into text and exit codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from seglog.cli.frame import Args, Command, argument, flag
from seglog.cli.location import LocalPath
from seglog.cli.lock_wait import WAIT, patiently
from seglog.cli.options import QUIET, YES
from seglog.cli.progress import progress
from seglog.errors import SeglogError
from seglog.terminal import output
from seglog.terminal.exits import Exit, exit_of, message_of
from seglog.terminal.units import format_count, format_size

if TYPE_CHECKING:
    from seglog.log.repair.repair import RepairAction
    from seglog.log.repair.reports import Gap, Problem, VerifyReport
    from seglog.topic.repair import LogTold, Told, TopicTold

GAPS_SHOWN = 8
_CODES = (
    "Exit code: 0 everything is intact, 1 something is damaged; any other: not everything could be checked (see the\n"
    "exit codes in `seglog --help`)."
)


# --- verify -----------------------------------------------------------------------------------------------------------


def _verify(args: Args) -> int:
    from seglog.topic.repair import verify_place

    with progress("verify", unit="B", quiet=args.quiet) as report:
        told = verify_place(args.log, report)
    _raise_of_one(told)
    if args.json:
        output.say_json(_verified_plainly(told))
    elif not (told.ok and args.quiet):
        output.say(*_as_given(_verified_lines(told), told, args.log))
    return _exit_of(told)


def _as_given(lines: Iterable[str], told: Told, place: str) -> list[str]:
    """Replace absolute paths by the path that was given on the command line."""
    return [line.replace(told.path, place.rstrip("/") or place) for line in lines]


def _raise_of_one(told: Told) -> None:
    """Raise the error that kept a standalone log from being checked, as any command does."""
    if told.kind == "log" and told.errors:
        raise told.errors[0]


def _exit_of(told: Told, *, damaged: bool | None = None) -> int:
    """Return 0, 1, or the exit code of an error that kept something from being checked."""
    if told.errors:
        return exit_of(told.errors[0])
    if any(problem.kind == "refused" for problem in told.problems):
        return Exit.IO
    return Exit.FAILED if (bool(told.problems) if damaged is None else damaged) else Exit.OK


def _verified_lines(told: Told) -> Iterator[str]:
    for own in told.own:
        yield from _topic_lines(own)
    for log in told.logs:
        yield from _log_lines(log, alone=told.kind == "log")
    if told.kind != "log":
        yield _total(told)
    if told.problems:
        yield f"`seglog repair {told.path} --dry-run` shows what a repair would do"


def _topic_lines(topic: TopicTold) -> Iterator[str]:
    """Yield a line for each problem of a topic's own files, or of transactions; none if they are intact."""
    if topic.error is not None:
        yield f"{topic.path}: CANNOT BE CHECKED: {message_of(topic.error)}"
    for problem in topic.problems:
        yield f"{problem.path}: DAMAGED: {problem.detail}"
    for batch in topic.unfinished:
        yield f"unfinished: {batch}"


def _log_lines(log: LogTold, *, alone: bool) -> Iterator[str]:
    name = "" if alone else f"{log.path}: "
    if log.found is None:
        yield f"{name}CANNOT BE CHECKED: {message_of(log.error) if log.error else ''}"
        return
    writing = "; a process is writing to it" if log.writing else ""
    yield f"{name}{_state(log.found)}{writing}"
    for problem in log.found.problems:
        yield f"  {_problem(problem)}"
    if log.found.unreadable:
        yield f"  not readable: {_gaps(log.found.unreadable)}"
        if log.holds is not None:
            yield f"  lost with them: {log.holds}"


def _state(found: VerifyReport) -> str:
    amount = f"{format_size(found.bytes)}, {format_count(found.segments, 'segment')}"
    if found.tail_bytes:
        amount += f", and {found.tail_bytes} bytes of an unfinished append"
    if found.ok:
        return f"ok: {format_count(found.records, 'record')}, {amount}"
    problems = format_count(len(found.problems), "problem")
    lost = "" if found.unreadable else ", none lost"
    word = "PARTLY UNREADABLE" if any(problem.kind == "refused" for problem in found.problems) else "DAMAGED"
    return f"{word}: {problems}; {format_count(found.records, 'record')} readable{lost}, {amount}"


def _problem(problem: Problem) -> str:
    """Return a problem as one line: kind, place, detail."""
    where = [str(problem.path)]
    if problem.offset is not None:
        where.append(f"offset {problem.offset}")
    if problem.position is not None:
        where.append(f"position {problem.position}")
    return f"{problem.kind}: {', '.join(where)}: {problem.detail}"


def _gaps(gaps: tuple[Gap, ...]) -> str:
    shown = ", ".join(str(gap) for gap in gaps[:GAPS_SHOWN])
    more = len(gaps) - GAPS_SHOWN
    return f"{shown}, and {more} more places (--json lists all)" if more > 0 else shown


def _total(told: Told) -> str:
    looked = [log.found for log in told.logs if log.found is not None]
    records, size = sum(found.records for found in looked), sum(found.bytes for found in looked)
    sound = sum(found.ok for found in looked)
    states = [f"{sound} intact", f"{len(looked) - sound} damaged"]
    if told.errors:
        states.append(f"{len(told.errors)} could not be checked")
    own = sum(len(topic.problems) for topic in told.topics)
    if own:
        states.append(f"{format_count(own, 'problem')} in topics' own files")
    if told.transactions is not None and told.transactions.problems:
        states.append(f"{format_count(len(told.transactions.problems), 'problem')} in files of transactions")
    what = "topic" if told.kind == "topic" else format_count(len(told.topics), "topic")
    return (
        f"total: {what}, {format_count(len(told.logs), 'log')}: {', '.join(states)}; "
        f"{format_count(records, 'record')} readable, {format_size(size)}"
    )


def _verified_plainly(told: Told) -> dict[str, Any]:
    logs: list[dict[str, Any]] = [_log_plainly(log) for log in told.logs]
    if told.kind == "log":
        return logs[0]
    own = [output.plain(part) | {"error": _error(part.error)} for part in told.own]
    for part in own:
        del part["repair"]
    split = len(told.topics)
    plain = {"kind": told.kind, "path": told.path, "ok": told.ok, "topics": own[:split], "logs": logs}
    return plain | ({"transactions": own[split]} if told.transactions is not None else {})


def _log_plainly(log: LogTold) -> dict[str, Any]:
    known = {"name": log.name, "path": log.path, "writing": log.writing, "error": _error(log.error)}
    found: dict[str, Any] = output.plain(log.found or {})
    return known | found | {"ok": log.found is not None and log.found.ok}


def _error(error: SeglogError | None) -> str | None:
    return None if error is None else message_of(error)


# --- repair -----------------------------------------------------------------------------------------------------------


def _repair(args: Args) -> int:
    from seglog.topic.repair import refuse_writer, repair_place

    if not args.dry_run:
        patiently(lambda: refuse_writer(args.log), args.wait)
    with progress("check", unit="B", quiet=args.quiet) as report:
        plan = repair_place(args.log, dry_run=True, progress=report)
    _raise_of_one(plan)
    doable = [action for action in plan.actions if action.kind != "leave"]
    if args.dry_run or not doable:
        return _say_repair(args, plan, changed=False)
    if not args.json:
        output.say("planned:", *_as_given(_actions(doable), plan, args.log))
    if not output.confirmed(f"Repair {args.log}, losing {_lost(plan)}?", yes=args.yes):
        output.note("nothing was changed")
        return Exit.FAILED
    return _say_repair(args, patiently(lambda: _repaired(args), args.wait), changed=True)


def _repaired(args: Args) -> Told:
    from seglog.topic.repair import repair_place

    with progress("repair", unit="B", quiet=args.quiet) as report:
        done = repair_place(args.log, progress=report)
    _raise_of_one(done)
    return done


def _actions(actions: list[RepairAction]) -> Iterator[str]:
    for action in actions:
        yield f"  {action.kind}: {action.path}"
        yield f"    because: {action.detail}"
        yield f"    then: {action.outcome}"


def _lost(told: Told) -> str:
    """Describe the loss without claiming more than the reports, which count known losses only."""
    count = sum(part.repair.records_lost for part in told.parts if part.repair is not None)
    return f"at least {format_count(count, 'record')}" if count else "no known records"


def _say_repair(args: Args, told: Told, *, changed: bool) -> int:
    """Print what was, or would be, done; return the exit code."""
    left = [action for action in told.actions if action.kind == "leave"]
    if args.json:
        output.say_json(_repaired_plainly(told) | {"dry_run": args.dry_run})
    else:
        output.say(*_as_given(_repaired_lines(told, left, changed=changed), told, args.log))
    return _exit_of(told, damaged=bool(left) or (not changed and bool(told.actions)))


def _repaired_lines(told: Told, left: list[RepairAction], *, changed: bool) -> Iterator[str]:
    done = [action for action in told.actions if action.kind != "leave"]
    if done:
        yield "done:" if changed else "would be done:"
        yield from (f"  {action.kind}: {action.path}" for action in done) if changed else _actions(done)
        for part in told.parts:
            yield from (f"  kept: {part.path}/{name}" for name in (part.repair.quarantined if part.repair else ()))
        yield f"lost: {_lost(told)}"
    if left:
        yield "to be done manually:"
        yield from _actions(left)
    for part in told.parts:
        if part.error is not None:
            yield f"{part.path}: CANNOT BE REPAIRED: {message_of(part.error)}"
    if not told.actions and not told.errors:
        yield "nothing to repair"
    elif changed:
        yield f"`seglog verify {told.path}` checks the result"
    else:
        yield "nothing was changed"


def _repaired_plainly(told: Told) -> dict[str, Any]:
    """Return a log's report flat, or one report per topic and log."""
    parts: list[dict[str, Any]] = [
        {"name": part.name, "path": part.path, "error": _error(part.error)} | output.plain(part.repair or {})
        for part in told.parts
    ]
    if told.kind == "log":
        return parts[0]
    split, logs = len(told.topics), len(told.own)
    plain = {"kind": told.kind, "path": told.path, "topics": parts[:split], "logs": parts[logs:]}
    return plain | ({"transactions": parts[split]} if told.transactions is not None else {})


_PATH = argument("log", metavar="PATH", type=LocalPath(), help="the directory of a log, of a topic, or of topics")

COMMANDS = (
    Command(
        "verify",
        _verify,
        [_PATH, QUIET],
        story=(
            "Lists all damage, shows what can still be read, and continues if a log cannot be opened. Works while\n"
            f"another process writes.\n\n{_CODES}"
        ),
        examples=["seglog verify orders", "seglog verify shop", "seglog verify orders --json | jq .problems"],
    ),
    Command(
        "repair",
        _repair,
        [_PATH, flag("--dry-run", help="show what would be done, change nothing"), YES, QUIET, WAIT],
        story=(
            "Shows the plan and asks. It deletes nothing: what it removes from a log or a topic goes to its\n"
            "quarantine/ directory. No other process may have it open for writing, except with --dry-run.\n\n"
            "Exit code: 0 nothing is left to repair, 1 something is (with --dry-run: there is something to repair);\n"
            "any other: not everything could be checked, or another process writes."
        ),
        examples=["seglog repair orders --dry-run", "seglog repair orders", "seglog repair shop --yes"],
    ),
)
