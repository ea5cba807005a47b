"""`place`, `place-tasks`: searches beside one another, a plan in a file; what cannot be asked is refused."""

import json
import re
from pathlib import Path

import pytest
from command import Command
from ranks_builder import needs_torchrec
from sweep_builder import FastWorkers, use_fast_workers

TABLES = [
    {"row": rows, "pooling_factor": 2.0, **{f"bin_{number}": float(number == 0) for number in range(17)}}
    for rows in (1000, 2000, 500)
]


def test_searches_of_a_benchmark_end_with_one_sentence_and_keep_the_cheapest_plan(
    inside: Command, tmp_path: Path
) -> None:
    done = inside("place", "dlrm_tiny", "--devices", 2, "--by", "dim,lookup,optimal", "-o", "plan.json")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    study, page = json.loads((folder / "study.json").read_text()), (folder / "report.html").read_text()
    assert (
        study["made"]["command"]
        and study["made"]["environment"]["python"]
        and study["title"].replace("'", "&#39;") in page
    )
    assert "What each search&#39;s plan costs" in page and study["title"].startswith(
        "dlrm_tiny on 2 cuda devices: cheap"
    )
    machine = (
        r"2 cuda devices, 80.00.GiB \(15.0.% kept free of tables\) at [\d.]+ TB/s each, modelled; this study ran on "
    )
    assert re.search(machine, page)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert (plan["benchmark"], plan["num_devices"], len(plan["shards"])) == ("dlrm_tiny", 2, 8)
    refused = inside("run", "dlrm_tiny", "--implementation", "torchrec", "--ranks", 3, "--sharding", "plan:plan.json")
    assert refused.returncode == 2 and "the run has 3 ranks" in refused.stderr
    (tmp_path / "plan.json").write_text('{\n"schema_version": 1,\n]')
    damaged = inside("run", "dlrm_tiny", "--implementation", "torchrec", "--ranks", 2, "--sharding", "plan:plan.json")
    assert damaged.returncode == 8 and "plan.json" in damaged.stderr and "line 3" in damaged.stderr


def test_a_results_folder_that_is_a_link_which_nobody_named_is_refused(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "elsewhere")
    done = inside("place", "dlrm_tiny", "--devices", 2, "--by", "dim")
    assert done.returncode == 8 and "DLRMBENCH_OUTPUT" in done.stderr and not [*(tmp_path / "elsewhere").iterdir()]


@pytest.mark.slow
def test_rates_of_this_cpu_are_measured_where_they_are_not_given(inside: Command) -> None:
    words = ("place", "dlrm_tiny", "--devices", 2, "--device-type", "cpu", "--by", "dim", "--format", "json")
    done = inside(*words, "--device-bandwidth", "8GB/s", "--reserve", "20%")
    assert done.returncode == 0, done.stderr
    study = json.loads(done.stdout)
    sources = {each["name"]: (each["value"], each["source"]) for each in study["parameters"]}
    assert sources["bandwidth of that memory"] == (8e9, "given")
    assert sources["bandwidth within a host"][0] > 0 and sources["bandwidth within a host"][1] == "measured"
    assert sources["fixed time of a table, measured here"][1] == "measured"
    assert sources["of that memory, kept free of tables"] == (0.2, "given") and len(study["loads"]) == 1
    assert "fixed time of a table, assumed" not in sources


WORDS = ("--devices", 2, "--by", "lookup,greedy", "--format", "json")


@pytest.mark.slow
def test_tasks_are_generated(inside: Command) -> None:
    done = inside("place-tasks", "-n", 2, *WORDS)
    assert done.returncode == 0 and json.loads(done.stdout)["tables"][0]["rows"][0][:2] == ["lookup", 2]
    memory = next(each for each in json.loads(done.stdout)["parameters"] if each["name"] == "memory of one device")
    assert (memory["value"], memory["source"]) == (4 << 30, "default")


def test_tasks_are_read(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "tables.json").write_text(json.dumps(TABLES))
    (tmp_path / "tasks.txt").write_text("0,1,2 16,32,64\n0,0,0,1 4,4,8,8\n")
    read = ("--read", "tasks.txt", "tables.json", *WORDS)
    done = inside("place-tasks", *read)
    assert done.returncode == 0 and json.loads(done.stdout)["tables"][0]["rows"][1][:2] == ["greedy", 2]
    first = inside("place-tasks", "-n", 1, *read)
    assert first.returncode == 0 and json.loads(first.stdout)["tables"][0]["rows"][1][:2] == ["greedy", 1]
    (tmp_path / "tasks.txt").write_text("0,1,2 16,32,64\n0,3 4,4\n")
    assert (done := inside("place-tasks", *read)).returncode == 8 and "tasks.txt:2: " in done.stderr


@pytest.mark.slow
def test_what_was_measured_once_is_no_verdict_and_says_where_it_was_timed(inside: Command) -> None:
    done = inside("place", "dlrm_tiny", "--devices", 2, "--by", "dim,lookup", "--cost", "measured")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "Lowest cost by " in said and "which is no verdict" in said
    assert "timed on one thread of this CPU" in said and "Over the optimum" not in said


@pytest.mark.slow
@needs_torchrec
def test_plans_of_a_folder_of_any_name_are_measured_and_all_that_fail_end_it_so(
    inside: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fast_workers(monkeypatch, workers := FastWorkers())
    monkeypatch.setattr("harness.experiment.create.run_checks", lambda data, output: [])
    words = ("place", "dlrm_tiny", "--devices", 2, "--by", "dim", "--run", 5, "--data", tmp_path / "data")
    monkeypatch.setenv("DLRMBENCH_OUTPUT", "a,b'c")
    done = inside(*words)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "a,b'c").glob("sweep-*")
    assert {launch["tables"]["runtime"]["sharding"][:5] for launch in workers.launches} == {"auto", "plan:"}
    assert "10 of 10 plans were measured" in done.stdout and (folder / "report.html").is_file()
    monkeypatch.setenv("DLRMBENCH_OUTPUT", "")
    workers.fail = lambda spec: True
    done = inside(*words)
    assert done.returncode == 9 and "0 of 10 plans were measured. No rank" in done.stdout
    assert (tmp_path / "results").is_dir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["place", "dlrm_tiny"], "Missing option '--devices'"),
        (["place", "dlrm_tiny", "--devices", 2, "--reserve", "1.5"], "expected a fraction"),
        (["place", "--devices", 2], "Missing argument 'BENCHMARK'"),
        (["place-tasks", "--devices", 2, "--read", "x"], "requires 2 arguments"),
        (["place-tasks", "-n", 2, "--devices", 2, "-o", "x.json"], "No such option"),
        (["place", "dlrm_tiny", "--devices", 2, "-o", "nowhere/plan.json"], "there is no folder"),
        (["place-tasks", "-n", 10**9, "--devices", 2], "10000"),
        (["place", "dlrm_tiny", "--devices", 2, "--measure", 100], "--measure is of --cost net"),
        (["place", "dlrm_tiny", "--devices", 2, "--cost", "net", "--measure", 99], "99 is not in the range"),
        (["place-tasks", "-n", 2, "--devices", 2, "--by", "torchrek"], "Did you mean 'torchrec'?"),
        (["place", "dlrm_tiny", "--devices", 2, "--by", "lookups"], "Did you mean 'lookup'?"),
        (["place", "dlrm_tiny", "--devices", 2, "--device-memory", "100KB"], "bytes too few"),
        (["place", "dlrm_dcnv2", "--devices", 2, "--device-memory", "80GB"], "bytes too few"),
        (["place", "dlrmv4_small", "--devices", 2], "for models that pool bags"),
    ],
)
def test_what_cannot_be_asked_is_refused(inside: Command, words: list[object], message: str) -> None:
    done = inside(*words)
    assert done.returncode == 2 and message in " ".join(done.stderr.split()), done.stderr
