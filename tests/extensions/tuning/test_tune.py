"""`tune`: trials with planted rates and memory, what is measured again in the end, and what is refused."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Command
from goldens import lay_data
from planted_trials import (
    FASTEST,
    EvenWorkers,
    PlantedWorkers,
    StarvedWorkers,
    TimedWorkers,
    answer_of,
    found_in,
    rows_of,
    tune,
)
from scripted_commands import run_scripted_command
from scripted_workers import Ending, Moment, ScriptedWorkers

from harness.experiment.store import parts_of, read
from harness.extensions.tuning.records import REGRET
from rules.records.codec import decode
from rules.records.run_set import RunSetRecord


@pytest.fixture
def place(data_root: Path, tmp_path: Path) -> Path:
    return lay_data(data_root, tmp_path / "work")


@pytest.mark.parametrize("sampler", ["random", pytest.param("auto", marks=pytest.mark.slow)])
def test_the_planted_setting_is_found_and_measured_again_beside_the_default(sampler: str, place: Path) -> None:
    ended = tune(place, f"{FASTEST} --constraint memory<=3GB --trials 10 --sampler {sampler}")
    assert ended.code == 0, ended.err
    folder, study = found_in(place)
    rows = rows_of(study)
    best = max(rows, key=lambda row: row["samples_per_s"] * (row["Infeasible because"] is None))
    assert (best["runtime.implementation"], best["train.global_batch_size"]) == ("optimized", "1024")
    assert len(rows) == 10 and rows[0]["train.global_batch_size"] == "512"
    assert study.findings[-1].startswith("Regret is how far ") and rows[-1][REGRET] == 0
    assert rows[0][REGRET] == pytest.approx(1 - 1 / 1.5**2, rel=1e-3)
    for row in rows:
        is_over = row["memory"] > 3e9
        assert (row["Infeasible because"] is not None) == is_over and row["Best so far"] is not None
    last = answer_of(ended)
    assert re.fullmatch(
        r"Trial \d+ \(implementation=optimized global_batch_size=1024\) was compared with the default in 5 "
        r"pairs with new seeds\. 2\.25× faster\.",
        last,
    )
    (following,) = (each for each in study.findings if each.startswith("Next, to train with these settings: "))
    assert ": dlrmbench run " in following and "--set runtime.implementation=optimized" in following
    (sides,) = study.tables[0].rows
    assert sides[-1] == "faster" and sides[2] == pytest.approx(2.25, rel=1e-3) and sides[3] <= 2.25 <= sides[4]  # type: ignore[operator]
    seeds = [record_of(part).seeds for part in parts_of(folder).values()]
    (pair,) = folder.glob("beside-*")
    again = [record_of(part).seeds for part in parts_of(pair).values()]
    assert len({*seeds}) == 1 and again[0] == again[1] and len(again[0]) == 5 and not {*again[0]} & {*seeds[0]}


@pytest.mark.slow
def test_sides_measured_again_have_equal_threads(place: Path) -> None:
    ended = tune(place, f"{FASTEST} --trials 10 --sampler random", TimedWorkers(Moment()))
    assert ended.code == 0, ended.err
    _, study = found_in(place)
    assert "threads against" not in answer_of(ended) and "threads against" not in study.title
    pair = [path for side in ("base", "new") for path in place.rglob(f"{side}/extra/run_set.json")]
    sides = [record_of(path.parents[1]) for path in pair]
    assert len(sides) == 2 and len({side.num_threads for side in sides}) == 1


def record_of(folder: Path) -> RunSetRecord:
    record = decode(folder / "extra" / "run_set.json", RunSetRecord)
    assert isinstance(record, RunSetRecord)
    return record


@pytest.mark.slow
def test_no_difference_is_an_answer(place: Path) -> None:
    ended = tune(place, f"{FASTEST} --trials 3", EvenWorkers(Moment()))
    assert ended.code == 0 and "No difference of 3 % or more in throughput" in answer_of(ended)
    folder, study = found_in(place)
    shown = (folder / "report.html").read_text(encoding="utf-8").partition("<script")[0]
    assert shown.replace("\N{NO-BREAK SPACE}", " ").count("No difference of 3 % or more in throughput") == 1
    assert "the default is kept; " in study.title
    assert "against the default: no difference shown (throughput, 5 A/B pairs)" in study.title
    assert any(each.startswith("Next, to try more settings: ") and "--trials 6" in each for each in study.findings)
    for table in study.tables:
        assert all(any(value is not None for value in column) for column in zip(*table.rows, strict=True))


@pytest.mark.slow
def test_a_page_shows_the_search_and_the_pair_and_not_each_trial_as_a_result(place: Path) -> None:
    tune(place, f"{FASTEST} --trials 3")
    folder, study = found_in(place)
    (folder / "report.html").unlink()
    ended = run_scripted_command(["report", str(folder), "-o", "page.html"], place, PlantedWorkers(Moment()))
    assert ended.code == 0, ended.err
    page = (place / "page.html").read_text(encoding="utf-8")
    assert study.title in page and REGRET in page and "compared with the default" in page
    measured = page.count("implementation=reference global_batch_size=")
    assert measured == study.findings[0].count("implementation=reference global_batch_size=")


@pytest.mark.slow
def test_what_fails_is_an_infeasible_trial_with_its_reason_and_is_not_tried_again(place: Path) -> None:
    ended = tune(place, f"{FASTEST} --trials 12", StarvedWorkers(Moment()))
    assert ended.code == 0, ended.err
    folder, study = found_in(place)
    reasons = [row["Infeasible because"] for row in rows_of(study)]
    assert [reason for reason in reasons if reason] == ["process 0 measured nothing: out of memory."] * 2
    again = PlantedWorkers(Moment())
    assert run_scripted_command(["resume", str(folder), "-q"], place, again).code == 0
    assert again.launches == []


@pytest.mark.slow
def test_where_no_trial_is_feasible_the_least_violating_one_is_named(place: Path) -> None:
    ended = tune(place, f"{FASTEST} --constraint memory<=100MiB --trials 12")
    assert ended.code == 7
    last = answer_of(ended)
    assert last.startswith("None of 12 trials is feasible. Closest: trial ") and "global_batch_size=128" in last
    assert "missed memory<=104.858 MB (100.00 MiB): 128.00 MiB" in last
    folder, study = found_in(place)
    assert len(study.tables) == 1 and not [*folder.glob("beside-*")]


def test_where_the_default_fails_the_best_trial_is_measured_again_alone_and_named(place: Path) -> None:
    workers = PlantedWorkers(Moment(), {0: Ending(words="out of memory.")})
    ended = tune(place, f"{FASTEST} --threads 1 --trials 3", workers)
    assert ended.code == 0, ended.err
    folder, study = found_in(place)
    first, *others = rows_of(study)
    best = max(others, key=lambda row: row["samples_per_s"])
    assert first["Infeasible because"].endswith("out of memory.")
    name = f"implementation={best['runtime.implementation']} global_batch_size={best['train.global_batch_size']}"
    said = re.fullmatch(
        rf"Trial \d \({name}\), samples_per_s ([\d.]+) \(([\d.]+) to ([\d.]+)\) in 5 processes with new "
        r"seeds; the default measured nothing: process 0 measured nothing: out of memory\.",
        answer_of(ended),
    )
    assert said is not None, answer_of(ended)
    mean, least, most = map(float, said.groups())
    rates = [row[1] for row in study.tables[0].rows]
    assert len(rates) == 5 and (least, most) == pytest.approx((min(rates), max(rates)), rel=1e-4)
    assert mean == pytest.approx(sum(rates) / 5, rel=1e-4) and f"{name} is the best of 3 trials: " in study.title
    (again,) = folder.glob("again-*")
    seeds = [record_of(part).seeds for part in (again, *parts_of(folder).values())]
    assert len(seeds[0]) == 5 and seeds[1] == seeds[2] and not {*seeds[0]} & {*seeds[1]}
    resumed = PlantedWorkers(Moment())
    assert run_scripted_command(["resume", str(folder), "-q"], place, resumed).code == 0 and resumed.launches == []


@pytest.mark.slow
def test_a_training_time_is_tuned_by_runs_to_the_target(place: Path) -> None:
    workers = ScriptedWorkers(Moment(), num_evals=2)
    axis = "train.opt_base_learning_rate=0.01..0.1:log"
    words = f"tune dlrm_tiny --axis {axis} --minimize time_to_train_s --threads 1 --trials 3 --seed 1 -q"
    ended = run_scripted_command(words.split(), place, workers)
    assert ended.code in (0, 3), ended.err
    folder, study = found_in(place)
    assert read(folder).kind == "training" and len(workers.launches) == 3 + 10
    assert "with new seeds. " in study.findings[0] and all(row["time_to_train_s"] for row in rows_of(study))


@pytest.mark.slow
def test_another_column_of_what_is_measured_is_compared_by_its_ratio(place: Path) -> None:
    ended = tune(place, "--minimize memory --constraint samples_per_s>=1000 --throughput 10 --trials 8")
    _, study = found_in(place)
    assert ended.code == 0 and "Better: Peak memory" in study.findings[0], study.findings
    (sides,) = study.tables[0].rows
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
        (f"{FASTEST} --constraint memory<=much", "'much' is neither a number nor a size such as 1GB", None),
        (f"{FASTEST} --constraint memory<=nan", "'nan' is neither a number", None),
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
    words: str,
    said: str,
    arrange: Callable[[pytest.MonkeyPatch], None] | None,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if arrange is not None:
        arrange(monkeypatch)
    ended = tune(place, words)
    assert (ended.code, said in " ".join(ended.err.split())) == (2, True), ended.err
    assert not (place / "results").exists()


def test_a_range_of_batches_is_refused_where_samples_are_whole_batches_of_all(place: Path) -> None:
    words = "tune dlrm_tiny --axis train.global_batch_size=256..512 --maximize auc --quality 4096"
    ended = run_scripted_command(words.split(), place, ScriptedWorkers(Moment()))
    assert ended.code == 2 and "Give sizes" in ended.err


def test_a_search_of_nothing_is_refused(inside: Command) -> None:
    done = inside("tune", "dlrm_tiny")
    assert (done.returncode, done.stdout) == (2, "") and "Missing option '--axis'" in done.stderr
