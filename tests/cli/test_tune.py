"""`tune`: trials with planted rates and memory, what is measured again in the end, and what is refused."""

import json
import math
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from goldens import lay_data
from scripted_commands import Ended, run_scripted_command
from scripted_workers import Ending, Moment, ScriptedWorkers
from sweep_builder import throughput_answer

from harness.experiment.store import parts_of, read
from reference_models.registry import pin_code
from rules.records.codec import decode
from rules.records.run_set import RunSetRecord
from rules.records.study import StudyRecord

BATCHES = "train.global_batch_size=128,256,512,1024,2048,4096"
TUNE = f"tune dlrm_tiny --axis runtime.implementation=reference,optimized --axis {BATCHES} --seed 3 -q"
FASTEST = "--maximize samples_per_s --throughput 10"


class PlantedWorkers(ScriptedWorkers):
    """Processes whose rate is highest at a batch of 1024, optimized, whose memory is its size in MiB."""

    gain = 1.5

    def _work(self, spec: Mapping[str, Any], folder: Path, *more: Any) -> None:
        super()._work(spec, folder, *more)
        if spec["kind"] != "throughput":
            return
        path, number = folder / "measured.json", int(folder.name.rpartition("_")[2])
        batch, runtime = spec["tables"]["train"]["global_batch_size"], spec["tables"]["runtime"]
        rate = (
            1e4 * self.gain ** -abs(math.log2(batch / 1024)) * (self.gain if "optimized" in runtime.values() else 1)
        )
        content = {**throughput_answer(spec, number), "code": json.loads(path.read_text())["code"]}
        (process,) = content["processes"]
        process["duration_s"] = process["num_samples"] / rate * (1 + spec["seed"] % 89 / 1e4)
        process |= {"samples_per_s": process["num_samples"] / process["duration_s"], "peak_rss_bytes": batch << 20}
        path.write_text(json.dumps(content), encoding="utf-8")


class StarvedWorkers(PlantedWorkers):
    """Processes that run out of memory at a batch of 2048."""

    def __call__(self, spec_path: Path, **options: Any) -> Any:
        spec = json.loads(spec_path.read_text(encoding="utf-8"))
        is_large = spec["kind"] == "throughput" and spec["tables"]["train"]["global_batch_size"] == 2048
        self.endings = {len(self.launches): Ending(words="out of memory.")} if is_large else {}
        return super().__call__(spec_path, **options)


class EvenWorkers(PlantedWorkers):
    """Processes that all take alike."""

    gain = 1.0


@pytest.fixture
def place(data_root: Path, tmp_path: Path) -> Path:
    return lay_data(data_root, tmp_path / "work")


def tune(place: Path, words: str, workers: ScriptedWorkers | None = None) -> Ended:
    return run_scripted_command(f"{TUNE} {words}".split(), place, workers or PlantedWorkers(Moment()))


def found_in(place: Path) -> tuple[Path, StudyRecord]:
    (folder,) = [path for path in (place / "results").iterdir() if not path.is_symlink()]
    study = decode(folder / "study.json", StudyRecord)
    assert isinstance(study, StudyRecord), study
    return folder, study


def rows_of(study: StudyRecord) -> list[dict[str, Any]]:
    return [dict(zip([column.name for column in study.tables[0].columns], row, strict=True)) for row in
            study.tables[0].rows]  # fmt: skip


def test_the_planted_setting_is_found_and_measured_again_beside_the_default(place: Path) -> None:
    ended = tune(place, f"{FASTEST} --constraint memory<=3GB --trials 10")
    assert ended.code == 0, ended.err
    folder, study = found_in(place)
    rows = rows_of(study)
    best = max(rows, key=lambda row: row["samples_per_s"] * (row["Infeasible because"] is None))
    assert (best["runtime.implementation"], best["train.global_batch_size"]) == ("optimized", "1024")
    assert len(rows) == 10 and rows[0]["train.global_batch_size"] == "512"
    assert rows[-1]["Regret"] == 0 and rows[0]["Regret"] == pytest.approx(1 - 1 / 1.5**2, rel=1e-3)
    for row in rows:
        is_over = row["memory"] > 3e9
        assert (row["Infeasible because"] is not None) == is_over and row["Best so far"] is not None
    last = ended.out.strip().splitlines()[-1]
    assert re.fullmatch(
        r"Trial \d+ \(implementation=optimized global_batch_size=1024\) beside the default, in 5 pairs of seeds that "
        r"no trial had: 2\.25x faster\.", last,
    )  # fmt: skip
    (sides,) = study.tables[1].rows
    assert sides[-1] == "faster" and sides[2] == pytest.approx(2.25, rel=1e-3) and sides[4] <= 2.25 <= sides[5]  # type: ignore[operator]
    seeds = [record_of(part).seeds for part in parts_of(folder).values()]
    (pair,) = folder.glob("beside-*")
    again = [record_of(part).seeds for part in parts_of(pair).values()]
    assert len({*seeds}) == 1 and again[0] == again[1] and len(again[0]) == 5 and not {*again[0]} & {*seeds[0]}


def record_of(folder: Path) -> RunSetRecord:
    record = decode(folder / "extra" / "run_set.json", RunSetRecord)
    assert isinstance(record, RunSetRecord)
    return record


def test_no_difference_is_an_answer(place: Path) -> None:
    ended = tune(place, f"{FASTEST} --trials 3", EvenWorkers(Moment()))
    assert ended.code == 0 and "No difference of 3 % or more in throughput" in ended.out.splitlines()[-1]


def test_a_page_shows_the_search_and_the_pair_and_not_each_trial_as_a_result(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 3")
    folder, study = found_in(place)
    (folder / "report.html").unlink()
    ended = run_scripted_command(["report", str(folder), "-o", "page.html"], place, PlantedWorkers(Moment()))
    assert ended.code == 0, ended.err
    page = (place / "page.html").read_text(encoding="utf-8")
    assert study.title in page and "Regret" in page and "beside the default" in page
    measured = page.count("implementation=reference global_batch_size=")
    assert measured == study.findings[0].count("implementation=reference global_batch_size=")


def test_what_fails_is_an_infeasible_trial_with_its_reason_and_is_not_tried_again(place: Path) -> None:
    ended = tune(place, f"{FASTEST} --trials 12", StarvedWorkers(Moment()))
    assert ended.code == 0, ended.err
    folder, study = found_in(place)
    reasons = [row["Infeasible because"] for row in rows_of(study)]
    assert [reason for reason in reasons if reason] == ["process 1 measured nothing: out of memory."] * 2
    again = PlantedWorkers(Moment())
    assert run_scripted_command(["resume", str(folder), "-q"], place, again).code == 0
    assert again.launches == []


def test_where_no_trial_is_feasible_the_least_violating_one_is_named(place: Path) -> None:
    ended = tune(place, f"{FASTEST} --constraint memory<=100MiB --trials 12")
    assert ended.code == 7
    last = ended.out.splitlines()[-1]
    assert last.startswith("None of 12 trials is feasible. Closest: trial ") and "global_batch_size=128" in last
    assert "missed memory<=100.00 MiB: 128.00 MiB" in last
    folder, study = found_in(place)
    assert len(study.tables) == 1 and not [*folder.glob("beside-*")]


def test_a_default_that_fails_is_nothing_to_measure_beside(place: Path) -> None:
    workers = PlantedWorkers(Moment(), {0: Ending(words="out of memory.")})
    ended = tune(place, f"{FASTEST} --threads 1 --trials 2", workers)
    assert "Nothing was measured beside the default" in ended.out.splitlines()[-1]


def test_a_training_time_is_tuned_by_runs_to_the_target(place: Path) -> None:
    workers = ScriptedWorkers(Moment(), num_evals=2)
    axis = "train.opt_base_learning_rate=0.01..0.1:log"
    words = f"tune dlrm_tiny --axis {axis} --minimize time_to_train_s --threads 1 --trials 3 --seed 1 -q"
    ended = run_scripted_command(words.split(), place, workers)
    assert ended.code in (0, 3), ended.err
    folder, study = found_in(place)
    assert read(folder).kind == "training" and len(workers.launches) == 3 + 10
    assert "no trial had: " in study.findings[0] and all(row["time_to_train_s"] for row in rows_of(study))


def test_another_column_of_what_is_measured_is_compared_by_its_ratio(place: Path) -> None:
    ended = tune(place, "--minimize memory --constraint samples_per_s>=1000 --throughput 10 --trials 8")
    _, study = found_in(place)
    assert ended.code == 0 and "Better: Peak memory" in study.findings[0], study.findings
    (sides,) = study.tables[1].rows
    assert sides[2] == pytest.approx(128 / 512) and sides[-1] == "better"


def without_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)


def without_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.system.energy.find_rapl", lambda root: ([], []))


@pytest.mark.parametrize(
    ("words", "said", "arrange"),
    [
        (f"{FASTEST} --trials 1", "is not in the range 2<=x<=10000", None),
        ("--throughput 10", "give one of --minimize COLUMN and --maximize COLUMN", None),
        ("--maximize samples_per_s --minimize memory", "give one of --minimize COLUMN and --maximize", None),
        ("--maximize sample_per_s", "Did you mean 'samples_per_s'", None),
        (f"{FASTEST} --constraint memori<=1GB", "Did you mean 'memory'", None),
        (f"{FASTEST} --constraint memory<1GB", "expected COLUMN<=VALUE or COLUMN>=VALUE", None),
        (f"{FASTEST} --constraint memory<=much", "'much' is no number, nor a size such as 1GB", None),
        (f"{FASTEST} --constraint memory<=nan", "'nan' is no number", None),
        (f"{FASTEST} --axis train.global_batch_sise=1..2", "Did you mean 'global_batch_size'", None),
        (f"{FASTEST} --axis runtime.threads=9..1", "an empty range", None),
        (f"{FASTEST} --axis runtime.threads=1..many", "expected two numbers", None),
        (f"{FASTEST} --axis runtime.implementation=reference", "is given twice", None),
        (f"{FASTEST} --axis runtime.implementatio=a", "Did you mean 'implementation'", None),
        (f"{FASTEST} --axis model.interaction=dots", "dots", None),
        ("--maximize samples_per_s --axis runtime.precision=fp64", "fp64", None),
        ("--minimize energy_delay --throughput 5", "nothing counts energy here", without_counter),
        (FASTEST, "pip install 'optuna>=5,<6'", without_optuna),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_written(
    words: str, said: str, arrange: Callable[[pytest.MonkeyPatch], None] | None, place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if arrange is not None:
        arrange(monkeypatch)
    ended = tune(place, words)
    assert (ended.code, said in " ".join(ended.err.split())) == (2, True), ended.err
    assert not (place / "results").exists()


def test_a_range_of_batches_is_refused_where_samples_are_whole_batches_of_all(place: Path) -> None:
    words = "tune dlrm_tiny --axis train.global_batch_size=256..512 --maximize auc --quality 4096"
    ended = run_scripted_command(words.split(), place, ScriptedWorkers(Moment()))
    assert ended.code == 2 and "Give sizes" in ended.err


def test_a_search_does_not_grow_by_runs(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    ended = run_scripted_command(["resume", str(folder), "--runs", "3"], place, PlantedWorkers(Moment()))
    assert ended.code == 2 and "one process a trial" in ended.err


def test_a_search_of_a_stranger_names_no_code_to_run(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    path, code = folder / "experiment.json", place / "code.py"
    code.write_text("import pathlib; pathlib.Path('ran').touch()")
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
    [
        {"relation": "matrix"}, {"axes": []}, {"axes": [{"key": "bad", "values": ["1"]}]},
        {"axes": [{"key": "train.global_batch_size", "values": ["1..1" + "0" * 400]}]},
        {"stop": None}, {"stop": {"rule": "search", "values": {"trials": 3.0}}},
        {"stop": {"rule": "until", "values": {}}},
    ],
)  # fmt: skip
def test_a_damaged_search_is_refused(change: dict[str, Any], place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    path = folder / "experiment.json"
    content = json.loads(path.read_text())
    content["stop"]["values"]["trials"] = 3
    path.write_text(json.dumps({**content, **change}))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 8 and "experiment.json" in ended.err, ended.err


def test_values_that_a_trial_was_not_made_with_are_refused(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    content = json.loads((folder / "experiment.json").read_text())
    key = next(iter(content["configurations"][1]["values"]))
    content["configurations"][1]["values"][key] += "9"
    (folder / "experiment.json").write_text(json.dumps(content))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 8 and "experiment.json" in ended.err and "was not made with the values" in ended.err


CODE = "import pathlib; pathlib.Path('ran').touch()"


def test_the_best_trial_of_a_stranger_names_no_code_to_run(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 4")
    folder, _ = found_in(place)
    (place / "code.py").write_text(CODE)
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


@pytest.mark.parametrize("part", ["beside-*/new", "01-default/deeper"])
def test_no_definition_inside_a_strangers_search_names_code_to_run(part: str, place: Path) -> None:
    words = f"tune dlrm_tiny --axis train.global_batch_size=512,1024 {FASTEST} --trials 2 --seed 3 -q"
    run_scripted_command(words.split(), place, PlantedWorkers(Moment()))
    folder, _ = found_in(place)
    (place / "code.py").write_text(CODE)
    (pair,) = folder.glob("beside-*")
    if part == "01-default/deeper":
        shutil.rmtree(pair)
    else:
        (pair / "new" / "extra" / "throughput_4" / "measured.json").unlink()
    (named,) = folder.glob(part) if part.startswith("beside") else [folder / part]
    (named / "extra").mkdir(parents=True, exist_ok=True)
    text = (folder / "01-default" / "extra" / "definition.toml").read_text()
    assert text.count("[runtime]\n") == 1
    own = f'[runtime]\nimplementation = "{pin_code(f"{place}/code.py:X")}"\n'
    (named / "extra" / "definition.toml").write_text(text.replace("[runtime]\n", own))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 2 and "code.py" in ended.err, ended.err
    assert not (place / "ran").exists()


@pytest.mark.parametrize(
    "axis", ["train.global_batch_size=0x200,0x400", 'runtime.precision="fp32","bf16"', "runtime.precision=auto,fp32"]
)
def test_values_may_be_spelled_and_meant_in_other_ways(axis: str, place: Path) -> None:
    words = f"tune dlrm_tiny --axis {axis} {FASTEST} --trials 3 --seed 3 -q"
    assert run_scripted_command(words.split(), place, PlantedWorkers(Moment())).code == 0


def test_a_default_of_own_code_is_measured_beside_the_best_implementation(place: Path) -> None:
    own = "from reference_models.dlrm.reference import ReferenceWorkload\nclass Mine(ReferenceWorkload):\n    pass\n"
    (place / "mine.py").write_text(own)
    words = (
        f"tune dlrm_tiny --implementation mine.py:Mine --axis runtime.implementation=reference,optimized {FASTEST}"
    )
    ended = run_scripted_command(f"{words} --trials 3 --seed 3 -q".split(), place, PlantedWorkers(Moment()))
    assert ended.code == 0 and "1.50x faster" in ended.out.splitlines()[-1], ended.err


def test_another_pair_in_the_folder_is_not_the_answer_and_stays(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 4")
    folder, study = found_in(place)
    (pair,) = folder.glob("beside-*")
    shutil.rmtree(pair)
    words = ["run", "--beside", str(folder / "01-default"), "--set", "train.global_batch_size=64", "-o", str(folder)]
    assert run_scripted_command([*words, "-q", "-n", "5"], place, PlantedWorkers(Moment())).code == 0
    (theirs,) = folder.glob("beside-*")
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 0 and ended.out.splitlines()[-1] == study.findings[0], ended.err
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


def test_a_best_trial_that_misses_a_constraint_when_measured_again_is_no_answer(place: Path) -> None:
    ended = tune(place, f"{FASTEST} --constraint memory<=3GB --trials 4", PairedWorkers(Moment()))
    last = ended.out.splitlines()[-1]
    assert ended.code == 7 and last.endswith("Missed a constraint in 5 of 5: not feasible."), (ended.err, last)
    folder, _ = found_in(place)
    (title,) = re.findall(r"<h1[^>]*>(.*?)</h1>", (folder / "report.html").read_text(encoding="utf-8"), re.DOTALL)
    assert title.replace("<wbr>", "").strip() == last


def test_a_pair_that_fails_leaves_the_study_of_the_trials(place: Path) -> None:
    workers = PairedWorkers(Moment())
    workers.fails = True
    ended = tune(place, f"{FASTEST} --trials 4", workers)
    folder, study = found_in(place)
    said = "Nothing was measured beside the default: process 1 measured nothing: out of memory."
    assert ended.code == 9 and ended.out.splitlines()[-1] == said == study.findings[0]
    assert len(study.tables[0].rows) == 4 and (folder / "report.html").is_file()
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 0 and "x faster" in ended.out.splitlines()[-1], "the pair is completed"


class MissingWorkers(ScriptedWorkers):
    """Runs of which those that measure again the new side do not reach the target."""

    def __call__(self, spec_path: Path, **options: Any) -> Any:
        self.missing = frozenset(range(9) if "/new/" in str(spec_path) else ())
        return super().__call__(spec_path, **options)


def test_a_run_without_the_column_of_a_constraint_misses_it(place: Path) -> None:
    axis = "train.opt_base_learning_rate=0.01..0.1:log"
    words = (
        f"tune dlrm_tiny --axis {axis} --minimize memory --constraint time_to_train_s<=1000 --threads 1 --trials 2"
    )
    ended = run_scripted_command(f"{words} --seed 1 -q".split(), place, MissingWorkers(Moment(), num_evals=2))
    assert ended.code == 7 and "Missed a constraint in 5 of 5" in ended.out.splitlines()[-1], ended.err


def test_the_default_is_one_of_the_values_however_that_is_spelled(place: Path) -> None:
    words = f"tune dlrm_tiny --axis train.opt_base_learning_rate=6e-2,0.1 {FASTEST} --trials 3 --seed 3 -q"
    run_scripted_command(words.split(), place, PlantedWorkers(Moment()))
    rows = rows_of(found_in(place)[1])
    assert [row["train.opt_base_learning_rate"] for row in rows] == ["6e-2", "0.1"]


def test_progress_counts_trials_that_failed(place: Path) -> None:
    axis = "train.global_batch_size=2048,512,1024"
    words = f"tune dlrm_tiny --axis {axis} {FASTEST} --seed 5 --trials 4"
    ended = run_scripted_command(words.split(), place, StarvedWorkers(Moment()))
    found = re.findall(r"\[(\d)/4\]", ended.err)
    assert found == ["1", "2", "3"], ended.err
    assert found_in(place)[1].findings[1].startswith("4 trials were asked for: no further point")


def test_a_search_with_an_unknown_column_is_refused(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 2")
    folder, _ = found_in(place)
    path = folder / "experiment.json"
    path.write_text(path.read_text().replace('"samples_per_s"', '"nothing"'))
    ended = run_scripted_command(["resume", str(folder), "-q"], place, PlantedWorkers(Moment()))
    assert ended.code == 8, ended.err
