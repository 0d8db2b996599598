"""Topics: list, create, alter, delete, show and maintain them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from starlette.responses import Response

from seglog.errors import GroupNotFound, InvalidArgument, SeglogError, TopicNotFound
from seglog.log.info import CompactionReport, SegmentInfo
from seglog.log.log import Log
from seglog.log.view import View
from seglog.policies import parted
from seglog.server.api import group_rights, schemas
from seglog.server.api.models import AddPartitions, AlterTopic, CreateTopic, DeleteBefore, Truncate
from seglog.server.api.operations import Call, Operation, json_answer
from seglog.server.routes.common import EMPTY, PARTITION, TOPIC, json_of, log_of, partition_log, topic_of
from seglog.topic.figures import figures_of
from seglog.topic.groups import Groups
from seglog.topic.layout.places import Partition
from seglog.topic.topic import Topic

POLICIES_MOVED = 1_795_910_400  # 2026-11-29, when policies of a topic left its retention

# --- what is shown ----------------------------------------------------------------------------------------------------


def _shown(topic: Topic) -> dict[str, Any]:
    figures = figures_of(topic)
    del figures["config"]["retention"]  # it is a field of its own
    moved = parted(topic.policies.to_json())[1]
    figures["retention"] = {**figures["retention"], **moved}  # as earlier versions have them
    return figures


def _with_partitions(topic: Topic) -> dict[str, Any]:
    states = [{"partition": number, **_bounds(topic.partition(number))} for number in range(topic.partitions)]
    return {**_shown(topic), "partition_states": states}


def _bounds(log: Log) -> dict[str, Any]:
    durable, view = log.durable_offset, log.view()  # in this order: the durable offset is never past the end
    return {**_state(view, view.next_offset, durable, log.size), "segments": len(view.manifest.segments)}


def _state(view: View, end: int, durable: int, size: int) -> dict[str, Any]:
    """Return where a partition starts and ends, and the identity and version of its log.

    log: its identity, hex; epoch: grows with each truncate; version: with each change of its segments, except appends;
    cuts: [epoch, offset] of each truncate that matters; cuts_from: the epoch of the offsets before the first.
    """
    manifest = view.manifest
    return {
        "lowest_offset": view.lowest_offset,
        "next_offset": end,
        "durable_offset": durable,
        "bytes": size,
        "initial_offset": manifest.config.initial_offset,
        "log": f"{manifest.log_id:016x}",
        "epoch": manifest.epoch,
        "version": manifest.version,
        **manifest.cuts.to_json(),
    }


async def _list(call: Call) -> Response:
    broker = call.services.broker

    def show() -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        failed: dict[str, str] = {}
        for name in filter(call.caller.may_anything, broker.topics()):
            try:
                found.append(_shown(broker.topic(name)))
            except TopicNotFound:  # deleted just now
                continue
            except SeglogError as error:
                failed[name] = str(error)
        return {"topics": found, "failed": failed}

    return json_answer(await call.services.reads.run(show))


async def _get(call: Call) -> Response:
    return json_answer(await call.services.reads.run(partial(_with_partitions, await topic_of(call))))


async def _partition(call: Call) -> Response:
    number, log = call.values["partition"], await log_of(call)
    return json_answer(await call.services.reads.run(partial(_drawn, call, call.values["topic"], number, log)))


def _drawn(call: Call, name: str, number: int, log: Log) -> dict[str, Any]:
    """Return a partition and all its segments at one moment, for the console's drawing and Spark's planning."""
    standing = log.standing()
    garbage = {one.base_offset: one.expected_garbage for one in standing.segments}
    durable = log.durable_offset
    view, infos = _one_moment(log)
    segments = [
        {**asdict(info), "file": entry.file, "garbage": garbage.get(info.base_offset)}
        for entry, info in zip(view.manifest.segments, infos, strict=True)
    ]
    compaction = asdict(standing)
    del compaction["segments"]
    cleaner = next((one for one in call.services.cleaner.state() if one.name == f"{name}/{number}"), None)
    groups = call.services.broker.groups
    usable = [group for group in groups.names() if group_rights.may_use(call, group)]
    committed = {group: _committed(groups, group).get(name, {}).get(number) for group in usable}
    return {
        "topic": name,
        "partition": number,
        **_state(view, infos[-1].next_offset, durable, sum(info.bytes for info in infos)),
        "segments": segments,
        "compaction": compaction,
        "cleaner": None if cleaner is None else cleaner.to_json(),
        "groups": {group: offset for group, offset in committed.items() if offset is not None},
    }


def _committed(groups: Groups, group: str) -> dict[str, dict[int, int]]:
    try:
        return groups.committed(group)
    except GroupNotFound:  # deleted just now
        return {}


def _one_moment(log: Log) -> tuple[View, Sequence[SegmentInfo]]:
    """Return a view and the figures of its segments; repeats both if a roll etc. came between them."""
    while True:
        view, infos = log.view(), log.segments
        if log.view() is view:
            return view, infos


# --- what is changed --------------------------------------------------------------------------------------------------


async def _create(call: Call) -> Response:
    wanted = await call.json(CreateTopic)
    call.caller.require("admin", wanted.name)
    _check_partitions(call, wanted.partitions)
    create = partial(call.services.broker.create_topic, wanted.name, partitions=wanted.partitions, **wanted.settings)
    topic = await call.services.care.run(create)
    headers = {"Location": f"/topics/{wanted.name}", **_deprecation(wanted)}
    return json_answer(_shown(topic), 201, headers)


def _deprecation(wanted: Any) -> dict[str, str]:
    """Return the header of an answer to a request that has something where it is deprecated (RFC 9745)."""
    return {"Deprecation": f"@{POLICIES_MOVED}"} if wanted.is_deprecated else {}


async def _alter(call: Call) -> Response:
    topic, wanted = await topic_of(call), await call.json(AlterTopic)

    def work() -> None:
        with call.services.altering:
            call.services.broker.alter_topic(topic.name, **wanted.changes)

    await call.services.care.run(work)
    call.services.cleaner.wake()
    return json_answer(_with_partitions(topic), 200, _deprecation(wanted))


async def _delete(call: Call) -> Response:
    name = call.values["topic"]
    await call.services.care.run(partial(call.services.broker.delete_topic, name))
    return Response(status_code=204)


async def _truncate(call: Call) -> Response:
    log, wanted = await log_of(call), await call.json(Truncate)
    await truncate(call, (call.values["topic"], call.values["partition"]), log, wanted.offset)
    return json_answer({"next_offset": log.next_offset})


async def truncate(call: Call, place: Partition, log: Log, offset: int) -> None:
    """Truncate a log and reset group offsets past its end; other appends may follow meanwhile."""

    def work() -> None:
        log.truncate(offset)
        call.services.broker.groups.cut(*place, offset)

    await call.services.care.run(work)


async def _delete_before(call: Call) -> Response:
    log, wanted = await log_of(call), await call.json(DeleteBefore)
    lowest = await call.services.care.run(partial(log.delete_before, wanted.offset))
    return json_answer({"lowest_offset": lowest})


async def _add_partitions(call: Call) -> Response:
    topic, wanted = await topic_of(call), await call.json(AddPartitions)
    _check_partitions(call, wanted.partitions)
    await call.services.care.run(partial(call.services.broker.add_partitions, topic.name, wanted.partitions))
    return json_answer(_with_partitions(topic))


def _check_partitions(call: Call, wanted: int) -> None:
    """Raise InvalidArgument for more partitions than a topic of this server may have."""
    most = call.services.settings.limits.partitions
    if wanted > most:
        raise InvalidArgument(f"{wanted} partitions are too many; this server allows {most} (--partitions)")


async def _compact(call: Call) -> Response:
    return await _care(call, lambda log: _report(log.compact(roll=True)))


def _report(report: CompactionReport) -> dict[str, Any]:
    return {**vars(report), "damaged": [str(error) for error in report.damaged]}


async def _expire(call: Call) -> Response:
    return await _care(call, lambda log: {"segments": log.expire()})


async def _care(call: Call, do: Callable[[Log], dict[str, Any]]) -> Response:
    topic, wanted = await topic_of(call), call.values["partition"]
    if wanted is not None:
        partition_log(topic, wanted)
    numbers = range(topic.partitions) if wanted is None else [wanted]

    def work() -> dict[str, Any]:
        return {str(number): do(topic.partition(number)) for number in numbers}

    return json_answer({"partitions": await call.services.care.run(work)})


EXPIRED = schemas.object_of({"segments": schemas.COUNT})
TOPIC_ANSWER = json_of("The topic.", schemas.TOPIC_WITH_PARTITIONS)
NAMED = {"topic": "$response.body#/name"}
ON_A_TOPIC = ("topic", "append", "append_batch", "offsets_at", "alter_topic", "compact", "expire", "delete_topic")
OPERATIONS = (
    Operation(
        "GET",
        "/topics",
        "topics",
        "List the topics that the token has a right on.",
        _list,
        "token",
        {200: json_of("The topics, and the reasons for those that cannot be opened.", schemas.TOPICS)},
    ),
    Operation(
        "POST",
        "/topics",
        "create_topic",
        "Create a topic.",
        _create,
        "token",
        {201: json_of("The new topic.", schemas.TOPIC)},
        (),
        CreateTopic,
        links=dict.fromkeys(ON_A_TOPIC, NAMED),
    ),
    Operation(
        "GET",
        "/topics/{topic}",
        "topic",
        "Show a topic and where its partitions start and end.",
        _get,
        "read",
        {200: TOPIC_ANSWER},
        (TOPIC,),
    ),
    Operation(
        "PATCH",
        "/topics/{topic}",
        "alter_topic",
        "Change what a topic keeps and wants, and the codec of its segments; unnamed fields keep their values.",
        _alter,
        "admin",
        {200: TOPIC_ANSWER},
        (TOPIC,),
        AlterTopic,
    ),
    Operation(
        "DELETE",
        "/topics/{topic}",
        "delete_topic",
        "Delete a topic with all its records and committed offsets.",
        _delete,
        "admin",
        {204: EMPTY},
        (TOPIC,),
    ),
    Operation(
        "POST",
        "/topics/{topic}/compact",
        "compact",
        "Compact a topic by key, now: one partition, or all of them.",
        _compact,
        "admin",
        {200: json_of("What was done, by partition.", {"partitions": schemas.by_number(schemas.REPORT)})},
        (TOPIC, PARTITION),
    ),
    Operation(
        "POST",
        "/topics/{topic}/expire",
        "expire",
        "Delete what retention by time and size no longer keeps, now: of one partition, or of all.",
        _expire,
        "admin",
        {200: json_of("How many segments were deleted, by partition.", {"partitions": schemas.by_number(EXPIRED)})},
        (TOPIC, PARTITION),
    ),
    Operation(
        "POST",
        "/topics/{topic}/partitions",
        "add_partitions",
        "Raise a topic's number of partitions. Keys are assigned to the new number from then on.",
        _add_partitions,
        "admin",
        {200: TOPIC_ANSWER},
        (TOPIC,),
        AddPartitions,
    ),
    Operation(
        "GET",
        "/topics/{topic}/partitions/{partition}",
        "partition",
        "Show a partition's segments and the positions of groups.",
        _partition,
        "read",
        {200: json_of("The partition.", schemas.PARTITION)},
        (TOPIC, PARTITION.in_path()),
    ),
    Operation(
        "POST",
        "/topics/{topic}/partitions/{partition}/truncate",
        "truncate",
        "Remove a partition's records from an offset on.",
        _truncate,
        "admin",
        {200: json_of("The end now.", {"next_offset": schemas.COUNT})},
        (TOPIC, PARTITION.in_path()),
        Truncate,
    ),
    Operation(
        "POST",
        "/topics/{topic}/partitions/{partition}/delete-before",
        "delete_before",
        "Delete a partition's records before an offset.",
        _delete_before,
        "admin",
        {200: json_of("Where the partition begins now.", {"lowest_offset": schemas.COUNT})},
        (TOPIC, PARTITION.in_path()),
        DeleteBefore,
    ),
)
