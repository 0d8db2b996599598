"""--lease: be the leader of an archive while a command runs, and wait for another process that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.cli.frame import option
from seglog.errors import LogLocked
from seglog.terminal import output
from seglog.terminal.units import parse_duration, typed_duration

if TYPE_CHECKING:
    from seglog.archive.leading import Leading

LEASE = (
    option(
        "--lease",
        metavar="DURATION",
        type=parse_duration,
        help="first wait for the lease beside the archive, and renew it; it ends this long after the last renewal",
    ),
    option("--holder", metavar="NAME", help="with --lease: this process, for others; default: host and process id"),
)


def lead(url: str, ttl: float, holder: str | None) -> Leading:
    """Wait until this process holds the lease, and renew it from then on."""
    from seglog.archive.leading import Leading, this_process
    from seglog.archive.lease import ObjectLease

    lease = ObjectLease(url, holder=holder or this_process(), ttl=ttl)
    try:
        number = lease.acquire(0)
    except LogLocked as error:
        output.note(f"waiting: {error.strerror}")
        number = lease.acquire()
    output.note(f"{lease.holder} holds the lease, renewal {number}; it ends {typed_duration(ttl)} after the last one")
    return Leading(lease, ttl)
