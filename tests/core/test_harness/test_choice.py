"""How a set's steps are computed is chosen once, by timing, before its first run; here by times that are made up."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.autotune.choices import FOLDER, Candidates, find_candidates
from harness.autotune.tuning import (
    KeptChoice,
    Preparation,
    autotune,
    find_choice,
    is_system_busy,
    prefer,
    to_be_timed,
)
from harness.config.run_config import Override, RunConfig, resolve
from harness.foundation.errors import ExitCode
from harness.launch.process import WorkerEnd
from harness.system.load import LoadWatch
from harness.system.resources import Resources, read_resources
from reports.results.records import describe_times
from rules.records.codec import decode
from rules.records.load import LoadRecord
from rules.records.run_set import ChoiceRecord, MatmulRecord, StepTimeRecord

LAUNCH = "harness.autotune.candidates.launch_worker"


def way(num_threads: int, spin_count: int | None, step_s: float) -> StepTimeRecord:
    return StepTimeRecord(num_threads=num_threads, spin_count=spin_count, step_s=step_s)


def cores(monkeypatch: pytest.MonkeyPatch, num_cores: int) -> None:
    found = read_resources()
    values = {name: getattr(found, name) for name in Resources.__dataclass_fields__} | {"num_cores": num_cores}
    monkeypatch.setattr("harness.autotune.choices.read_resources", lambda: Resources(**values))
    for name in [name for name in os.environ if name.startswith(("GOMP_", "OMP_", "KMP_"))]:
        monkeypatch.delenv(name)


def config_of(**given: Any) -> RunConfig:
    """dlrm_tiny's, with keys written section__key."""
    overrides = [Override(key=key.replace("__", ".", 1), value=value, source="test") for key, value in given.items()]
    return resolve("dlrm_tiny", overrides)


def ask_of(folder: Path, **given: Any) -> Candidates | None:
    return find_candidates(config_of(**given), folder)


def key_of(folder: Path, **given: Any) -> str:
    question = ask_of(folder, **given)
    assert question is not None
    return question.key


def test_what_is_tried_is_what_nobody_has_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def ways(**given: Any) -> tuple[Any, Any] | None:
        question = ask_of(tmp_path, **given)
        return None if question is None else (question.thread_counts, question.spin_counts)

    cores(monkeypatch, 6)
    assert ways() == ((1, 2, 4, 6), (1000, 300_000))
    assert ways(runtime__threads=2) == ((2,), (1000, 300_000))
    assert ways(runtime__threads=1) is None
    assert ways(runtime__threads=1, runtime__implementation="optimized") == ((1,), (1000,)), "products alone"
    assert ways(runtime__device="cuda") is None
    assert ways(runtime__implementation="torchrec", runtime__ranks=2) is None
    cores(monkeypatch, 1)
    assert ways() is None
    cores(monkeypatch, 2)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert ways() == ((1, 2), (None,)) and ways(runtime__threads=2) is None


def test_the_key_is_of_shape_batch_threads_and_precision_and_of_no_learning_rate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cores(monkeypatch, 2)
    plain = key_of(tmp_path)
    assert plain == key_of(tmp_path / "elsewhere") == key_of(tmp_path, train__opt_base_learning_rate=0.5)
    others = [
        key_of(tmp_path, train__global_batch_size=256),
        key_of(tmp_path, runtime__threads=2),
        key_of(tmp_path, runtime__precision="bf16"),
        key_of(tmp_path, runtime__implementation="optimized"),
    ]
    cores(monkeypatch, 4)
    others.append(key_of(tmp_path))
    monkeypatch.setenv("MKL_ENABLE_INSTRUCTIONS", "AVX2")
    others.append(key_of(tmp_path))
    monkeypatch.setattr("harness.autotune.choices.version_of", lambda package: "9.9")
    others.append(key_of(tmp_path))
    assert len({plain, *others}) == 8


@dataclass
class FakeTiming:
    """Answers at once, and counts how often it is asked."""

    num_threads: int = 2
    matmul: MatmulRecord | None = None
    asked: list[MatmulRecord | None] = field(default_factory=list)

    def __call__(self, question: Candidates, earlier: MatmulRecord | None) -> ChoiceRecord | str:
        self.asked.append(earlier)
        return ChoiceRecord(
            key=question.key,
            num_threads=self.num_threads,
            spin_count=question.spin_counts[0],
            tried=(),
            matmul=self.matmul,
            matmul_source=None,
            chosen_utc="2026-11-22T09:00:00+00:00",
        )


def matmul_of(form: str = "onednn", num_samples: int = 512) -> MatmulRecord:
    product = {"kind": "forward", "num_samples": num_samples, "num_in": 16, "num_out": 64}
    content = {
        "num_threads": 1,
        "precision": "fp32",
        "torch_version": "2.13.0",
        "cpu": "a processor",
        "products": [{"product": product, "form": form, "seconds": {"mm": 2e-5, "onednn": 1e-5}}],
    }
    return msgspec.convert(content, MatmulRecord)


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Preparation]:
    """Choose for dlrm_tiny on two cores, with what is kept below tmp_path/data."""
    cores(monkeypatch, 2)
    monkeypatch.setattr("harness.autotune.tuning.is_system_busy", lambda *_: False)

    def call(measure: Any, known: dict[str, ChoiceRecord] | None = None, **given: Any) -> Preparation:
        prepared = Preparation(data_dir=tmp_path / "data", num_threads=2, size=(512, 1000))
        return autotune(config_of(**given), prepared, known={} if known is None else known, measure=measure)

    return call


def kept_in(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "data" / FOLDER).glob("*.json"))


def test_a_choice_is_kept_for_the_next_set_and_said(
    chosen: Callable[..., Preparation], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timing = FakeTiming(num_threads=1)
    first = chosen(timing)
    assert first.num_threads == 1 and first.choice is not None
    (path,) = kept_in(tmp_path)
    assert "some seconds" in (said := capsys.readouterr().err) and str(path) in said
    assert chosen(timing, train__opt_base_learning_rate=0.7).choice == first.choice and len(timing.asked) == 1
    assert capsys.readouterr().err == f"computed with 1 thread, as timed on 2026-11-22: {path}\n"
    assert find_choice(config_of(), tmp_path / "data") == first.choice
    assert to_be_timed(config_of(), tmp_path / "data") is None
    other = to_be_timed(config_of(train__global_batch_size=256), tmp_path / "data")
    assert other is not None and other.thread_counts == (1, 2)
    chosen(timing, train__global_batch_size=256)
    assert len(timing.asked) == len(kept_in(tmp_path)) == 2
    path.unlink()
    chosen(timing)
    assert len(timing.asked) == 3, "removing the file has it made anew"


def test_what_was_timed_on_a_busy_system_is_timed_again_on_a_quiet_one(
    chosen: Callable[..., Preparation],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy, quiet = FakeTiming(num_threads=1, matmul=matmul_of()), FakeTiming(num_threads=2, matmul=matmul_of("mm"))
    monkeypatch.setattr("harness.autotune.tuning.is_system_busy", lambda *_: True)
    first = chosen(busy)
    assert ", and timed again when the machine is quiet" in capsys.readouterr().err
    assert chosen(busy).choice == first.choice and len(busy.asked) == 1, "sets on a busy system are alike"
    monkeypatch.setattr("harness.autotune.tuning.is_system_busy", lambda *_: False)
    again = chosen(quiet)
    assert again.num_threads == 2 and quiet.asked == [matmul_of()]
    monkeypatch.setattr("harness.autotune.tuning.is_system_busy", lambda *_: True)
    assert chosen(busy).choice == again.choice and len(busy.asked) == len(quiet.asked) == 1
    assert len(kept_in(tmp_path)) == 1


@pytest.mark.parametrize(
    ("other_cpus", "load_avg", "is_busy"),
    [(0.5, 0.0, True), (0.1, 3.0, False), (None, 3.0, True), (None, 0.1, False), (None, None, False)],
    ids=["others work", "only what went before", "not told apart: busy", "not told apart: quiet", "not known"],
)
def test_a_system_is_busy_where_other_processes_worked_meanwhile(
    other_cpus: float | None, load_avg: float | None, is_busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load average counts the minute before, and with it the commands that went before."""
    load = LoadRecord(
        num_cpus=2, duration_s=1.0, load_avg_before=load_avg, load_avg_after=load_avg, other_cpus=other_cpus
    )
    watch = LoadWatch()
    monkeypatch.setattr(LoadWatch, "end", lambda self: load)
    assert is_system_busy(watch) == is_busy


def test_a_new_choice_needs_5_percent_over_the_kept_one() -> None:
    def choice(num_threads: int, spin_count: int, **times: float) -> ChoiceRecord:
        tried = tuple(way(*map(int, name[1:].split("_")), step_s) for name, step_s in times.items())
        return ChoiceRecord(
            key="0" * 64,
            num_threads=num_threads,
            spin_count=spin_count,
            tried=tried,
            matmul=None,
            matmul_source=None,
            chosen_utc="",
        )

    kept = choice(2, 300_000)
    near = choice(1, 1000, w1_1000=1.0, w2_1000=1.0, w2_300000=1.04)
    assert prefer(kept, near) == kept
    assert prefer(kept, far := choice(1, 1000, w1_1000=1.0, w2_1000=1.2, w2_300000=1.1)) == far
    same = choice(2, 1000, w1_1000=1.2, w2_1000=1.01, w2_300000=1.0)
    assert prefer(kept, same) == msgspec.structs.replace(same, spin_count=300_000)
    assert prefer(choice(4, 1000), same) == same, "a way that was not tried again"


@pytest.mark.parametrize("content", ["", "{", '{"schema_version": 1}', "[" * 5000, '{"schema_version": 99}'])
def test_a_damaged_file_is_said_and_written_anew(
    chosen: Callable[..., Preparation], tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    timing = FakeTiming()
    chosen(timing)
    (path,) = kept_in(tmp_path)
    path.write_text(content)
    capsys.readouterr()
    assert chosen(timing).num_threads == 2 and len(timing.asked) == 2
    assert f"note: {path}: " in capsys.readouterr().err
    assert isinstance(decode(path, KeptChoice), KeptChoice)


def test_a_kept_choice_that_answers_another_question_is_not_used(
    chosen: Callable[..., Preparation], tmp_path: Path
) -> None:
    timing = FakeTiming()
    chosen(timing)
    (path,) = kept_in(tmp_path)
    content = json.loads(path.read_text())
    for change in ({"num_threads": 64}, {"spin_count": 5}, {"key": "0" * 64}):
        path.write_text(json.dumps({**content, "choice": {**content["choice"], **change}}))
        before = len(timing.asked)
        assert chosen(timing).num_threads == 2 and len(timing.asked) == before + 1


def test_one_command_asks_once_for_all_of_a_shape_also_where_nothing_can_be_kept(
    chosen: Callable[..., Preparation], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").write_text("no folder")
    timing, known = FakeTiming(), dict[str, ChoiceRecord]()
    first, second = (chosen(timing, known, train__opt_base_learning_rate=rate) for rate in (0.1, 0.2))
    assert first.choice == second.choice and len(timing.asked) == 1
    assert "not kept" in capsys.readouterr().err
    chosen(timing, known, runtime__threads=2)
    assert len(timing.asked) == 2


def test_where_timing_fails_nothing_is_chosen_and_nothing_kept(
    chosen: Callable[..., Preparation], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = chosen(lambda question, earlier: "out of memory.")
    assert made.choice is None and made.num_threads == 2 and kept_in(tmp_path) == []
    assert "not chosen by timing (out of memory.)" in capsys.readouterr().err


def test_an_interrupted_choice_leaves_nothing(chosen: Callable[..., Preparation], tmp_path: Path) -> None:
    def interrupt(question: Candidates, earlier: MatmulRecord | None) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chosen(interrupt)
    assert kept_in(tmp_path) == [] and [path.name for path in (tmp_path / "data" / FOLDER).iterdir()] == [".lock"]


def test_another_torch_begins_from_the_forms_that_an_earlier_one_had(
    chosen: Callable[..., Preparation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = FakeTiming(matmul=matmul_of())
    chosen(timing)
    monkeypatch.setattr("harness.autotune.choices.version_of", lambda package: "9.9")
    chosen(timing)
    assert timing.asked == [None, matmul_of()] and len(kept_in(tmp_path)) == 2


@pytest.mark.parametrize("other", ("false", "no_such_compiler", "cc -O1", "gcc \udcff"))
def test_products_that_are_compiled_are_chosen_anew_for_another_compiler_or_none(
    other: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """OpenBLAS is called by what is compiled: without a compiler a set that was given it would not start."""
    cores(monkeypatch, 2)
    products = {"runtime__implementation": "optimized"}
    monkeypatch.setenv("CC", "cc")
    before, threads_alone = key_of(tmp_path, **products), key_of(tmp_path)
    monkeypatch.setenv("CC", other)
    assert key_of(tmp_path, **products) != before
    assert key_of(tmp_path) == threads_alone


def test_a_kept_form_that_no_library_has_is_said_and_not_used(
    chosen: Callable[..., Preparation], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timing = FakeTiming(matmul=matmul_of())
    chosen(timing)
    (path,) = kept_in(tmp_path)
    path.write_text(path.read_text().replace('"onednn"', '"os.system"'))
    capsys.readouterr()
    assert chosen(timing).choice is not None and len(timing.asked) == 2
    assert f"note: {path} is no choice" in (said := capsys.readouterr().err) and "os.system" in said


@dataclass
class FakeProcesses:
    """In place of the processes that time: seconds by threads and spinning; products for the best one's threads."""

    step_s: Mapping[tuple[int, int], float]
    jobs: list[tuple[tuple[int, ...], int, int]] = field(default_factory=list)
    variables: list[Mapping[str, str]] = field(default_factory=list)
    fails: Callable[[int], bool] = lambda number: False
    unit_s: float = 1.0

    def __call__(self, spec_path: Path, **options: Any) -> WorkerEnd:
        spec = json.loads(spec_path.read_text())
        counts, spin = tuple(spec["thread_counts"]), spec["spin_count"]
        self.jobs.append((counts, spin, options["num_threads"]))
        self.variables.append(options["variables"])
        if self.fails(len(self.jobs)):
            return WorkerEnd(exit_code=int(ExitCode.RESOURCES), last_words="out of memory.")
        seconds = {n: self.step_s[n, spin] * self.unit_s for n in counts}
        tried = [{"num_threads": n, "spin_count": spin, "step_s": seconds[n]} for n in counts]
        matmuls = []
        if spec["tables"]["runtime"].get("implementation") == "optimized":
            matmuls = [{**msgspec.to_builtins(matmul_of()), "num_threads": count} for count in counts]
        content = {"schema_version": 1, "code": None, "tried": tried, "matmuls": matmuls}
        (spec_path.parent / "measured.json").write_text(json.dumps(content))
        return WorkerEnd(exit_code=0, last_words="")


SHORT, LONG = ((1, 2), 1000, 2), ((2,), 300_000, 2)
"""What processes are asked: counts of threads, spinning, and threads to start with."""


@pytest.mark.parametrize(
    ("times", "jobs", "threads_spin"),
    [
        ({(1, 1000): 1.0, (2, 1000): 1.9}, [SHORT], (1, 1000)),
        ({(1, 1000): 1.0, (2, 1000): 0.9, (2, 300_000): 0.7}, [SHORT, LONG], (2, 300_000)),
        ({(1, 1000): 1.0, (2, 1000): 1.0, (2, 300_000): 1.0}, [SHORT, LONG], (1, 1000)),
        # With the longer spinning one thread is no longer near enough to the best; two that spin little are. Where
        # processes found what is close, each has another turn.
        ({(1, 1000): 1.0, (2, 1000): 0.97, (2, 300_000): 0.94}, [SHORT, LONG, SHORT, LONG], (2, 1000)),
        ({(1, 1000): 1.0, (2, 1000): 0.96, (2, 300_000): 0.92}, [SHORT, LONG, SHORT, LONG], (2, 1000)),
    ],
)
def test_a_process_per_spinning_and_products_for_the_best(
    chosen: Callable[..., Preparation],
    monkeypatch: pytest.MonkeyPatch,
    times: dict[tuple[int, int], float],
    jobs: list[Any],
    threads_spin: tuple[int, int],
) -> None:
    processes = FakeProcesses(times, unit_s=0.01)
    monkeypatch.setattr(LAUNCH, processes)
    choice = chosen(None, runtime__implementation="optimized").choice
    assert choice is not None and processes.jobs == jobs
    assert (choice.num_threads, choice.spin_count) == threads_spin
    assert choice.matmul is not None and choice.matmul.num_threads == threads_spin[0]
    assert processes.variables == [{"GOMP_SPINCOUNT": str(spin)} for _, spin, _ in jobs]


def test_a_process_that_was_disturbed_has_another_turn_before_it_decides(
    chosen: Callable[..., Preparation], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = {(1, 1000): 1.06, (2, 1000): 1.0}, {(1, 1000): 1.01, (2, 1000): 1.0}

    @dataclass
    class Drifting(FakeProcesses):
        def __call__(self, spec_path: Path, **options: Any) -> WorkerEnd:
            self.step_s = {**(second if self.jobs else first), (2, 300_000): 0.99}
            return super().__call__(spec_path, **options)

    monkeypatch.setattr(LAUNCH, processes := Drifting({}, unit_s=0.01))
    choice = chosen(None).choice
    assert choice is not None and (choice.num_threads, choice.spin_count) == (1, 1000)
    assert choice.tried[0].step_s == 0.0101 and len(processes.jobs) == 4
    assert {(each.num_threads, each.spin_count) for each in choice.tied} == {(2, 1000), (2, 300_000)}


def test_long_steps_take_no_other_turn(chosen: Callable[..., Preparation], monkeypatch: pytest.MonkeyPatch) -> None:
    processes = FakeProcesses({(1, 1000): 1.0, (2, 1000): 0.97, (2, 300_000): 0.94})
    monkeypatch.setattr(LAUNCH, processes)
    assert chosen(None).choice is not None and len(processes.jobs) == 2


def test_what_was_measured_is_said_and_so_is_a_tie(
    chosen: Callable[..., Preparation], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = {(1, 1000): 0.0104, (2, 1000): 0.0101, (2, 300_000): 0.01}
    monkeypatch.setattr(LAUNCH, FakeProcesses(times))
    choice = chosen(None).choice
    assert choice is not None
    assert "computed with 1 thread (10.4 ms a step; 2 threads: 10 ms, a tie), as timed now" in capsys.readouterr().err
    clear = msgspec.structs.replace(
        choice, num_threads=2, tried=(way(1, 1000, 0.012), way(2, 1000, 0.01)), spin_count=1000
    )
    assert describe_times(clear) == "10 ms a step; 1 thread: 12 ms" and clear.tied == ()
    assert describe_times(msgspec.structs.replace(choice, tried=())) == ""


def test_a_second_process_that_fails_leaves_what_the_first_found(
    chosen: Callable[..., Preparation], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    processes = FakeProcesses({(1, 1000): 1.0, (2, 1000): 0.9, (2, 300_000): 0.1}, fails=lambda number: number == 2)
    monkeypatch.setattr(LAUNCH, processes)
    choice = chosen(None).choice
    assert choice is not None and (choice.num_threads, choice.spin_count) == (2, 1000)
    processes = FakeProcesses({}, fails=lambda number: True)
    monkeypatch.setattr(LAUNCH, processes)
    assert chosen(None, runtime__threads=2).choice is None
    assert "(out of memory.)" in capsys.readouterr().err
