"""How the results of suites that others wrote are read and compared; `python -m tests.kafka.suites` runs them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from tests.kafka.suites import go_tests, kafka_python, librdkafka, mirrormaker, streams
from tests.kafka.suites.__main__ import SUITES, main
from tests.kafka.suites.expected import Expected, unexpected
from tests.kafka.suites.sides import SIDES, Missing
from tests.kafka.suites.verdicts import FAILED, PASSED, SKIPPED, Verdict, different, report
from tests.tools import REQUIRED

LIST = """\
struct test tests[] = {
    {.name = "<MAIN>", .flags = TEST_F_LOCAL},
    _TEST(0001_multiobj, 0),
    _TEST(0004_conf, TEST_F_LOCAL),
    _TEST(0038_performance,
          0,
          _THRES(.ucpu = 150.0, .scpu = 10)),
    _TEST(0045_subscribe_update_topic_remove,
          0,
          TEST_BRKVER(0, 9, 0, 0),
          .scenario = "noautocreate"),
    _TEST(0066_plugins,
          TEST_F_LOCAL | TEST_F_KNOWN_ISSUE_WIN32,
          .extra = "dynamic"),
#if WITH_SOCKEM
    _TEST(0068_produce_timeout, TEST_F_SOCKEM),
#endif
    _TEST(0103_transactions,
          0,
          .scenario = "default,ak23"),
    _TEST(0139_offset_validation_mock, 0),
    _TEST(0171_share_consumer_consume, 0, TEST_BRKVER(4, 2, 0, 0)),
    _TEST(8000_idle, TEST_F_MANUAL),

    {NULL}};
"""
SUMMARY = """\
TEST 20261125 (bare, scenario default) SUMMARY
#==================================================================#
| <MAIN>                                   |     PASSED |  31.000s |
| 0001_multiobj                            |     FAILED |   1.200s | test_multi():12: no
second line
| 0038_performance                         |    SKIPPED |   0.000s | too slow
#==================================================================#
"""
GO = """\
=== RUN   TestOne
=== RUN   TestOne/first
    one_test.go:12: it is not there
=== RUN   TestTwo
    two_test.go:7: Skipping test that requires docker
--- SKIP: TestTwo (0.00s)
=== RUN   TestThree
--- PASS: TestThree (0.10s)
--- FAIL: TestOne (1.00s)
    --- FAIL: TestOne/first (1.00s)
=== RUN   TestFour
panic: test timed out
"""
JUNIT = """\
<testsuites><testsuite>
<testcase classname="test.integration.test_a" name="test_x"/>
<testcase classname="test.integration.test_a" name="test_y"><failure message="no"/></testcase>
<testcase classname="test.integration.test_a" name="test_z"><skipped message="old"/></testcase>
<testcase classname="test.integration.test_b" name="test_x"><error message="set-up"/></testcase>
</testsuite></testsuites>
"""


def test_the_tests_of_librdkafka_that_use_a_broker_are_listed_with_their_scenarios():
    found = {one.name: one.scenario for one in librdkafka.listed(LIST)}
    assert found == {
        "0001_multiobj": "default",
        "0038_performance": "default",
        "0045_subscribe_update_topic_remove": "noautocreate",
        "0068_produce_timeout": "default",
        "0103_transactions": "default",
    }


def test_why_a_test_of_librdkafka_failed_is_in_its_summary():
    found = librdkafka.reported("FAILED", "0001_multiobj", SUMMARY)
    assert found.state == FAILED
    assert found.why.split() == ["test_multi():12:", "no", "second", "line"]
    assert librdkafka.reported("SKIPPED", "0038_performance", SUMMARY).state == SKIPPED
    assert librdkafka.reported("PASSED", "0001_multiobj", SUMMARY) == Verdict(PASSED)
    assert librdkafka.reported("RUNNING", "0001_multiobj", SUMMARY).state == FAILED


def test_the_results_of_go_have_subtests_and_what_did_not_end():
    assert go_tests.read(GO) == {
        "TestOne": Verdict(FAILED, "it is not there"),
        "TestOne/first": Verdict(FAILED, "it is not there"),
        "TestTwo": Verdict(SKIPPED, "Skipping test that requires docker"),
        "TestThree": Verdict(PASSED),
        "TestFour": Verdict(FAILED, "it did not end"),
    }


def test_the_results_of_pytest_are_read_from_its_report():
    assert kafka_python.read_junit(JUNIT) == {
        "test_a::test_x": Verdict(PASSED),
        "test_a::test_y": Verdict(FAILED, "no"),
        "test_a::test_z": Verdict(SKIPPED, "old"),
        "test_b::test_x": Verdict(FAILED, "set-up"),
    }


def test_a_report_counts_both_sides_and_names_what_differs():
    theirs = {"a": Verdict(PASSED), "b": Verdict(FAILED, "x | y"), "c": Verdict(PASSED)}
    ours = {"a": Verdict(PASSED), "b": Verdict(FAILED, "x"), "c": Verdict(FAILED, "not\n here")}
    assert different(theirs, ours) == [("c", PASSED, FAILED, "not here")]
    text = report("suite", {"Kafka": theirs, "seglog": ours})
    assert "| Kafka | 2 passed, 1 failed, 0 skipped |" in text
    assert "| seglog | 1 passed, 2 failed, 0 skipped |" in text
    assert "| c | passed | failed | not here |" in text


def test_a_difference_is_unexpected_unless_it_is_listed_and_so_is_a_listed_one_that_is_gone():
    theirs = {"set a": Verdict("1"), "set b": Verdict("2"), "set c": Verdict("3")}
    ours = {"set a": Verdict("1"), "set b": Verdict("0"), "set c": Verdict("0")}
    known = [Expected("why", "set c", "3", "0"), Expected("old", "set a")]
    found = [*unexpected(theirs, ours, known)]
    assert found == ["set b: '2' there, '0' here", "no difference any more: set a (old)"]
    assert "| Kafka | 3 answers |" in report("suite", {"Kafka": theirs, "seglog": ours})


def test_what_mirrormaker_logs_is_a_failure_unless_it_is_its_own():
    said = """\
WARN Plugins All plugins have ServiceLoader manifests, consider reconfiguring
WARN MirrorSourceConnector Could not alter configuration of topic orders.
org.apache.kafka.common.errors.InvalidConfigurationException: flush.ms is fixed
ERROR Worker Graceful stop of task failed.
"""
    altered, ended = mirrormaker.complaints(said)
    assert "flush.ms is fixed" in altered
    assert ended == "ERROR Worker Graceful stop of task failed.\n"


def test_the_documented_file_of_mirrormaker_gets_the_addresses_of_a_suite():
    found = mirrormaker.documented("127.0.0.1:1", "127.0.0.1:2")
    assert "kafka.bootstrap.servers = 127.0.0.1:1\nseglog.bootstrap.servers = 127.0.0.1:2\n" in found


@pytest.mark.deep
@pytest.mark.needs("java", "maven")
@pytest.mark.parametrize("only", ["BrokerCompatibilityTest", "TransactionalMessageCopier"])
def test_programs_of_kafkas_system_tests_pass(only):
    found = streams.verdicts("seglog", only)
    assert [one.state for one in found.values()] == [PASSED] * 2, found


def test_each_suite_has_a_title_and_each_broker_a_name():
    assert len({suite.TITLE for suite in SUITES.values()}) == len(SUITES)
    assert [*SIDES] == ["kafka", "seglog"]
    with pytest.raises(SystemExit):
        main(["no-such-suite"])


@pytest.mark.parametrize(("required", "status"), [("", 0), ("1", 1)])
def test_a_suite_whose_tools_are_missing_fails_where_they_are_required(required, status, monkeypatch):
    def verdicts(side, only):
        raise Missing("there is no Go")

    monkeypatch.setitem(SUITES, "sarama", SimpleNamespace(TITLE="sarama", verdicts=verdicts))
    monkeypatch.setenv(REQUIRED, required)
    assert main(["sarama", "--side", "seglog"]) == status


def test_the_documented_command_exists():
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert re.search("over an hour", main.__globals__["__doc__"])
