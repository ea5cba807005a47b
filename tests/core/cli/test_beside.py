"""`run --beside`: a set's configuration again and a new one, in turns, with equal seeds; two sets, one comparison."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from made_sets import made_in
from sweep_builder import FastWorkers, throughput_answer
from version_builder import next_version
from waiting import needs_two_cpus

from harness.experiment.finish import worst_of
from harness.foundation.errors import ExitCode
from reports.schemas import DOCUMENTS
from rules.benchmarks.loader import load_benchmark
from rules.records.codec import json_schema
from rules.records.experiment import ExperimentRecord

Command = Callable[..., tuple[int, str, str]]
RATE = "train.opt_base_learning_rate"


@pytest.fixture
def run(
    command: Command, workers: FastWorkers, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """`run` in a folder of its own, in processes that answer at once."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: command("run", *words, "--data", data_root, "-q")


def make(run: Command, *words: object, name: str = "old") -> None:
    code, _, err = run("dlrm_tiny", "--name", name, "--threads", 1, *words)
    assert code == 0, err


def pair_of(tmp_path: Path) -> Path:
    (folder,) = [path for path in made_in(tmp_path / "results") if path.name.startswith("beside-")]
    return folder


def record_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "extra" / "run_set.json").read_text())
    return content


def values_of(folder: Path) -> dict[str, Any]:
    return {key: entry["value"] for key, entry in record_of(folder)["config"].items()}


def made(workers: FastWorkers) -> list[tuple[str, int]]:
    """Which side's runs were launched, in their order."""
    return [
        (Path(spec["definition_path"]).parents[1].name, spec["seed"])
        for spec in workers.launches
        if "beside-" in spec["definition_path"]
    ]


@pytest.mark.slow
@needs_two_cpus
@pytest.mark.parametrize("kind", [(), ("--throughput", 4), ("--quality", 4096)])
def test_two_sets_are_made_in_turns_with_equal_seeds_and_compared(
    kind: tuple[object, ...], run: Command, workers: FastWorkers, tmp_path: Path
) -> None:
    make(run, *kind)
    code, out, err = run("--beside", "old", "--threads", 2, "--seed", 7)
    assert code == 0, err
    folder = pair_of(tmp_path)
    sides = [side for side, _ in made(workers)]
    assert sides == ["base", "new", "new", "base", "base", "new", "new", "base", "base", "new"]
    seeds = [seed for _, seed in made(workers)]
    assert seeds[::2] == seeds[1::2] and len(set(seeds)) == 5
    base, new = values_of(folder / "base"), values_of(folder / "new")
    assert {key for key in base if base[key] != new[key]} == {"runtime.threads"}
    assert "new against old" in out
    assert "paired: runs with equal seeds are compared, in 5 pairs." in " ".join(out.split())
    content = json.loads((folder / "experiment.json").read_text())
    jsonschema.Draft202012Validator(json_schema(ExperimentRecord)).validate(content)
    assert (content["stages"][0]["repetitions"], content["base_seed"]) == (5, 7)
    assert [side["python"] for side in content["configurations"]] == [None, None]
    assert (folder / "report.html").is_file()


@pytest.mark.slow
def test_a_slower_new_side_is_a_regression_of_the_pair(
    run: Command, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(spec: Any, number: int) -> dict[str, Any]:
        content = throughput_answer(spec, number)
        if "/new/" in spec["definition_path"]:
            content["processes"][0]["duration_s"] *= 1.2
            content["processes"][0]["samples_per_s"] /= 1.2
        return content

    make(run, "--throughput", 4)
    monkeypatch.setattr("sweep_builder.throughput_answer", answer)
    code, out, _ = run("--beside", "old", "--format", "json")
    document = json.loads(out)
    jsonschema.Draft202012Validator(json_schema(DOCUMENTS["pair"])).validate(document)
    assert (code, document["comparisons"][0]["overall_verdict"]) == (0, "slower")
    assert [found["options"] for found in document["measurements"]] == [{"num_steps": 4}] * 2
    folder = pair_of(tmp_path)
    assert command("compare", folder / "base", folder / "new", "--fail-on", "regression")[0] == 5


@pytest.mark.slow
def test_the_new_side_is_the_old_one_with_what_the_command_says(run: Command, tmp_path: Path) -> None:
    make(run, "--set", f"{RATE}=0.05", "--throughput", 4)
    assert run("--beside", "old", "--implementation", "optimized", "--throughput", 6)[0] == 0
    folder = pair_of(tmp_path)
    base, new = values_of(folder / "base"), values_of(folder / "new")
    assert (base[RATE], new[RATE]) == (0.05, 0.05)
    assert (base["runtime.implementation"], new["runtime.implementation"]) == ("reference", "optimized")
    sources = record_of(folder / "new")["config"]
    assert sources[RATE]["source"] == f"--set {RATE}" and sources["runtime.threads"]["source"] == "option --threads"
    assert [record_of(folder / side)["options"] for side in ("base", "new")] == [{"num_steps": 6}] * 2


@pytest.mark.slow
def test_with_a_benchmark_the_new_side_is_what_that_command_line_says(run: Command, tmp_path: Path) -> None:
    make(run, "--set", f"{RATE}=0.05", "--throughput", 4)
    assert run("dlrm_tiny", "--beside", "old")[0] == 0
    base, new = (values_of(pair_of(tmp_path) / side) for side in ("base", "new"))
    assert base[RATE] == 0.05 != new[RATE]
    assert (base["runtime.threads"], new["runtime.threads"]) == (1, "auto")


@pytest.mark.slow
def test_an_interrupted_pair_is_completed_in_turns_and_as_a_whole(
    run: Command, command: Command, workers: FastWorkers, tmp_path: Path
) -> None:
    make(run)
    workers.fail = lambda spec: spec["run_index"] == 1 and "/new/" in spec["definition_path"]
    code, _, err = run("--beside", "old", "-n", 2)
    folder = pair_of(tmp_path)
    assert code == 9 and f"Complete the set with: dlrmbench resume {folder.relative_to(tmp_path)}" in err
    workers.fail = lambda spec: False
    code, _, err = command("resume", folder / "base")
    assert code == 2 and f"Complete the pair: dlrmbench resume {folder}" in err
    assert command("resume", "latest", "-q")[0] == 0
    assert [side for side, _ in made(workers)] == ["base", "new", "new", "new", "base"]
    assert command("resume", folder, "-n", 3, "-q")[0] == 0
    assert [side for side, _ in made(workers)][5:] == ["base", "new"]
    assert [record_of(folder / side)["num_runs"] for side in ("base", "new")] == [3, 3]
    assert record_of(folder / "base")["seeds"] == record_of(folder / "new")["seeds"]


@pytest.mark.slow
def test_a_pair_goes_on_with_the_code_that_it_began_with(
    run: Command, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(run, "--throughput", 4)
    assert run("--beside", "old")[0] == 0
    monkeypatch.setattr("harness.experiment.executors.code_sha256", lambda: "0" * 64)
    code, _, err = command("resume", pair_of(tmp_path))
    assert code == 2 and "is now 000000000000. Put that code back, or start a new pair." in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--until", "3%"), "leave --until"),
        (("--max-runs", 9), "leave --until"),
        (("--run-index", 0), "leave --until"),
        (("--throughput", 4), "is a set of training, and throughput is asked for"),
        (("--division", "open"), "two divisions are not compared"),
        (("dlrm_small",), "times of two problems are not compared"),
        (("--set", "quality.target=0.7", "--name", "easy"), "with quality.target the new runs would be of another"),
        (("--set", "quality.target=0.7"), "quality.target is fixed by the definition"),
        (("--threads", 4096), "but this process may use"),
    ],
)
def test_what_cannot_be_a_pair_is_refused_before_anything_is_made(
    words: tuple[object, ...], message: str, run: Command, tmp_path: Path
) -> None:
    make(run, "-n", 1)
    code, _, err = run(*words, "--beside", "old")
    assert (code, message in " ".join(err.split())) == (2, True), err
    assert len(made_in(tmp_path / "results")) == 1


def test_python_is_of_a_pair(run: Command, command: Command, tmp_path: Path) -> None:
    make(run, "-n", 1)
    code, _, err = run("dlrm_tiny", "--python", "/usr/bin/python3")
    assert code == 2 and "--beside" in err
    code, _, err = command("resume", "old", "--python", "/usr/bin/python3")
    assert code == 2 and "is for a pair" in err


@pytest.mark.parametrize("given", ["./python3", "../{here}/python3", "{folder}/python3"])
def test_a_program_in_a_folder_is_that_file_and_no_other_of_its_name(
    given: str, run: Command, tmp_path: Path
) -> None:
    make(run, "-n", 1)
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\necho LOCAL >&2\nexit 2\n")
    program.chmod(0o755)
    code, _, err = run("--beside", "old", "--python", given.format(folder=tmp_path, here=tmp_path.name))
    assert (code, "LOCAL" in err) == (2, True), err


@pytest.mark.slow
def test_a_folder_of_several_sets_is_no_set(run: Command, tmp_path: Path) -> None:
    make(run, "--throughput", 4)
    assert run("--beside", "old")[0] == 0
    code, _, err = run("--beside", "latest")
    folder = pair_of(tmp_path).relative_to(tmp_path)
    assert code == 2 and f"{folder}/base" in err and f"{folder}/new" in err
    code, _, err = run("--beside", tmp_path / "nowhere")
    assert code == 8 and "no such run set" in err


def test_a_set_whose_definition_or_data_is_another_is_refused(run: Command, tmp_path: Path) -> None:
    make(run, "-n", 1)
    (folder,) = made_in(tmp_path / "results")
    definition, record = folder / "extra" / "definition.toml", folder / "extra" / "run_set.json"
    good, content = definition.read_text(), json.loads(record.read_text())
    definition.write_text(re.sub(r"(?m)^target = .*$", "target = 0.7", good))
    code, _, err = run("--beside", "old")
    assert code == 8 and "differs from the definition that the set was made with" in err
    definition.write_text(good)
    record.write_text(json.dumps({**content, "dataset": {**content["dataset"], "dataset_sha256": "0" * 64}}))
    code, _, err = run("--beside", "old")
    assert code == 8 and "holds other data" in err and "Give its folder with --data" in err
    definition.write_text(re.sub(r"(?m)^target = .*$", "target = 0.7", good))
    digest = load_benchmark(definition).definition_sha256
    record.write_text(json.dumps({**content, "benchmark": {**content["benchmark"], "definition_sha256": digest}}))
    code, _, err = run("--beside", "old")
    assert code == 2 and f"{digest[:12]}, which none of the versions here has (2)" in err


@pytest.mark.slow
@pytest.mark.once("another interpreter measures a side")
@needs_two_cpus
@pytest.mark.parametrize("kind", [(), ("--throughput", 4)])
def test_a_set_of_an_older_version_is_measured_again_by_that_version(
    kind: tuple[object, ...], run: Command, tmp_path: Path
) -> None:
    make(run, *kind)
    digest = record_of(tmp_path / "results" / "latest")["benchmark"]["definition_sha256"]
    with next_version(tmp_path / "shipped") as (older, current):
        assert digest == older.definition_sha256 != current.definition_sha256 or kind
        code, out, err = run("--beside", "old", "--threads", 2)
    assert code == 0, err
    assert "new against old" in out
    sides = [record_of(pair_of(tmp_path) / side)["benchmark"] for side in ("base", "new")]
    assert [side["definition_sha256"] for side in sides] == [digest] * 2
    assert {side["version"] for side in sides} == {older.version}


@pytest.mark.slow
@needs_two_cpus
def test_code_that_only_the_set_names_runs_where_it_is_given_again(run: Command, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("from reference_models.dlrm.reference import ReferenceWorkload as Mine\n")
    make(run, "--throughput", 4, "--implementation", f"{mine}:Mine")
    for words in ((), ("--implementation", "optimized")):
        code, _, err = run("--beside", "old", *words)
        assert code == 2 and f"give --implementation {mine}:Mine" in err, err
    assert run("--beside", "old", "--implementation", f"{mine}:Mine", "--threads", 2)[0] == 0
    folder = pair_of(tmp_path)
    base, new = (values_of(folder / side)["runtime.implementation"] for side in ("base", "new"))
    assert base == new and base.startswith(f"{mine}:Mine@")
    mine.write_text(mine.read_text() + "# changed\n")
    code, _, err = run("--beside", "old", "--implementation", f"{mine}:Mine")
    assert code == 2 and "has changed" in err


def test_the_worse_side_is_the_exit_code() -> None:
    assert worst_of([ExitCode.DONE, ExitCode.NOT_CONVERGED]) == ExitCode.NOT_CONVERGED
    assert worst_of([ExitCode.COMPLIANCE, ExitCode.NOT_CONVERGED]) == ExitCode.NOT_CONVERGED
    assert worst_of([]) == ExitCode.DONE


def test_a_set_whose_data_is_gone_says_how_to_get_it(run: Command, tmp_path: Path) -> None:
    make(run, "--throughput", 4)
    (folder,) = made_in(tmp_path / "results")
    kaggle = load_benchmark("dlrm_kaggle")
    shutil.copy(kaggle.path, folder / "extra" / "definition.toml")
    benchmark = {"name": kaggle.name, "version": kaggle.version, "status": "own"}
    content = record_of(folder) | {
        "benchmark": benchmark | {"definition_sha256": kaggle.definition_sha256},
        "dataset": {"dir": str(tmp_path / "gone"), "dataset_sha256": None},
    }
    (folder / "extra" / "run_set.json").write_text(json.dumps(content))
    code, _, err = run("--beside", folder)
    assert code == 8 and "the dataset is not here" in err and "dlrmbench data prepare" in err
    assert len(made_in(tmp_path / "results")) == 1
