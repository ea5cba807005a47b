"""bf16 on a CPU is held against fp32 by timing, here by times that are made up; no flag of the CPU tells."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.autotune.choices import FOLDER, find_candidates
from harness.autotune.tuning import Preparation, autotune, check_precision, find_choice
from harness.config.run_config import Override, RunConfig, resolve
from harness.foundation.errors import ExitCode
from harness.launch.process import WorkerEnd
from harness.run_sets.environment import describe_warnings
from reports.results.records import describe_times
from rules.records.run_set import ChoiceRecord

Choose = Callable[[], ChoiceRecord | None]


class PlantedSteps:
    """In place of the processes that time: seconds of a step by precision; a negative number is a failure."""

    def __init__(self, **step_s: float) -> None:
        self.step_s, self.asked = step_s, list[tuple[str, tuple[int, ...], bool]]()

    def __call__(self, job_path: Path, **options: Any) -> WorkerEnd:
        job = json.loads(job_path.read_text())
        precision = job["tables"]["runtime"]["precision"]
        self.asked.append((precision, tuple(job["thread_counts"]), job.get("matmul") is None))
        if self.step_s[precision] < 0:
            return WorkerEnd(exit_code=int(ExitCode.RESOURCES), last_words="out of memory.")
        tried = [
            {"num_threads": count, "spin_count": job["spin_count"], "step_s": self.step_s[precision]}
            for count in job["thread_counts"]
        ]
        content = {"schema_version": 3, "code": None, "tried": tried, "matmuls": []}
        (job_path.parent / "measured.json").write_text(json.dumps(content))
        return WorkerEnd(exit_code=0, last_words="")


def config_of(precision: str, implementation: str = "reference") -> RunConfig:
    given = {"precision": precision, "implementation": implementation, "threads": 1}
    return resolve("dlrm_tiny", [Override(key=f"runtime.{key}", value=value, source="test") for key, value in
                                 given.items()])  # fmt: skip


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("harness.autotune.tuning.is_system_busy", lambda: False)
    return tmp_path / "data"


def choose(data_dir: Path, planted: PlantedSteps, monkeypatch: pytest.MonkeyPatch) -> ChoiceRecord | None:
    monkeypatch.setattr("harness.autotune.candidates.launch_worker", planted)
    prepared = Preparation(data_dir=data_dir, num_threads=1, size=(512, 4096))
    return autotune(config_of("bf16"), prepared, known={}).choice


@pytest.mark.parametrize(
    ("bf16_s", "fp32_s", "is_slower"), ((0.009, 0.006, True), (0.006, 0.009, False), (0.00602, 0.006, False))
)
def test_bf16_that_is_slower_by_timing_is_warned_of_with_both_times(
    bf16_s: float, fp32_s: float, is_slower: bool, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = choose(data_dir, PlantedSteps(bf16=bf16_s, fp32=fp32_s), monkeypatch)
    check = check_precision(choice)
    assert choice is not None and check is not None and choice.is_bf16_slower is is_slower
    times = f"{bf16_s * 1e3:.3g} ms a step; in fp32: {fp32_s * 1e3:.3g} ms"
    assert describe_times(choice) == times and check.value == f"bf16; {times}"
    warnings = describe_warnings([check])
    assert len(warnings) == is_slower and all("9 ms a step; in fp32: 6 ms" in text for text in warnings)


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
    del content["choice"]["fp32_step_s"]
    path.write_text(json.dumps(content))
    assert find_choice(config_of("bf16"), data_dir) is None, "not timed yet, for plan"
    assert choose(data_dir, planted, monkeypatch) is not None and len(planted.asked) == 4


def test_a_failure_in_fp32_leaves_the_choice_and_says_nothing_of_it(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = choose(data_dir, PlantedSteps(bf16=0.009, fp32=-1), monkeypatch)
    assert choice is not None and choice.fp32_step_s is None and check_precision(choice) is None


def test_fp32_is_compared_with_nothing(data_dir: Path) -> None:
    assert find_candidates(config_of("fp32"), data_dir) is None and check_precision(None) is None
    found = find_candidates(config_of("fp32", "optimized"), data_dir)
    assert found is not None and not found.compares_fp32
    in_bf16 = find_candidates(config_of("bf16"), data_dir)
    assert in_bf16 is not None and in_bf16.compares_fp32


def test_times_of_no_size_are_no_record(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = choose(data_dir, PlantedSteps(bf16=0.009, fp32=0.006), monkeypatch)
    for bad in (0, -1, "6 ms"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({**msgspec.to_builtins(choice), "fp32_step_s": bad}, ChoiceRecord)
