"""End the changes of a log in favour of another one, which was promoted with a higher term."""

from __future__ import annotations

from dataclasses import replace

from seglog.errors import InvalidArgument
from seglog.log.writer_state import Phase, WriterState

MAX_TERM = 2**20  # epochs have it in their high bits, and stay below 2**53


def fence(state: WriterState, term: int) -> None:
    """Accept no more changes; return once that, and everything appended before, is on the disk.

    Called as a change of the log.
    """
    live = state.live
    role = live.catalog.current.role
    if term > MAX_TERM:
        raise InvalidArgument(f"a term must be at most {MAX_TERM}, not {term}")
    if term <= role.term:
        raise InvalidArgument(f"{state.path} has term {role.term}; only a higher term fences it, not {term}")
    live.note_epoch()
    live.active.write_buffer()
    live.active.datasync()  # what was appended before stays
    live.active.mark_durable(live.active.next_offset)
    state.durability.advance(live.active.next_offset)
    live.catalog.install(
        live.catalog.following(live.catalog.current.segments, role=replace(role, fenced=max(term, role.fenced)))
    )
    live._show()  # so that views have the role
    state.phase = Phase.FENCED
