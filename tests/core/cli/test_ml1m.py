"""Real clicks end to end: MovieLens-1M in Criteo's form and by its columns, own benchmarks, runs and verdicts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from made_sets import made_in
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


def compare_maps(folder: Path, num_samples: int, *settings: str) -> tuple[str, str]:
    """Hold a learned id map against a hash, as the page of own data says, and return that verdict and the page."""
    definition, options = folder / "mine.toml", ("--data", folder / "data")
    train, evaluation = SOURCE / "train.tsv.gz", SOURCE / "test.tsv.gz"
    names = json.dumps([f"c{number}" for number in range(1, 41)])
    columns = ("--set", f"data.parameters.names={names}", "--set", 'data.parameters.split="files"')
    dlrmbench("init", definition, "--from-columns", train, *columns)
    dlrmbench("data", "prepare", definition, "--train", train, "--eval", evaluation, *options)
    words = ("--axis", "id_map.kind=hash,learned", "-n", "5", "--seed", "1", "-q", "-o", folder / "results")
    given = [word for setting in settings for word in ("--set", setting)]
    done = dlrmbench("sweep", definition, "--quality", str(num_samples), *words, *given, *options)
    (made,) = made_in(folder / "results")
    verdict = " ".join(done.split()).partition("kind=learned: ")[2]
    return verdict, (made / "report.html").read_text(encoding="utf-8")


@pytest.mark.long
@needs_ml1m
def test_a_learned_id_map_of_own_columns_is_held_against_a_hash(tmp_path: Path) -> None:
    verdict, page = compare_maps(tmp_path, 8_192, "id_map.samples=8192")
    words = verdict.partition(":")[0]
    assert words in ("Better", "Worse", "No difference shown", "Inconclusive", "Below the smallest effect"), verdict
    assert f"kind=learned: {words}" in page, "the verdict is on the page"


@needs_ml1m
@pytest.mark.long
def test_on_real_clicks_a_learned_id_map_is_better_than_a_hash(tmp_path: Path) -> None:
    verdict, page = compare_maps(tmp_path, 131_072)
    assert verdict.startswith("Better: AUC +0.01") and "kind=learned: Better" in page


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
