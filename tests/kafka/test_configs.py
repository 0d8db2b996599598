"""Topic configs by Kafka's names, as text <-> those of a topic: what is accepted, refused and kept."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog import LogConfig, Policies, Retention
from seglog.errors import ConfigError
from seglog.kafka.configs import (
    ALL_DEFAULTS,
    DEFAULTS,
    DOUBLE,
    INT,
    LONG,
    NEW,
    SETTINGS,
    TopicConfig,
    changed,
    given_texts,
    shown_values,
    values_of,
)
from tests.kafka.suites.configs import EXPORTED

DEFAULT = TopicConfig(LogConfig(), Policies())


def without_texts(config):
    return TopicConfig(config.log, replace(config.policies, kafka_configs=None))


@pytest.mark.parametrize(
    ("first", "changes", "policy", "age", "expires"),
    [
        (
            {"cleanup.policy": "delete", "retention.ms": "5000"},
            [("cleanup.policy", "compact")],
            "compact",
            "5000",
            False,
        ),
        (
            {"cleanup.policy": "delete", "retention.ms": "5000"},
            [("cleanup.policy", "compact"), ("cleanup.policy", "delete")],
            "delete",
            "5000",
            True,
        ),
        ({"cleanup.policy": "compact", "retention.ms": "5000"}, [], "compact", "5000", False),
        (
            {"cleanup.policy": "compact", "retention.ms": "5000"},
            [("cleanup.policy", "compact,delete")],
            "compact,delete",
            "5000",
            True,
        ),
        (
            {"cleanup.policy": "compact,delete"},
            [("min.insync.replicas", "1"), ("retention.ms", "5000")],
            "compact,delete",
            "5000",
            True,
        ),
        ({"cleanup.policy": "compact"}, [("retention.ms", "5000")], "compact", "5000", False),
        ({"cleanup.policy": "compact,delete"}, [], "compact,delete", "-1", False),
        ({"cleanup.policy": "compact"}, [("retention.ms", "-1")], "compact", "-1", False),
    ],
)
def test_limits_are_kept_while_the_policy_does_not_apply_them(first, changes, policy, age, expires):
    config = changed(TopicConfig(LogConfig(segment_bytes=512), Policies()), first)
    for name, value in changes:
        config = changed(config, {name: value})
    shown = values_of(config)
    assert (shown["cleanup.policy"], shown["retention.ms"]) == (policy, age)
    again = LogConfig.from_json(config.log.to_json()), Policies.from_json(config.policies.to_json())
    assert values_of(TopicConfig(*again)) == shown
    assert (again[0].retention.age_us is not None) is expires


def test_a_topic_is_created_with_all_that_kafka_describes():
    found = changed(NEW, EXPORTED)
    assert shown_values(found) == EXPORTED
    assert values_of(found) == DEFAULTS | {
        "retention.ms": "604800000",
        "segment.ms": "604800000",
        "max.message.bytes": "1048588",
    }


@pytest.mark.parametrize(
    ("name", "text", "stored"),
    [
        ("cleanup.policy", "delete,compact", "compact,delete"),
        ("retention.ms", "9223372036854775807", "-1"),
        ("retention.ms", "-1", "-1"),
        ("delete.retention.ms", "9223372036854775807", "3155760000000"),
        ("min.cleanable.dirty.ratio", "0.5", "0.5"),
        ("compression.type", "gzip", "uncompressed"),
        ("message.timestamp.type", "CreateTime", "CreateTime"),
    ],
)
def test_a_text_is_given_back_as_long_as_it_means_what_the_topic_has(name, text, stored):
    found = changed(DEFAULT, {name: text})
    assert (shown_values(found)[name], values_of(found)[name]) == (text, stored)
    assert name in given_texts(found)
    again = changed(found, {"max.message.bytes": "5000"})
    assert shown_values(again)[name] == text
    assert name not in given_texts(changed(found, {name: None}))


def test_a_text_does_not_count_once_the_topic_has_another_value():
    config = changed(DEFAULT, {"retention.ms": "9223372036854775807"})
    altered = TopicConfig(LogConfig(retention=Retention(age=7)), config.policies)
    assert shown_values(altered)["retention.ms"] == "7000"
    assert changed(altered, {"segment.ms": "5"}).policies == Policies()


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("retention.ms", " 7 ", "7"),
        ("min.cleanable.dirty.ratio", "1e-1", "0.1"),
        ("min.cleanable.dirty.ratio", "0", "0.0"),
        ("preallocate", "TRUE", "true"),
        ("cleanup.policy", "delete, delete", "delete"),
        ("file.delete.delay.ms", " 60000", "60000"),
    ],
)
def test_a_text_is_given_back_as_kafka_reads_it(name, given, shown):
    assert shown_values(changed(DEFAULT, {name: given}))[name] == shown


def test_a_text_that_the_value_gives_back_is_not_stored_twice():
    assert changed(DEFAULT, {"retention.ms": "5000"}).policies == Policies()


@pytest.mark.parametrize(
    "texts", [{"retention.ms": "x"}, {"cleanup.policy": "?"}, {"any.name": "1"}, {"flush.ms": ""}, {"preallocate": "?"}]
)
def test_texts_that_mean_nothing_are_not_shown(texts):
    config = TopicConfig(LogConfig(), Policies(kafka_configs=texts))
    assert shown_values(config) == shown_values(DEFAULT)


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("compression.gzip.level", ["-1", "9"], ["0", "10"]),
        ("compression.zstd.level", ["-131072", " 22 "], ["23", "x"]),
        ("index.interval.bytes", ["0", "2147483647"], ["-1", "2147483648", "1_000", "often"]),
        ("local.retention.ms", ["-2", "9223372036854775807"], ["-3", ""]),
        ("segment.index.bytes", ["4"], ["3"]),
        ("preallocate", ["true", "FALSE"], ["yes", ""]),
        ("remote.storage.enable", ["false"], ["true"]),
        ("leader.replication.throttled.replicas", ["*", "", "0:1,1:1", "0:1, 1:1"], ["1", "*,0:1"]),
    ],
)
def test_a_config_without_effect_has_the_values_of_kafka_and_is_given_back(name, accepted, refused):
    for value in accepted:
        found = changed(DEFAULT, {name: value})
        assert without_texts(found) == DEFAULT
        given_back = {name: value.strip().lower().replace(", ", ",")}
        assert given_texts(found) == given_back
        assert shown_values(found) == ALL_DEFAULTS | values_of(DEFAULT) | given_back
        assert changed(found, {name: None}) == DEFAULT
    for value in refused:
        with pytest.raises(ConfigError, match=f"^{re.escape(name)} "):
            changed(DEFAULT, {name: value})


def test_the_compression_type_is_that_of_the_config():
    assert DEFAULTS["compression.type"] == "uncompressed"
    for value in ("producer", "gzip", "snappy", "uncompressed"):
        for config in (DEFAULT, TopicConfig(LogConfig(compression="lz4"), Policies())):
            found = changed(config, {"compression.type": value})
            assert (found.log.compression, shown_values(found)["compression.type"]) == ("none", value)
    with pytest.raises(ConfigError, match="accepts gzip or lz4 or producer or snappy or uncompressed or zstd"):
        changed(DEFAULT, {"compression.type": "brotli"})


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("retention.ms", "-5", r"0 to 9223372036854775807, or -1 \(no limit\)"),
        ("retention.bytes", "-2", r"0 to 9223372036854775807, or -1 \(no limit\)"),
        ("min.insync.replicas", "0", "1 to 101"),
        ("min.cleanable.dirty.ratio", "1.5", "0 to 1"),
        ("min.cleanable.dirty.ratio", "nan", "0 to 1"),
        ("segment.bytes", "5", "512 to 4294967295"),
        ("segment.ms", "0", "1 to 9223372036854775807"),
        ("flush.messages", "0", "1 to 9223372036854775807"),
        ("flush.ms", "-1", "1 to "),
        ("delete.retention.ms", "-1", "0 to "),
        ("max.compaction.lag.ms", "-7", "0 to "),
        ("max.message.bytes", "-3", "0 to "),
    ],
)
def test_the_refusal_of_a_number_names_the_config_and_what_is_accepted(name, value, accepted):
    with pytest.raises(ConfigError, match=rf"^{re.escape(name)} is {value}; it must be {accepted}"):
        changed(DEFAULT, {name: value})


def test_every_setting_that_is_a_number_has_a_range():
    ranges = {name: one.range for name, one in SETTINGS.items() if one.range is not None}
    assert set(ranges) == {name for name, one in SETTINGS.items() if one.type in (INT, LONG, DOUBLE)}
    for name, one in ranges.items():
        for value in {one.least, one.most, one.least if one.none is None else one.none}:
            changed(DEFAULT, {name: str(value)})


@pytest.mark.parametrize("name", sorted(name for name in SETTINGS if name.endswith(".ms")))
def test_a_time_of_any_length_is_accepted_and_one_of_more_than_100_years_has_no_limit(name):
    setting = SETTINGS[name]
    for value in (2**63 - 1, 3155760000001):
        found = setting.value(changed(DEFAULT, {name: str(value)}))
        assert found == (None if setting.one.optional else 3155760000.0)
    with pytest.raises(ConfigError, match=f"^{re.escape(name)} is 9223372036854775808; it must be"):
        changed(DEFAULT, {name: str(2**63)})


def test_deleting_a_config_that_there_is_not_is_accepted_as_kafka_does():
    unknown = dict.fromkeys(["remote.log.delete.on.disable", "message.format.version", "any.name"])
    assert changed(DEFAULT, unknown) == DEFAULT
    with pytest.raises(ConfigError, match="there is no config 'any\\.name'"):
        changed(DEFAULT, {"any.name": "1"})


def test_a_latest_compaction_before_the_earliest_is_refused_by_kafkas_names():
    with pytest.raises(ConfigError, match=r"^max.compaction.lag.ms is 5, which is less than min.compaction.lag.ms, 10"):
        changed(DEFAULT, {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


@given(
    st.builds(
        Retention,
        compact=st.booleans(),
        age=st.none() | st.integers(0, 10**9).map(float),
        bytes=st.none() | st.integers(0, 2**60),
        delete_retention=st.integers(0, 10**6).map(float),
        min_dirty_ratio=st.floats(0, 1),
        unkeyed=st.sampled_from(["keep", "reject"]),
    )
)
def test_a_config_is_the_same_after_its_settings_are_read_and_set(retention):
    config = TopicConfig(LogConfig(segment_bytes=4096, retention=retention), Policies())
    assert without_texts(changed(config, values_of(config))) == config
    reset = changed(config, dict.fromkeys(["retention.ms", "cleanup.policy"]))
    assert (reset.log.retention.age, reset.log.retention.compact) == (None, False)


@given(st.sampled_from(sorted(DEFAULTS)), st.text(max_size=5) | st.integers().map(str))
def test_any_value_of_a_setting_is_taken_or_refused(setting, value):
    try:
        found = changed(DEFAULT, {setting: value})
    except ConfigError as error:
        assert str(error).startswith(f"{setting} ")
        assert value in str(error) or repr(value) in str(error)
        return
    assert values_of(found)[setting] is not None
