"""`plan` says what a run would do, need and break, and keeps nothing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Command
from places import TESTS
from ranks_builder import needs_torchrec

from harness.cli import main
from harness.config.run_config import Override, RunConfig, resolve
from harness.planning.memory import PROCESS_BYTES
from reference_models.registry import find_implementation

JSON = ("--format", "json")


def plan(inside: Command, *arguments: object, exit_code: int = 0) -> dict[str, object]:
    done = inside("plan", *arguments, "--format", "json")
    assert done.returncode == exit_code, done.stderr
    content: dict[str, object] = json.loads(done.stdout)
    return content


def test_the_official_benchmark_is_planned_without_its_data(inside: Command, tmp_path: Path) -> None:
    made = plan(inside, "dlrm_dcnv2", "--no-measure", "--device", "cpu")
    schedule, counts = made["schedule"], made["counts"]
    assert isinstance(schedule, dict) and isinstance(counts, dict)
    assert (schedule["steps_between_evals"], schedule["num_evals"]) == (3200, 20)
    assert counts["num_embedding_rows"] == 204_184_588
    assert made["kept_weights_bytes"] == 4 * (counts["num_embedding_parameters"] + counts["num_dense_parameters"])
    assert any("out of memory" in str(problem) for problem in made["problems"])  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("precision", "says"), [("fp32", True), ("bf16", False)])
def test_what_fp32_leaves_unused_on_a_gpu_is_said(precision: str, says: bool, inside: Command) -> None:
    done = inside(
        "plan", "dlrm_tiny", "--no-measure", "--device", "cuda:0", "--set", f"runtime.precision={precision}"
    )
    assert ("leaves a GPU's tensor cores unused" in " ".join(done.stdout.split())) == says, done.stderr


@pytest.mark.parametrize(
    ("asked", "precision", "says"),
    [((), "tf32", True), (("--set", "runtime.precision=fp32"), "fp32", False), (("--device", "cpu"), "fp32", False)],
    ids=["on a GPU", "asked for", "on a CPU"],
)
def test_the_official_benchmark_takes_tf32_on_a_gpu_unless_told_otherwise(
    asked: tuple[str, ...], precision: str, says: bool, inside: Command
) -> None:
    done = inside("plan", "dlrm_dcnv2", "--no-measure", *asked)
    assert ("Products are in tf32 unless you say otherwise" in " ".join(done.stdout.split())) == says, done.stderr
    assert resolve_with(asked).workload.runtime.precision == precision
    assert resolve_with(asked).benchmark.definition_sha256 == resolve_with(()).benchmark.definition_sha256


def resolve_with(asked: tuple[str, ...]) -> RunConfig:
    key, value = asked[1].split("=") if "--set" in asked else ("runtime.device", "cpu")
    return resolve("dlrm_dcnv2", [Override(key=key, value=value, source="test")] if asked else [])


def test_each_value_names_its_source(inside: Command) -> None:
    made = plan(inside, "dlrm_tiny", "--no-measure", "--set", "train.global_batch_size=1024", "--threads", 1)
    config = made["config"]
    assert isinstance(config, dict)
    assert config["train.global_batch_size"] == {"value": 1024, "source": "--set train.global_batch_size"}
    assert config["runtime.threads"] == {"value": 1, "source": "option --threads"}
    assert config["model.interaction"]["source"] == "definition"


@pytest.mark.slow
def test_the_time_of_a_run_is_modelled_from_measured_steps_where_the_data_is_ready(
    inside: Command, data_root: Path
) -> None:
    made = plan(inside, "dlrm_tiny", "--data", data_root)
    assert "steps" in str(made["modelled_run_method"])
    assert isinstance(made["modelled_run_s"], float) and made["modelled_run_s"] > 0


@pytest.mark.slow
def test_without_the_data_it_is_modelled_from_synthetic_samples_of_equal_shape(inside: Command) -> None:
    made = plan(inside, "dlrm_tiny")
    assert "on synthetic samples of equal shape" in str(made["modelled_run_method"])
    assert isinstance(made["modelled_run_s"], float) and made["modelled_run_s"] > 0
    assert made["data"] != {} and "does not exist" in str(made["data"])


@pytest.mark.parametrize(
    ("benchmark", "command", "exit_code"),
    [
        ("dlrm_tiny", "'run' generates it first, as does: dlrmbench data generate dlrm_tiny{}", 0),
        ("dlrm_kaggle", "dlrmbench data prepare dlrm_kaggle{} --train FILE…", 8),
        ("./ml1m.toml", "dlrmbench data prepare ml1m.toml{} --train FILE… --eval FILE…", 8),
    ],
)
def test_data_that_is_not_there_has_the_one_command_that_makes_it(
    benchmark: str, command: str, exit_code: int, inside: Command, tmp_path: Path
) -> None:
    """And ends as `run` does, where --data gives it; without, one may ask what a run would take."""
    shutil.copy(TESTS / "benchmarks" / "ml1m.toml", tmp_path)
    for given, expected in ((["--data", tmp_path / "none"], exit_code), ([], 0)):
        made = plan(inside, benchmark, "--no-measure", *given, exit_code=expected)
        data = made["data"]
        assert isinstance(data, dict) and data["ready"] is False
        assert str(data["problem"]).endswith(command.format(f" --data {given[1]}" if given else ""))
        named = [problem for problem in made["problems"] if "no data to run on" in problem]  # type: ignore[attr-defined]
        assert named == ([f"no data to run on, 'run' ends with 8: {data['problem']}"] if exit_code else [])


def test_data_that_cannot_be_used_is_an_error_where_it_is_given_and_where_it_is_there(
    command: Callable[..., tuple[int, str, str]], data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `run`, too: the code is the same."""
    monkeypatch.chdir(tmp_path)
    (made,) = data_root.glob("click_log_tiny-*")
    shutil.copytree(made, "data" / Path(made.name))
    (manifest,) = Path("data").glob("*/manifest.json")
    assert command("plan", "dlrm_tiny", "--no-measure")[0] == 0
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"num_dense": content["num_dense"] + 1}))
    for given in ((), ("--data", "data"), ("--data", manifest.parent)):
        code, out, _ = command("plan", "dlrm_tiny", "--no-measure", *given)
        assert code == 8 and "num_dense is 5, the benchmark's definition says 4" in " ".join(out.split())
        assert command("run", "dlrm_tiny", "-q", *given)[0] == 8
    manifest.unlink()
    code, out, _ = command("plan", "dlrm_tiny", "--no-measure")
    assert code == 0 and "holds no dataset yet. 'run' generates it first" in " ".join(out.split())
    Path("loop").symlink_to("loop")
    assert command("plan", "dlrm_tiny", "--no-measure", "--data", "loop")[0] == 8


def test_more_threads_than_cpus_are_refused_as_by_run(command: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = command("plan", "dlrm_tiny", "--no-measure", "--threads", 9999)
    assert code == 2 and "runtime.threads is 9999" in out


def test_a_derived_benchmark_is_said_to_be_uncalibrated(inside: Command) -> None:
    given = ("--set", "model.embedding_dim=32", "--set", "model.bottom_mlp=[64, 32]", "--name", "wide")
    done = inside("plan", "dlrm_small", "--no-measure", *given)
    assert "calibrated for two CPU cores" not in done.stdout
    assert "by changing model.embedding_dim, model.bottom_mlp: the target was not calibrated for it." in " ".join(
        done.stdout.split()
    )


def test_what_would_keep_a_set_from_a_score_is_named(inside: Command) -> None:
    done = inside("plan", "dlrm_tiny", "--no-measure", "-n", 2, "--set", "train.global_batch_size=100000000")
    assert done.returncode == 2
    assert "INCOMPLETE" in done.stdout and "cannot start" in done.stdout


def test_criteo_data_must_be_prepared_first(inside: Command) -> None:
    done = inside("plan", "dlrm_kaggle")
    assert done.returncode == 0, done.stderr
    assert "data prepare" in done.stdout


@needs_torchrec
def test_a_plan_of_several_ranks_counts_their_processes_and_measures_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for ranks in (["1", "--no-measure"], ["2"], ["3"]):
        with pytest.raises(SystemExit):
            main(["plan", "dlrm_tiny", "--implementation", "torchrec", *JSON, "--ranks", *ranks])
        found.append(json.loads(capsys.readouterr().out))
    one, two, three = found
    assert (
        two["modelled_memory_bytes"] - one["modelled_memory_bytes"]
        == PROCESS_BYTES + find_implementation("dlrm", "torchrec").process_bytes
    )
    assert two["modelled_run_s"] is None
    assert any("3 ranks cannot share equally" in problem for problem in three["problems"])
    assert two["problems"] == one["problems"] == []
    with pytest.raises(SystemExit):
        main(["plan", "dlrm_tiny", *JSON, "--ranks", "2"])
    assert any("trains in one process" in problem for problem in json.loads(capsys.readouterr().out)["problems"])
