"""Searches: what an axis may be, and whether learning from trials beats drawing them where the optimum is known."""

import math
import subprocess
import sys
import warnings
from statistics import median

import optuna
import pytest
from msgspec import structs
from places import ROOT

from harness.extensions.tuning.records import ConstraintRecord, SearchRecord
from harness.extensions.tuning.sampler import Sampler, choose_sampler, propose, tell, tell_pending
from harness.extensions.tuning.space import Range, read_search_axis, read_space
from harness.extensions.tuning.study import Again, say_found
from harness.extensions.tuning.trials import Trial, best_of, judge, kind_with
from harness.foundation.errors import HarnessError
from reference_models.process.errors import ConfigError
from rules.records.columns import column_value
from rules.records.run import EnergyRecord

AXES = read_space(["train.x=0.0..1.0", "train.y=1..1000:log", "runtime.z=a,b,c"])
SEARCH = SearchRecord(
    objective="duration_s",
    direction="minimize",
    sampler="auto",
    constraints=(ConstraintRecord(column="memory", sign="<=", value=0.9),),
)
OPTIMUM = 1.02
"""At x = 0.6, y = 10^0.9, z = b, where x + log10(y) / 3 is 0.9, the bound; without it 1, at 0.7 and 10^1.2."""


def try_point(values: dict[str, str]) -> Trial:
    """A bowl whose middle is not feasible, and three kinds of which one is best."""
    x, y = float(values["train.x"]), math.log10(int(values["train.y"])) / 3
    columns = {"memory": x + y}
    objective = 1 + (x - 0.7) ** 2 + (y - 0.4) ** 2 + {"a": 0.3, "b": 0.0, "c": 0.15}[values["runtime.z"]]
    return make_trial(SEARCH, values, duration_s=objective, **columns)


def make_trial(search: SearchRecord, values: dict[str, str], **columns: float) -> Trial:
    excess, reason = judge(search, columns)
    return Trial(
        values=values, objective=columns.get(search.objective), excess=excess, columns=columns, reason=reason
    )


def search(sampler: Sampler, seed: int, num_trials: int, num_parallel: int = 1) -> list[Trial]:
    """Try so many points, `num_parallel` at a time."""
    trials: list[Trial] = []
    while len(trials) < num_trials:
        batch: list[dict[str, str]] = []
        for _ in range(min(num_parallel, num_trials - len(trials))):
            point = propose(AXES, trials, sampler=sampler, is_maximized=False, seed=seed, pending=batch)
            assert point is not None
            batch.append(point)
        trials += map(try_point, batch)
    return trials


def regrets(sampler: Sampler, num_trials: int, num_parallel: int = 1) -> list[float]:
    """Of the best feasible trial of each of ten searches."""
    found = [best_of(SEARCH, search(sampler, seed, num_trials, num_parallel)) for seed in range(10)]
    assert all(best is not None and best.columns["memory"] <= 0.9 for best in found), "never an infeasible best"
    return [best.objective - OPTIMUM for best in found if best is not None and best.objective is not None]


@pytest.mark.slow
def test_learning_from_trials_beats_drawing_them_where_the_optimum_is_known() -> None:
    learnt, drawn = regrets("tpe", 25), regrets("random", 25)
    assert min(*learnt, *drawn) >= -1e-9, "nothing feasible is below the optimum"
    assert median(learnt) < 0.8 * median(drawn)


@pytest.mark.long
def test_a_gaussian_process_beats_drawing_where_the_optimum_is_known() -> None:
    assert median(regrets("gp", 12)) < 0.5 * median(regrets("random", 12))


@pytest.mark.long
@pytest.mark.parametrize("num_parallel", [2, 4])
def test_a_gaussian_process_beats_drawing_also_where_several_are_tried_at_a_time(num_parallel: int) -> None:
    assert median(regrets("gp", 20, num_parallel)) < 0.5 * median(regrets("random", 20))


def test_drawn_points_are_the_same_however_many_are_tried_at_a_time() -> None:
    alone, beside = (search("random", 3, 6, num_parallel) for num_parallel in (1, 4))
    assert [trial.values for trial in alone] == [trial.values for trial in beside]


@pytest.mark.parametrize("sampler", ["tpe", pytest.param("gp", marks=pytest.mark.slow)])
def test_points_that_are_tried_at_a_time_are_apart(sampler: Sampler) -> None:
    """Without a word of the one before, the next would be taken for as good as that."""
    trials, batch = search("random", 3, 12), list[dict[str, str]]()
    for _ in range(3):
        point = propose(AXES, trials, sampler=sampler, is_maximized=False, seed=4, pending=batch)
        assert point is not None and point not in batch
        batch.append(point)
    again = propose(AXES, trials, sampler=sampler, is_maximized=False, seed=4, pending=batch[:2])
    assert again == batch[2]
    told = tell_pending(AXES, [*batch, {"train.x": "9.0", "train.y": "5", "runtime.z": "b"}])
    assert [each.params["runtime.z"] for each in told] == [each["runtime.z"] for each in batch]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["tpe", "gp", "random"])
def test_the_same_trials_and_seed_propose_the_same_point_without_a_word(
    sampler: Sampler, capfd: pytest.CaptureFixture[str]
) -> None:
    trials = search("random", 3, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points = [propose(AXES, trials, sampler=sampler, is_maximized=False, seed=4) for _ in range(2)]
    assert points[0] == points[1] and capfd.readouterr() == ("", "")
    assert points[0] not in [trial.values for trial in trials]
    assert optuna.logging.get_verbosity() == optuna.logging.INFO, "what others set stays"


def test_failed_trials_and_a_default_outside_of_the_space_are_no_obstacle() -> None:
    trials = [
        *search("random", 1, 6),
        Trial(values={"train.x": "9.0", "train.y": "5", "runtime.z": "b"}, objective=0.1, excess={}, reason=None),
        Trial(
            values={"train.x": "0.5", "train.y": "5", "runtime.z": "b"}, objective=None, excess={}, reason="failed"
        ),
    ]
    assert propose(AXES, trials, sampler="tpe", is_maximized=False, seed=1) is not None


@pytest.mark.slow
def test_a_small_space_ends_when_all_of_it_was_tried() -> None:
    axes, trials = read_space(["runtime.z=a,b", "train.y=1..3"]), list[Trial]()
    while (point := propose(axes, trials, sampler="tpe", is_maximized=False, seed=2)) is not None:
        trials.append(Trial(values=point, objective=1.0, excess={}, reason=None))
    assert sorted(tuple(trial.values.values()) for trial in trials) == [(z, y) for z in "ab" for y in "123"]


@pytest.mark.slow
def test_the_last_point_of_a_space_is_found() -> None:
    axes = read_space([f"runtime.z={','.join(map(str, range(600)))}"])
    trials = [Trial(values={"runtime.z": str(z)}, objective=1.0, excess={"m": -1.0}, reason=None) for z in range(599)]
    assert propose(axes, trials, sampler="tpe", is_maximized=False, seed=0) == {"runtime.z": "599"}


@pytest.mark.parametrize("axis", ["train.x=0..0.5", "train.x=0.0..0.5", "train.x=1..100", "train.x=1..1000000000000"])
def test_every_trial_of_a_range_is_told(axis: str) -> None:
    axes = read_space([axis])
    trials = [
        Trial(values={"train.x": axes[0].write(end)}, objective=1.0, excess={}, reason=None) for end in (0.2, 9)
    ]  # type: ignore[attr-defined]
    assert len(tell(axes, trials, is_maximized=False)) == 2
    assert propose(axes, trials * 5, sampler="gp", is_maximized=False, seed=0) is not None


def test_a_trial_without_a_column_that_is_bounded_is_told_as_infeasible() -> None:
    axes = read_space(["train.x=0.0..1.0"])
    found = make_trial(SEARCH, {"train.x": "0.1"}, duration_s=5.0, memory=0.5)
    for others in ({"duration_s": 1.0}, {"memory": 9.0}):
        told = tell(axes, [found, make_trial(SEARCH, {"train.x": "0.2"}, **others)], is_maximized=False)
        assert [max(each.constraints.values()) > 0 for each in told] == [False, True]


def test_closest_is_what_missed_a_bound_and_measured_all() -> None:
    two = ConstraintRecord(column="energy_delay", sign="<=", value=1.0)
    search = structs.replace(SEARCH, constraints=(*SEARCH.constraints, two))
    missed = make_trial(search, {"train.x": "1"}, duration_s=1.0, memory=2.0, energy_delay=0.5)
    unknown = make_trial(search, {"train.x": "2"}, duration_s=1.0, memory=0.1)
    assert "Closest: trial 2 (x=1), missed memory" in say_found(search, [unknown, missed], Again())
    assert say_found(search, [unknown, unknown], Again()) == "None of 2 trials is feasible."


def test_bounds_that_are_shown_alike_are_two() -> None:
    bounds = tuple(ConstraintRecord(column="memory", sign="<=", value=value) for value in (1e9, 1e9 + 99))
    trial = make_trial(structs.replace(SEARCH, constraints=bounds), {}, duration_s=1.0, memory=1e9 + 9)
    assert trial.reason is not None and len(trial.excess) == 2


def test_a_gaussian_process_proposes_but_of_very_many_trials_and_the_reason_is_said() -> None:
    assert [choose_sampler("auto", num)[0] for num in (2, 200, 201)] == ["gp", "gp", "tpe"]
    assert "known optimum" in choose_sampler("auto", 20)[1] and "200" in choose_sampler("auto", 201)[1]
    assert choose_sampler("random", 20) == ("random", "asked for")


def test_a_range_is_whole_where_both_ends_are_and_written_as_it_is_tried() -> None:
    whole, real = read_search_axis("train.b=256..2048:log"), read_search_axis("train.lr=1e-3..0.5")
    assert isinstance(whole, Range) and whole.is_whole and whole.is_log and whole.texts == ("256..2048:log",)
    assert isinstance(real, Range) and not real.is_whole and not real.is_log
    assert (whole.write(300), real.write(0.0123456), real.write(0.00099999)) == ("300", "0.01235", "0.001")
    assert read_search_axis("train.b=256,512").values == (256, 512)


@pytest.mark.parametrize(
    "text", ["runtime.sharding=auto,plan:../p.json", "runtime.sharding=plan:a..b.json", 'runtime.x="a..b"']
)
def test_dots_in_values_make_no_range(text: str) -> None:
    axis = read_search_axis(text)
    assert not isinstance(axis, Range) and axis.texts == tuple(text.partition("=")[2].split(","))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train.b=a..9", "expected two numbers"),
        ("train.b=1..", "expected two numbers"),
        ("train.b=1..9:exp", "expected two numbers"),
        ("train.b=1..inf", "expected two numbers"),
        ("train.b=1..1" + "0" * 400, "expected two numbers"),
        ("train.b=1..1" + "0" * 5000, "expected two numbers"),
        ("train.b=-1e308..1e308", "expected two numbers"),
        ("train.b=1..true", "expected two numbers"),
        ("train.b=9..9", "an empty range"),
        ("train.b=9..1", "an empty range"),
        ("train.b=0..9:log", "an empty range"),
        ("b=1..2", "expected section.key"),
        ("tain.b=1..2", "unknown section 'tain'. Did you mean 'train'"),
    ],
)
def test_what_is_no_range_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_search_axis(text)


def looking_for(objective: str, direction: str, *columns: str) -> SearchRecord:
    constraints = tuple(ConstraintRecord(column=column, sign="<=", value=1.0) for column in columns)
    return SearchRecord(objective=objective, direction=direction, constraints=constraints, sampler="auto")  # type: ignore[arg-type]


def test_the_columns_decide_the_kind() -> None:
    assert kind_with(looking_for("time_to_train_s", "minimize", "memory"), None) == "training"
    assert kind_with(looking_for("samples_per_s", "maximize", "memory"), None) == "throughput"
    assert kind_with(looking_for("train_s", "minimize", "auc"), None) == "quality"
    assert kind_with(looking_for("queries_per_s", "maximize", "latency_s"), None) == "serve"
    assert kind_with(looking_for("memory", "minimize"), "serve") == "serve"


@pytest.mark.parametrize(
    ("search", "kind", "said"),
    [
        (looking_for("sample_per_s", "maximize"), None, "Did you mean 'samples_per_s'"),
        (looking_for("samples_per_s", "maximize", "auk"), None, "Did you mean 'auc'"),
        (looking_for("samples_per_s", "maximize"), "quality", "no column of quality"),
        (looking_for("energy_delay", "minimize"), "serve", "no column of serve"),
        (looking_for("samples_per_s", "maximize", "latency_s"), None, "samples_per_s and latency_s are of two kinds"),
        (looking_for("samples_per_s", "minimize"), None, "Give --maximize"),
    ],
)
def test_a_column_that_no_kind_has_is_refused(search: SearchRecord, kind: str | None, said: str) -> None:
    with pytest.raises(HarnessError, match=said):
        kind_with(search, kind)


class Measured:
    """A process that used 6 J in 3 s for 10 samples, most of its memory on a device."""

    peak_rss_bytes, peak_device_bytes, num_samples = 100, 200, 10
    energy = EnergyRecord(energy_j=6.0, duration_s=3.0, sampling_interval_s=1.0, parts=(), not_measured=())


def test_memory_is_the_devices_and_energy_times_delay_is_of_one_sample() -> None:
    assert column_value(Measured(), "memory") == 200
    assert column_value(Measured(), "energy_delay") == pytest.approx(6 * 3 / 100)
    assert column_value(Measured(), "auc") is None


@pytest.mark.slow
def test_only_tune_imports_optuna() -> None:
    code = (
        "import sys\nfrom harness.cli import main\ntry:\n    main(sys.argv[1:])\n"
        "finally:\n    print('optuna' in sys.modules)\n"
    )
    for words in (["resume", "--help"], ["list"], ["resume", "nowhere"], ["sweep", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert done.stdout.endswith("False\n"), words
    root = ROOT / "harness"
    naming = {path.name for path in root.rglob("*.py") if "import optuna" in path.read_text(encoding="utf-8")}
    assert naming == {"optuna.py"}
