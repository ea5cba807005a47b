"""Real clicks end to end: prepare MovieLens-1M in Criteo's form, train an own benchmark on it, judge the run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

SOURCE = ROOT.parent / "shared" / "data" / "ml1m"
DEFINITION = ROOT / "tests" / "benchmarks" / "ml1m.toml"

needs_ml1m = pytest.mark.skipif(
    not SOURCE.is_dir(), reason="MovieLens-1M as clicks is not here: its licence forbids shipping it"
)


def dlrmbench(*args: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *map(str, args)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def prepare(folder: Path) -> dict[str, object]:
    train, evaluation = SOURCE / "train.tsv.gz", SOURCE / "test.tsv.gz"
    dlrmbench("data", "prepare", DEFINITION, "--train", train, "--eval", evaluation, "--data", folder)
    (manifest,) = folder.glob("ml1m-*/manifest.json")
    content = json.loads(manifest.read_text())
    assert isinstance(content, dict)
    return content


@pytest.mark.slow
@needs_ml1m
def test_every_row_of_real_clicks_is_prepared(tmp_path: Path) -> None:
    manifest = prepare(tmp_path)
    assert manifest["splits"] == {"train": 665_381, "eval": 73_631}
    assert manifest["num_malformed"] == 0


@needs_ml1m
@pytest.mark.long
def test_a_users_own_benchmark_reaches_its_target_on_real_clicks(tmp_path: Path) -> None:
    prepare(tmp_path / "data")
    options = ["-n", "3", "--seed", "1", "--data", tmp_path / "data", "-o", tmp_path / "results"]
    dlrmbench("run", DEFINITION, *options, "--quiet")
    logs = sorted((tmp_path / "results").rglob("result_*.txt"))
    assert len(logs) == 3
    for log in logs:
        last = [line for line in log.read_text().splitlines() if '"eval_accuracy"' in line][-1]
        assert json.loads(last.partition(":::MLLOG ")[2])["value"] >= 0.885
    dlrmbench("check", *logs)
