"""Quality after a fixed number of samples: equal samples and seeds, differences of AUC, nothing that is scored."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_sets import made_in
from past_sets import past_sets
from sweep_builder import FastWorkers

from harness.cli import cli
from harness.config.catalog import load_entry
from harness.foundation.errors import ExitCode, exit_code_of
from harness.measure.quality import QualityJob, fit_samples, train_and_evaluate
from harness.run_sets.dataset import ensure_dataset
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from reports.comparison.pairing import pair_runs
from reports.comparison.sources import read_results
from rules.benchmarks.loader import load_benchmark, read_toml
from rules.records.codec import decode
from rules.records.measured.quality import QualityRecord

Run = Callable[..., Result]
RATES = "train.opt_base_learning_rate=0.03,0.06"
RATES_APART = ("train.opt_base_learning_rate=0.03", "train.opt_base_learning_rate=0.06")


@pytest.fixture
def run(workers: FastWorkers, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A verb on dlrm_tiny, in processes that answer at once."""
    monkeypatch.chdir(tmp_path)

    def invoke(verb: str, *arguments: str) -> Result:
        words = [verb, "dlrm_tiny", "--data", str(data_root), "-q", "--seed", "5", "-o", "out", *arguments]
        return CliRunner().invoke(cli, words)

    return invoke


def only_folder(tmp_path: Path) -> Path:
    (folder,) = made_in(tmp_path / "out")
    return folder


def of_rates(slow: float, fast: float) -> Callable[[Any], float]:
    return lambda spec: fast if spec["tables"]["train"]["opt_base_learning_rate"] == 0.06 else slow


@pytest.mark.slow
def test_a_measurement_against_itself_is_refused_and_an_equal_one_is_not(run: Run, tmp_path: Path) -> None:
    for name in ("q", "like"):
        assert run("run", "--quality", "100000", "--name", name).exit_code == 0
    folder, like = (next((tmp_path / "out").glob(f"dlrm_tiny-{name}-*")) for name in ("q", "like"))
    (tmp_path / "link").symlink_to(folder)
    for new in (folder, tmp_path / "link"):
        done = CliRunner().invoke(cli, ["compare", str(folder), str(new)])
        assert "BASE and NEW are the same set. Give another set as NEW." in str(done.exception)
    done = CliRunner().invoke(cli, ["compare", str(folder), str(like)])
    assert done.exit_code == 0 and "no difference shown" in done.output


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "took_turns"), [("sweep", True), ("run", False)])
def test_measurements_took_turns_where_their_moments_say_so(
    verb: str, took_turns: bool, run: Run, tmp_path: Path
) -> None:
    """Equal seeds are no proof: two measurements of one base seed may have been made one after the other."""
    for words in [["--axis", RATES]] if verb == "sweep" else [["--set", rate] for rate in RATES_APART]:
        assert run(verb, *words, "--quality", "100000", "-n", "5").exit_code == 0
    base, new = read_results(tmp_path / "out")
    pairing = pair_runs(base.samples, new.samples)
    assert pairing.is_paired and pairing.is_interleaved is took_turns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fast", "verdict"),
    [(0.7522, "better"), (0.7478, "worse"), (0.7502, "below the smallest effect")],
)
def test_a_sweep_ends_with_a_verdict_on_the_difference(
    fast: float, verdict: str, run: Run, workers: FastWorkers, tmp_path: Path
) -> None:
    workers.auc = of_rates(0.75, fast)
    done = run("sweep", "--axis", RATES, "--quality", "100000", "-n", "5")
    assert done.exit_code == 0, done.output
    words = " ".join(done.stdout.split())
    assert f"{fast - 0.75:+.5f}".replace("-", "\N{MINUS SIGN}") in words
    # Being within the smallest effect is shown by two one-sided tests.
    shown = "90.0" if verdict == "below the smallest effect" else "95.0"
    assert f"{shown} % interval, Holm-adjusted" in words
    assert (f"{verdict.capitalize()}: AUC" in words) == (verdict in ("better", "worse"))
    assert ("Better by less than 0.001 in AUC: +0.00020" in words) == (verdict == "below the smallest effect")
    page = (only_folder(tmp_path) / "report.html").read_text(encoding="utf-8")
    assert "Sweep: quality over train.opt_base_learning_rate" in page and verdict in page
    assert not list(tmp_path.rglob("result_*.txt"))
    by_seed: dict[int, int] = {}
    for launched in workers.launches:
        by_seed[launched["seed"]] = by_seed.get(launched["seed"], 0) + 1
    assert sorted(by_seed.values()) == [2] * 5, "every configuration has every seed"


@pytest.mark.slow
def test_differences_that_vary_are_inconclusive(run: Run, workers: FastWorkers) -> None:
    varying = iter([0.75, 0.76, 0.745, 0.762, 0.751])
    workers.auc = lambda spec: next(varying) if spec["tables"]["train"]["opt_base_learning_rate"] == 0.06 else 0.75
    done = run("sweep", "--axis", RATES, "--quality", "100000", "--format", "json")
    assert done.exit_code == 0, done.output
    first, second = json.loads(done.stdout)["configurations"]
    assert (first["overall_verdict"], second["overall_verdict"]) == (None, "inconclusive")
    assert first["auc_low"] < first["auc"] < first["auc_high"]
    assert first["num_samples"] == 100_352 and first["normalised_entropy"] == pytest.approx(0.8)


@pytest.mark.slow
def test_an_axis_over_batch_sizes_trains_equal_samples(run: Run, workers: FastWorkers) -> None:
    done = run("sweep", "--axis", "train.global_batch_size=300,512,1000", "--quality", "20000")
    assert done.exit_code == 0, done.output
    (num_samples,) = {launched["num_samples"] for launched in workers.launches}
    assert num_samples >= 20000 and all(num_samples % size == 0 for size in (300, 512, 1000))


@pytest.mark.slow
def test_any_key_may_vary_where_the_data_stays(run: Run, workers: FastWorkers, tmp_path: Path) -> None:
    done = run("sweep", "--axis", "model.embedding_dim=4,8", "--quality", "1000")
    assert done.exit_code == 0, done.output
    assert [launched["tables"]["model"]["embedding_dim"] for launched in workers.launches[:2]] == [4, 8]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--quality", "100000000"), "but the training split holds"),
        (("--quality", "1000", "--throughput", "5"), "two measurements"),
        (("--quality", "1000", "--timeout", "5"), "--timeout is for runs to the target"),
        (("--quality", "1000", "-n", "4"), "at least 5 processes"),
        (("--quality", "1000", "--set", "data.num_tables=3"), "synthetic labels are coin flips"),
        (("--quality", "1000", "--set", "data.kind=made_up"), "synthetic labels are coin flips"),
        (("--quality", "1000", "--run-index", "0"), "--run-index is for runs to the target"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_written(
    arguments: tuple[str, ...], words: str, run: Run, tmp_path: Path
) -> None:
    done = run("run", *arguments)
    code = done.exit_code if done.exception is None or isinstance(done.exception, SystemExit) else None
    assert (exit_code_of(done.exception) if code is None and done.exception else code) == ExitCode.USAGE
    assert words in f"{done.output} {done.exception}"
    assert not (tmp_path / "out").exists()


def test_an_interrupted_measurement_is_resumed(run: Run, workers: FastWorkers, tmp_path: Path) -> None:
    workers.fail = lambda spec: len(workers.launches) == 3
    assert exit_code_of(run("run", "--quality", "1000").exception or OSError()) == ExitCode.RESOURCES
    workers.fail = lambda spec: False
    again = CliRunner().invoke(cli, ["resume", str(only_folder(tmp_path))])
    assert again.exit_code == 0, again.output
    assert "quality, measured; not a score" in " ".join(again.output.split())
    assert "2 of 5 processes had measured before and are kept" in again.stderr
    shown = [line for line in again.stderr.splitlines() if line.startswith("process ")]
    assert [line.split(":")[0] for line in shown] == ["process 2", "process 3", "process 4"]
    assert len(workers.launches) == 3 + 3
    record = decode(only_folder(tmp_path) / "extra" / "quality.json", QualityRecord)
    assert isinstance(record, QualityRecord) and len(record.processes) == 5
    (past,) = past_sets(tmp_path / "out")
    assert (past["kind"], past["num_done"]) == ("quality", 5)
    assert (past["quantity"], past["unit"]) == ("AUC", "auc")
    assert past["mean"] == pytest.approx(sum(one.auc for one in record.processes) / 5)


@pytest.mark.slow
def test_compare_takes_the_smallest_effect_in_the_units_of_the_kind(
    run: Run, workers: FastWorkers, tmp_path: Path
) -> None:
    workers.auc = of_rates(0.75, 0.7512)
    assert run("sweep", "--axis", RATES, "--quality", "1000").exit_code == 0
    sides = sorted(str(path) for path in only_folder(tmp_path).iterdir() if path.is_dir())

    def compare(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["compare", *sides, *arguments])

    found = [
        json.loads(compare("--format", "json", *arguments).stdout)["comparisons"][0]
        for arguments in ((), ("--min-effect", "0.005auc"))
    ]
    assert [one["overall_verdict"] for one in found] == ["better", "below the smallest effect"]
    assert [one["min_effect"] for one in found] == [0.001, 0.005]
    (factor,) = found[0]["factors"]
    assert factor["difference"] == pytest.approx(0.0012) and factor["ratio"] is None and found[0]["is_paired"]
    assert factor["interval_low"] <= factor["difference"] <= factor["interval_high"]
    for wrong in ("3%", "0.001nat"):
        refused = compare("--min-effect", wrong)
        assert refused.exit_code == ExitCode.USAGE
        assert "does not fit" in refused.output and "0.001auc" in refused.output


@pytest.mark.slow
def test_more_samples_are_another_measurement(run: Run, tmp_path: Path) -> None:
    for samples in ("1000", "5000"):
        assert run("run", "--quality", samples, "--name", f"q{samples}").exit_code == 0
    sides = [str(path) for path in made_in(tmp_path / "out")]
    refused = CliRunner().invoke(cli, ["compare", *sides])
    assert "different numbers of samples" in refused.output
    assert exit_code_of(refused.exception or OSError()) == ExitCode.USAGE


def test_samples_are_whole_batches_of_every_configuration() -> None:
    assert fit_samples({"num_samples": 1000}, [(512, 5000)]) == {"num_samples": 1024}
    assert fit_samples({"num_samples": 1024}, [(512, 5000), (256, 5000)]) == {"num_samples": 1024}
    with pytest.raises(ConfigError, match="Give at most 4608"):
        fit_samples({"num_samples": 4609}, [(512, 5000)])


@pytest.mark.once("kind quality: a job that trains and evaluates")
def test_a_process_trains_and_evaluates_on_the_way(data_root: Path, tmp_path: Path) -> None:
    benchmark = load_benchmark("dlrm_tiny")
    data = ensure_dataset(load_entry("dlrm_tiny").workload.data, data_root, num_threads=1)
    job = QualityJob(
        tables=read_toml(benchmark.path),
        definition_path=str(benchmark.path),
        data_dir=str(data),
        seed=3,
        folder=str(tmp_path),
        num_samples=8 * 512,
    )
    events: list[Any] = []
    record = train_and_evaluate(job, SingleProcess(), events.append)
    assert record is not None
    (process,) = record.processes
    assert [one.samples_count for one in process.evaluations] == [2 * 512, 4 * 512, 8 * 512]
    assert process.num_samples == 8 * 512
    assert process.training_flop == record.computed.training_flop_per_sample * process.num_samples
    assert [event["quality"] for event in events] == [one.auc for one in process.evaluations]
    assert 0.4 < process.auc < 1 and 0 < process.log_loss < 1 and 0 < process.normalised_entropy < 1.5
    again = train_and_evaluate(job, SingleProcess(), lambda event: None)
    assert again is not None and again.processes[0].auc == process.auc
