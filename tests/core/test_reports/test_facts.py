"""Facts and tables: what each run's fate is, what a row holds, and that nothing is made up."""

import re
from pathlib import Path

import pytest
from log_builder import make_records, make_runs, without, write_set
from mlperf_fixtures import CISCO, NVIDIA, needs_published_results
from records_builder import pair_content, write_group
from report_builder import write_run_set

from reports.comparison.sources import results_to_compare
from reports.page.figures.times import time_chart
from reports.page.sections.remarks import group_warnings
from reports.page.sections.verdict import headline, key_numbers
from reports.parts.score import describe_score
from reports.render.terminal import render_terminal
from reports.results.logs import benchmark_status, gather
from reports.results.measured import read_measured
from reports.results.resolution import mean_step, time_step
from reports.statistics.intervals import time_interval
from reports.tables.frames import (
    EVALUATION_COLUMNS,
    RUN_COLUMNS,
    SET_COLUMNS,
    evaluations_frame,
    runs_frame,
    sets_frame,
)
from reports.tables.rows import document_of, run_members, set_row
from reports.text.formatting import duration, percent
from reports.views.score import finished_blocks, score_blocks
from rules.benchmarks.loader import load_benchmark
from rules.errors import InputError

TINY = load_benchmark("dlrm_tiny")


def test_runs_know_their_fate_and_their_attempt(tmp_path: Path) -> None:
    runs = make_runs(TINY)
    runs[2] = make_runs(TINY, converged=False, num_evals=19)[0]
    (one,) = gather([write_run_set(tmp_path / "set", runs=runs)])
    assert [run.fate for run in one.runs].count("failed") == 1
    failed = one.runs[2]
    assert (failed.fate, failed.is_dropped, failed.time_s) == ("failed", True, None)
    assert one.runs[0].attempt is not None and one.runs[0].attempt.attempt == 1
    assert [(attempt.run_index, attempt.record and attempt.record.status) for attempt in one.unfinished] == [
        (0, "interrupted")
    ]


def test_a_set_with_a_run_that_did_not_converge_has_a_score_but_no_interval(tmp_path: Path) -> None:
    runs = make_runs(TINY)
    runs[2] = make_runs(TINY, converged=False, num_evals=19)[0]
    (one,) = gather([write_run_set(tmp_path / "set", runs=runs)])
    assert one.score.olympic_mean_s is not None
    assert one.interval is None


def test_a_whole_set_has_the_interval_of_its_times(tmp_path: Path) -> None:
    (one,) = gather([write_run_set(tmp_path / "set")])
    times = [run.time_s for run in one.runs if run.time_s is not None]
    step = mean_step(time_step, [run.log for run in one.runs])
    assert one.interval == time_interval(times, step) and step > 0.03
    assert one.interval is not None


def test_page_score_and_run_print_one_share_of_evaluation_and_overhead(tmp_path: Path) -> None:
    """Of runs whose speed differs, the mean of the shares and the share of the sums are far apart."""
    runs = [make_runs(TINY, 1, throughput=speed)[0] for speed in (2_000.0, 20_000.0, 200_000.0, 300_000.0, 400_000.0)]
    runs[0] = make_records(TINY, num_evals=19, converged=False, throughput=1_000.0)  # has no share
    (result,) = gather([write_run_set(tmp_path / "set", runs=runs)])
    (shown,) = (fact for fact in key_numbers(result) if fact.name == "Evaluation, overhead")
    record = describe_score(result)
    assert record.overhead_ratio is not None
    share = 1 - 1 / record.overhead_ratio
    (finished,) = finished_blocks(result, "system", tmp_path, tmp_path)
    scored = score_blocks([record])
    words = f"{percent(share)} of the time to train"
    assert f"{shown.value} %" == percent(share)
    assert all(words in render_terminal(blocks) for blocks in ((finished,), scored))
    chart = time_chart([result], "time")
    assert chart is not None and chart.lead.startswith(f"The timed seconds are {percent(1 - share)} training, ")
    parts = [float(part) for part in re.findall(r"([\d.]+) %", chart.lead)]
    assert sum(parts) == pytest.approx(100, abs=0.11)


@pytest.mark.parametrize("num_runs", [1, 5])
def test_page_score_and_run_tell_a_factor_in_the_same_words(num_runs: int, tmp_path: Path) -> None:
    (result,) = gather([write_run_set(tmp_path / "set", runs=make_runs(TINY, num_runs))])
    shown = {fact.name: fact.line for fact in key_numbers(result)}
    (finished,) = finished_blocks(result, "system", tmp_path, tmp_path)
    scored = " ".join(render_terminal(score_blocks([describe_score(result)])).split())
    assert ("of one run" in shown["Throughput"]) == (num_runs == 1)
    assert shown["Throughput"] in scored and shown["Epochs to converge"] not in scored
    assert shown["Throughput"] in " ".join(render_terminal((finished,)).split())
    if result.score.score_s is not None:
        assert "(measured; Olympic mean)" in render_terminal((finished,))
        assert "(measured; Olympic mean, " in shown["Time to train"]


@pytest.mark.parametrize(("num_runs", "num_failed", "of"), [(1, 0, "one run"), (3, 1, "geometric mean of 2 runs")])
def test_what_runs_took_is_told_where_they_make_no_score(
    num_runs: int, num_failed: int, of: str, tmp_path: Path
) -> None:
    runs = make_runs(TINY, num_runs)[num_failed:]
    runs += [make_records(TINY, num_evals=19, converged=False) for _ in range(num_failed)]
    (result,) = gather([write_run_set(tmp_path / "set", runs=runs)])
    summary = result.summary("time_to_train_s")
    assert summary is not None and result.score.score_s is None
    took = duration(summary.geometric_mean)
    (finished,) = finished_blocks(result, "system", tmp_path, tmp_path)
    why = f"; no score: incomplete: {num_runs} of 5 runs)"
    assert f"{took} (measured; {of}{why}" in " ".join(render_terminal((finished,)).split())
    assert f"{took} (measured; {of})" in " ".join(render_terminal(score_blocks([describe_score(result)])).split())
    (tile,) = (fact for fact in key_numbers(result) if fact.name == "Time to train")
    assert tile.line == f"{took} (measured; {of}{why}"
    assert f" in {took}" in headline(result) and headline(result).endswith(", no score")


def test_of_runs_that_all_miss_the_target_no_time_is_told(tmp_path: Path) -> None:
    runs = [make_records(TINY, num_evals=19, converged=False)]
    (result,) = gather([write_run_set(tmp_path / "set", runs=runs)])
    assert headline(result).endswith("0 of 1 run trained to AUC 0.90500, no score")
    (tile,) = (fact for fact in key_numbers(result) if fact.name == "Time to train")
    assert (tile.value, tile.unit) == ("none", "")


def test_the_end_of_a_run_names_the_rules_that_it_breaks(tmp_path: Path) -> None:
    runs = [without(make_records(TINY, num_evals=19, converged=False), "seed")]
    (result,) = gather([write_run_set(tmp_path / "set", runs=runs)])
    said = " ".join(render_terminal(finished_blocks(result, "system", tmp_path, tmp_path)).split())
    for severity in ("error", "warning"):
        codes = list(dict.fromkeys(each.code for each in result.verdict.findings if each.severity == severity))
        assert codes and all(f"{code} (" in said for code in codes[:3]), severity
        rules = "rules" if len(codes) > 1 else "rule"
        assert f"{severity}s broken {rules}: {codes[0]} (" in said, "a rule's name alone reads as if it held"
    first = next(each for each in result.verdict.findings if each.severity == "error")
    assert f"; broken rule: {first.code} ({first.title})" in group_warnings([result])[0]


def test_each_folder_is_shown_once_and_each_name_is_its_own(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        write_run_set(tmp_path / parent / "same")
    sets = gather([tmp_path / "a", tmp_path, tmp_path / "b" / "same"])
    assert [one.label for one in sets] == ["same", "same (2)"]
    assert [one.index for one in sets] == [0, 1]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_the_sides_of_several_pairs_are_called_by_their_pair(is_damaged: bool, tmp_path: Path) -> None:
    for folder in ("beside-a", "beside-b"):
        for name in ("base", "new"):
            write_run_set(tmp_path / folder / name)
        file = write_group(tmp_path / folder, pair_content())
        if is_damaged:
            file.write_text("{}")
    assert [result.label for result in gather([tmp_path / "beside-a"])] == ["base", "new"]
    both = [f"beside-{pair}/{name}" for pair in "ab" for name in ("base", "new")]
    assert [result.label for result in gather([tmp_path])] == both
    (tmp_path / "beside-b" / file).unlink()
    assert [result.label for result in gather([tmp_path])] == [*both[:2], "base", "new"]


@pytest.mark.slow
def test_the_sets_of_several_sweeps_are_called_by_their_sweep(tmp_path: Path) -> None:
    for folder, names in (
        ("sweep-a", ("01-k-1", "02-k-2")),
        ("sweep-b", ("01-k-1", "02-k-4")),
        ("sweep-c", ("01-b-8",)),
    ):
        for name in names:
            write_run_set(tmp_path / folder / name)
        (tmp_path / folder / "experiment.json").write_text("{}")
    assert [result.label for result in gather([tmp_path / "sweep-a"])] == ["01-k-1", "02-k-2"]
    both = ["sweep-a/01-k-1", "sweep-a/02-k-2", "sweep-b/01-k-1", "sweep-b/02-k-4"]
    assert [result.label for result in gather([tmp_path])] == [*both, "01-b-8"]
    base, (new,) = results_to_compare(tmp_path / "sweep-a" / "01-k-1", [tmp_path / "sweep-b" / "01-k-1"])
    assert (base.label, new.label) == ("sweep-a/01-k-1", "sweep-b/01-k-1")
    write_run_set(tmp_path / "01-b-8")
    assert {"01-b-8", "sweep-c/01-b-8"} < {result.label for result in gather([tmp_path])}


def test_a_set_is_not_compared_with_itself_among_others(tmp_path: Path) -> None:
    for name, speed in (("base", 1000.0), ("new", 2000.0)):
        write_set(tmp_path / name, TINY, make_runs(TINY, 1, throughput=speed))
    base, others = results_to_compare(tmp_path / "base", [tmp_path])
    assert (base.label, [result.label for result in others]) == ("base", ["new"])


def test_nothing_to_read_is_an_error_that_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no result_\*\.txt"):
        gather([tmp_path])


@pytest.mark.parametrize(
    ("name", "is_defined", "status"),
    [
        ("dlrm_tiny", True, "own"),
        ("dlrm_dcnv2", True, "official"),
        ("dlrm_dcnv2", False, "official"),
        ("dlrmv4", False, "official"),
        ("mine", True, "own"),
        ("bert", False, "unknown"),
        (None, False, "unknown"),
    ],
)
def test_names_of_mlperf_are_never_taken_as_own(name: str | None, is_defined: bool, status: str) -> None:
    assert benchmark_status(name, is_defined=is_defined) == status


def test_one_row_per_run_attempt_evaluation_and_configuration(tmp_path: Path) -> None:
    sets = gather([write_run_set(tmp_path / "one"), write_run_set(tmp_path / "two", interrupted=False)])
    document = document_of(sets)
    runs, evaluations, configurations = runs_frame(document), evaluations_frame(document), sets_frame(document)
    assert list(runs.columns) == [column.name for column in RUN_COLUMNS]
    assert len(runs) == 5 + 1 + 5
    assert list(evaluations.columns) == [column.name for column in EVALUATION_COLUMNS]
    assert len(evaluations) == sum(len(run.log.evaluations) for one in sets for run in one.runs)
    assert list(configurations.columns) == [column.name for column in SET_COLUMNS]
    assert list(configurations["num_unfinished"]) == [1, 0]


def test_missing_is_missing_and_whole_numbers_stay_whole(tmp_path: Path) -> None:
    (one,) = gather([write_run_set(tmp_path / "one")])
    first, *_, last = run_members(one)
    assert (last.status, last.counted, last.reason) == ("interrupted", "no", "killed")
    assert last.time_to_train_s is None
    assert type(first.samples_to_converge) is int
    assert type(first.seed) is int


def test_published_logs_have_no_attempts(tmp_path: Path) -> None:
    write_set(tmp_path / "Org", load_benchmark("dlrm_dcnv2"), ours=False)
    (one,) = gather([tmp_path / "Org"], second_opinion=False)
    row = set_row(one)
    assert (row.status, row.peak_rss_bytes, row.num_unfinished) == ("official", None, 0)


@needs_published_results
def test_published_sets_are_named_by_organisation_system_and_round() -> None:
    sets = gather([NVIDIA, CISCO], second_opinion=False)
    assert [one.label for one in sets] == ["NVIDIA · tyche_ngpu8_ngc25.03_hugectr · v5.0", "Cisco · hpf_n8 · v5.1"]


@pytest.mark.parametrize(
    ("kind", "again"),
    [("throughput", "run --throughput"), ("quality", "run --quality")],
)
def test_who_lacks_a_measurement_is_told_the_command_that_makes_it(tmp_path: Path, kind: str, again: str) -> None:
    with pytest.raises(InputError, match=f"there is no extra/{kind}.json. Measure again with 'dlrmbench {again}'."):
        read_measured(tmp_path, kind)
