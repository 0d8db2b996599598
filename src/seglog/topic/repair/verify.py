"""Verify everything at a place. Changes nothing; an error that prevents the check of a part is reported with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from seglog.errors import CorruptLog, FormatVersionError, NotALog, SeglogError
from seglog.format.manifest import Manifest
from seglog.log.catalog import read_manifest
from seglog.log.locks.write_lock import is_written
from seglog.log.opening import foreign_partition, storage_at
from seglog.log.repair.reports import Problem
from seglog.log.repair.verify import Progress, verify_storage
from seglog.storage import Storage, Subdirectory
from seglog.topic.layout import description
from seglog.topic.layout.description import Description
from seglog.topic.layout.root import OFFSETS, PRODUCERS
from seglog.topic.repair.discover import Site, is_there, logs_of, partition_numbers, site_at
from seglog.topic.repair.journals import transactions_told
from seglog.topic.repair.reports import LogTold, Told, TopicTold
from seglog.topic.repair.reserved_names import name_problems
from seglog.topic.repair.topic_files import mended_description, told_partitions, turned_back
from seglog.topic.transaction import DIRECTORY, Transaction


def verify_place(place: str | os.PathLike[str] | Storage, progress: Progress | None = None) -> Told:
    """Check every byte of every log at a place, the topics' own files, and the files of transactions.

    progress(bytes done, bytes in total). Raises LogNotFound or NotALog if there is nothing of seglog.
    """
    site = site_at(storage_at(place))
    logs = logs_at(site)
    share = shares(logs, progress)
    return Told(
        kind=site.kind,
        path=site.root.path,
        topics=tuple(_topic(site, storage, name) for name, storage in site.topics.items()),
        logs=tuple(_log(storage, name, share(name)) for name, storage in logs.items()),
        transactions=transactions_told(site),
    )


def logs_at(site: Site) -> dict[str, Storage]:
    """Return name -> storage of every log at a place; directories that cannot be read have none."""
    if site.kind == "log":
        return {"": site.root}
    own = {OFFSETS: site.offsets, PRODUCERS: site.producers}
    found = {name: log for name, log in own.items() if log is not None}
    for name, storage in site.topics.items():
        try:
            found |= logs_of(storage, name)
        except SeglogError:
            continue  # reported with the topic
    return found


def shares(logs: dict[str, Storage], progress: Progress | None) -> Callable[[str], Progress | None]:
    """Return a function that gives each log, in this order, its part of an overall progress."""
    sizes = {name: _size(storage) for name, storage in logs.items()}
    total, before = sum(sizes.values()), dict.fromkeys(sizes, 0)
    for name, following in zip(sizes, list(sizes)[1:], strict=False):
        before[following] = before[name] + sizes[name]

    def share(name: str) -> Progress | None:
        return None if progress is None else lambda done, _: progress(before[name] + done, total)

    return share


def _size(storage: Storage) -> int:
    try:
        return sum(storage.sizes(ending=".store").values())
    except SeglogError:
        return 0


def _log(storage: Storage, name: str, progress: Progress | None) -> LogTold:
    writing = is_written(storage)
    try:
        found = verify_storage(storage, progress, go_on=True)
    except SeglogError as error:
        return LogTold(name=name, path=storage.path, writing=writing, error=error)
    return LogTold(name=name, path=storage.path, writing=writing, found=found)


def _topic(site: Site, storage: Storage, name: str) -> TopicTold:
    try:
        problems = [
            *name_problems(site, name),
            *description_problems(storage),
            *partition_problems(storage),
            *home_problems(storage),
            *batch_problems(storage),
        ]
        return TopicTold(name=name, path=storage.path, problems=tuple(problems), unfinished=tuple(_unfinished(storage)))
    except SeglogError as error:
        return TopicTold(name=name, path=storage.path, error=error)


# --- topic.json ------------------------------------------------------------------------------------------------------


def description_problems(topic: Storage) -> Iterator[Problem]:
    """Yield the problem with topic.json, if any."""
    path = f"{topic.path}/{description.FILE_NAME}"
    try:
        description.read(topic)
    except NotALog:
        yield Problem(kind="description", path=path, detail="it is missing, so that the topic cannot be opened")
    except CorruptLog as error:
        why = str(error).removeprefix(f"{path} is damaged: ").partition("; restore")[0]
        yield Problem(kind="description", path=path, detail=f"the topic cannot be opened: {why}")
    except FormatVersionError as error:
        if description_of(topic) is None:
            raise
        yield Problem(kind="description", path=path, detail=f"it is damaged, not of a newer version: {error}")


def description_of(topic: Storage) -> Description | None:
    """Return the content of topic.json, or its certain content before it was damaged; None if unknown."""
    try:
        return description.read(topic)
    except NotALog:
        return None
    except (CorruptLog, FormatVersionError):
        directory = topic.path.rpartition("/")[2]
        return mended_description(text_of(topic), directory, len(partition_numbers(topic)))


def text_of(topic: Storage, name: str = description.FILE_NAME) -> bytes:
    """Return a file's bytes; empty if there is none."""
    if topic.identity(name) is None:
        return b""
    file = topic.open(name)
    return file.pread(file.size(), 0)


def partition_problems(topic: Storage) -> Iterator[Problem]:
    """Yield the missing partitions."""
    known = description_of(topic)
    told = known.partitions if known else told_partitions(text_of(topic)) or 0
    count = told if known else max(told, *(number + 1 for number in partition_numbers(topic)), 0)
    for number in range(count):
        if not is_there(topic, number):
            path = f"{topic.path}/{number}"
            detail = f"partition {number} is missing with its records, so that the topic cannot be opened"
            yield Problem(kind="partition", path=path, detail=detail)


def home_problems(topic: Storage) -> Iterator[Problem]:
    """Yield the partitions that were created as others: their directories were exchanged or copied."""
    known = description_of(topic)
    for number, manifest in manifests_of(topic).items() if known else ():
        detail = foreign_partition(manifest, (known.id, number)) if known else None
        if detail is not None:
            path = f"{topic.path}/{number}"
            yield Problem(kind="exchanged", path=path, detail=f"{detail}, so that the topic cannot be opened")


def manifests_of(topic: Storage) -> dict[int, Manifest]:
    """Return the manifests of the existing partitions, as far as they can be read."""
    found = {}
    for number in partition_numbers(topic):
        with suppress(SeglogError):
            manifest = read_manifest(Subdirectory(topic, str(number)))
            if manifest is not None:
                found[number] = manifest
    return found


# --- batches ----------------------------------------------------------------------------------------------------------


def batch_problems(topic: Storage) -> Iterator[Problem]:
    """Yield the damaged files of committed batches."""
    for path, batch in _batches(topic):
        if isinstance(batch, CorruptLog):
            detail = (
                "it names a batch that was committed and may be missing in some partitions; the topic cannot be opened"
            )
            yield Problem(kind="transaction", path=path, detail=detail)


def _unfinished(topic: Storage) -> Iterator[str]:
    """Report the committed batches that are not in every partition yet."""
    for path, batch in _batches(topic):
        if isinstance(batch, Transaction):
            numbers = ", ".join(map(str, batch.staged))
            yield (
                f"{path}: batch {batch.batch} of query {batch.query!r}, for partitions {numbers}, was committed and "
                "interrupted; open the topic for writing to complete it"
            )


def _batches(topic: Storage) -> Iterator[tuple[str, Transaction | CorruptLog]]:
    for name in topic.names(DIRECTORY):
        path = f"{topic.path}/{DIRECTORY}/{name}"
        if name.endswith(".json"):
            try:
                yield path, Transaction.decode(text_of(topic, f"{DIRECTORY}/{name}"), path)
            except CorruptLog as error:
                yield path, error


def mended_batch(data: bytes, path: str) -> bytes | None:
    """Return the original bytes of a damaged batch file, None if they cannot be determined."""

    def holds(tried: bytes) -> bool:
        try:
            Transaction.decode(tried, path)
        except (CorruptLog, FormatVersionError):
            return False
        return True

    return turned_back(data, holds)
