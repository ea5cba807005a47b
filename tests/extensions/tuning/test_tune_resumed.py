"""`tune`, how it ends and is resumed: its own pair, values as they are spelled, failures, what strangers wrote."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from goldens import lay_data
from planted_trials import FASTEST, TUNE, PlantedWorkers, StarvedWorkers, answer_of, found_in, rows_of, tune
from scripted_commands import run_scripted_command
from scripted_workers import Ending, Moment, ScriptedWorkers
from tiers import quick_first

from harness.experiment.store import read
from reference_models.registry import pin_code


@pytest.fixture
def place(data_root: Path, tmp_path: Path) -> Path:
    return lay_data(data_root, tmp_path / "work")


def write_code(place: Path) -> None:
    """A file that is seen to be imported; of each place its own, since what was imported is not imported again."""
    (place / "code.py").write_text(f"import pathlib; pathlib.Path('ran').touch()  # {place}")


@pytest.mark.slow
def test_a_search_does_not_grow_by_runs(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    ended = run_scripted_command(["resume", str(folder), "--runs", "3"], place, PlantedWorkers(Moment()))
    assert ended.code == 2 and "the number of trials of a search is fixed when it begins" in ended.err


def test_what_all_of_a_search_takes_is_said_once_a_trial_has_ended(place: Path) -> None:
    """Each repetition by the mean of those before: the trials that are left, and five pairs."""
    words = f"{TUNE} {FASTEST} --trials 3".replace(" -q", "")
    ended = run_scripted_command(words.split(), place, PlantedWorkers(Moment()))
    assert ended.code == 0 and "up to 3 trials of one process each, then 5 pairs" in ended.err
    first, second, third = re.findall(r"\[[123]/3\] .*", ended.err)[:3]
    assert " left" not in first and all(re.search(r", about [\d.]+ \w+ left$", line) for line in (second, third))


@pytest.mark.slow
def test_a_search_of_a_stranger_names_no_code_to_run(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    path, code = folder / "experiment.json", place / "code.py"
    write_code(place)
    content = json.loads(path.read_text())
    content["axes"][0]["values"] = [f"{code}:X"]
    content["stop"]["values"]["trials"] = 4
    path.write_text(json.dumps(content))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    reasons = [each.failure.reason for each in read(folder).configurations if each.failure is not None]
    assert len(reasons) == 2 and all("is none of the implementations" in reason for reason in reasons), ended.err
    assert not (place / "ran").exists()


@pytest.mark.parametrize(
    "change",
    quick_first(
        [
            {"relation": "matrix"},
            {"axes": []},
            {"axes": [{"key": "bad", "values": ["1"]}]},
            {"axes": [{"key": "train.global_batch_size", "values": ["1..1" + "0" * 400]}]},
            {"stop": None},
            {"stop": {"rule": "search", "values": {"trials": 3.0}}},
            {"stop": {"rule": "until", "values": {}}},
            {"command": "dlrmbench tune 'dlrm_tiny"},
        ]
    ),
)
def test_a_damaged_search_is_refused(change: dict[str, Any], place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    path = folder / "experiment.json"
    content = json.loads(path.read_text())
    content["stop"]["values"]["trials"] = 3
    path.write_text(json.dumps({**content, **change}))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 8 and "experiment.json" in ended.err, ended.err


@pytest.mark.slow
def test_a_command_that_no_shell_reads_is_refused_when_the_pair_is_missing(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    for pair in folder.glob("beside-*"):
        shutil.rmtree(pair)
    content = json.loads((folder / "experiment.json").read_text())
    (folder / "experiment.json").write_text(json.dumps({**content, "command": "dlrmbench tune 'dlrm_tiny"}))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 8 and "experiment.json: command: found" in ended.err and "No closing quotation" in ended.err


@pytest.mark.slow
def test_values_that_a_trial_was_not_made_with_are_refused(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    content = json.loads((folder / "experiment.json").read_text())
    key = next(iter(content["configurations"][1]["values"]))
    content["configurations"][1]["values"][key] += "9"
    (folder / "experiment.json").write_text(json.dumps(content))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 8 and "experiment.json" in ended.err and "was not made with the values" in ended.err


@pytest.mark.slow
def test_the_best_trial_of_a_stranger_names_no_code_to_run(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 4")
    folder, _ = found_in(place)
    write_code(place)
    for pair in folder.glob("beside-*"):
        shutil.rmtree(pair)
    content = json.loads((folder / "experiment.json").read_text())
    for number, member in enumerate(content["configurations"][1:], start=2):
        member["values"] = {"runtime.implementation": "code.py:X"}
        old, member["folder"] = member["folder"], f"{number:02d}-implementation-code.py-X"
        (folder / old).rename(folder / member["folder"])
        path = folder / member["folder"] / "extra" / "run_set.json"
        record = json.loads(path.read_text())
        del record["config"]["runtime.implementation"]
        path.write_text(json.dumps(record))
    (folder / "experiment.json").write_text(json.dumps(content))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 2 and "is none of the implementations" in ended.err, ended.err
    assert not (place / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("part", ["beside-*/new", "01-default/deeper", "again-*"])
def test_no_definition_inside_a_strangers_search_names_code_to_run(part: str, place: Path) -> None:
    words = f"tune dlrm_tiny --axis train.global_batch_size=512,1024 {FASTEST} --threads 1 --trials 2 --seed 3 -q"
    endings = {0: Ending(words="out of memory.")} if part.startswith("again") else {}
    run_scripted_command(words.split(), place, PlantedWorkers(Moment(), endings))
    folder, _ = found_in(place)
    write_code(place)
    if part == "01-default/deeper":
        (pair,) = folder.glob("beside-*")
        shutil.rmtree(pair)
        named = folder / part
    else:
        (named,) = folder.glob(part)
        (named / "extra" / "throughput_4" / "measured.json").unlink()
    (named / "extra").mkdir(parents=True, exist_ok=True)
    text = (folder / "01-default" / "extra" / "definition.toml").read_text()
    assert text.count("[runtime]\n") == 1
    own = f'[runtime]\nimplementation = "{pin_code(f"{place}/code.py:X")}"\n'
    (named / "extra" / "definition.toml").write_text(text.replace("[runtime]\n", own))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 2 and "code.py" in ended.err, ended.err
    assert not (place / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "axis", ["train.global_batch_size=0x200,0x400", 'runtime.precision="fp32","bf16"', "runtime.precision=auto,fp32"]
)
def test_values_may_be_spelled_and_meant_in_other_ways(axis: str, place: Path) -> None:
    words = f"tune dlrm_tiny --axis {axis} {FASTEST} --trials 3 --seed 3 -q"
    assert run_scripted_command(words.split(), place, PlantedWorkers(Moment())).code == 0


@pytest.mark.slow
def test_a_default_of_own_code_is_measured_beside_the_best_implementation(place: Path) -> None:
    own = "from reference_models.dlrm.reference import ReferenceWorkload\nclass Mine(ReferenceWorkload):\n    pass\n"
    (place / "mine.py").write_text(own)
    words = (
        f"tune dlrm_tiny --implementation mine.py:Mine --axis runtime.implementation=reference,optimized {FASTEST}"
    )
    ended = run_scripted_command(f"{words} --trials 3 --seed 3 -q".split(), place, PlantedWorkers(Moment()))
    assert ended.code == 0 and "1.50× faster" in answer_of(ended), ended.err


@pytest.mark.slow
def test_another_pair_in_the_folder_is_not_the_answer_and_stays(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 4")
    folder, study = found_in(place)
    (pair,) = folder.glob("beside-*")
    shutil.rmtree(pair)
    words = ["run", "--beside", str(folder / "01-default"), "--set", "train.global_batch_size=64", "-o", str(folder)]
    assert run_scripted_command([*words, "-q", "-n", "5"], place, PlantedWorkers(Moment())).code == 0
    (theirs,) = folder.glob("beside-*")
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 0 and answer_of(ended) == study.findings[0], ended.err
    assert theirs.is_dir() and len([*folder.glob("beside-*")]) == 2


class PairedWorkers(PlantedWorkers):
    """Processes of which those that measure again the new side use 4 GiB, or run out of memory."""

    fails = False

    def __call__(self, spec_path: Path, **options: Any) -> Any:
        self.endings = {}
        if self.fails and "/new/" in str(spec_path):
            self.endings = {len(self.launches): Ending(words="out of memory.")}
        return super().__call__(spec_path, **options)

    def _work(self, spec: Mapping[str, Any], folder: Path, *more: Any) -> None:
        super()._work(spec, folder, *more)
        path = folder / "measured.json"
        if "/new/" in str(folder) and path.exists():
            content = json.loads(path.read_text())
            content["processes"][0]["peak_rss_bytes"] = 4 << 30
            path.write_text(json.dumps(content))


@pytest.mark.slow
def test_a_best_trial_that_misses_a_constraint_when_measured_again_is_no_answer(place: Path) -> None:
    ended = tune(place, f"{FASTEST} --constraint memory<=3GB --trials 4", PairedWorkers(Moment()))
    last = answer_of(ended)
    assert ended.code == 7 and last.endswith("Missed a constraint in 5 of 5: not feasible."), (ended.err, last)
    folder, _ = found_in(place)
    assert "global_batch_size=2048 is not an answer: missed a constraint in 5 of 5" in title_of(folder)


def title_of(folder: Path) -> str:
    (title,) = re.findall(r"<h1[^>]*>(.*?)</h1>", (folder / "report.html").read_text(encoding="utf-8"), re.DOTALL)
    return re.sub("<[^>]*>", "", str(title)).replace("\N{NO-BREAK SPACE}", " ")


class LyingWorkers(PlantedWorkers):
    """Processes of which those that measure again a batch of `size` use 4 GiB."""

    size = 2048

    def _work(self, spec: Mapping[str, Any], folder: Path, *more: Any) -> None:
        super()._work(spec, folder, *more)
        path, is_again = folder / "measured.json", "/new/" in str(folder) or "/again-" in str(folder)
        if is_again and path.exists() and spec["tables"]["train"]["global_batch_size"] == self.size:
            content = json.loads(path.read_text())
            content["processes"][0]["peak_rss_bytes"] = 4 << 30
            path.write_text(json.dumps(content))


@pytest.mark.slow
@pytest.mark.parametrize("is_alone", [False, True])
def test_the_second_best_is_measured_again_where_the_best_misses_a_bound_this_time(
    is_alone: bool, place: Path
) -> None:
    words = "tune dlrm_tiny --axis train.global_batch_size=512,1024,2048 --threads 1 --seed 3 -q"
    workers = LyingWorkers(Moment(), {0: Ending(words="out of memory.")} if is_alone else {})
    workers.size = 1024
    ended = run_scripted_command(f"{words} {FASTEST} --constraint memory<=3GB --trials 3".split(), place, workers)
    assert ended.code == 0, ended.err
    last = answer_of(ended)
    assert re.search(r"Trial \d \(global_batch_size=1024\) did better alone\. Missed a constraint in 5 of 5", last), (
        last
    )
    assert re.match(r"Trial \d \(global_batch_size=2048\)", last)
    folder, study = found_in(place)
    assert "second best of 3 trials" in study.title and len(study.tables) == 2
    assert len([*folder.glob("again-*" if is_alone else "beside-*")]) == 2
    assert title_of(folder) == study.title and "4 configurations" not in (folder / "report.html").read_text()
    again = LyingWorkers(Moment())
    resumed = run_scripted_command(["resume", str(folder), "-q"], place, again)
    assert (resumed.code, answer_of(resumed), again.launches) == (0, last, [])


@pytest.mark.slow
def test_a_trial_that_is_measured_again_alone_is_completed(place: Path) -> None:
    workers = PlantedWorkers(Moment(), {0: Ending(words="out of memory."), 7: Ending(words="killed.")})
    ended = tune(place, f"{FASTEST} --threads 1 --trials 3", workers)
    assert ended.code == 9 and "killed." in answer_of(ended), ended.err
    folder, study = found_in(place)
    assert len(study.tables) == 1
    resumed = PlantedWorkers(Moment())
    assert run_scripted_command(["resume", str(folder), "-q"], place, resumed).code == 0
    assert len(resumed.launches) == 3 and "in 5 processes" in found_in(place)[1].findings[0]


@pytest.mark.slow
def test_a_pair_that_fails_leaves_the_study_of_the_trials(place: Path) -> None:
    workers = PairedWorkers(Moment())
    workers.fails = True
    ended = tune(place, f"{FASTEST} --trials 4", workers)
    folder, study = found_in(place)
    said = "No trial was compared with the default: process 0 measured nothing: out of memory."
    assert ended.code == 9 and answer_of(ended) == said == study.findings[0]
    assert len(study.tables[-1].rows) == 4 and (folder / "report.html").is_file()
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 0 and "× faster" in answer_of(ended), "the pair is completed"


class MissingWorkers(ScriptedWorkers):
    """Runs of which those that measure again the new side do not reach the target."""

    def __call__(self, spec_path: Path, **options: Any) -> Any:
        self.missing = frozenset(range(9) if "/new/" in str(spec_path) else ())
        return super().__call__(spec_path, **options)


@pytest.mark.slow
def test_a_run_without_the_column_of_a_constraint_misses_it(place: Path) -> None:
    axis = "train.opt_base_learning_rate=0.01..0.1:log"
    words = (
        f"tune dlrm_tiny --axis {axis} --minimize memory --constraint time_to_train_s<=1000 --threads 1 --trials 2"
    )
    ended = run_scripted_command(f"{words} --seed 1 -q".split(), place, MissingWorkers(Moment(), num_evals=2))
    assert ended.code == 7 and "Missed a constraint in 5 of 5" in answer_of(ended), ended.err


@pytest.mark.slow
def test_the_default_is_one_of_the_values_however_that_is_spelled(place: Path) -> None:
    words = f"tune dlrm_tiny --axis train.opt_base_learning_rate=6e-2,0.1 {FASTEST} --trials 3 --seed 3 -q"
    run_scripted_command(words.split(), place, PlantedWorkers(Moment()))
    rows = rows_of(found_in(place)[1])
    assert [row["train.opt_base_learning_rate"] for row in rows] == ["6e-2", "0.1"]


@pytest.mark.slow
def test_progress_counts_trials_that_failed(place: Path) -> None:
    axis = "train.global_batch_size=2048,512,1024"
    words = f"tune dlrm_tiny --axis {axis} {FASTEST} --seed 5 --trials 4"
    ended = run_scripted_command(words.split(), place, StarvedWorkers(Moment()))
    found = re.findall(r"\[(\d)/4\]", ended.err)
    assert found == ["1", "2", "3"], ended.err
    assert found_in(place)[1].findings[1].startswith("4 trials were asked for: no further point")


@pytest.mark.slow
def test_a_search_with_an_unknown_column_is_refused(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    path = folder / "experiment.json"
    path.write_text(path.read_text().replace('"samples_per_s"', '"nothing"'))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 8, ended.err


class UnmeasuredWorkers(ScriptedWorkers):
    """Processes of which those that measure again the new side know no AUC."""

    def _work(self, spec: Mapping[str, Any], folder: Path, *more: Any) -> None:
        super()._work(spec, folder, *more)
        path = folder / "measured.json"
        if "/new/" in str(folder) and path.exists():
            content = json.loads(path.read_text())
            for each in content["processes"][0]["evaluations"]:
                each["auc"] = None
            path.write_text(json.dumps(content))


@pytest.mark.slow
def test_a_pair_without_what_is_compared_leaves_the_study_of_the_trials(place: Path) -> None:
    axis = "train.opt_base_learning_rate=0.01,0.1"
    words = f"tune dlrm_tiny --axis {axis} --maximize auc --quality 4096 --threads 1 --trials 3 --seed 3 -q"
    ended = run_scripted_command(words.split(), place, UnmeasuredWorkers(Moment()))
    assert ended.code == 7 and "found nothing, expected" in answer_of(ended), ended.err
    assert "No trial was compared with the default" in found_in(place)[1].findings[0]


@pytest.mark.slow
def test_a_search_goes_on_with_the_code_that_it_began_with(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    path = folder / "01-default" / "extra" / "run_set.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "code_sha256": "0" * 64}))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 2 and "start a new search" in ended.err, ended.err
