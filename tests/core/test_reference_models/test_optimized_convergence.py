"""From the same seeds, the optimized implementation needs as many samples to converge as the reference."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from harness.config.catalog import load_entry
from harness.measure.run_log import make_schedule
from harness.run_sets.dataset import ensure_dataset
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation

pytestmark = pytest.mark.numeric

NUM_SEEDS = 60


def samples_to_converge(data_root: Path, implementation: str, seed: int) -> float:
    """Of dlrm_tiny, between the two evaluations around the target in proportion to their quality; inf without."""
    entry = load_entry("dlrm_tiny")
    folder = ensure_dataset(entry.workload.data, data_root, num_threads=1)
    workload = find_implementation("dlrm", implementation).load(entry.workload.spec(folder, seed), SingleProcess())
    workload.build()
    before, target = 0.5, entry.benchmark.quality.target
    for block in make_schedule(entry.benchmark, workload.train_samples, workload.global_batch_size):
        workload.train(block.num_steps)
        quality = workload.evaluate()
        if quality >= target:
            missing = (quality - target) / (quality - before)
            return block.last_sample - missing * (block.last_sample - block.first_sample)
        before = quality
    return math.inf


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pairs_end_within_one_evaluation_of_one_another(data_root: Path, seed: int) -> None:
    evaluation = load_entry("dlrm_tiny").workload.data.train_samples or 0
    ours, theirs = (samples_to_converge(data_root, name, seed) for name in ("optimized", "reference"))
    assert math.isfinite(ours)
    assert abs(ours - theirs) <= evaluation / 20


@pytest.mark.long
def test_samples_to_converge_agree_over_many_seeds(data_root: Path) -> None:
    """The 90 % interval of the mean log ratio is within 3 %."""
    ratios = [
        math.log(
            samples_to_converge(data_root, "optimized", seed) / samples_to_converge(data_root, "reference", seed)
        )
        for seed in range(1000, 1000 + NUM_SEEDS)
    ]
    low, high = stats.t.interval(0.9, NUM_SEEDS - 1, loc=np.mean(ratios), scale=stats.sem(ratios))
    assert math.log(0.97) < low < high < math.log(1.03), (low, high)
