"""What is kept of a run, what is told of it, and the page that is made of it."""

import json
from dataclasses import replace

import pytest
from benchmarks import page
from benchmarks.__main__ import tell
from benchmarks.history import Kept, Run, alike, keep, latest, read_history, regressions, run_of
from benchmarks.limits import Limit
from benchmarks.timing import Figure


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


def test_the_page_says_plainly_what_is_not_met(tmp_path):
    written = page.write([run(kept(0.4), kept(3.0, name="append"))], tmp_path / "benchmarks.md").read_text()
    assert "1 of 2 aims are met. These are not:" in written
    assert "| scan | read(2) | 0.40 | 0.5 |" in written
    assert "| scan | read(2) | 1.00 GB/s | 2.50 GB/s | 0.40 | 0.35 - 0.45 | 0.5 | **no** |" in written


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
