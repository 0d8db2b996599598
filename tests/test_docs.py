"""What the pages show works, in the order it is shown: one shell session a page, in an empty directory."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import confluent_kafka
import pytest

from tests.waiting import HANG_SECONDS

pytestmark = pytest.mark.no_cover


@pytest.mark.examples("keyed.md")
def test_every_example_of_the_page_on_keyed_logs_runs_as_it_stands(examples, tmp_path):
    shown = examples.run(tmp_path)
    assert shown.startswith("2 242 170\n")
    assert "search-index" in shown


@pytest.mark.examples("server.md")
def test_every_example_of_the_page_on_the_server_runs_as_it_stands(examples, serve, tmp_path):
    shown = examples.run(tmp_path, serve().url)
    assert shown.startswith('{"write_index": 0}{"highest_index": 1, "lowest_index": 0}Hello World')
    assert '"value":"{\\"qty\\": 3}"' in shown
    assert "b'one'\n0\n1\n" in shown  # read back; nothing left to consume; one in the broker without a server


@pytest.mark.examples("console.md")
def test_the_example_of_the_page_on_the_console_shows_a_kafka_client(examples, serve, tmp_path):
    server = serve("--kafka", "127.0.0.1:0")
    address = re.search(r"Kafka clients connect to (\S+:\d+)", "".join(server.said))[1]
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "client.id": "shop", "log_level": 0})
    producer.list_topics(timeout=HANG_SECONDS)
    assert "shop confluent-kafka-python 127.0.0.1:" in examples.run(tmp_path, server.url)


@pytest.mark.examples("laminarmq.md")
def test_every_example_of_the_page_on_laminarmq_runs_as_it_stands(examples, tmp_path):
    shutil.copytree(Path(__file__).parent / "data" / "laminarmq" / "plain", tmp_path / "laminarmq-log")
    first, again, verified, record, facts, size = examples.run(tmp_path).splitlines()
    assert first.startswith("imported 30 records as offsets 0 to 29, all compared")
    assert again.startswith("imported 0 records, 30 records already present")
    assert verified.startswith("ok: 30 records")
    assert '"offset":17' in record.replace(" ", "")
    assert (facts, size) == ("0 30 True", str(sum(n * 7 % 61 for n in range(30))))


@pytest.mark.examples("reliability.md")
def test_what_the_page_on_reliability_shows_an_operator_is_what_is_shown(examples, tmp_path):
    expected = "".join(re.findall(r"```text\n(.*?)```", examples.text, flags=re.DOTALL))
    assert examples.run(tmp_path) == expected


@pytest.mark.examples("cli.md")
def test_every_example_of_the_page_on_the_command_line_runs_as_it_stands(examples, serve, tmp_path):
    shown = examples.run(tmp_path, serve().url)
    assert shown.startswith("0\nHello")
    assert "ann" in shown
    assert shown.endswith('ann {"id": 17, "user": "ann"}\n')


@pytest.mark.examples("python.md")
def test_every_example_of_the_page_on_python_runs_as_it_stands(examples, tmp_path):
    assert examples.run(tmp_path).splitlines() == [
        "67108864 604800.0 1",
        "604800.0 1000000000",
        "1",
        "timestamp 1729990860 looks like seconds",
        "1",
        "1 1400000 2",
        "[b'999', b'0', b'500']",
        "b'993'",
        "b'1000'",
        """1 True b'{"page": "/products/7", "browser": "Firefox", "seconds": 7}'""",
        "[b'synced']",
        "1 1",
        "b'not yet'",
        "True True",
        "1",
        "0",
        "100 b'99'",
    ]


@pytest.mark.examples("serializers.md")
def test_every_example_of_the_page_on_serializers_runs_as_it_stands(examples, tmp_path):
    assert examples.run(tmp_path).splitlines() == [
        "order-18 None",
        "order-19 {'qty': 3, 'sku': 'a-1'}",
        "value b'{broken'",
        "{'qty': 3, 'sku': 'a-1'}",
        "1400000000",
    ]


@pytest.mark.examples("storage.md")
def test_every_example_of_the_page_on_storages_runs_as_it_stands(examples, tmp_path):
    shown = examples.run_as_one_program(tmp_path).splitlines()
    assert shown == ["0 b'value'", "['default', 'orders'] b'value'"]


@pytest.mark.examples("arrow.md")
def test_every_example_of_the_page_on_arrow_runs_as_it_stands(examples, serve, tmp_path):
    shown = examples.run(tmp_path, serve().url).splitlines()
    assert shown == [
        "[b'2']",
        "2",
        "[(2, b'3'), (3, b'4')]",
        "[(b'a', 1), (b'b', 1), (b'c', 2), (b'd', 1)]",
        "[[b'e', b'6']]",
        "[(b'a', b'1'), (b'b', b'2'), (b'c', b'3')]",
        "['partition', 'offset', 'timestamp', 'key', 'value', 'headers']",
        "[(3, b'3')]",
    ]


@pytest.mark.examples("archive.md")
def test_every_example_of_the_page_on_archives_runs_as_it_stands(examples, tmp_path):
    shown = examples.run(tmp_path).splitlines()
    assert shown.count("order 1000") == 2
    assert shown[-5:] == ["1", "b'a record'", "True", "0 b'visit 0'", "2"]


@pytest.mark.examples("replication.md")
def test_every_example_of_the_page_on_copies_runs_as_it_stands(examples, tmp_path):
    assert examples.run(tmp_path).splitlines() == [
        "Lag(records=0, bytes=0, seconds=0.0)",
        "b'1 apple'",
        "2",
    ]


@pytest.mark.examples("table.md")
def test_every_example_of_the_page_on_tables_runs_as_it_stands(examples, tmp_path):
    shown = examples.run(tmp_path).splitlines()
    assert "[(2,)]" in shown
    assert "[(Decimal('9.50'), 'ann')]" in shown
    assert any("3 typed columns (3 values unfit)" in line for line in shown)
    assert any("none yet, so nothing is deleted" in line for line in shown)
    assert any("complete up to offset 0: 1;" in line for line in shown)
    assert shown[3].startswith("orders: 2 records added in 1 file")


@pytest.mark.examples("replay.md")
def test_every_example_of_the_page_on_state_machines_runs_as_it_stands(examples, tmp_path):
    assert examples.run(tmp_path).splitlines() == [
        "{'ann': -5, 'bob': 3, 'cleo': 2}",
        "{'ann': -5, 'bob': 5}",
        "-4 1",
        "True",
        "KeyState(offset=2, state=2)",
        "3",
        "[0, 2]",
        "[1]",
    ]
