"""From the same seeds, two ranks need as many samples to converge as one."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from places import TESTS
from ranks_builder import needs_torchrec
from scipy import stats
from waiting import HANG_S

from harness.config.catalog import load_entry
from harness.measure.run_log import make_schedule
from harness.run_sets.dataset import ensure_dataset

pytestmark = [pytest.mark.numeric, needs_torchrec]
NUM_SEEDS = 60
Course = list[tuple[int, float]]
"""Samples trained and quality, at every evaluation of a run up to the one that met the target."""


def train_pairs(seeds: range, data_root: Path, folder: Path) -> list[tuple[Course, Course]]:
    """Each seed's run on one rank and on two: one launch per world, side by side, for all seeds."""
    data_dir = ensure_dataset(load_entry("dlrm_tiny").workload.data, data_root, num_threads=1)
    case = folder / "case.json"
    case.write_text(json.dumps({"data_dir": str(data_dir), "seeds": list(seeds)}))
    script = TESTS / "builders" / "torchrec_convergence.py"
    launches = []
    for num_ranks in (1, 2):
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
        arguments = [str(script), str(case), str(folder / f"{num_ranks}.json")]
        launches.append(
            subprocess.Popen(
                [sys.executable, *launcher, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        )
    for launch in launches:
        _, stderr = launch.communicate(timeout=HANG_S * (1 + len(seeds)))
        assert launch.returncode == 0, stderr.decode()[-4000:]
    courses = [json.loads((folder / f"{num_ranks}.json").read_text()) for num_ranks in (1, 2)]
    return list(zip(*courses, strict=True))


def samples_to_converge(course: Course) -> float:
    """Between the two evaluations around the target, in proportion to their quality; inf without."""
    target = load_entry("dlrm_tiny").benchmark.quality.target
    (before, low), (after, high) = (course[-2] if len(course) > 1 else (0, 0.5)), course[-1]
    return after - (high - target) / (high - low) * (after - before) if high >= target else math.inf


@pytest.mark.long
def test_pairs_end_within_one_evaluation_of_one_another(data_root: Path, tmp_path: Path) -> None:
    entry = load_entry("dlrm_tiny")
    train, batch_size = entry.workload.data.train_samples or 0, entry.workload.train.global_batch_size
    apart = make_schedule(entry.benchmark, train, batch_size)[0].last_sample
    for one, two in train_pairs(range(1, 4), data_root, tmp_path):
        assert math.isfinite(samples_to_converge(one))
        assert math.isfinite(samples_to_converge(two))
        assert abs(one[-1][0] - two[-1][0]) <= apart


@pytest.mark.long
def test_samples_to_converge_agree_over_many_seeds(data_root: Path, tmp_path: Path) -> None:
    """The 90 % interval of the mean log ratio is within 3 %."""
    pairs = train_pairs(range(1000, 1000 + NUM_SEEDS), data_root, tmp_path)
    ratios = [math.log(samples_to_converge(two) / samples_to_converge(one)) for one, two in pairs]
    low, high = stats.t.interval(0.9, NUM_SEEDS - 1, loc=np.mean(ratios), scale=stats.sem(ratios))
    assert math.log(0.97) < low < high < math.log(1.03), (low, high)
