"""`suite`: benchmarks in two settings each, in turns; their verdicts, one mean, what fails named and left out."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from made_sets import made_in
from sweep_builder import FastWorkers

from harness.experiment.orders import OrderStep, pairs
from harness.extensions.suites.suite import MAX_BENCHMARKS, read_suite
from rules.benchmarks.loader import load_benchmark
from rules.records.codec import json_schema
from rules.records.experiment import ExperimentRecord
from rules.records.study import StudyRecord

Command = Callable[..., tuple[int, str, str]]
NAMES = ("dlrm_tiny", "second", "third")
FILES = ("dlrm_tiny", "second.toml", "third.toml")
TWICE = "[base.runtime]\nthreads = 1\n[new.runtime]\nthreads = 2\n"


@pytest.fixture
def suite(
    command: Command, workers: FastWorkers, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """`suite` in a folder with the file three.toml, of benchmarks with the same data; processes answer at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLRMBENCH_DATA", str(data_root))
    text = load_benchmark("dlrm_tiny").path.read_text()
    for name in NAMES[1:]:
        (tmp_path / f"{name}.toml").write_text(text.replace('name = "dlrm_tiny"', f'name = "{name}"', 1))
    write(tmp_path / "three.toml", TWICE)
    return lambda *words: command("suite", *words, "-q", "--seed", 5, "-o", "out")


def write(
    path: Path, settings: str, benchmarks: tuple[str, ...] = ("dlrm_tiny", "second.toml", "third.toml")
) -> Path:
    path.write_text(f"benchmarks = {json.dumps(benchmarks)}\n{settings}")
    return path


def the_suite(tmp_path: Path) -> Path:
    (folder,) = made_in(tmp_path / "out")
    return folder


def made(workers: FastWorkers) -> list[str]:
    return [Path(spec["definition_path"]).parents[1].name.partition("-")[2] for spec in workers.launches]


def study_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "study.json").read_text())
    jsonschema.Draft202012Validator(json_schema(StudyRecord)).validate(content)
    return content


@pytest.mark.slow
def test_every_benchmark_has_its_verdict_and_all_have_a_mean(
    suite: Command, workers: FastWorkers, tmp_path: Path
) -> None:
    code, out, err = suite("three.toml")
    assert code == 0, err
    folder = the_suite(tmp_path)
    study = study_of(folder)
    rows, (mean,) = (table["rows"] for table in study["tables"])
    assert [row[0] for row in rows] == list(NAMES) and {row[-1] for row in rows} == {"faster"}
    assert [row[3] for row in rows] == pytest.approx([2.0] * 3, rel=0.01)
    assert mean[0] == pytest.approx(2.0, rel=0.01) and mean[1] < mean[0] < mean[2] and mean[4] == 3
    assert "Faster on dlrm_tiny, second, third." in " ".join(out.split())
    assert "not an MLPerf score" in " ".join(out.split())
    (title,) = re.findall("<title>([^<]*)", (folder / "report.html").read_text())
    assert title.split() == study["title"].split() and "geometric mean of 3 benchmarks" in title
    assert {spec["num_steps"] for spec in workers.launches} == {50}


@pytest.mark.slow
def test_a_page_with_more_than_the_suite_is_not_called_by_it(
    suite: Command, command: Command, tmp_path: Path
) -> None:
    assert suite("three.toml")[0] == 0
    assert command("run", "dlrm_tiny", "--throughput", 5, "--threads", 1, "-q", "-o", "out")[0] == 0
    assert command("report", "out", "-o", "page.html")[0] == 0
    (title,) = re.findall("<title>([^<]*)", (tmp_path / "page.html").read_text())
    assert "geometric mean" not in title and "geometric mean of 3" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_sides_follow_each_other_and_benchmarks_take_turns(
    suite: Command, workers: FastWorkers, tmp_path: Path
) -> None:
    assert suite("three.toml", "--throughput", 7)[0] == 0
    labels = made(workers)
    assert labels[:6] == [f"{name}-{side}" for name in NAMES for side in ("base", "new")]
    assert labels[6:12] == [f"{name}-{side}" for name in reversed(NAMES) for side in ("new", "base")]
    for at in range(0, len(labels), 2):
        one, other = (label.rpartition("-") for label in labels[at : at + 2])
        assert one[0] == other[0] and {one[2], other[2]} == {"base", "new"}
    seeds = [spec["seed"] for spec in workers.launches]
    assert all(len(set(seeds[at : at + 6])) == 1 for at in range(0, 30, 6)) and len(set(seeds)) == 5
    content = json.loads((the_suite(tmp_path) / "experiment.json").read_text())
    jsonschema.Draft202012Validator(json_schema(ExperimentRecord)).validate(content)
    assert (content["relation"], content["stages"][0]["order"]) == ("suite", "pairs")


def test_the_order_of_pairs_leaves_none_out_and_keeps_a_lone_side() -> None:
    steps = list(pairs([0, 1, 3, 4, 5], 4))
    assert sorted(steps) == [OrderStep(place, index) for place in (0, 1, 3, 4, 5) for index in range(4)]
    firsts = [step.configuration for step in steps if step.configuration in (0, 1)][::2]
    assert firsts == [0, 1, 0, 1]


@pytest.mark.slow
def test_one_that_fails_is_named_left_out_and_made_by_resume(
    suite: Command, command: Command, workers: FastWorkers, tmp_path: Path
) -> None:
    workers.fail = lambda spec: "-second-new" in spec["definition_path"]
    code, out, _ = suite("three.toml", "--format", "json")
    study = json.loads(out)
    assert code == 4 and study == study_of(the_suite(tmp_path))
    assert study["tables"][0]["rows"][1] == ["second", None, None, None, None, None, None, "failed"]
    assert study["tables"][1]["rows"][0][4] == 2 and "failed: second" in study["title"]
    assert any("Left out of the mean: second (second, new: " in line for line in study["findings"])
    workers.fail = lambda spec: False
    num_before = len(workers.launches)
    code, out, err = command("resume", the_suite(tmp_path), "-q")
    assert code == 0, err
    assert set(made(workers)[num_before:]) == {"second-new"} and len(workers.launches) == num_before + 5
    assert [row[-1] for row in study_of(the_suite(tmp_path))["tables"][0]["rows"]] == ["faster"] * 3


@pytest.mark.slow
def test_a_slower_one_is_named_in_the_title(suite: Command, workers: FastWorkers, tmp_path: Path) -> None:
    write(tmp_path / "back.toml", "[base.runtime]\nthreads = 2\n[new.runtime]\nthreads = 1\n", ("second.toml",))
    assert suite("back.toml")[0] == 0
    assert study_of(the_suite(tmp_path))["title"].startswith("threads=1 against threads=2: slower on second; ")


@pytest.mark.slow
def test_a_suite_against_itself_shows_no_difference(suite: Command, tmp_path: Path) -> None:
    write(tmp_path / "alike.toml", "")
    assert suite("alike.toml", "--threads", 1)[0] == 0
    assert {row[-1] for row in study_of(the_suite(tmp_path))["tables"][0]["rows"]} == {"no difference shown"}


@pytest.mark.slow
def test_runs_to_the_target_are_judged_and_compared(suite: Command, workers: FastWorkers, tmp_path: Path) -> None:
    write(tmp_path / "one.toml", TWICE, ("dlrm_tiny",))
    code, _, err = suite("one.toml", "--to-target", "-n", 5)
    assert code in (0, 4), err
    assert made(workers)[:4] == ["dlrm_tiny-base", "dlrm_tiny-new", "dlrm_tiny-new", "dlrm_tiny-base"]
    assert study_of(the_suite(tmp_path))["parameters"][-1]["value"] == "training"
    assert suite("one.toml", "--to-target", "--throughput", 5)[0] == 2


@pytest.mark.slow
def test_options_of_a_side_are_stronger_than_the_file(suite: Command, workers: FastWorkers) -> None:
    assert suite("three.toml", "--base", "runtime.threads=2", "--new", "train.global_batch_size=256")[0] == 0
    asked = {
        (label.rpartition("-")[2], spec["tables"]["runtime"]["threads"], spec["tables"]["train"]["global_batch_size"])
        for label, spec in zip(made(workers), workers.launches, strict=True)
    }
    usual = load_benchmark("dlrm_tiny").sections["train"]["global_batch_size"]
    assert {(side, threads) for side, threads, _ in asked} == {("base", 2), ("new", 2)}
    assert {size for side, _, size in asked if side == "new"} == {256} and usual != 256


def test_the_default_suite_has_one_benchmark_of_every_shipped_small_model() -> None:
    found = read_suite("default")
    benchmarks = [load_benchmark(name) for name in found.benchmarks]
    assert all(each.status == "own" for each in benchmarks)
    assert {each.model for each in benchmarks} >= {"dlrm", "wukong", "hstu", "d2nn"}
    assert [entry.value for entry in (*found.settings["base"], *found.settings["new"])] == ["reference", "optimized"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "benchmarks is None"),
        ("benchmarks = []", "expected a list"),
        ('benchmarks = "dlrm_tiny"', "expected a list"),
        ("benchmarks = [1]", "expected a list"),
        ('benchmarks = ["dlrm_tiny", "dlrm_tiny"]', "two benchmarks are called 'dlrm_tiny'"),
        (f"benchmarks = {json.dumps(['dlrm_tiny'] * (MAX_BENCHMARKS + 1))}", f"at most {MAX_BENCHMARKS}"),
        ('benchmarks = ["dlrm_tiny"]\nprepare = "touch seen"', "unknown key 'prepare'"),
        ('benchmarks = ["dlrm_tiny"]\ncleanup = "touch seen"', "unknown key 'cleanup'"),
        ('benchmarks = ["dlrm_tiny"]\n"\\u001b[2J" = 1', "unknown key"),
        ('benchmarks = ["dlrm_tiny"]\nnew = 1', "new is 1"),
        ('benchmarks = ["dlrm_tiny"]\n[new.hooks]\nprepare = "touch seen"', "unknown section [new.hooks]"),
        ('benchmarks = ["dlrm_tiny"]\n[new.runtime]\nimplementation = "mine.py:Mine"', "runtime.implementation"),
        ('benchmarks = ["dlrm_tiny"]\n[new.runtime]\nmodel = "mine.py"', "runtime.model"),
        ('benchmarks = ["no_such"]', "no_such"),
        ("benchmarks = [", "not valid TOML"),
    ],
)
def test_a_file_that_is_no_suite_is_refused_before_anything_is_made(
    text: str, says: str, suite: Command, tmp_path: Path
) -> None:
    (tmp_path / "wrong.toml").write_text(text)
    code, _, err = suite("wrong.toml")
    assert code == 2 and says in err and "\x1b" not in err
    assert not (tmp_path / "out").exists() and not (tmp_path / "seen").exists()


def test_a_benchmark_whose_sides_are_alike_beside_others_is_refused(suite: Command, tmp_path: Path) -> None:
    text = (tmp_path / "second.toml").read_text()
    (tmp_path / "second.toml").write_text(text.replace("global_batch_size = 512", "global_batch_size = 1024"))
    sides = "[base.runtime]\nthreads = 1\n[new.runtime]\nthreads = 1\n[new.train]\nglobal_batch_size = 1024\n"
    write(tmp_path / "some.toml", sides, ("dlrm_tiny", "second.toml"))
    code, _, err = suite("some.toml")
    assert code == 2 and "second.toml: base and new are one configuration" in " ".join(err.split())
    assert not (tmp_path / "out").exists()


def test_a_model_of_somebody_elses_in_a_file_is_not_run(suite: Command, tmp_path: Path) -> None:
    text = (tmp_path / "second.toml").read_text().replace('model = "dlrm"', 'model = "theirs"')
    (tmp_path / "second.toml").write_text(text)
    code, _, err = suite("three.toml")
    assert code == 2 and "theirs" in err and not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("change", ["drop", "swap", "relation"])
def test_a_record_that_no_suite_writes_is_refused(
    change: str, suite: Command, command: Command, tmp_path: Path
) -> None:
    assert suite("three.toml")[0] == 0
    file = the_suite(tmp_path) / "experiment.json"
    content = json.loads(file.read_text())
    if change == "drop":
        del content["configurations"][0]
    elif change == "swap":
        content["configurations"][0]["values"]["side"] = "new"
    else:
        content["relation"] = "sides"
    file.write_text(json.dumps(content))
    code, _, err = command("resume", the_suite(tmp_path), "-q")
    assert code == 8 and "expected what a " in err


@pytest.mark.slow
def test_hooks_run_around_the_runs_of_all_sides(suite: Command, workers: FastWorkers, tmp_path: Path) -> None:
    assert suite("three.toml", "--prepare", "echo once >> seen", "--log-to", "log.jsonl")[0] == 0
    assert len((tmp_path / "seen").read_text().split()) == len(workers.launches) == 30
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert {event["benchmark"] for event in events} == {None, *NAMES}
