"""The shipped reference convergence points and calibrations belong to their definitions and hold what is demanded."""

import json
import math
import statistics
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from calibration_builder import calibration_of, crossing_at

from harness.config.catalog import load_entry
from harness.extensions.calibration.table import (
    MAX_EVAL_SHARE,
    MAX_VARIATION,
    MEAN_EPOCHS,
    MIN_MARGIN,
    judge_conditions,
    reference_convergence_points,
)
from reference_models.registry import find_model
from rules.benchmarks.loader import Benchmark, load_benchmark, shipped_names
from rules.benchmarks.seeds import reserved_seeds
from rules.records.calibration import CalibrationRecord
from rules.records.codec import decode

CALIBRATED = ("dlrm_tiny", "dlrm_small", "dlrm_dcnv2_small", "wukong_small", "d2nn_small", "dlrmv4_small")
NUM_SEEDS = {"wukong_small": 40, "d2nn_small": 40, "dlrmv4_small": 40}
"""By which a benchmark is confirmed; 60 where it is not listed."""
FOLDER = load_benchmark("dlrm_tiny").path.parent


@pytest.mark.parametrize("name", CALIBRATED)
def test_shipped_points_belong_to_their_definition(name: str) -> None:
    assert name in shipped_names()
    entry = load_entry(name)
    points = json.loads((FOLDER / f"{name}.rcps.json").read_text())
    train = entry.benchmark.sections["train"]
    own = points[f"{name}_ref_{train['global_batch_size']}"]
    assert own["Hyperparams"]["opt_base_learning_rate"] == train["opt_base_learning_rate"]
    for key, point in points.items():
        assert key == f"{name}_ref_{point['BS']}"
        assert point["Benchmark"] == name
        assert len(point["Epochs to converge"]) == len(point["Seeds"]) == len(set(point["Seeds"]))
        assert len(point["Seeds"]) >= 2 * entry.benchmark.score.num_runs
        assert set(point["Seeds"]) <= reserved_seeds(name)
        assert all(entry.benchmark.closed[k].allows(v) for k, v in point["Hyperparams"].items())
        in_samples = entry.benchmark.quality.convergence_unit == "samples_count"
        an_epoch = (entry.benchmark.data_samples("train_samples") or 0) if in_samples else 1
        for epochs in (amount / an_epoch for amount in point["Epochs to converge"]):
            assert 0 < epochs <= 1
            assert math.isclose(epochs * 20, round(epochs * 20))


def check_table(
    table: CalibrationRecord, benchmark: Benchmark, points: dict[str, Any], reserved: frozenset[int]
) -> None:
    """Assert that a table holds what is asked of the calibration of a shipped benchmark, by its own numbers."""
    assert (table.benchmark, table.version) == (benchmark.name, benchmark.version)
    assert table.is_calibrated and all(point.get("Calibrated", True) for point in points.values())
    assert (table.definition_sha256, table.target) == (benchmark.definition_sha256, benchmark.quality.target)
    train, default = benchmark.sections["train"], table.default
    assert default.global_batch_size == train["global_batch_size"]
    assert default.opt_base_learning_rate == train["opt_base_learning_rate"]
    assert len(default.seeds) == len(set(default.seeds)) == len(default.converged)
    assert len(default.seeds) == NUM_SEEDS.get(benchmark.name, 60)
    assert all(0 < epochs <= 1 for epochs in default.converged)
    mean = statistics.fmean(default.converged)
    assert MEAN_EPOCHS[0] <= mean <= MEAN_EPOCHS[1]
    assert statistics.stdev(default.converged) <= MAX_VARIATION * mean
    assert {baseline.model for baseline in table.baselines} == set(find_model(benchmark.model).baselines)
    assert all(baseline.best_quality <= table.target - MIN_MARGIN for baseline in table.baselines)
    assert table.oracle_quality is not None and table.oracle_quality >= table.target + MIN_MARGIN
    assert default.eval_share is not None
    assert default.eval_share < MAX_EVAL_SHARE
    judged = judge_conditions(table.target, default, table.baselines, table.oracle_quality)
    assert table.conditions == judged
    assert all(condition.holds for condition in judged)
    assert None not in table.code_sha256
    for summary in table.batch_sizes:
        assert not set(summary.seeds) & set(table.tuning_seeds)
        assert set(summary.seeds) <= reserved
    assert points == reference_convergence_points(benchmark, table)
    assert all(len(point["Seeds"]) == 20 for point in points.values())


def test_shipped_tables_hold_their_conditions() -> None:
    confirmed = [name for name in CALIBRATED if load_benchmark(name).version > 1 or name in NUM_SEEDS]
    tables = {path.name.partition(".")[0]: path for path in FOLDER.glob("*.calibration.json") if not is_of_bf16(path)}
    assert set(tables) == set(confirmed)
    for name in confirmed:
        table = decode(tables[name], CalibrationRecord)
        assert isinstance(table, CalibrationRecord), table
        points = json.loads((FOLDER / f"{name}.rcps.json").read_text())
        check_table(table, load_benchmark(name), points, reserved_seeds(name))


def is_of_bf16(path: Path) -> bool:
    return path.name.endswith(".bf16.calibration.json")


def test_shipped_tables_in_bf16_are_of_twenty_seeds_that_meet_the_target_of_the_definition() -> None:
    names = sorted(path.name.partition(".")[0] for path in filter(is_of_bf16, FOLDER.iterdir()))
    assert names == ["dlrm_dcnv2_small", "dlrm_small"]
    for name in names:
        table, benchmark = decode(FOLDER / f"{name}.bf16.calibration.json", CalibrationRecord), load_benchmark(name)
        assert isinstance(table, CalibrationRecord), table
        assert (table.definition_sha256, table.precision) == (benchmark.definition_sha256, "bf16")
        train = benchmark.sections["train"]
        size, rate = train["global_batch_size"], train["opt_base_learning_rate"]
        assert len(set(table.default.seeds)) == 20 and set(table.default.seeds) <= reserved_seeds(name)
        assert table.is_met("bf16", size, rate)


SEEDS = tuple(range(5000, 5060))


def good_table(name: str) -> tuple[CalibrationRecord, dict[str, Any]]:
    """A table of a shipped benchmark as a good calibration would give it, and its points."""
    entry = load_entry(name)
    train = entry.benchmark.sections["train"]
    size, rate = train["global_batch_size"], train["opt_base_learning_rate"]
    target = entry.benchmark.quality.target
    runs = [crossing_at(13 + i % 2, target, seed=seed, size=size, rate=rate) for i, seed in enumerate(SEEDS)]
    made = {"num_reference_runs": 20, "default_batch_size": size, "code_sha256": ("0" * 64,)}
    table = calibration_of(entry, runs, version=entry.benchmark.version, **made)
    return table, reference_convergence_points(entry.benchmark, table)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"version": 7},
        {"definition_sha256": "0" * 64},
        {"target": 0.7},
        {"code_sha256": (None,)},
        {"baselines": ()},
        {"oracle_quality": None},
        {"conditions": ()},
        {"tuning_seeds": SEEDS[:1]},
        {"num_reference_runs": 19},
        {"default": {"seeds": tuple(range(60))}},
        {"default": {"seeds": SEEDS[:1] * 60}},
        {"default": {"eval_share": 0.2}},
        {"default": {"epochs_to_converge": (0.7,) * 59 + (None,)}},
        {"default": {"epochs_to_converge": (0.6, 0.8) * 30}},
        {"default": {"opt_base_learning_rate": 0.001}},
    ],
)
def test_a_table_that_shows_less_is_refused(changes: dict[str, Any]) -> None:
    table, points = good_table("dlrm_tiny")
    if "default" in changes:
        changes = {"batch_sizes": (msgspec.structs.replace(table.default, **changes["default"]),)}
    changed = msgspec.structs.replace(table, **changes)
    with pytest.raises(AssertionError) if changes else nullcontext():
        check_table(changed, load_benchmark("dlrm_tiny"), points, frozenset(SEEDS))
