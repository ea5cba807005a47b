"""Damaged sets of our own and hostile definitions, through the verbs that run: a documented exit code, never 1.

A failure names its seed: `Random(seed)` makes the set again.
"""

import shutil
from pathlib import Path
from random import Random

import pytest
from bounded_command import TooSlowError, assert_sound, bounded_memory, run_bounded
from hostile_trees import make_hostile, release
from seams import READING, reading
from sweep_builder import FastWorkers

LONG_CHUNKS = 5
MAX_LAUNCHES = 30
"""A record may ask for a billion runs; workers are out of memory then."""
VERBS = {
    "runs": (["resume", "-q"], *([verb] for verb in READING), ["profile", "-q", "-o"]),
    "sweep": (["resume", "-q"], *([verb] for verb in READING)),
    "quality": (["resume", "-q"], *([verb] for verb in READING)),
    "definition.toml": (["plan", "--no-measure"], ["show"], ["show", "--format", "json"], ["data", "verify"]),
    "config.toml": (["plan", "dlrm_tiny", "--no-measure", "-c"], ["run", "dlrm_tiny", "-q", "-n", "1", "-c"]),
}
CONFIG = """[submission]
submitter = "Example"
[runtime]
threads = 1
[train]
global_batch_size = 512
"""


@pytest.fixture
def bases(workers: FastWorkers, data_root: Path, tmp_path: Path) -> dict[str, Path]:
    """A set of runs, a sweep and a measurement of quality that lack something, a definition and a configuration."""
    folder = tmp_path / "bases"
    common = ["dlrm_tiny", "--data", str(data_root), "-q", "--seed", "5"]
    for words in (
        ["run", *common, "-n", "2", "-o", str(folder / "of_runs")],
        [
            "sweep",
            *common,
            "--throughput",
            "5",
            "--axis",
            "train.opt_base_learning_rate=0.04,0.05",
            "-o",
            str(folder / "of_sweep"),
        ],
        ["run", *common, "--quality", "5000", "-o", str(folder / "of_quality")],
    ):
        code, _, err = run_bounded(words)
        assert code in (0, 3, 4), err
    (runs,), (sweep,), (quality,) = (
        [path for path in (folder / f"of_{kind}").iterdir() if not path.is_symlink()]
        for kind in ("runs", "sweep", "quality")
    )
    next(runs.rglob("result_1.txt")).unlink()
    for path in (*sweep.glob("02*/extra/throughput_4/*.json"), *quality.glob("extra/quality_4/*.json")):
        path.unlink()
    definition, config = folder / "definition.toml", folder / "config.toml"
    shutil.copyfile(runs / "extra" / "definition.toml", definition)
    config.write_text(CONFIG)
    return {"runs": runs, "sweep": sweep, "quality": quality, definition.name: definition, config.name: config}


def use_hostile(seeds: range, bases: dict[str, Path], data_root: Path, folder: Path, workers: FastWorkers) -> None:
    workers.fail = lambda spec: len(workers.launches) > MAX_LAUNCHES
    for seed in seeds:
        random = Random(f"hostile set {seed}")
        kind = random.choice(list(bases))
        place = folder / f"case_{seed}"
        hostile = place / bases[kind].name
        harm = make_hostile(random, bases[kind], hostile)
        for verb in VERBS[kind]:
            workers.launches.clear()
            words = reading(verb[0], hostile, place / "package") if verb[0] in READING else [*verb, str(hostile)]
            if verb[0] == "data" or kind == "config.toml" or verb[0] == "plan":
                words += ["--data", str(data_root)]
            words += ["-o", str(place / "out")] if verb[0] == "run" else []
            if verb[0] == "profile":
                words += ["dlrm_tiny", "--data", str(data_root)]
            try:
                assert_sound(words, *run_bounded(words))
            except (Exception, TooSlowError) as error:
                raise AssertionError(f"seed {seed}: {words} after {harm}") from error
        release(place)
        shutil.rmtree(place)


@pytest.mark.slow
def test_some_damaged_sets_are_completed_or_refused(
    bases: dict[str, Path], data_root: Path, tmp_path: Path, workers: FastWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with bounded_memory():
        use_hostile(range(20), bases, data_root, tmp_path, workers)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(LONG_CHUNKS))
def test_many_damaged_sets_are_completed_or_refused(
    bases: dict[str, Path],
    data_root: Path,
    tmp_path: Path,
    workers: FastWorkers,
    monkeypatch: pytest.MonkeyPatch,
    chunk: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    with bounded_memory():
        use_hostile(range(1000 + 100 * chunk, 1100 + 100 * chunk), bases, data_root, tmp_path, workers)
