"""Damage that figures and sizes of files show, without reading the stores. `verify` reads every byte instead."""

from __future__ import annotations

from collections.abc import Iterator

from seglog.format import filename
from seglog.log.view import View
from seglog.storage import Storage


def visible_damage(storage: Storage, view: View, records: int) -> tuple[str, ...]:
    """Return what is wrong with a log, one text for each segment; nothing for a log that looks sound.

    records: of the active segment.
    """
    return (*_short_stores(storage, view), *_lacking(view, records))


def _short_stores(storage: Storage, view: View) -> Iterator[str]:
    sizes = storage.sizes(ending="." + filename.STORE)
    for entry in view.manifest.segments[:-1]:
        there, span = sizes.get(entry.name()), f"offsets {entry.base_offset} to {(entry.next_offset or 0) - 1}"
        if there is None:
            yield f"{entry.name()} is missing: {span} cannot be read"
        elif there < entry.disk_bytes:
            yield f"{entry.name()} has {there} of {entry.disk_bytes} bytes: some of {span} cannot be read"


def _lacking(view: View, records: int) -> Iterator[str]:
    """Yield what the active segment lacks, by its records, of which each offset has one."""
    active = view.active
    lacking = active.next_offset - active.base_offset - records
    if active.rules.dense and lacking > 0:
        yield f"{view.manifest.active.name()} lacks {lacking} of its records, which were on the disk before"
