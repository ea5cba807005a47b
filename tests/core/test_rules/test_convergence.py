"""Reference convergence points: the rules' worked example, and the official tool as oracle."""

import json
from pathlib import Path

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from log_builder import make_runs

from rules.benchmarks.loader import Benchmark, load_benchmark, shipped_names
from rules.errors import DefinitionError
from rules.scoring.rcp import (
    IMPOSSIBLE,
    Convergence,
    ReferencePoint,
    chance_of,
    interpolate,
    judge_convergence,
    judge_epochs,
    load_points,
    make_reference_point,
    min_acceptable_mean,
    olympic,
    prune,
    rcp_file,
)

# training_rules.adoc, "Appendix: RCP Examples": benchmark A, 5 runs
BATCH_128 = [16, 14, 16, 17, 16, 16, 15, 16, 15, 16]
BATCH_256 = [20, 21, 21, 20, 22, 22, 21, 21, 20, 20]


def example_point(batch_size: int, epochs: list[int]) -> ReferencePoint:
    """As in the example, whose deviation leaves out the fastest and slowest run (the tool's keeps them)."""
    kept = sorted(epochs)[1:-1]
    mean, stdev = float(np.mean(kept)), float(np.std(kept))
    return ReferencePoint(
        name=f"A_{batch_size}",
        global_batch_size=batch_size,
        mean=mean,
        stdev=stdev,
        min_epochs=min_acceptable_mean(mean, stdev, len(kept), 5),
        num_runs=len(epochs),
    )


POINTS = (example_point(128, BATCH_128), example_point(256, BATCH_256))


def test_limits_are_those_of_the_worked_example() -> None:
    small, large = POINTS
    assert (small.mean, round(small.stdev, 2)) == (15.75, 0.43)
    assert (large.mean, round(large.stdev, 2)) == (20.75, 0.66)
    assert small.min_epochs == pytest.approx(15.21, abs=0.005)
    assert large.min_epochs == pytest.approx(19.93, abs=0.005)
    assert small.max_speedup == pytest.approx(1.0353, abs=5e-5)
    assert large.max_speedup == pytest.approx(1.0412, abs=5e-5)


@pytest.mark.parametrize(
    ("batch_size", "epochs", "status"),
    [
        (128, [15, 15, 15, 16, 16], "passed"),  # S1
        (256, [19, 19, 19, 20, 21], "failed"),  # S2
        (192, [17, 18, 18, 18, 20], "passed"),  # S3
        (512, [22, 22, 22, 22, 22], "missing"),  # S4
        (64, [16, 16, 16, 16, 16], "passed"),  # S5
        (64, [14, 14, 14, 14, 14], "missing"),  # S6
    ],
)
def test_submissions_of_the_worked_example(batch_size: int, epochs: list[float], status: str) -> None:
    assert judge_epochs(batch_size, epochs, POINTS, 5).status == status


def test_interpolated_point_of_the_worked_example() -> None:
    point = interpolate(192, *POINTS, 5)
    assert point.mean == 18.25
    assert point.stdev == pytest.approx(0.547, abs=5e-4)
    assert point.max_speedup == pytest.approx(1.0368, abs=5e-5)


def test_two_runs_that_did_not_converge_fail() -> None:
    found = judge_epochs(128, [16, 16, 16, None, None], POINTS, 5)
    assert (found.status, found.factor) == ("failed", 1.0)


def test_one_run_that_did_not_converge_is_dropped() -> None:
    found = judge_epochs(128, [15.5, 15.5, 15.5, 15.5, None], POINTS, 5)
    assert found.status == "passed"
    assert found.factor == pytest.approx(15.75 / 15.5)


def test_slower_than_the_reference_is_not_normalised() -> None:
    assert judge_epochs(128, [17, 17, 17, 17, 17], POINTS, 5).factor == 1.0


@pytest.mark.parametrize("epochs", [[0.0] * 5, [-1.0] * 5])
def test_impossible_epochs_fail(epochs: list[float]) -> None:
    assert judge_epochs(128, epochs, POINTS, 5).status == "failed"


def test_published_table_of_reference_points() -> None:
    """The statistics of the wheel's points, and which are kept: 135168 until 5.0, pruned by 160000 from 5.1 on."""
    benchmark = load_benchmark("dlrm_dcnv2")
    file = rcp_file(benchmark, "6.0")
    assert file is not None
    table = {
        point.global_batch_size: (round(point.mean, 5), round(point.stdev, 5), round(point.max_speedup, 5))
        for point in load_points(file, 10)
    }
    assert table == {
        32768: (0.70714, 0.02134, 1.02087),
        55296: (0.76146, 0.05178, 1.0455),
        65536: (0.79107, 0.06155, 1.05574),
        102400: (0.89062, 0.03606, 1.02653),
        135168: (0.92791, 0.03524, 1.0239),
        160000: (0.95833, 0.03631, 1.02834),
    }
    for round_name, kept in (("5.0", [32768, 55296, 135168]), ("5.1", [32768, 55296, 160000])):
        file = rcp_file(benchmark, round_name)
        assert file is not None
        assert [point.global_batch_size for point in prune(load_points(file, 10), 10)] == kept


def test_point_that_a_later_round_prunes_changes_the_factor_and_is_named() -> None:
    """The same runs at batch size 135168: normalised in 5.0 by their own point; from 5.1 on a point at 160000 prunes
    it, what is between is lower, and nothing is normalised (as published: 0.7728 and 0.7697 minutes)."""
    benchmark = load_benchmark("dlrm_dcnv2")
    epochs = [0.924] * 8 + [0.925] * 2
    before, after = (judge_convergence(benchmark, round_name, 135168, epochs) for round_name in ("5.0", "5.1"))
    assert before.status == after.status == "passed"
    assert before.factor == pytest.approx(0.7728 / 0.7697, abs=1e-4)
    assert after.factor == 1.0
    assert before.reason.startswith("mean 0.92") and "prunes" not in before.reason
    assert "point interpolated" in after.reason and "prunes the point at batch size 135168" in after.reason


def test_dlrm_has_points_from_round_1_0_on() -> None:
    benchmark = load_benchmark("dlrm")
    assert rcp_file(benchmark, "0.7") is None
    assert judge_convergence(benchmark, "0.7", 32768, [1.8] * 5).status == "none"
    assert judge_convergence(benchmark, "2.1", 32768, [1.8] * 5).status == "passed"


def test_own_benchmark_is_never_normalised_and_never_interpolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {"BS": 512, "Benchmark": "dlrm_tiny", "Epochs to converge": [0.6 + 0.01 * (i % 5) for i in range(10)]}
    path = tmp_path / "dlrm_tiny.rcps.json"
    path.write_text(json.dumps({"dlrm_tiny_ref_512": record, "dlrm_tiny_ref_2048": {**record, "BS": 2048}}))
    monkeypatch.setattr("rules.scoring.rcp.rcp_file", lambda benchmark, round_name: path)
    benchmark = load_benchmark("dlrm_tiny")
    exact = judge_convergence(benchmark, None, 512, [0.61] * 5)
    assert (exact.status, exact.factor) == ("passed", 1.0)
    between = judge_convergence(benchmark, None, 1024, [0.61] * 5)
    assert between.status == "none" and "1024" in between.reason
    assert judge_convergence(benchmark, None, 512, [0.3] * 5).status == "failed"


def own_points() -> list[tuple[Benchmark, ReferencePoint, list[float]]]:
    """Every reference point of the own benchmarks, with its runs."""
    found = []
    for name in shipped_names():
        benchmark = load_benchmark(name)
        if benchmark.status == "own" and (file := rcp_file(benchmark, None)) is not None:
            runs = {entry["BS"]: entry["Epochs to converge"] for entry in json.loads(file.read_text()).values()}
            points = load_points(file, benchmark.score.num_runs)
            found += [(benchmark, point, runs[point.global_batch_size]) for point in points]
    return found


def judged(benchmark: Benchmark, point: ReferencePoint, epochs: list[float]) -> Convergence:
    return judge_convergence(benchmark, None, point.global_batch_size, epochs)


@pytest.mark.slow
@pytest.mark.parametrize(("benchmark", "point", "runs"), own_points(), ids=lambda part: getattr(part, "name", ""))
def test_luck_is_never_taken_for_impossible(benchmark: Benchmark, point: ReferencePoint, runs: list[float]) -> None:
    """Sets drawn from the reference's own runs, and the fastest of them five times over, are no error; a set that has
    learned at its first evaluation is."""
    drawn = np.random.default_rng(7)
    num_runs = benchmark.score.num_runs
    sets = [list(drawn.choice(runs, num_runs)) for _ in range(1000)]
    assert min(judged(benchmark, point, epochs).chance or 1.0 for epochs in sets) > IMPOSSIBLE
    in_samples = benchmark.quality.convergence_unit == "samples_count"
    epoch = (benchmark.data_samples("train_samples") or 0) if in_samples else 1
    first = judged(benchmark, point, [epoch / benchmark.quality.evals_per_epoch] * num_runs)
    assert first.status == "failed" and first.chance is not None and first.chance < IMPOSSIBLE


def test_runs_that_all_end_at_one_evaluation_leave_room_for_the_next() -> None:
    """Without any spread in the reference one evaluation earlier would have no chance at all."""
    point = make_reference_point("equal", 512, [0.6] * 20, 5)
    assert point.stdev == pytest.approx(0)
    assert chance_of(0.55, 5, point, 0.05) > IMPOSSIBLE > chance_of(0.5, 5, point, 0.05)


def test_luck_is_told_in_the_unit_of_the_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One evaluation earlier is luck also where evaluations lie 24,576 samples apart, not 0.05 epochs."""
    benchmark = load_benchmark("dlrmv4_small")
    samples = benchmark.data_samples("train_samples")
    assert samples is not None
    step = benchmark.steps_between_evals(samples, 2048) * 2048
    path = tmp_path / "dlrmv4_small.rcps.json"
    path.write_text(json.dumps({"point": {"BS": 2048, "Epochs to converge": [13 * step] * 20}}))
    monkeypatch.setattr("rules.scoring.rcp.rcp_file", lambda benchmark, round_name: path)
    chances = [judge_convergence(benchmark, None, 2048, [number * step] * 5).chance or 0.0 for number in (13, 12, 11)]
    assert chances[0] > chances[1] > IMPOSSIBLE > chances[2]


@pytest.mark.parametrize(("division", "severity"), [("closed", "error"), ("open", "warning")])
def test_own_set_that_luck_does_not_explain_is_an_error_in_closed(
    division: str, severity: str, tmp_path: Path
) -> None:
    from log_builder import write_set

    from rules.judge.checker import check_paths

    benchmark = load_benchmark("dlrm_tiny")
    write_set(tmp_path, benchmark, make_runs(benchmark, num_evals=2, division=division))
    (verdict,) = check_paths([tmp_path], second_opinion=False)
    (finding,) = [finding for finding in verdict.findings if finding.code == "RC101"]
    assert finding.severity == severity
    assert finding.message.endswith("luck explains it in fewer than one of 10,000 sets")


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"a": 1}', '{"a": {"BS": 1, "Epochs to converge": [1, "x", 2]}}', '{"a": {"BS": "1"}}']
)
def test_malformed_points_name_the_file(content: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.rcps.json"
    path.write_text(content)
    with pytest.raises(DefinitionError, match=r"mine\.rcps\.json"):
        load_points(path, 5)


@settings(max_examples=examples(40))
@given(
    epochs=st.lists(st.floats(0.3, 1.2), min_size=20, max_size=40),
    scale=st.floats(0.5, 1.5),
)
def test_limit_is_below_the_mean_and_scales_with_it(epochs: list[float], scale: float) -> None:
    point = make_reference_point("a", 1, epochs, 10)
    assert 0 < point.min_epochs <= point.mean
    assert point.mean == pytest.approx(olympic(epochs))


@pytest.mark.slow
def test_agrees_with_the_official_rcp_checker(tmp_path: Path) -> None:
    """Oracle: same verdict and same factor at exact, interpolated, too small and too large batch sizes."""
    from log_builder import to_log, write_set
    from mlperf_logging.rcp_checker import rcp_checker

    from rules.benchmarks.rounds import infer_round
    from rules.scoring.results import read_run_result
    from rules.scoring.scoring import score_runs

    benchmark = load_benchmark("dlrm_dcnv2")
    round_name = infer_round(benchmark, None, "5.1")
    statuses = set()
    for index, (batch_size, middle) in enumerate(
        [(55296, 14), (55296, 16), (65536, 15), (65536, 17), (16384, 17), (16384, 12), (200000, 18), (160000, 19)]
    ):
        runs = make_runs(benchmark, ours=False, num_evals=middle, global_batch_size=batch_size)
        folder = write_set(tmp_path / str(index), benchmark, runs, ours=False)
        passed, _, factor = rcp_checker.check_directory(
            f"{folder}/", "training", "5.1.0", False, False, rcp_pass="pruned_rcps"
        )
        ours = score_runs(tuple(read_run_result(to_log(run), benchmark) for run in runs), benchmark, round_name)
        assert (ours.rcp_outcome == "passed") == passed, (batch_size, middle, ours.rcp_reason)
        if passed:
            assert ours.rcp_factor == pytest.approx(factor, rel=1e-12)
        statuses.add(ours.rcp_outcome)
    assert statuses == {"passed", "failed", "missing"}
