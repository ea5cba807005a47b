"""Scores: exactly the published ones, and a reason wherever there is none."""

import json
import math
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_builder import Record, make_records, make_runs, to_log, with_record, write_set
from mlperf_fixtures import CISCO, FLORIDA, INTEL, NVIDIA, needs_published_results

from rules.benchmarks.loader import load_benchmark
from rules.judge.sets import judge_set
from rules.scoring.results import BenchmarkResult, olympic_mean, read_run_result
from rules.scoring.scoring import score_runs
from rules.tree.inventory import find_result_sets

TINY = load_benchmark("dlrm_tiny")


def score_of(runs: list[list[Record]]) -> BenchmarkResult:
    return score_runs([read_run_result(to_log(run), TINY) for run in runs], TINY, None)


@needs_published_results
@pytest.mark.parametrize(
    ("folder", "raw_min", "factor", "score_min"),
    [
        (NVIDIA, 2.188933, 1.0238095238, 2.241051),
        (CISCO, 1.554171, 1.0032277763, 1.559187),
        (INTEL, 227.138063, 1.0, 227.138063),
        (FLORIDA, 3.308465, 1.0, 3.308465),
    ],
    ids=["NVIDIA", "Cisco", "Intel", "Florida"],
)
def test_published_scores_are_reproduced_without_scaling_json(
    folder: Path, raw_min: float, factor: float, score_min: float, tmp_path: Path
) -> None:
    """The logs are copied alone: no scaling.json is beside them."""
    (published,) = find_result_sets(folder)
    alone = tmp_path / f"training_results_v{published.round}" / "results" / "system" / "dlrm_dcnv2"
    alone.mkdir(parents=True)
    for log in published.logs:
        (alone / log.name).write_bytes(log.read_bytes())
    (copied,) = find_result_sets(tmp_path)
    result = judge_set(copied).result
    assert result.no_score_reason is None
    assert result.olympic_mean_s is not None and result.score_s is not None and result.rcp_factor is not None
    assert result.olympic_mean_s / 60 == pytest.approx(raw_min, abs=5e-7)
    assert result.rcp_factor == pytest.approx(factor, abs=5e-11)
    assert result.score_s / 60 == pytest.approx(score_min, abs=5e-7)
    assert sorted(path.name for path in alone.iterdir()) == sorted(log.name for log in published.logs)


@needs_published_results
@pytest.mark.parametrize("folder", [NVIDIA, CISCO], ids=["NVIDIA", "Cisco"])
def test_published_factor_is_compared_and_not_used(folder: Path, tmp_path: Path) -> None:
    (published,) = find_result_sets(folder)
    given = json.loads((published.folder / "scaling.json").read_text())["scaling_factor"]
    assert judge_set(published).result.rcp_factor == pytest.approx(given, rel=1e-12)
    copy = tmp_path / f"training_results_v{published.round}" / folder.name
    shutil.copytree(folder, copy)
    (copied,) = find_result_sets(copy)
    (copied.folder / "scaling.json").write_text(json.dumps({"scaling_factor": given * 0.9}))
    assert judge_set(copied).result.score_s == judge_set(published).result.score_s
    codes = [[finding.code for finding in judge_set(each).verdict.findings] for each in (published, copied)]
    assert [some.count("RC103") for some in codes] == [0, 1]


def test_olympic_mean_drops_the_fastest_and_the_slowest() -> None:
    assert olympic_mean([5.0, 1.0, 3.0, 100.0, 4.0]) == 4.0
    assert olympic_mean([1.0, 2.0, 3.0], drop=0) == 2.0
    assert math.isnan(olympic_mean([1.0, 2.0]))
    assert olympic_mean([1.0, 2.0, math.inf]) == 2.0
    assert olympic_mean([1.0, math.inf, math.inf]) == math.inf


@given(st.lists(st.floats(1, 1e6), min_size=3, max_size=12))
def test_olympic_mean_is_within_what_is_kept_whatever_the_order(values: list[float]) -> None:
    kept = sorted(values)[1:-1]
    mean = olympic_mean(values)
    assert min(kept) * (1 - 1e-12) <= mean <= max(kept) * (1 + 1e-12)
    assert olympic_mean(values[::-1]) == mean


def test_complete_set_has_a_score_over_all_but_two_runs() -> None:
    result = score_of(make_runs(TINY))
    times = sorted(run.time_to_train_s for run in result.runs if run.time_to_train_s is not None)
    assert result.score_s == pytest.approx(math.fsum(times[1:-1]) / 3)
    assert len(result.dropped) == 2
    assert {result.runs[i].time_to_train_s for i in result.dropped} == {times[0], times[-1]}
    assert result.no_score_reason is None


def test_one_run_that_did_not_converge_is_the_dropped_slowest() -> None:
    runs = make_runs(TINY)
    runs[2] = make_records(TINY, num_evals=3, converged=False, seed=9)
    result = score_of(runs)
    assert result.score_s is not None and math.isfinite(result.score_s)
    assert 2 in result.dropped
    assert not result.runs[2].converged


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda runs: runs[:4], "incomplete: 4 of 5 runs"),
        (
            lambda runs: [*runs[:3], *(make_records(TINY, converged=False, seed=i) for i in (1, 2))],
            "2 of 5 runs did not converge",
        ),
        (lambda runs: [*runs[:4], make_records(TINY, global_batch_size=1024)], "differ in global_batch_size"),
        (
            lambda runs: [*runs[:4], with_record(runs[4], "submission_benchmark", value="dlrm_small")],
            "mixes benchmarks",
        ),
        (lambda runs: [*runs[:4], []], "1 of 5 logs without a benchmark's name"),
        (
            lambda runs: [*runs[:2], runs[2][:3], [], []],
            "did not converge; at most 1 may, as the dropped slowest (2 of 5 logs without a benchmark's name)",
        ),
    ],
)
def test_without_a_score_there_is_a_reason(change, reason: str) -> None:  # type: ignore[no-untyped-def]
    result = score_of(change(make_runs(TINY)))
    assert result.score_s is None and result.olympic_mean_s is None
    assert result.no_score_reason is not None and reason in result.no_score_reason
    assert result.dropped == ()


def test_a_longer_set_of_an_own_benchmark_is_scored_over_its_first_runs(tmp_path: Path) -> None:
    runs = make_runs(TINY, 12)
    late = [*runs[:5], *(make_records(TINY, converged=False, seed=index) for index in (90, 91, 92))]
    results = []
    for name, made in (("first", runs[:5]), ("longer", runs), ("late", late)):
        (result_set,) = find_result_sets(write_set(tmp_path / name, TINY, made))
        results.append(judge_set(result_set).result)
    first, longer, poor = results
    assert (longer.score_s, longer.dropped, longer.num_runs_scored) == (first.score_s, first.dropped, 5)
    assert len(longer.runs) == 12 and longer.convergence == first.convergence
    assert poor.score_s == first.score_s is not None
    assert "run 1 is missing" in str(score_of(runs).no_score_reason)  # all of these are named result_0.txt


def test_unknown_benchmark_has_no_score_and_says_what_to_do(tmp_path: Path) -> None:
    runs = [with_record(run, "submission_benchmark", value="resnet") for run in make_runs(TINY)]
    write_set(tmp_path, TINY, runs, ours=False)
    (one,) = find_result_sets(tmp_path)
    result = judge_set(one).result
    assert result.score_s is None
    assert "resnet" in (result.no_score_reason or "") and "--benchmark" in (result.no_score_reason or "")


def test_too_fast_official_set_has_a_mean_and_no_score() -> None:
    benchmark = load_benchmark("dlrm_dcnv2")
    runs = [read_run_result(to_log(run), benchmark) for run in make_runs(benchmark, ours=False, num_evals=10)]
    result = score_runs(runs, benchmark, "6.0")
    assert result.olympic_mean_s is not None
    assert (result.score_s, result.rcp_outcome, result.rcp_factor) == (None, "failed", None)
    assert "faster than the reference" in (result.no_score_reason or "")
