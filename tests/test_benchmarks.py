"""The framework of the benchmarks: the results of a run, the page made of them, peers that are not installed."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from benchmarks import block_compression, growth, log_size, page
from benchmarks.__main__ import BENCHMARKS, tell
from benchmarks.block_compression import BLOCK_HEAD_BYTES, CODECS, Blocks, Stored, decoded, point
from benchmarks.history import Kept, Run, alike, keep, latest, read_history, regressions, run_of
from benchmarks.limits import Limit
from benchmarks.peers import peers, tools
from benchmarks.peers.kafka import cleanings, kafka
from benchmarks.pictures import draw_growth
from benchmarks.scale import QUICK
from benchmarks.timing import Figure, on_one_core

import seglog


def kept(ratio, *, name="scan", aim=0.5, spread=0.1):
    return Kept(
        benchmark="scan",
        name=name,
        against="read(2)",
        ours=1.0,
        other=ratio,
        work=1.0,
        unit="GB",
        aim=aim,
        ratio=ratio,
        low=ratio - spread / 2,
        high=ratio + spread / 2,
    )


def run(*figures, cpu="one", taken="2026-01-01T00:00:00Z"):
    limit = Limit(name="memcpy", value=11.0, low=10.0, high=12.0, unit="GB/s")
    return Run(
        taken=taken,
        commit="abc",
        load=0.5,
        machine={"cpu": cpu, "cores": 2},
        peers={"lmdb": "1.7"},
        limits=(limit,),
        figures=figures,
    )


def told(*ratios):
    return [(figure.ratio, least) for figure, least in regressions([run(kept(ratio)) for ratio in ratios])]


def test_a_run_is_read_as_it_was_kept(tmp_path):
    path, runs = (
        tmp_path / "docs" / "history.jsonl",
        [run(kept(0.5)), run(kept(0.6, aim=None), kept(2.0, name="append"))],
    )
    for one in runs:
        keep(one, path)
    assert read_history(path) == runs
    assert len(path.read_text().splitlines()) == len(runs)


def test_without_a_file_there_is_no_history(tmp_path):
    assert read_history(tmp_path / "history.jsonl") == []


def test_a_line_holds_medians_and_no_repeats():
    figure = Figure(
        name="scan", against="read(2)", ours=(1.0, 2.0, 4.0), other=(1.0, 1.0, 1.0), work=3.0, unit="GB", aim=0.4
    )
    one = run_of([("scan", figure)], [], {}, taken=0.0, load=0.25)
    assert one.taken == "1970-01-01T00:00:00Z"
    (line,) = json.loads(one.as_line())["figures"]
    assert (line["ours"], line["other"], line["ratio"], line["low"], line["high"]) == (2.0, 1.0, 0.5, 0.375, 0.75)


def test_a_ratio_below_the_earlier_median_less_its_spread_is_told():
    assert told(0.8, 0.8, 0.8, 0.69) == [(0.69, pytest.approx(0.7))]


def test_a_ratio_within_the_spread_is_not_told():
    assert told(0.8, 0.8, 0.8, 0.71) == []


def test_runs_that_differ_much_allow_more_than_one_run_does():
    assert told(0.4, 0.8, 0.8, 1.2, 1.2, 0.55) == []
    assert told(0.8, 0.8, 0.8, 0.8, 0.8, 0.55) != []


def test_a_better_ratio_and_a_first_run_are_not_told():
    assert told(0.8, 2.0) == []
    assert told(0.1) == []
    assert list(regressions([])) == []


def test_another_machine_is_not_compared_with():
    runs = [run(kept(0.8), cpu="fast"), run(kept(0.3), cpu="slow")]
    assert list(regressions(runs)) == []
    assert alike(runs) == runs[1:]


def test_a_partial_run_leaves_the_other_figures_as_they_were():
    runs = [run(kept(0.8), kept(3.0, name="append")), run(kept(0.7))]
    assert [(figure.name, figure.ratio) for _, figure in latest(runs).values()] == [("scan", 0.7), ("append", 3.0)]


def test_a_run_beside_other_work_replaces_no_calm_one_and_is_compared_with_nothing():
    calm, busy = run(kept(0.8)), replace(run(kept(0.2)), load=3.0)
    assert [figure.ratio for _, figure in latest([calm, busy]).values()] == [0.8]
    assert [figure.ratio for _, figure in latest([busy]).values()] == [0.2]
    assert list(regressions([calm, busy])) == []
    assert list(regressions([busy, replace(busy, load=0.0, figures=(kept(0.1),))])) == []
    assert list(regressions([calm, busy, run(kept(0.5))])) == [(kept(0.5), pytest.approx(0.7))]


def test_the_page_says_plainly_what_is_not_met(tmp_path):
    written = page.write([run(kept(0.4), kept(3.0, name="append"))], tmp_path / "benchmarks.md").read_text()
    assert "Of 2 aims 1 are met, 1 are not met." in written
    assert "| scan | read(2) | 0.40 | 0.5 |" in written
    assert "| scan | read(2) | 1.00 GB/s | 2.50 GB/s | 0.40 | 0.35 - 0.45 | 0.5 | **no** |" in written


def test_the_page_says_beside_which_figures_other_work_was_going_on(tmp_path):
    calm, busy = run(kept(0.8)), replace(run(kept(3.0, name="append")), load=1.5)
    busy = replace(busy, figures=(replace(busy.figures[0], benchmark="append"),))
    written = page.write([calm, busy], tmp_path / "page.md").read_text().replace("\n", " ")
    assert "Of 2 aims 1 are met, 0 are not met and 1 open." in written
    assert "up to 1.5 processes wanted to run on 2 cores), so whether they meet their aims is open" in written
    assert "whatever the tables show: append." in written
    assert "wanted to run" not in page.write([calm], tmp_path / "page.md").read_text()


def test_the_page_tells_what_fell_since(tmp_path):
    runs = [run(kept(0.8)), run(kept(0.6))]
    assert "scan against read(2): 0.60, expected at least 0.70" in page.write(runs, tmp_path / "page.md").read_text()


def test_every_picture_of_the_page_is_there_and_the_same_again(tmp_path):
    runs = [run(kept(0.8), kept(3.0, name="append", aim=None)), run(kept(0.7))]
    first, again = (page.write(runs, tmp_path / name / "benchmarks.md") for name in ("first", "again"))
    names = [line.split("](")[1].rstrip(")") for line in first.read_text().splitlines() if line.startswith("![")]
    assert names == ["benchmarks/aims.svg", "benchmarks/scan.svg"]
    for name in names:
        assert (first.parent / name).read_bytes() == (again.parent / name).read_bytes()


def test_a_benchmark_that_the_page_does_not_know_is_shown_all_the_same(tmp_path):
    strange = replace(kept(0.8), benchmark="of somebody else")
    assert "## of somebody else" in page.write([run(strange)], tmp_path / "page.md").read_text()


def test_a_figure_that_fell_decides_the_exit_status_only_when_asked(capsys):
    runs = [run(kept(0.8)), run(kept(0.6))]
    assert (tell(runs, strict=False), tell(runs, strict=True), tell(runs[:1], strict=True)) == (0, 1, 0)
    assert "FELL: scan against read(2): 0.60" in capsys.readouterr().out


# --- peers ----------------------------------------------------------------------------------------------------------


def test_a_peer_that_cannot_be_had_is_skipped_with_a_word(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tools, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = [tools.nats_server(), tools.redis_server(), tools.jars("kafka", "pom.xml"), tools.module("no_such_module")]
    assert found == [None] * 4
    with peers(tmp_path) as servers, kafka(tmp_path / "kafka") as broker:
        assert (servers, broker) == ([], None)
    words = capsys.readouterr().out.splitlines()
    assert "(nats-server: skipped, neither it nor Go is installed)" in words
    assert "(Kafka: skipped, Java is not installed)" in words
    assert all(": skipped, " in word for word in words)


def test_what_was_made_before_is_found_without_what_makes_it(monkeypatch, tmp_path):
    monkeypatch.setattr(tools, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", "")
    made = tmp_path / "bin" / "nats-server"
    made.parent.mkdir()
    made.touch(mode=0o755)
    (tmp_path / "kafka").mkdir()
    assert tools.nats_server() == str(made)
    assert tools.jars("kafka", "pom.xml") == tmp_path / "kafka"


def test_what_could_not_be_fetched_whole_is_not_taken_for_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tools, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))
    maven = tmp_path / "mvn"
    maven.write_text(f"#!{sys.executable}\nraise SystemExit(1)\n")
    maven.chmod(0o755)
    assert tools.jars("kafka", "pom.xml") is None
    assert not (tmp_path / "cache" / "kafka").exists()
    assert "(kafka: skipped, mvn could not fetch it)" in capsys.readouterr().out


def test_a_server_that_does_not_listen_is_an_error(tmp_path):
    command = [sys.executable, "-c", "raise SystemExit(1)"]
    with (
        pytest.raises(OSError, match="does not listen"),
        tools.server(command, tools.free_port(), output=tmp_path / "output"),
    ):
        pytest.fail("it did not listen")


def test_a_java_that_cannot_run_a_broker_skips_kafka_with_a_word(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tools, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "kafka").mkdir()
    java = tmp_path / "java"
    java.write_text(f"#!{sys.executable}\nraise SystemExit(1)\n")
    java.chmod(0o755)
    with kafka(tmp_path / "broker") as broker:
        assert broker is None
    assert capsys.readouterr().out.startswith("(Kafka: skipped, ")


def test_what_kafka_says_of_its_cleaner_is_understood():
    said = """INFO LogCleaner$CleanerThread [kafka-log-cleaner-thread-0]:
	Log cleaner thread 0 cleaned log c-0 (dirty section = [600001, 900002])
	1,072.1 MB of log processed in 9.7 seconds (110.9 MB/sec).
	Indexed 36.0 MB in 0.2 seconds (199.2 Mb/sec, 27.8% of total time)
	Buffer utilization: 3.4%
	Cleaned 72.1 MB in 0.5 seconds (153.7 Mb/sec, 72.2% of total time)
	Start size: 72.1 MB (600,002 messages)
	End size: 36.1 MB (300,001 messages)
"""
    (one,) = cleanings(said, "c")
    assert (one.records, one.left) == (600_002, 300_001)
    assert one.seconds == pytest.approx(1072.1 / 110.9)
    assert cleanings(said, "another") == []


def test_growth_is_drawn_with_a_line_for_each_kind_of_call(tmp_path):
    sizes = {"a roll": (100, 1000, "segments"), "an expiry": (100, "segments"), "a scan": (10_000, "bytes")}
    figures = [
        replace(kept(0.5), name=f"{kind}, {number:,} {unit}", against=f"10 {unit}")
        for kind, (*numbers, unit) in sizes.items()
        for number in numbers
    ]
    draw_growth([*figures, kept(0.5, name="open 1,000 segments to write")], tmp_path / "lines.svg")
    drawn = (tmp_path / "lines.svg").read_text()
    assert "a roll" in drawn
    assert "an expiry" in drawn
    assert "a scan" in drawn
    assert "bytes of the log" in drawn
    assert "to write" not in drawn


def test_logs_of_any_length_are_made_and_cut_back_after_what_is_measured(tmp_path):
    assert log_size.sizes(QUICK) == [10**3, 10**4, 10**5, 10**6, 10**7]
    with log_size.log_of(tmp_path / "log", 10_000) as log:
        assert 9_000 < log.size <= 10_000
        end = log.next_offset
        for call in log_size.KINDS.values():
            assert call(log) > 0
        assert log.next_offset == end


def test_logs_of_all_sizes_are_made_and_measured(tmp_path):
    assert growth.sizes(QUICK) == [10, 50, 500]
    segments = 2 * growth.CALLS
    place = growth.log_of(tmp_path / "log", segments)
    with seglog.open(place) as log:
        assert len(log.segments) == segments
        assert [record.offset for record in log.scan()] == list(range(len(log)))
        for change in (growth._rolls, growth._publishes, growth._expiries):
            assert change(log) > 0
        assert {problem.kind for problem in log.verify().problems} == {"index"}, "there are none, and none is needed"


# --- compression by blocks --------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    rows = pa.table({"key": [b"key"] * 300, "value": [b"value %d" % number for number in range(300)]})
    return Stored.of(tmp_path / "log", rows)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [64, 1000, 4096, 2**20])
def test_records_are_read_from_compressed_blocks_wherever_those_begin(stored, codec, size):
    blocks = Blocks(stored.data, codec, size)
    room, origin = blocks.span(0, stored.data.size)
    assert (origin, room.tobytes()) == (0, stored.data.tobytes())
    assert decoded(stored, blocks.span, (100, 300)) == decoded(stored, stored.plain, (0, 200)) == 200
    for number in (0, 123, 299):
        assert point(stored, blocks.span, number)[0].value == b"value %d" % number


def test_larger_blocks_get_smaller_and_random_ones_stay_as_they_are(stored):
    sizes = [Blocks(stored.data, "zstd-1", size).stored_bytes for size in (256, 4096, 2**20)]
    assert sizes == sorted(sizes, reverse=True)
    random = np.frombuffer(os.urandom(10_000), np.uint8)
    assert Blocks(random, "zstd-1", 4096).stored_bytes == 10_000 + 3 * BLOCK_HEAD_BYTES


@pytest.mark.parametrize("name", block_compression.DATA)
def test_real_records_have_about_the_size_that_was_asked_for(name):
    rows = block_compression.DATA[name](10_000_000)
    assert 9_000_000 < rows.nbytes + 32 * rows.num_rows < 11_000_000
    assert min(map(len, rows["value"].slice(0, 10).to_pylist())) > 100


# --- timing ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux alone holds threads to processors")
def test_all_threads_are_held_to_one_core_and_let_go_again():
    allowed = os.sched_getaffinity(0)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(os.getpid).result()
        with on_one_core():
            within = [os.sched_getaffinity(0), pool.submit(os.sched_getaffinity, 0).result()]
        after = [os.sched_getaffinity(0), pool.submit(os.sched_getaffinity, 0).result()]
    assert within == [{min(allowed)}] * 2
    assert after == [allowed] * 2


def test_the_page_has_a_title_for_every_benchmark():
    assert set(page.TITLES) == set(BENCHMARKS)
