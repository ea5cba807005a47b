"""Columns of the user's own: what a model learns of them beyond a simple one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from click_files import make_ads, make_ratings

from harness.config.catalog import load_entry
from harness.extensions.calibration.runs import CalibrationRun, train_epoch
from reference_models.data.registry import locate_dataset

Make = Callable[[int], pd.DataFrame]
Call = Callable[..., tuple[int, str, str]]


@pytest.mark.long
@pytest.mark.parametrize("make", [make_ratings, make_ads])
def test_dlrm_beats_logistic_regression_on_the_same_ids_with_every_seed(
    command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    monkeypatch.chdir(tmp_path)
    make(100_000).to_csv("a.csv", index=False)
    begun, prepared = ("init", "mine.toml", "--from-columns"), ("data", "prepare", "mine.toml", "--train")
    for words in ((*begun, "a.csv"), (*prepared, "a.csv")):
        code, _, err = command(*words)
        assert code == 0, err
    entry = load_entry("mine.toml")
    folder = locate_dataset(entry.workload.data, None)
    train = entry.workload.train

    def best(model: str, seed: int, rate: float) -> float:
        run = CalibrationRun(
            model=model, global_batch_size=train.global_batch_size, opt_base_learning_rate=rate, seed=seed
        )
        return train_epoch(replace(entry), folder, run).best_quality

    rate = train.opt_base_learning_rate
    for seed in range(5):
        baseline = max(best("logistic_regression", seed, factor * rate) for factor in (0.5, 1, 2))
        assert best("reference", seed, rate) > baseline
