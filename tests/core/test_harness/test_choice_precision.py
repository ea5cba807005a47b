"""bf16 on a CPU is held against fp32 by timing, here by times that are made up; no flag of the CPU tells."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from inside import run_inside, use_workers_inside
from planted_steps import PlantedSteps
from small_entry import small_entry
from sweep_builder import FastWorkers

from harness.autotune.choices import FOLDER, find_candidates
from harness.autotune.precision import check_kept_precision, check_precision, settle_precision, tell_of_bf16
from harness.autotune.tuning import Preparation, autotune, find_choice
from harness.config.catalog import Entry, load_entry
from harness.config.run_config import Override, RunConfig, resolve
from harness.experiment.attach import refuse_other_configuration
from harness.foundation.errors import HarnessError
from harness.run_sets.environment import describe_warnings
from reference_models.config.sections import RuntimeConfig
from reports.results.records import describe_times
from rules.records.calibration import CalibrationRecord
from rules.records.codec import decode, encode
from rules.records.run_set import ChoiceRecord, RunSetRecord


def config_of(precision: str, implementation: str = "reference") -> RunConfig:
    given = {"precision": precision, "implementation": implementation, "threads": 1}
    return resolve(
        "dlrm_tiny", [Override(key=f"runtime.{key}", value=value, source="test") for key, value in given.items()]
    )


def prepared_with(choice: ChoiceRecord | None) -> Preparation:
    return Preparation(data_dir=Path("data"), num_threads=1, size=(512, 4096), choice=choice)


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("harness.autotune.tuning.is_system_busy", lambda *_: False)
    return tmp_path / "data"


def choose(data_dir: Path, planted: PlantedSteps, monkeypatch: pytest.MonkeyPatch) -> ChoiceRecord | None:
    monkeypatch.setattr("harness.autotune.candidates.launch_worker", planted)
    prepared = Preparation(data_dir=data_dir, num_threads=1, size=(512, 4096))
    return autotune(config_of("bf16"), prepared, known={}).choice


@pytest.mark.parametrize(
    ("bf16_s", "fp32_s", "says"),
    ((0.009, 0.006, "slower than"), (0.006, 0.009, "faster than"), (0.00602, 0.006, "about as fast as")),
)
def test_bf16_that_is_slower_by_timing_is_warned_of_with_both_times(
    bf16_s: float, fp32_s: float, says: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = choose(data_dir, PlantedSteps(bf16=bf16_s, fp32=fp32_s), monkeypatch)
    check = check_precision(prepared_with(choice), BF16)
    assert choice is not None and check is not None and choice.bf16_is == says
    times = f"{bf16_s * 1e3:.3g} ms a step; in fp32 {fp32_s * 1e3:.3g} ms on 1 thread"
    assert describe_times(choice) == times and check.value == f"bf16 is {says} fp32 here: {times}"
    warnings = describe_warnings([check])
    assert len(warnings) == (says == "slower than") and all(times in text for text in warnings)


def test_what_was_timed_is_kept_and_one_without_fp32_is_timed_again(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = PlantedSteps(bf16=0.009, fp32=0.006)
    choice = choose(data_dir, planted, monkeypatch)
    assert planted.asked == [("bf16", (1,), True), ("fp32", (1,), True)]
    assert find_choice(config_of("bf16"), data_dir) == choice == choose(data_dir, planted, monkeypatch)
    assert len(planted.asked) == 2
    (path,) = (data_dir / FOLDER).glob("*.json")
    content = json.loads(path.read_text())
    del content["choice"]["in_fp32"]
    path.write_text(json.dumps(content))
    assert find_choice(config_of("bf16"), data_dir) is None, "not timed yet, for plan"
    assert choose(data_dir, planted, monkeypatch) is not None and len(planted.asked) == 4


def test_a_failure_in_fp32_leaves_the_choice_and_says_nothing_of_it(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = choose(data_dir, PlantedSteps(bf16=0.009, fp32=-1), monkeypatch)
    assert choice is not None and choice.in_fp32 is None
    assert check_precision(prepared_with(choice), RuntimeConfig()) is None


@pytest.mark.parametrize("emulated", [None, "products in bf16 are emulated"])
def test_bf16_that_nothing_has_timed_is_warned_of_where_it_is_emulated(
    emulated: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of several ranks."""
    monkeypatch.setattr("harness.autotune.precision.explain_emulation", lambda runtime: emulated)
    check = check_precision(prepared_with(None), BF16)
    assert (None if check is None else (check.value, check.status)) == (emulated and (emulated, "warning"))


def test_fp32_is_compared_with_nothing(data_dir: Path) -> None:
    assert find_candidates(config_of("fp32"), data_dir) is None
    assert check_precision(prepared_with(None), RuntimeConfig()) is None
    found = find_candidates(config_of("fp32", "optimized"), data_dir)
    assert found is not None and not found.compares_fp32
    in_bf16 = find_candidates(config_of("bf16"), data_dir)
    assert in_bf16 is not None and in_bf16.compares_fp32


@pytest.mark.parametrize(
    ("bf16_s", "fp32_s", "words"),
    [(0.004, 0.009, "bf16 would be 2.2 times as fast here: 4 ms"), (0.009, 0.006, None)],
)
def test_before_a_run_in_fp32_what_was_timed_of_bf16_is_said(
    bf16_s: float, fp32_s: float, words: str | None, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tell_of_bf16(config_of("fp32"), data_dir) is None, "nothing is timed for it"
    choose(data_dir, PlantedSteps(bf16=bf16_s, fp32=fp32_s), monkeypatch)
    said = tell_of_bf16(config_of("fp32"), data_dir)
    assert said is words is None or (said or "").startswith(str(words))
    assert tell_of_bf16(config_of("bf16"), data_dir) is None


def test_times_of_no_size_are_no_record(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = choose(data_dir, PlantedSteps(bf16=0.009, fp32=0.006), monkeypatch)
    for bad in (0, -1, "6 ms"):
        in_fp32 = {"num_threads": 1, "spin_count": None, "step_s": bad}
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({**msgspec.to_builtins(choice), "in_fp32": in_fp32}, ChoiceRecord)


SHIPPED = load_entry("dlrm_tiny").benchmark.path
BF16 = RuntimeConfig(precision="bf16")
QUICK = ("--throughput", 10, "-n", 5, "--implementation", "reference", "--threads", 1)


@pytest.fixture
def definition(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with a calibration in bf16 beside it, whose workers answer at once."""
    monkeypatch.setattr("harness.experiment.executors.launch_worker", FastWorkers())
    entry = small_entry(tmp_path)
    write_calibration_of(entry)
    return entry.benchmark.path


def auto_of(definition: Path, **values: Any) -> RunConfig:
    given = {"runtime.precision": "auto", "runtime.threads": 1, **values}
    return resolve(definition, [Override(key=key, value=value, source="test") for key, value in given.items()])


def write_calibration_of(entry: Entry, **changes: Any) -> None:
    """Write that of a shipped benchmark as if it were of this one, at its batch size and learning rate."""
    train, made = entry.workload.train, decode(SHIPPED.with_suffix(".calibration.json"), CalibrationRecord)
    assert isinstance(made, CalibrationRecord) and made.precision == "fp32"
    own: dict[str, Any] = {
        "global_batch_size": train.global_batch_size,
        "opt_base_learning_rate": train.opt_base_learning_rate,
    }
    if changes.pop("has_missed", False):  # the target
        own["epochs_to_converge"] = (*made.default.epochs_to_converge[:-1], None)
    about = {
        "benchmark": entry.benchmark.name,
        "definition_sha256": entry.benchmark.definition_sha256,
        "default_batch_size": train.global_batch_size,
        "precision": "bf16",
        "batch_sizes": (msgspec.structs.replace(made.default, **own),),
    }
    made = msgspec.structs.replace(made, **about | changes)
    entry.benchmark.path.with_suffix(".bf16.calibration.json").write_text(encode(made))


def run_in(folder: Path, monkeypatch: pytest.MonkeyPatch, planted: PlantedSteps, *words: object) -> Any:
    monkeypatch.setattr("harness.autotune.candidates.launch_worker", planted)
    done = run_inside(folder, *words, "--data", "data")
    assert done.returncode == 0, done.stderr
    return done


def sets_in(folder: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("results/latest/**/run_set.json"))]


def lines_of(done: Any, start: str) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith(start)]


@pytest.mark.slow
def test_slower_is_said_once_before_the_first_run_and_on_the_page(
    definition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, planted = definition.parent, PlantedSteps(bf16=0.009, fp32=0.006)
    asked = ("--set", "runtime.precision=bf16")
    done = run_in(folder, monkeypatch, planted, "run", definition.name, *QUICK, *asked)
    says = "bf16 is slower than fp32 here: 9 ms a step; in fp32 6 ms on 1 thread"
    (warning,) = lines_of(done, "warning: precision")
    assert says in warning and done.stderr.index(warning) < done.stderr.index("process 0:")
    (set_folder,) = (path.parents[1] for path in folder.glob("results/latest/extra/run_set.json"))
    assert run_inside(folder, "report", set_folder, "-o", "page.html").returncode == 0
    assert says in (folder / "page.html").read_text()
    (record,) = sets_in(folder)
    assert record["config"]["runtime.precision"]["value"] == "bf16" and record["choice"]["in_fp32"]["step_s"] == 0.006
    again = run_inside(folder, "resume", set_folder)
    assert again.returncode == 0 and not lines_of(again, "warning: precision")
    plan = ("plan", definition.name, "--no-measure", "--format", "json", *QUICK[4:], *asked, "--data")
    assert json.loads(run_inside(folder, *plan, "data").stdout)["precision"] == says
    assert json.loads(run_inside(folder, *plan, "elsewhere").stdout)["precision"] == "bf16 and fp32: not timed yet"


@pytest.mark.parametrize(
    ("bf16_s", "fp32_s", "precision", "why"),
    [
        (0.009, 0.006, "fp32", "bf16 is slower than fp32 here: 9 ms a step; in fp32 6 ms on 1 thread"),
        (0.006, 0.009, "bf16", "bf16 is faster than fp32 here: 6 ms a step; in fp32 9 ms on 1 thread"),
    ],
    ids=["slower", "faster"],
)
def test_auto_is_what_is_faster_and_says_why(
    bf16_s: float, fp32_s: float, precision: str, why: str, definition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, planted = definition.parent, PlantedSteps(bf16=bf16_s, fp32=fp32_s)
    asked = ("--set", "runtime.precision=auto")
    done = run_in(folder, monkeypatch, planted, "run", definition.name, *QUICK, *asked)
    (line,) = lines_of(done, "precision: ")
    assert line.startswith(f"precision: {precision}, by runtime.precision=auto: {why}")
    assert not lines_of(done, "warning: precision") and done.stderr.index(line) < done.stderr.index("process 0:")
    (record,) = sets_in(folder)
    given = record["config"]["runtime.precision"]
    assert given["value"] == precision and given["source"].startswith(f"--set runtime.precision, auto: {why}")
    assert run_inside(folder, "report", "results/latest", "-o", "page.html").returncode == 0
    assert why in (folder / "page.html").read_text()
    (kept,) = (path.read_text() for path in folder.glob("results/latest/**/definition.toml"))
    assert f'precision = "{precision}"' in kept
    assert (record["choice"] or {}).get("in_fp32") == (
        {"num_threads": 1, "spin_count": 1000, "step_s": 0.009} if precision == "bf16" else None
    )


@pytest.mark.parametrize(
    ("bf16_s", "fp32_s", "why"),
    [
        (0.006, 0.00612, "bf16 is about as fast as fp32 here: 6 ms a step; in fp32 6.12 ms on 1 thread"),
        (-1, 0.006, "bf16 and fp32 are not both timed"),
        (0.006, -1, "bf16 and fp32 are not both timed"),
    ],
    ids=["tie", "no time of bf16", "no time of fp32"],
)
def test_auto_is_fp32_in_doubt(
    bf16_s: float, fp32_s: float, why: str, definition: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = PlantedSteps(bf16=bf16_s, fp32=fp32_s)
    monkeypatch.setattr("harness.autotune.candidates.launch_worker", planted)
    prepared = Preparation(data_dir=data_dir, num_threads=1, size=(64, 4096))
    settled, says = settle_precision(auto_of(definition), lambda config: autotune(config, prepared, known={}).choice)
    assert settled.workload.runtime.precision == "fp32" and planted.asked[0][0] == "bf16"
    assert says == f"fp32, by runtime.precision=auto: {why}"


@pytest.mark.parametrize("name", ["dlrm_small", "dlrm_dcnv2_small"])
@pytest.mark.parametrize(("fp32_s", "precision"), [(0.012, "bf16"), (0.004, "fp32")], ids=["faster", "slower"])
def test_auto_of_the_calibrated_benchmarks_is_what_timing_finds_faster(
    name: str, fp32_s: float, precision: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.autotune.candidates.launch_worker", PlantedSteps(bf16=0.006, fp32=fp32_s))
    asked = {"precision": "auto", "implementation": "reference", "threads": 1}
    config = resolve(name, [Override(key=f"runtime.{key}", value=asked[key], source="test") for key in asked])
    prepared = Preparation(data_dir=data_dir, num_threads=1, size=(64, 4096))
    settled, why = settle_precision(config, lambda in_bf16: autotune(in_bf16, prepared, known={}).choice)
    assert settled.workload.runtime.precision == precision and why is not None and why.startswith(precision)


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "fp32"},
        {"definition_sha256": "0" * 64},
        {"is_calibrated": False},
        {"has_missed": True},
    ],
)
def test_auto_is_fp32_where_no_calibration_covers_bf16(changes: dict[str, Any], definition: Path) -> None:
    write_calibration_of(load_entry(definition), **changes)
    settled, why = settle_precision(auto_of(definition), lambda config: pytest.fail("timed"))
    assert settled.workload.runtime.precision == "fp32" and why is not None
    assert "no calibration in bf16 beside mine.toml met the target at batch size 64" in why
    assert "'dlrmbench calibrate" in why and "mine.toml --precision bf16'" in why


@pytest.mark.parametrize("given", ["train.global_batch_size=128", "train.opt_base_learning_rate=0.5"])
def test_a_calibration_covers_its_batch_sizes_and_rates_alone(given: str, definition: Path) -> None:
    key, value = given.split("=")
    number = float(value) if "." in value else int(value)
    config, why = settle_precision(auto_of(definition, **{key: number}), lambda config: pytest.fail("timed"))
    assert config.workload.runtime.precision == "fp32" and why is not None and "no calibration in bf16" in why


def test_a_copy_of_a_shipped_definition_has_its_calibration(
    definition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "set" / "definition.toml"
    copy.parent.mkdir()
    copy.write_bytes(definition.read_bytes())
    config = auto_of(copy)
    assert "no calibration" in str(settle_precision(config, lambda config: None)[1])
    monkeypatch.setattr("harness.autotune.precision.shipped_twin", lambda benchmark: load_entry(definition).benchmark)
    assert "not both timed" in str(settle_precision(config, lambda config: None)[1])


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff"])
def test_a_damaged_calibration_covers_nothing(content: bytes, definition: Path) -> None:
    definition.with_suffix(".bf16.calibration.json").write_bytes(content)
    settled, why = settle_precision(auto_of(definition), lambda config: pytest.fail("timed"))
    assert settled.workload.runtime.precision == "fp32" and why is not None and "no calibration in bf16" in why


@pytest.mark.parametrize(("device", "ranks"), [("cuda", 1), ("cpu", 2)])
def test_auto_is_fp32_where_nothing_is_timed(device: str, ranks: int, definition: Path) -> None:
    config = auto_of(definition, **{"runtime.device": device, "runtime.ranks": ranks})
    settled, why = settle_precision(config, lambda config: pytest.fail("timed"))
    assert settled.workload.runtime.precision == "fp32"
    assert why == "fp32, by runtime.precision=auto: steps are timed beforehand on a CPU and one rank alone"


@pytest.mark.slow
def test_a_sweep_warns_of_what_is_slower_in_any_place(definition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PlantedSteps(bf16=0.009, fp32=0.006)
    axis = ("--axis", "runtime.precision=fp32,bf16,auto")
    done = run_in(definition.parent, monkeypatch, planted, "sweep", definition.name, *QUICK, *axis)
    assert len(lines_of(done, "warning: precision")) == len(lines_of(done, "precision: ")) == 1
    values = [each["config"]["runtime.precision"]["value"] for each in sets_in(definition.parent)]
    assert values == ["fp32", "bf16", "fp32"]
    assert [each[0] for each in planted.asked] == ["bf16", "fp32"], "timed once for all"


def test_the_time_of_a_sweep_with_auto_is_planned_without_timing_it(
    definition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.planning.sweep.estimate_process", lambda kind, options, config, data_root: None)
    monkeypatch.setattr("harness.planning.sweep.measure_start_s", lambda: 1.0)
    axis = ("--axis", "runtime.precision=fp32,auto")
    dry = run_inside(definition.parent, "sweep", definition.name, *QUICK, *axis, "--data", "data", "--dry-run")
    assert dry.returncode == 0 and "precision=auto" in dry.stdout, dry.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("bf16_s", "precision"), [(0.006, "bf16"), (0.02, "fp32")])
def test_a_side_beside_a_set_may_be_auto(
    bf16_s: float, precision: str, definition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, planted = definition.parent, PlantedSteps(bf16=bf16_s, fp32=0.009)
    run_in(folder, monkeypatch, planted, "run", definition.name, *QUICK)
    (source,) = (path.parents[1].resolve() for path in folder.glob("results/latest/extra/run_set.json"))
    beside = ("run", definition.name, *QUICK[4:], "--beside", source, "-n", 5, "--set")
    done = run_in(folder, monkeypatch, planted, *beside, "runtime.precision=auto")
    assert len(lines_of(done, f"precision: {precision}, by runtime.precision=auto")) == 1
    sides = {
        path.parents[1].name: json.loads(path.read_text())
        for path in folder.glob("results/beside-*/*/extra/*set.json")
    }
    values = {name: side["config"]["runtime.precision"]["value"] for name, side in sides.items()}
    assert values["base"] == "fp32" and values["new"] == precision
    done = run_in(folder, monkeypatch, planted, *beside, "runtime.precision=bf16", "-o", "other")
    assert len(lines_of(done, "warning: precision")) == (bf16_s > 0.009), "of the second side, too"


@pytest.mark.slow
def test_doctor_shows_what_is_kept_of_this_system_alone(definition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = definition.parent
    assert "not timed yet" in check_kept_precision(folder / "data").value
    planted = PlantedSteps(bf16=0.009, fp32=0.006)
    run_in(folder, monkeypatch, planted, "run", definition.name, *QUICK, "--set", "runtime.precision=bf16")
    found = check_kept_precision(folder / "data")
    assert re.fullmatch(r"\S+: bf16 is slower than fp32 here: 9 ms a step; in fp32 6 ms on 1 thread", found.value)
    assert found.status == "ok", "no reason for doctor --strict to fail"
    done = run_inside(folder, "doctor", "--data", "data", "--format", "json")
    assert json.loads(done.stdout)["checks"][-1]["value"] == found.value
    (path,) = (folder / "data").glob(f"*/{FOLDER}/*.json")
    content = json.loads(path.read_text())
    for key in ("cpu", "torch"):
        other = {**content, "chosen_for": {**content["chosen_for"], key: "another"}}
        path.write_text(json.dumps(other))
        assert "not timed yet" in check_kept_precision(folder / "data").value
    path.write_text("{")
    assert "not timed yet" in check_kept_precision(folder / "data").value


def test_a_profile_beside_a_set_has_its_precision(definition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PlantedSteps(bf16=0.006, fp32=0.009)
    asked = (*QUICK, "--set", "runtime.precision=auto")
    run_in(definition.parent, monkeypatch, planted, "run", definition.name, *asked)
    (path,) = definition.parent.glob("results/latest/extra/run_set.json")
    record = decode(path, RunSetRecord)
    assert isinstance(record, RunSetRecord)
    asked_of = {"runtime.threads": 1}
    refuse_other_configuration(path.parents[1], auto_of(definition, **asked_of), 1, record)
    with pytest.raises(HarnessError, match=r"runtime\.precision differ"):
        refuse_other_configuration(
            path.parents[1], auto_of(definition, **asked_of, **{"runtime.precision": "fp32"}), 1, record
        )


@pytest.mark.slow
def test_the_log_of_auto_says_the_precision_that_was_built(definition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_workers_inside(monkeypatch)
    for bf16_s, precision in ((0.006, "bf16"), (0.02, "fp32")):
        output, planted = Path(f"of_{precision}"), PlantedSteps(bf16=bf16_s, fp32=0.009)
        data = definition.parent / "data"
        shutil.rmtree(next(data.glob(f"*/{FOLDER}"), data / "none"), ignore_errors=True)
        run = ("run", definition.name, "-n", 1, "--threads", 1, "--set", "runtime.precision=auto", "-o", output)
        monkeypatch.setattr("harness.autotune.candidates.launch_worker", planted)
        run_inside(definition.parent, *run, "--data", "data")
        (log,) = (definition.parent / output).glob("latest/results/*/mine/result_0.txt")
        assert f'"key": "precision", "value": "{precision}"' in log.read_text()
