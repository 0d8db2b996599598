"""The names that others rely on, with their parameters: what docs/architecture.md promises under "Public names"."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

import seglog
import seglog.aio

ERRORS: dict[str, type[Exception]] = {
    "InvalidArgument": ValueError,
    "InvalidType": TypeError,
    "ConfigError": ValueError,
    "MissingExtra": ImportError,
    "OffsetError": IndexError,
    "OffsetOutOfRange": IndexError,
    "OffsetCompacted": IndexError,
    "OffsetConflict": IndexError,
    "NotDurableYet": IndexError,
    "RecordTooLarge": ValueError,
    "KeyRequired": ValueError,
    "StreamOverflow": ValueError,
    "CorruptRecord": ValueError,
    "CorruptLog": ValueError,
    "LogTruncated": ValueError,
    "CompactionAborted": RuntimeError,
    "PlanStale": RuntimeError,
    "LogReplaced": ValueError,
    "FormatVersionError": ValueError,
    "LogNotFound": FileNotFoundError,
    "NotALog": OSError,
    "LogLocked": OSError,
    "LogPoisoned": OSError,
    "ArchiveFenced": RuntimeError,
    "ArchiveMismatch": ValueError,
    "LogClosed": ValueError,
    "ReentrantCall": RuntimeError,
    "LogReadOnly": OSError,
    "LogFenced": OSError,
    "MachineFailed": RuntimeError,
    "CopyStopped": RuntimeError,
    "CopyDiverged": RuntimeError,
    "CopyExpired": RuntimeError,
    "NotMirrored": TimeoutError,
    "StorageError": OSError,
    "TopicNotFound": LookupError,
    "TopicExists": ValueError,
    "OnceConflict": ValueError,
    "SnapshotExpired": RuntimeError,
    "SerializationError": ValueError,
    "GroupNotFound": LookupError,
    "GroupConflict": ValueError,
    "UnknownMember": RuntimeError,
    "NotAssigned": RuntimeError,
    "ConnectionFailed": ConnectionError,
    "ServerError": RuntimeError,
    "Unauthorized": PermissionError,
    "Forbidden": PermissionError,
    "Busy": RuntimeError,
}

TIME = ["*timestamp=None", "*force_timestamp=False"]
CALLS: dict[str, list[str]] = {
    "append": ["self", "value", "*key=None", *TIME, "*headers=()", "*expected_offset=None"],
    "append_stream": ["self", "chunks", "*key=None", *TIME, "*headers=()", "*limit=None", "*length=None"],
    "append_batch": ["self", "data", "*force_timestamp=False"],
    "append_at": ["self", "offset", "record"],
    "read": ["self", "offset"],
    "scan": ["self", "start=None", "stop=None", "*on_corrupt=None"],
    "batches": ["self", "start=None", "stop=None", "*max_records=65536", "*values='view'", "*on_corrupt=None"],
    "to_arrow": ["self", "start=None", "stop=None", "*values='binary'", "*on_corrupt=None"],
    "offset_at": ["self", "timestamp", "*force_timestamp=False"],
    "tail": ["self", "start=None"],
    "follow": ["self", "start=None", "*timeout=None", "*share=None"],
    "truncate": ["self", "offset"],
    "sync": ["self"],
    "expire": ["self"],
    "compact": [
        "self",
        "*roll=False",
        "*generational=False",
        "*progress=None",
        "*abort=None",
        "*bytes_per_second=None",
    ],
    "verify": ["self", "progress=None"],
    "repair": ["self", "progress=None"],
    "close": ["self"],
    "remove": ["self"],
}

FACTS = ["lowest_offset", "next_offset", "durable_offset", "size", "segments", "config", "path"]


def parameters(call: Any) -> list[str]:
    """Return the parameters as text: a star before keyword-only ones, the default after each."""
    found = []
    for parameter in inspect.signature(call).parameters.values():
        star = "*" if parameter.kind is parameter.KEYWORD_ONLY else ""
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        found.append(f"{star}{parameter.name}{default}")
    return found


def kinds_of_log() -> list[Any]:
    storage = seglog.MemoryStorage()
    with seglog.open(storage) as writer, seglog.open(storage, mode="r") as reader:
        return [seglog.Log, type(writer), type(reader)]


def test_open_and_its_parameters() -> None:
    place, config, mode, expose, clock, wait, archive = parameters(seglog.open)
    assert (wait, archive) == ("*wait=None", "*archive=None")
    assert (config, mode, expose) == ("config=None", "*mode='a'", "*expose='appended'")
    assert clock.startswith("*clock=")
    assert "=" not in place


@pytest.mark.parametrize("kind", kinds_of_log())
@pytest.mark.parametrize("name", CALLS)
def test_a_logs_call_and_its_parameters(kind: Any, name: str) -> None:
    assert parameters(getattr(kind, name)) == CALLS[name]
    assert (inspect.getdoc(getattr(kind, name)) or "").strip()


@pytest.mark.parametrize("name", FACTS)
def test_a_logs_fact_is_a_property(name: str) -> None:
    assert isinstance(inspect.getattr_static(seglog.Log, name), property)


def test_a_log_has_a_recovery_report() -> None:
    with seglog.open(seglog.MemoryStorage()) as log:
        assert isinstance(log.recovery, seglog.RecoveryReport)
        assert (log.recovery.clean, log.recovery.events) == (True, ())


def test_logs_are_context_managers() -> None:
    for kind in (*kinds_of_log(), seglog.aio.AsyncLog):
        enter = "__aenter__" if kind is seglog.aio.AsyncLog else "__enter__"
        assert hasattr(kind, enter)


def test_a_record_has_these_fields_in_this_order() -> None:
    assert seglog.Record._fields == ("offset", "timestamp", "key", "value", "headers")
    assert seglog.Record(1, 2, b"k", b"v").headers == ()


def test_the_config_has_these_options() -> None:
    assert [field.name for field in fields(seglog.LogConfig)] == [
        "segment_bytes",
        "segment_overflow_bytes",
        "segment_age",
        "index_interval_bytes",
        "buffer_bytes",
        "flush_records",
        "flush_interval",
        "initial_offset",
        "open_segments_max",
        "retention",
        "compression",
        "allocate_bytes",
    ]
    assert [field.name for field in fields(seglog.Retention) if not field.name.startswith("_")] == [
        "bytes",
        "age",
        "compact",
        "delete_retention",
        "min_compaction_lag",
        "max_compaction_lag",
        "min_dirty_ratio",
        "dedupe_bytes",
        "unkeyed",
        "after",
        "expire",
        "age_from",
    ]
    assert [field.name for field in fields(seglog.Policies)] == [
        "copies",
        "timestamps",
        "batch_bytes",
        "timestamp_ahead",
        "timestamp_behind",
        "kafka_configs",
    ]
    assert seglog.LogConfig().segment_bytes == 1024**3
    assert seglog.LogConfig().buffer_bytes == 0


def test_a_segment_tells_these_figures() -> None:
    assert [field.name for field in fields(seglog.SegmentInfo)] == [
        "base_offset",
        "next_offset",
        "bytes",
        "records",
        "tombstones",
        "min_timestamp",
        "max_timestamp",
        "created",
        "sealed_at",
        "dense",
        "name",
        "codec",
        "plain_bytes",
    ]


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_has_the_root_and_the_builtin_a_python_user_expects(name: str) -> None:
    kind = getattr(seglog, name)
    assert kind is getattr(seglog.errors, name)
    assert issubclass(kind, seglog.SeglogError)
    assert issubclass(kind, ERRORS[name])
    assert name in (seglog.errors.__doc__ or ""), "the tree at the top of errors.py shows every error"


def test_no_error_is_forgotten() -> None:
    found = {
        name for name, kind in vars(seglog.errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)
    }
    assert found == {*ERRORS, "SeglogError"}


def test_all_names_are_there_and_documented() -> None:
    for name in seglog.__all__:
        thing = getattr(seglog, name)
        assert name.startswith("__") or (inspect.getdoc(thing) or "").strip(), name
    assert len(seglog.__all__) == len(set(seglog.__all__))


def test_verify_and_repair_work_without_opening() -> None:
    assert parameters(seglog.verify) == ["place", "progress=None"]
    assert parameters(seglog.repair) == ["place", "*dry_run=False", "*progress=None", "*wait=None"]
