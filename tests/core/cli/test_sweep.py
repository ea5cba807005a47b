"""`sweep`: interleaved, seeds shared, resumable after kill -9, a failure recorded; one table, one page."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from made_sets import made_in
from places import TESTS
from sweep_builder import FastWorkers
from waiting import HANG_S, needs_two_cpus

from harness.cli import cli
from harness.foundation.errors import ExitCode, HarnessError
from harness.run_sets.names import find_named
from rules.records.codec import json_schema
from rules.records.experiment import ExperimentRecord

Sweep = Callable[..., Result]
RATES = "train.opt_base_learning_rate=0.03,0.06"


@pytest.fixture
def sweep(workers: FastWorkers, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        words = ["sweep", "dlrm_tiny", "--data", str(data_root), "-q", "--seed", "5", "-o", "out", *arguments]
        return CliRunner().invoke(cli, words)

    return run


def the_sweep(tmp_path: Path) -> Path:
    (folder,) = made_in(tmp_path / "out")
    return folder


def content_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "experiment.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(json_schema(ExperimentRecord)).validate(content)
    return content


@pytest.mark.slow
def test_runs_go_forwards_and_backwards_with_the_same_seed_in_a_round(
    sweep: Sweep, workers: FastWorkers, tmp_path: Path
) -> None:
    done = sweep("--axis", "train.global_batch_size=256,512,1024", "-n", "3")
    assert done.exit_code == 0, done.output
    made = [(spec["run_index"], spec["tables"]["train"]["global_batch_size"]) for spec in workers.launches]
    assert made[:6] == [(0, 256), (0, 512), (0, 1024), (1, 1024), (1, 512), (1, 256)]
    assert sorted(made[6:]) == [(2, 256), (2, 512), (2, 1024)]
    seeds = {index: {spec["seed"] for spec in workers.launches if spec["run_index"] == index} for index in range(3)}
    assert all(len(of_round) == 1 for of_round in seeds.values())
    assert len(set.union(*seeds.values())) == 3


@pytest.mark.slow
def test_each_configuration_is_an_ordinary_run_set(sweep: Sweep, tmp_path: Path) -> None:
    assert sweep("--axis", RATES).exit_code == 0
    folder = the_sweep(tmp_path)
    content = content_of(folder)
    assert [record["values"] for record in content["configurations"]] == [
        {"train.opt_base_learning_rate": "0.03"},
        {"train.opt_base_learning_rate": "0.06"},
    ]
    for record in content["configurations"]:
        scored = CliRunner().invoke(cli, ["score", str(folder / record["folder"]), "--format", "json"])
        assert json.loads(scored.output)["scores"][0]["num_converged"] == 5
        run_set = json.loads((folder / record["folder"] / "extra" / "run_set.json").read_text())
        assert run_set["config"]["train.opt_base_learning_rate"]["source"] == "--axis train.opt_base_learning_rate"
    page = (folder / "report.html").read_text()
    assert "Sweep: time to train over train.opt_base_learning_rate" in page


@pytest.mark.slow
@needs_two_cpus
def test_a_sweeps_name_is_in_its_folders_name_and_finds_it(sweep: Sweep, tmp_path: Path) -> None:
    assert sweep("--axis", "runtime.threads=2,1", "--throughput", "4", "--name", "threads").exit_code == 0
    folder = the_sweep(tmp_path)
    assert folder.name.startswith("sweep-threads-")
    assert [path.name for path in find_named("threads", folder.parent)] == [folder.name]


@pytest.mark.slow
@needs_two_cpus
def test_the_table_compares_with_the_first(sweep: Sweep) -> None:
    done = sweep(
        "--axis", "runtime.threads=2,1", "--throughput", "4", "--axis", "data.num_tables=3", "--format", "json"
    )
    assert done.exit_code == 0, done.output
    first, second = json.loads(done.stdout)["configurations"]
    assert first["throughput_samples_per_s"] == pytest.approx(2 * second["throughput_samples_per_s"], rel=0.01)
    assert (first["overall_verdict"], second["overall_verdict"]) == (None, "slower")
    assert first["throughput_low_samples_per_s"] < first["throughput_samples_per_s"]
    assert first["peak_bytes"] == 2**28
    assert (first["score_s"], first["energy_per_sample_j"]) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [("-n", "5"), ("--throughput", "5")])
def test_its_page_says_the_benchmark_which_is_best_what_was_varied_and_how_it_was_made(
    sweep: Sweep, tmp_path: Path, kind: tuple[str, ...]
) -> None:
    assert sweep("--axis", RATES, *kind).exit_code == 0
    page = (the_sweep(tmp_path) / "report.html").read_text(encoding="utf-8")
    title = page.partition("<h1>")[2].partition("</h1>")[0]
    found = ("is the fastest of 2", "is shown to differ from the fastest", "is not shown to differ from", "than")
    assert "dlrm_tiny" in title and any(words in title for words in found)
    for words in ("opt_base_learning_rate", "0.03", "0.06", "Reproduce", "System"):
        assert words in page


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "csv", "md"])
def test_every_form_names_axes_and_values(form: str, sweep: Sweep) -> None:
    done = sweep("--axis", RATES, "-n", "1", "--format", form)
    assert done.exit_code == 0, done.output
    assert "rate" in done.stdout
    assert "0.03" in done.stdout


@pytest.mark.slow
def test_a_configuration_that_runs_out_of_memory_is_recorded_and_the_others_go_on(
    sweep: Sweep, workers: FastWorkers, tmp_path: Path
) -> None:
    workers.fail = lambda spec: spec["tables"]["train"]["global_batch_size"] == 512
    done = sweep("--axis", "train.global_batch_size=256,512", "-n", "3")
    assert done.exit_code == ExitCode.RESOURCES, done.output
    good, bad = content_of(the_sweep(tmp_path))["configurations"]
    assert good["failure"] is None
    assert bad["failure"]["exit_code"] == ExitCode.RESOURCES
    assert bad["failure"]["run_index"] == 0
    assert "out of memory" in bad["failure"]["reason"]
    made = [spec["tables"]["train"]["global_batch_size"] for spec in workers.launches]
    assert made == [256, 512, 256, 256]
    assert "failed" in done.stdout

    workers.fail = lambda spec: False
    again = CliRunner().invoke(cli, ["resume", str(the_sweep(tmp_path)), "-q"])
    assert again.exit_code == 0, again.output
    assert [record["failure"] for record in content_of(the_sweep(tmp_path))["configurations"]] == [None, None]
    assert len(workers.launches) == 4 + 3


@pytest.mark.slow
@needs_two_cpus
def test_each_configuration_is_profiled_once_after_all_runs(
    sweep: Sweep, workers: FastWorkers, tmp_path: Path
) -> None:
    workers.fail = lambda spec: spec["kind"] == "profile" and spec["tables"]["runtime"]["threads"] == 2
    arguments = ("--axis", "runtime.threads=1,2", "--throughput", "3", "--profile", "--format", "json")
    done = sweep(*arguments)
    assert done.exit_code == 0, done.output
    assert ["trace" in spec for spec in workers.launches] == [False] * 10 + [True] * 2
    first, second = json.loads(done.stdout)["configurations"]
    assert first["bound_by"] == "gather 61 %, compute 30 %"
    assert second["bound_by"] is None
    records = content_of(the_sweep(tmp_path))["configurations"]
    assert [record["notes"] == {} for record in records] == [True, False]

    workers.fail = lambda spec: False
    assert CliRunner().invoke(cli, ["resume", str(the_sweep(tmp_path)), "-q"]).exit_code == 0
    assert len(workers.launches) == 13  # only what had failed
    assert content_of(the_sweep(tmp_path))["configurations"][1]["notes"] == {}


def test_a_batch_that_the_dataset_does_not_hold_fails_that_configuration_alone(sweep: Sweep, tmp_path: Path) -> None:
    done = sweep("--axis", "train.global_batch_size=256,10000000", "-n", "1")
    assert done.exit_code == ExitCode.USAGE, done.output
    good, bad = content_of(the_sweep(tmp_path))["configurations"]
    assert (good["failure"], bad["folder"]) == (None, None)
    assert "10000000" in bad["failure"]["reason"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--axis", "model.embedding_dim=8,16"), "--throughput"),
        (("--axis", "train.batch_size=8,16"), "train.global_batch_size"),
        (("--axis", "runtime.threads=1", "--threads", "1"), "give it once"),
        (("--axis", "runtime.threads=1,100000"), "CPUs"),
        (("--axis", "data.num_tables=0", "--throughput", "2"), "data.num_tables"),
        (("--axis", "data.tables=1", "--throughput", "2"), "num_tables"),
        (("--axis", "runtime.threads=1", "--throughput", "2", "--timeout", "3"), "--timeout"),
        (("--axis", "runtime.threads=1", "--throughput", "2", "-n", "3"), "at least 5 processes"),
        ((), "--axis"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_is_written(
    arguments: tuple[str, ...], part: str, sweep: Sweep, tmp_path: Path
) -> None:
    done = sweep(*arguments)
    assert done.exit_code != 0
    assert part in done.output + str(done.exception)
    assert not (tmp_path / "out").exists()


_KILLED = """
import sys
from pathlib import Path
import pytest
sys.path.insert(0, {tests!r})
from click.testing import CliRunner
from sweep_builder import FastWorkers, use_fast_workers
from harness.cli import cli
with pytest.MonkeyPatch.context() as patch:
    use_fast_workers(patch, FastWorkers(kill_at={kill_at}))
    patch.setattr("harness.experiment.create.run_checks", lambda data, output: [])
    CliRunner().invoke(cli, {arguments!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", [("-n", "2"), ("--throughput", "3")])
def test_a_sweep_survives_kill_9(
    mode: tuple[str, ...], workers: FastWorkers, data_root: Path, tmp_path: Path
) -> None:
    arguments = [
        "sweep", "dlrm_tiny", "--data", str(data_root), "-q", "--seed", "5", "-o", str(tmp_path / "out"),
        "--axis", RATES, *mode,
    ]  # fmt: skip
    program = _KILLED.format(tests=str(TESTS / "builders"), kill_at=2, arguments=arguments)
    killed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert killed.returncode == -9, killed.stderr
    folder = the_sweep(tmp_path)
    done = CliRunner().invoke(cli, ["resume", str(folder), "-q"])
    assert done.exit_code == 0, done.output + str(done.exception)
    num_runs = content_of(folder)["stages"][0]["repetitions"]
    assert len(workers.launches) == 2 * num_runs - 2  # what was measured before is kept
    again = CliRunner().invoke(cli, ["resume", str(folder), "-q"])
    assert again.exit_code == 0
    assert len(workers.launches) == 2 * num_runs - 2


def test_an_interrupted_sweep_says_how_to_complete_it(sweep: Sweep, workers: FastWorkers, tmp_path: Path) -> None:
    def interrupt(spec: object) -> bool:
        raise KeyboardInterrupt

    workers.fail = interrupt
    done = sweep("--axis", RATES)
    assert f"dlrmbench resume {the_sweep(tmp_path).relative_to(tmp_path)}" in done.output


@pytest.mark.slow
def test_two_processes_do_not_complete_one_sweep(sweep: Sweep, tmp_path: Path) -> None:
    from harness.run_sets.folder import hold_lock

    assert sweep("--axis", RATES, "-n", "1").exit_code == 0
    folder = the_sweep(tmp_path)
    with hold_lock(folder / "lock", folder):
        done = CliRunner().invoke(cli, ["resume", str(folder), "-q"])
    assert isinstance(done.exception, HarnessError)
    assert "another process" in str(done.exception)


@pytest.mark.long
def test_workloads_and_synthetic_shapes_train_for_real(
    dlrmbench: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path
) -> None:
    done = dlrmbench(
        "sweep", "rm3_deeprecsys", "--axis", "train.global_batch_size=16,32", "--axis", "data.row_scale=0.001",
        "--throughput", 2, "--threads", 1, "-o", tmp_path / "out", "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout)["configurations"]
    assert all(record["throughput_samples_per_s"] > 0 for record in records)
    assert {record["data_kind"] for record in records} == {"made_up"}
    assert {record["embedding_bytes_per_sample"] for record in records} == {25_600}
