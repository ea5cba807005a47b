"""Calibration: runs are kept, tables say what the runs showed, conditions hold exactly when they do."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from calibration_builder import calibration_of, crossing_at, result
from small_entry import small_entry

from harness.cli import main
from harness.config.catalog import Entry, load_entry
from harness.extensions.calibration.calibrate import (
    calibrate,
    count_runs,
    plan_calibration,
    write_calibration,
)
from harness.extensions.calibration.runs import (
    REFERENCE,
    RUNS_FILE,
    CalibrationResult,
    CalibrationRun,
    RunStore,
    complete_runs,
    problem_digest,
    steps_to_evaluations,
    train_epoch,
)
from harness.extensions.calibration.table import (
    MAX_VARIATION,
    MIN_MARGIN,
    MIN_SEEDS,
    calibration_blocks,
    propose_target,
    reference_convergence_points,
    summarise_batch_size,
    tuned_learning_rate,
)
from harness.foundation.errors import HarnessError
from harness.run_sets.dataset import ensure_dataset
from harness.system.code import code_sha256
from reference_models.dlrm.spec import SPEC
from reports.render.markdown import render_markdown
from rules.benchmarks.loader import FirstEval
from rules.errors import DefinitionError
from rules.records.calibration import BaselineSummary, CalibrationRecord
from rules.records.codec import decode


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    return small_entry(tmp_path_factory.mktemp("definition"))


@pytest.fixture(scope="module")
def data_dir(mine: Entry, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_dataset(mine.workload.data, tmp_path_factory.mktemp("data"), num_threads=1)


def verdicts(calibration: CalibrationRecord) -> dict[str, bool | None]:
    return {condition.letter: condition.holds for condition in calibration.conditions}


def spread_over(entry: Entry, indices: tuple[int, ...], num_seeds: int = MIN_SEEDS) -> list[CalibrationResult]:
    """Results of seeds that meet the target at the indices in turn."""
    target = entry.benchmark.quality.target
    return [crossing_at(indices[seed % len(indices)], target, seed=seed) for seed in range(num_seeds)]


# runs


@pytest.mark.slow
@pytest.mark.parametrize("model", [REFERENCE, *SPEC.baselines])
def test_an_epoch_of_each_model_has_one_quality_per_evaluation(mine: Entry, data_dir: Path, model: str) -> None:
    run = CalibrationRun(model=model, global_batch_size=64, opt_base_learning_rate=0.05, seed=3)
    trained = train_epoch(mine, data_dir, run)
    assert trained.run == run
    assert trained.samples_counts == tuple(256 * (i + 1) for i in range(20))
    assert len(trained.qualities) == 20
    assert all(0.3 < quality < 1 for quality in trained.qualities)
    assert trained.qualities[-1] > 0.53
    assert trained.qualities == train_epoch(mine, data_dir, run).qualities
    assert trained.code_sha256 == code_sha256()


def told(entry: Entry, **changes: Any) -> Entry:
    """The entry with another [quality]."""
    benchmark = entry.benchmark
    return replace(entry, benchmark=replace(benchmark, stated_quality=replace(benchmark.quality, **changes)))


LATE = FirstEval(slope=4, offset=3700, divisor=3)
"""At batch size 64: not before 1318 samples, which is the sixth evaluation of twenty."""


def test_evaluations_begin_where_first_eval_says(mine: Entry, data_dir: Path) -> None:
    late = told(mine, first_eval=LATE)
    assert steps_to_evaluations(mine.benchmark, 5120, 64) == [4] * 20
    assert steps_to_evaluations(late.benchmark, 5120, 64) == [24] + [4] * 14
    assert steps_to_evaluations(told(mine, interval_rounding="up").benchmark, 5130, 64) == [5] * 16
    run = CalibrationRun(model="dense_only", global_batch_size=64, opt_base_learning_rate=0.05, seed=3)
    always, trained = train_epoch(mine, data_dir, run), train_epoch(late, data_dir, run)
    assert trained.samples_counts == always.samples_counts[5:]
    assert trained.qualities == always.qualities[5:]
    easy = told(late, target=0.01).benchmark
    assert trained.epochs_to_converge(easy) == 0.3 == always.epochs_at(5, 20)


def test_divergence_ends_an_epoch_and_reaches_nothing(mine: Entry, data_dir: Path) -> None:
    run = CalibrationRun(model=REFERENCE, global_batch_size=64, opt_base_learning_rate=1e30, seed=3)
    diverged = train_epoch(mine, data_dir, run)
    assert len(diverged.qualities) < 20
    assert diverged.epochs_to_converge(mine.benchmark) is None


@pytest.mark.slow
def test_finished_runs_are_kept_and_not_repeated(mine: Entry, data_dir: Path, tmp_path: Path) -> None:
    runs = [
        CalibrationRun(model="dense_only", global_batch_size=64, opt_base_learning_rate=0.05, seed=seed)
        for seed in (1, 2)
    ]
    seen: list[tuple[int, int]] = []

    def note(done: CalibrationResult, left: int) -> None:
        seen.append((done.run.seed, left))

    store = RunStore(tmp_path, "digest")
    first = complete_runs(mine, data_dir, runs[:1], store, num_workers=1, on_result=note)
    again = RunStore(tmp_path, "digest")
    both = complete_runs(mine, data_dir, [*runs, runs[0]], again, num_workers=1, on_result=note)
    assert seen == [(1, 0), (2, 0)]
    assert both == [first[0], both[1], first[0]]
    assert [json.loads(line)["run"]["seed"] for line in (tmp_path / RUNS_FILE).read_text().splitlines()] == [1, 2]
    assert RunStore(tmp_path, "another problem").get(runs[0]) is None


def test_a_line_cut_short_is_dropped_and_what_follows_is_readable(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "digest")
    kept, lost, later = result((0.6, 0.7), seed=1), result((0.6, 0.8), seed=2), result((0.5,), seed=3)
    store.add(kept)
    store.add(lost)
    path = tmp_path / RUNS_FILE
    path.write_bytes(path.read_bytes()[:-20])
    reopened = RunStore(tmp_path, "digest")
    assert reopened.get(kept.run) == kept
    assert reopened.get(lost.run) is None
    reopened.add(later)
    assert RunStore(tmp_path, "digest").get(later.run) == later


@pytest.mark.parametrize("line", ["{}", "[]", "5", "nonsense", '{"run": 3}', '{"run": {}, "problem": "x"}'])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    RunStore(tmp_path, "digest").add(result((0.6,)))
    path = tmp_path / RUNS_FILE
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(HarnessError, match=r"runs.jsonl:2: not a calibration run"):
        RunStore(tmp_path, "digest")


def test_the_target_is_not_part_of_the_problem_and_the_teacher_is(mine: Entry) -> None:
    benchmark = mine.benchmark
    moved = replace(mine, benchmark=replace(benchmark, stated_quality=replace(benchmark.quality, target=0.6)))
    parameters = {**benchmark.sections["data"]["parameters"], "bias": -3.0}
    sections = {**benchmark.sections, "data": {**benchmark.sections["data"], "parameters": parameters}}
    other = replace(mine, benchmark=replace(benchmark, sections=sections))
    assert problem_digest(moved) == problem_digest(mine)
    assert problem_digest(other) != problem_digest(mine)


# tables


def test_epochs_to_converge_lie_on_the_grid_of_evaluations(mine: Entry) -> None:
    target = mine.benchmark.quality.target
    assert crossing_at(0, target).epochs_to_converge(mine.benchmark) == 0.05
    assert crossing_at(13, target).epochs_to_converge(mine.benchmark) == 0.7
    assert result((target - 0.001,) * 20).epochs_to_converge(mine.benchmark) is None
    assert result((target,)).epochs_to_converge(mine.benchmark) == 0.05


def test_the_tuned_rate_converges_first_and_always(mine: Entry) -> None:
    target = mine.benchmark.quality.target
    never = result((0.6,) * 20, rate=0.9, seed=2)
    results = [crossing_at(3, target, rate=0.9), never, crossing_at(12, target, rate=0.1)]
    results += [crossing_at(8, target, rate=0.2), crossing_at(8, target, rate=0.2, seed=2)]
    assert tuned_learning_rate(mine.benchmark, results) == 0.2


def test_conditions_hold_for_a_good_target(mine: Entry) -> None:
    calibration = calibration_of(mine, spread_over(mine, (13, 13, 14, 13)))
    assert verdicts(calibration) == dict.fromkeys("abcd", True)
    text = render_markdown(calibration_blocks(calibration))
    assert "(a) holds: 40 of 40 seeds" in text
    assert "0.713 of it on average, coefficient of variation 3.1 %" in text
    assert "| 64 | 0.1 | 40 | 40 | 0.713 | 0.70 to 0.75 | 3.1 % |" in text


@pytest.mark.parametrize(
    ("letter", "indices", "changes"),
    [
        ("a", (13, 13, 14, 20), {}),
        ("a", (8, 9), {}),
        ("a", (18, 17), {}),
        ("a", (12, 13, 14), {}),
        ("c", (13, 13, 14, 13), {"oracle_quality": 0.5}),
    ],
    ids=["one never", "too early", "too late", "too far apart", "oracle below"],
)
def test_conditions_fail_when_they_do_not_hold(
    mine: Entry, letter: str, indices: tuple[int, ...], changes: dict[str, Any]
) -> None:
    conditions = verdicts(calibration_of(mine, spread_over(mine, indices), **changes))
    assert [key for key, holds in conditions.items() if not holds] == [letter]
    assert conditions[letter] is False


def test_few_seeds_can_break_condition_a_and_not_show_it(mine: Entry) -> None:
    few = MIN_SEEDS - 1
    assert verdicts(calibration_of(mine, spread_over(mine, (13, 13, 14, 13), few)))["a"] is None
    assert verdicts(calibration_of(mine, spread_over(mine, (12, 13, 14), few)))["a"] is False


def test_without_simpler_models_or_a_teacher_nothing_is_said_of_them(mine: Entry) -> None:
    calibration = calibration_of(mine, spread_over(mine, (13,)), baselines=(), oracle_quality=None)
    assert verdicts(calibration) == {"a": True, "b": None, "c": None, "d": True}


def rising(seed: int, *, late: float = 0.0) -> CalibrationResult:
    """20 evaluations, from 0.605 to 0.7 in equal steps, each `late` below."""
    return result(tuple(0.6 + 0.005 * (index + 1) - late for index in range(20)), seed=seed)


WEAK = BaselineSummary(model="dense_only", best_quality=0.61, opt_base_learning_rate=0.1, learning_rates=(0.1,))


def test_a_target_is_proposed_that_holds_the_conditions_nearest_the_middle(mine: Entry) -> None:
    runs = [rising(0), rising(1, late=0.003), rising(2, late=0.006)]
    proposal = propose_target(runs, 20, [WEAK], 0.8)
    assert proposal.target is not None and proposal.mean_epochs == pytest.approx(0.675, abs=0.03)
    assert proposal.coefficient_of_variation is not None and proposal.coefficient_of_variation <= MAX_VARIATION
    exact = [next(i for i, q in enumerate(run.qualities) if q >= proposal.target) + 1 for run in runs]
    assert proposal.mean_epochs == pytest.approx(sum(exact) / 60)
    text = render_markdown(calibration_blocks(calibration_of(mine, runs, proposal=proposal)))
    assert f"A target of {proposal.target:g} would be met at" in text
    assert "Demanded: every seed of at least 40, within one epoch, at 0.50 to 0.85 of it on average" in text
    assert "Demanded: at least 0.01 below the best reachable quality" in text


@pytest.mark.parametrize(
    ("runs", "best", "oracle"),
    [
        ([rising(0), rising(1, late=0.05)], 0.61, 0.8),
        ([rising(0), rising(1, late=0.006)], 0.685, 0.8),
        ([rising(0), rising(1, late=0.006)], 0.61, 0.64),
        ([rising(0), result((), seed=1)], 0.61, None),
    ],
    ids=["seeds far apart", "simpler models as good", "oracle low", "a seed diverged"],
)
def test_where_no_target_does_it_is_said_why(
    runs: list[CalibrationResult], best: float, oracle: float | None
) -> None:
    proposal = propose_target(runs, 20, [msgspec.structs.replace(WEAK, best_quality=best)], oracle)
    assert proposal.target is None
    assert proposal.reason.startswith(f"No target does: simpler models reach {best:.4f}")


def test_what_is_left_counts_all_parts(mine: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(entry: Entry, data_dir: Path, runs: list[CalibrationRun], *args: Any, **options: Any) -> Any:
        for number, run in enumerate(runs):
            options["on_result"](replace(rising(run.seed), run=run), len(runs) - number - 1)
        return [replace(rising(run.seed), run=run) for run in runs]

    monkeypatch.setattr("harness.extensions.calibration.calibrate.complete_runs", complete)
    monkeypatch.setattr("harness.extensions.calibration.calibrate.measure_oracle", lambda entry: 0.9)
    assert count_runs(mine, plan_calibration(mine)) == 3 * 5 * 2 + 20 + 60 + 20 + 3 * 6
    plan = plan_calibration(mine, num_runs=3, num_confirming_runs=5, num_workers=1)
    left: list[int] = []
    store = RunStore(tmp_path, problem_digest(mine))
    calibration = calibrate(mine, tmp_path, plan, store, on_result=lambda part, result, number: left.append(number))
    assert left == list(range(count_runs(mine, plan)))[::-1]
    of_sizes = {summary.global_batch_size: summary.seeds for summary in calibration.batch_sizes}
    assert {size: len(seeds) for size, seeds in of_sizes.items()} == {32: 3, 64: 5, 128: 3}
    assert of_sizes[64][:3] == of_sizes[32] == of_sizes[128]
    assert not set(of_sizes[64]) & set(calibration.tuning_seeds)


def test_another_base_seed_gives_other_seeds(mine: Entry) -> None:
    first, second = plan_calibration(mine), plan_calibration(mine, base_seed=1)
    assert not set(first.seeds(is_default=True)) & set(second.seeds(is_default=True))
    assert len(first.seeds(is_default=True)) == 60 and len(first.seeds(is_default=False)) == 20


def test_an_interrupted_calibration_names_the_command_that_goes_on(
    tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.extensions.calibration.calibrate.calibrate", interrupt)
    arguments = ["calibrate", "dlrm_tiny", "-o", str(tmp_path / "out"), "--data", str(data_root)]
    monkeypatch.setattr("sys.argv", ["dlrmbench", *arguments])
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    err = capsys.readouterr().err
    assert leaving.value.code == 130
    assert f"kept in {tmp_path / 'out' / 'runs.jsonl'}. Go on with the same command: dlrmbench calibrate" in err
    entry = load_entry("dlrm_tiny")
    assert f"at most {count_runs(entry, plan_calibration(entry))} epochs to train" in err


def test_a_baseline_near_the_target_breaks_condition_b(mine: Entry) -> None:
    target = mine.benchmark.quality.target
    results = spread_over(mine, (13, 14))
    for best, holds in ((target, False), (target - 0.9 * MIN_MARGIN, False), (target - MIN_MARGIN, True)):
        baseline = BaselineSummary(
            model="frozen_embeddings", best_quality=best, opt_base_learning_rate=1.0, learning_rates=(1.0,)
        )
        assert verdicts(calibration_of(mine, results, baselines=(baseline,)))["b"] is holds


def test_evaluations_of_a_sixth_break_condition_d(mine: Entry) -> None:
    results = [replace(result, train_s=5.0, eval_s=1.0) for result in spread_over(mine, (13, 14))]
    assert verdicts(calibration_of(mine, results))["d"] is False


def test_points_have_mlperf_loggings_form_and_only_where_every_seed_converged(mine: Entry) -> None:
    target = mine.benchmark.quality.target
    good = summarise_batch_size(mine.benchmark, [crossing_at(i, target, seed=i) for i in (12, 13, 14)])
    bad = summarise_batch_size(mine.benchmark, [crossing_at(i, target, seed=i, size=128) for i in (12, 20)])
    calibration = calibration_of(mine, [crossing_at(1, target)], batch_sizes=(good, bad), num_reference_runs=2)
    points = reference_convergence_points(mine.benchmark, calibration)
    assert list(points) == ["mine_ref_64"]
    point = points["mine_ref_64"]
    assert point["Epochs to converge"] == [0.65, 0.7]
    assert point["Seeds"] == [12, 13]
    assert (point["BS"], point["Benchmark"], point["Precision"]) == (64, "mine", "FP32")
    assert (point["When"], point["Platform"]) == ("2026-01-02", "this")
    assert point["Hyperparams"]["opt_base_learning_rate"] == 0.1
    assert point["Hyperparams"]["opt_name"] == "adagrad"


def test_points_are_samples_where_convergence_is_told_in_samples(mine: Entry) -> None:
    in_samples = told(mine, convergence_unit="samples_count")
    target = mine.benchmark.quality.target
    calibration = calibration_of(in_samples, [crossing_at(i, target, seed=i) for i in (12, 13)])
    (point,) = reference_convergence_points(in_samples.benchmark, calibration).values()
    assert point["Epochs to converge"] == [13 * 256, 14 * 256]
    assert all(type(samples) is int for samples in point["Epochs to converge"])
    assert calibration.default.converged == (0.65, 0.7)


def test_points_in_samples_need_to_know_an_epochs_samples(mine: Entry) -> None:
    in_samples = told(mine, convergence_unit="samples_count")
    sections = {**mine.benchmark.sections, "data": {"kind": "criteo"}}
    unknown = replace(in_samples, benchmark=replace(in_samples.benchmark, sections=sections, closed={}))
    with pytest.raises(DefinitionError, match=r"told in samples, and data\.train_samples is not given"):
        plan_calibration(unknown)
    assert plan_calibration(told(unknown, convergence_unit="epoch_num"))


@pytest.mark.long
def test_a_whole_calibration(mine: Entry, data_dir: Path, tmp_path: Path) -> None:
    plan = plan_calibration(
        mine, learning_rates=[0.05], num_runs=2, num_confirming_runs=3, num_tuning_runs=1, num_workers=1
    )
    assert plan.batch_sizes == (32, 64, 128)
    calibration = calibrate(mine, data_dir, plan, RunStore(tmp_path, problem_digest(mine)))
    assert [len(s.seeds) for s in calibration.batch_sizes] == [2, 3, 2]
    assert [baseline.model for baseline in calibration.baselines] == list(SPEC.baselines)
    assert calibration.oracle_quality is not None
    paths = write_calibration(tmp_path, mine, calibration)
    assert [path.name for path in paths] == ["calibration.md", "mine.calibration.json", "mine.rcps.json"]
    assert decode(paths[1], CalibrationRecord) == calibration
    assert calibration.code_sha256 == (code_sha256(),)
