"""Commands with checkpoints: what runs and measurements record, keep, serve and say of them."""

import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Command
from inside import run_inside, use_workers_inside
from made_sets import made_in
from small_set import SmallBenchmark

from harness.config.catalog import load_entry
from harness.experiment import prepare
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.checkpoints import read_checkpoint
from harness.run_sets.dataset import ensure_dataset
from harness.run_sets.names import find_weights
from reference_models.process.world import SingleProcess
from reports.text.formatting import MAX_TEXT
from rules.records.codec import decode
from rules.records.run import RunRecord

pytestmark = pytest.mark.numeric
EVERY = 5120
"""Samples from one evaluation to the next."""


@pytest.fixture(scope="module")
def run_folder(small: SmallBenchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a checkpoint at each evaluation; not to be changed."""
    output = tmp_path_factory.mktemp("run")
    words = ["run", *small.options, "-n", 1, "--seed", 3, "-o", output, "-q"]
    with pytest.MonkeyPatch.context() as patch:
        use_workers_inside(patch)
        done = run_inside(output, *words, "--set", f"checkpoint.every={EVERY}", "--set", "checkpoint.bits=8")
    assert done.returncode == 0, done.stderr
    (folder,) = made_in(output)
    return folder


@pytest.mark.slow
def test_a_run_records_its_checkpoints_and_keeps_them(run_folder: Path) -> None:
    run = decode(run_folder / "extra/run_0/attempt_0/run.json", RunRecord)
    assert isinstance(run, RunRecord) and run.checkpoints is not None
    taken = run.checkpoints.taken
    trained = sum(block.num_samples for block in run.blocks)
    assert [each.samples_count for each in taken] == list(range(EVERY, trained + 1, EVERY))
    assert [each.is_base for each in taken][:2] == [True, False] and run.checkpoints.error is None
    kept = sorted(int(path.name) for path in (run_folder / "extra/run_0/checkpoints").iterdir())
    assert kept == [each.index for each in taken]


def test_a_checkpoint_is_served_by_its_number(run_folder: Path, small: SmallBenchmark) -> None:
    entry = load_entry(small.definition)
    digest = entry.benchmark.definition_sha256
    place = find_weights(f"{run_folder}:0@1")
    assert place == run_folder / "extra/run_0/checkpoints/1"
    restored = read_checkpoint(place, digest)
    data = ensure_dataset(entry.workload.data, small.data_root, num_threads=1)
    workload: Any = entry.workload.implementation.load(entry.workload.spec(data, seed=9), SingleProcess())
    workload.build()
    weights = {name.removeprefix("model."): value for name, value in restored.items() if name.startswith("model.")}
    workload.model.load_state_dict(weights)
    run = json.loads((run_folder / "extra/run_0/attempt_0/run.json").read_text())
    (same,) = [each["quality"] for each in run["evaluations"] if each["samples_count"] == 2 * EVERY]
    assert workload.evaluate() == pytest.approx(same, abs=2e-3)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("0@9", ExitCode.INPUT, "no checkpoint 9 of this run: there are 0, 1"),
        ("7@0", ExitCode.INPUT, "it has none"),
        ("0@x", ExitCode.USAGE, "is no run's number"),
        ("0@1@2", ExitCode.USAGE, "is no run's number"),
        ("@1", ExitCode.USAGE, "is no run's number"),
        ("0@-1", ExitCode.USAGE, "is no run's number"),
    ],
)
def test_what_is_no_checkpoint_is_not_served(run_folder: Path, text: str, code: ExitCode, words: str) -> None:
    with pytest.raises(HarnessError) as caught:
        find_weights(f"{run_folder}:{text}")
    assert caught.value.exit_code == code and words in str(caught.value)


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_a_disk_that_fills_up_keeps_the_run_and_ends_with_nine(
    small: SmallBenchmark, tmp_path: Path, dlrmbench: Command
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (48 << 10, 48 << 10))  # a table of 1,000 rows takes 62.5 KiB

    words = ["run", *small.options, "-n", 1, "-o", tmp_path / "full", "-q"]
    done = dlrmbench(*words, "--set", "checkpoint.every=10%", preexec_fn=limit)
    assert done.returncode == ExitCode.RESOURCES, done.stderr
    assert "run 0 (1 of 1) is complete and kept, its checkpoints are not" in done.stderr
    (folder,) = made_in(tmp_path / "full")
    assert len(list(folder.glob("results/*/*/result_0.txt"))) == 1
    assert list((folder / "extra/run_0/checkpoints").iterdir()) == []
    run = json.loads((folder / "extra/run_0/attempt_0/run.json").read_text())
    assert run["status"] == "success" and run["checkpoints"]["exit_code"] == ExitCode.RESOURCES
    assert run["checkpoints"]["taken"] == []


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_a_measurement_without_its_checkpoints_is_none(
    small: SmallBenchmark, tmp_path: Path, dlrmbench: Command
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (48 << 10, 48 << 10))

    words = ["run", *small.options, "--throughput", 5, "-o", tmp_path / "full", "-q"]
    done = dlrmbench(*words, "--set", "checkpoint.every=10%", preexec_fn=limit)
    assert done.returncode == ExitCode.RESOURCES and "process 0 measured nothing" in done.stderr
    (folder,) = made_in(tmp_path / "full")
    assert not (folder / "extra/throughput.json").exists()


@pytest.mark.slow
def test_32_bits_with_restores_are_the_run_without_checkpoints(
    small: SmallBenchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same seed: quality to the last digit, however often training went on from a checkpoint; 2 bits are not."""
    use_workers_inside(monkeypatch)
    found = {}
    for name, settings in (
        ("plain", {}),
        ("exact", {"bits": 32, "restores": 3}),
        ("coarse", {"bits": 2, "restores": 3}),
    ):
        words = ["run", *small.options, "--quality", 4096, "-n", 5, "--seed", 3, "-q", "--name", name]
        given = [word for key, value in settings.items() for word in ("--set", f"checkpoint.{key}={value}")]
        every = ["--set", "checkpoint.every=1024"] if settings else []
        done = run_inside(tmp_path, *words, "-o", tmp_path / name, *given, *every)
        assert done.returncode == 0, done.stderr
        (folder,) = made_in(tmp_path / name)
        processes = json.loads((folder / "extra/quality.json").read_text())["processes"]
        found[name] = [[(each["auc"], each["log_loss"]) for each in process["evaluations"]] for process in processes]
        if settings:
            assert [process["checkpoints"]["num_restores"] for process in processes] == [3] * 5
            assert not list(folder.glob("extra/quality_*/checkpoints"))
    assert found["plain"] == found["exact"] != found["coarse"]
    base, new = (made_in(tmp_path / name)[0] for name in ("plain", "coarse"))
    done = run_inside(tmp_path, "diff", base, new)
    assert "checkpoint.bits" in done.stdout and "checkpoint.every" in done.stdout
    done = run_inside(tmp_path, "compare", base, new)
    assert "checkpoint.bits" in done.stdout


@pytest.mark.usefixtures("workers_inside")
def test_more_restores_than_checkpoints_are_refused(
    small: SmallBenchmark, tmp_path: Path, inside: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_threads(*asked: Any, **how: Any) -> None:
        raise AssertionError("refused before threads are timed")

    monkeypatch.setattr(prepare, "autotune", time_threads)
    words = ["run", *small.options, "--quality", 4096, "-o", tmp_path / "o", "-q"]
    done = inside(*words, "--set", "checkpoint.every=2048", "--set", "checkpoint.restores=3")
    assert done.returncode == ExitCode.USAGE
    assert "checkpoint.restores is 3, but checkpoint.every=" in done.stderr and "saves 2 times in 4096" in done.stderr
    assert not (tmp_path / "o").exists(), "said before a process is started"


@pytest.mark.slow
def test_the_study_of_a_set_adds_up_what_its_run_recorded(run_folder: Path, tmp_path: Path) -> None:
    from reports.page.content import gather_everything

    run = decode(run_folder / "extra/run_0/attempt_0/run.json", RunRecord)
    assert isinstance(run, RunRecord) and run.checkpoints is not None
    taken = run.checkpoints.taken
    (study,) = gather_everything([run_folder], second_opinion=False, mtbf_s=43_200.0).studies
    (table,) = study.tables
    (row,) = (dict(zip((column.name for column in table.columns), each, strict=True)) for each in table.rows)
    assert study.kind == "checkpoint" and (row["Bits"], row["Policy"], row["Checkpoints"]) == (
        8,
        "intermittent",
        len(taken),
    )
    written = sum(each.num_bytes for each in taken)
    assert row["All written"] == written
    assert row["All, × fewer"] == pytest.approx(run.checkpoints.full_bytes * len(taken) / written)
    assert row["To restore"] == max(each.restore_bytes for each in taken)
    assert row["Restoring"] == run.checkpoints.restore_s and row["Best interval"] > 0
    origins = {column.name: column.origin for column in table.columns}
    assert (origins["Stall"], origins["All, × fewer"], origins["Best interval"], origins["Published"]) == (
        "measured",
        "computed",
        "modelled",
        "published",
    )
    assert row["On disk"] == sum(each.num_bytes for each in taken), "all are kept"
    on_disk = sum(path.stat().st_size for path in (run_folder / "extra/run_0/checkpoints").rglob("*.*"))
    assert written == on_disk, "manifests too"
    assert "optimizer sums" in study.findings[-1] and "Young/Daly" in study.findings[1]
    fewer, less = f"{row['All, × fewer']:.1f} ×", f"{1 / row['To restore, × less']:.1f} times as much capacity"
    assert f"{fewer} fewer bytes written" in study.findings[0]
    assert f", {less};" in study.findings[0]
    assert "writing one takes" in study.findings[0] and "restoring one" in study.findings[0]
    assert f"{fewer} fewer bytes, {less} (bytes measured), so that is not reached" in study.findings[-1]
    assert all(len(each) <= MAX_TEXT for each in study.findings)
    done = run_inside(tmp_path, "report", run_folder, "-o", "page.html", "--mtbf", "12h", "--no-second-opinion")
    assert done.returncode == 0, done.stderr
    assert "Young/Daly" in (tmp_path / "page.html").read_text() and "6 to 17" in (tmp_path / "page.html").read_text()
    for text in ("12", "0h", "soon"):
        done = run_inside(tmp_path, "report", run_folder, "--mtbf", text)
        assert done.returncode == ExitCode.USAGE and "--mtbf" in done.stderr


def test_a_base_and_an_increment_in_32_bits_take_more_capacity_than_all_rows() -> None:
    from reports.facts.checkpoints import checkpoint_words

    row = {
        "Bits": 32,
        "All, × fewer": 2.0,
        "Embeddings, × fewer": 2.0,
        "All written": 9,
        "Embeddings written": 8,
        "Checkpoints": 3,
        "Stall": 0.01,
        "Waiting": 0.0,
    }
    assert "less capacity" in checkpoint_words([{**row, "To restore, × less": 2.5}])
    words = checkpoint_words([{**row, "To restore, × less": 0.8}])
    assert "times as much capacity" in checkpoint_words([{**row, "To restore, × less": 0.0}]), (
        "as a stranger's file may say"
    )
    assert "1.2 times as much capacity" in words and "2.5 to 8 × less capacity" in words


def test_more_bytes_than_of_all_rows_are_not_said_to_be_fewer_and_no_name_is_cut() -> None:
    from reports.facts.checkpoints import hold_against_published, row_words

    times = dict.fromkeys(("Writing", "Stall", "Waiting", "Restoring"), 0.0123)
    ratios = {"All, × fewer": 0.8, "Embeddings, × fewer": 0.5, "To restore, × less": 0.5}
    sizes = {"To restore": 123_456_789, "All written": 9, "Embeddings written": 8}
    name = "2026-11-27T10-45-12Z-dlrm_small-checkpoint.bits=32-and-more"
    row = {"Configuration": name, "Bits": 32, "Rows changed": 0.23, **times, **ratios, **sizes}
    said = row_words(row)
    assert said.startswith(f"{name}: 1.2 times as many bytes written")
    assert "(embeddings alone 2.0 times as many), 2.0 times as much capacity;" in said
    assert "at 32 bits, 1.2 times as many bytes, 2.0 times as much capacity" in hold_against_published([row])
    assert all(len(each) <= MAX_TEXT and "…" not in each for each in (said, hold_against_published([row])))


@pytest.mark.parametrize(("stall_s", "mtbf_s"), [(0.01, 3600.0), (1.0, 43_200.0), (30.0, 3600.0)])
def test_the_interval_loses_least_of_all_by_dalys_exact_model(stall_s: float, mtbf_s: float) -> None:
    """Total time over useful time, M e^(R/M) (e^((t + d)/M) - 1) / t, of failures at random (Daly 2006, eq. 13)."""
    from scipy.optimize import minimize_scalar

    from reports.facts.checkpoints import best_interval

    row = {"Stall": stall_s / 2, "Waiting": stall_s / 2, "Writing": 0.0, "Restoring": 5.0}
    found_s, share = best_interval(row, mtbf_s)

    def total(interval_s: float) -> float:
        return float(mtbf_s * np.exp(5.0 / mtbf_s) * np.expm1((interval_s + stall_s) / mtbf_s) / interval_s)

    least = minimize_scalar(total, bounds=(stall_s, 10 * np.sqrt(stall_s * mtbf_s)), method="bounded")
    assert found_s == pytest.approx(least.x, rel=0.02)
    assert share == pytest.approx(1 - 1 / least.fun, rel=0.1)
    assert best_interval({**row, "Writing": 1e5}, mtbf_s)[0] == 1e5


@pytest.mark.parametrize("every", ["50", "0.01%"])
def test_checkpoints_more_often_than_batches_are_refused_before_anything_is_made(every: str, tmp_path: Path) -> None:
    done = run_inside(tmp_path, "run", "dlrm_tiny", "-n", 1, "-q", "-o", "out", "--set", f"checkpoint.every={every}")
    assert done.returncode == 2 and "less than a batch of" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
