"""Phases of steps: what the clock stamps is what the tables say, and nothing is left out."""

import gzip
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import DeviceType

from harness.measure.profile.operators import count_operator_bytes, summarise, write_trace
from harness.measure.profile.steps import StepTimes, Timeline, compute_median_interval, measure_steps
from harness.measure.throughput import train_steps
from reference_models.dlrm.phases import DLRMPhase
from reference_models.process.errors import ConfigError
from reference_models.training.phases import Enter, ignore_phase
from reference_models.training.workload import TrainCounts

CPU = torch.device("cpu")
PHASES_MS = {DLRMPhase.DATA: 5, DLRMPhase.LOSS: 2, DLRMPhase.TOP_MLP_BACKWARD: 30}
REPORTING_MS, LOOP_MS = 1, 4


class FakeTime:
    """A monotonic clock that only moves when it is made to."""

    def __init__(self) -> None:
        self.now_ns = 10**9

    def sleep_ms(self, milliseconds: float) -> None:
        self.now_ns += round(milliseconds * 1e6)


class ScriptedSteps:
    """Trains by moving a fake clock; reporting phases costs REPORTING_MS per step, the loop LOOP_MS per call."""

    def __init__(self, clock: FakeTime, *, epoch: int = 1000) -> None:
        self._clock, self._epoch, self._left = clock, epoch, epoch
        self._enter: Enter = ignore_phase
        self.calls: list[tuple[bool, int]] = []

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def train(self, num_steps: int) -> TrainCounts:
        num_steps = min(num_steps, self._left)
        for _ in range(num_steps):
            for phase, milliseconds in PHASES_MS.items():
                self._enter(phase)
                self._clock.sleep_ms(milliseconds)
            self._clock.sleep_ms(0 if self._enter is ignore_phase else REPORTING_MS)
        self._enter(DLRMPhase.OTHER)
        self._clock.sleep_ms(LOOP_MS)
        self.calls.append((self._enter is not ignore_phase, num_steps))
        self._left = self._left - num_steps or self._epoch
        return TrainCounts(num_steps=num_steps, num_samples=num_steps)

    @contextmanager
    def report_phases(self, enter: Enter) -> Iterator[None]:
        self._enter = enter
        try:
            yield
        finally:
            self._enter = ignore_phase


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    made = FakeTime()
    monkeypatch.setattr(time, "monotonic_ns", lambda: made.now_ns)
    return made


def test_phases_and_the_loop_are_separate_and_add_up_to_the_step(clock: FakeTime) -> None:
    workload: Any = ScriptedSteps(clock)
    times = measure_steps(workload, CPU, num_steps=10)
    phases = times.phase_times_s()
    step_ms = sum(PHASES_MS.values())
    per_step_ms = step_ms + LOOP_MS / times.steps_per_block
    assert times.step_s == pytest.approx(per_step_ms / 1e3)
    assert phases[DLRMPhase.DATA] == pytest.approx(5e-3)
    assert phases[DLRMPhase.LOSS] == pytest.approx(2e-3)
    assert phases[DLRMPhase.TOP_MLP_BACKWARD] == pytest.approx((30 + REPORTING_MS) / 1e3)
    assert phases[DLRMPhase.OTHER] == pytest.approx(LOOP_MS / times.steps_per_block / 1e3)
    assert sum(phases.values()) == pytest.approx((per_step_ms + REPORTING_MS) / 1e3)
    named = (step_ms + REPORTING_MS) / (per_step_ms + REPORTING_MS)
    assert times.measured(8).named_share == pytest.approx(named)


def test_phases_add_up_to_an_undisturbed_step_whichever_phase_a_disturbance_hit() -> None:
    phases = [{DLRMPhase.DATA: 1.0, DLRMPhase.LOSS: 3.0}, {DLRMPhase.DATA: 3.0, DLRMPhase.LOSS: 1.1}] * 4
    phases += [{DLRMPhase.DATA: 90.0, DLRMPhase.LOSS: 1.0}, {DLRMPhase.DATA: 0.1, DLRMPhase.LOSS: 0.1}]
    whole = tuple(sum(block.values()) for block in phases)
    times = StepTimes(steps_per_block=1, plain_s=whole, instrumented_s=whole, phases_s=tuple(phases))
    found = times.phase_times_s()
    assert 4.0 <= sum(found.values()) <= 4.1
    assert found[DLRMPhase.DATA] == pytest.approx(2.0, abs=0.4)


def test_what_reporting_phases_costs_is_the_difference_between_neighbouring_blocks(clock: FakeTime) -> None:
    workload: Any = ScriptedSteps(clock)
    times = measure_steps(workload, CPU, num_steps=10)
    measured = times.measured(8)
    cost = [measured.instrumentation_cost, *measured.instrumentation_cost_interval]
    assert cost == pytest.approx([REPORTING_MS / (times.step_s * 1e3)] * 3)
    reported = [is_reported for is_reported, _ in workload.calls[-4:]]
    assert reported in ([False, True, True, False], [True, False, False, True])  # each first every other time


def test_without_a_number_steps_fill_a_budget(clock: FakeTime) -> None:
    workload: Any = ScriptedSteps(clock)
    start_ns = clock.now_ns
    times = measure_steps(workload, CPU, num_steps=None)
    assert len(times.plain_s) == len(times.instrumented_s) == len(times.phases_s) >= 10
    assert (clock.now_ns - start_ns) / 1e9 < 20


def test_steps_go_over_the_end_of_an_epoch(clock: FakeTime) -> None:
    workload: Any = ScriptedSteps(clock, epoch=3)
    train_steps(workload.train, 7)
    assert [steps for _, steps in workload.calls] == [3, 3, 1]


def test_a_dataset_without_one_batch_is_an_error() -> None:
    empty: Any = SimpleNamespace(train=lambda num_steps: TrainCounts(num_steps=0, num_samples=0))
    with pytest.raises(ConfigError, match="less than one batch"):
        train_steps(empty.train, 1)


def test_a_timeline_adds_up_phases_that_are_entered_again_and_then_begins_anew(clock: FakeTime) -> None:
    timeline = Timeline(CPU)
    for phase, milliseconds in ((DLRMPhase.DATA, 3), (DLRMPhase.LOSS, 4), (DLRMPhase.DATA, 5)):
        timeline.enter(phase)
        clock.sleep_ms(milliseconds)
    assert timeline.take() == pytest.approx({DLRMPhase.DATA: 8e-3, DLRMPhase.LOSS: 4e-3})
    assert timeline.take() == {}


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40))
def test_the_interval_of_a_median_holds_it(values: list[float]) -> None:
    low, high = compute_median_interval(values)
    if len(values) < 6:
        assert (low, high) == (None, None)
    else:
        assert low is not None and high is not None
        assert low <= statistics.median(values) <= high


def test_the_interval_of_a_median_has_the_ranks_of_the_sign_test() -> None:
    assert compute_median_interval([float(i) for i in range(1, 26)]) == (
        8,
        18,
    )  # tables of the sign test, n = 25, 95 %
    assert compute_median_interval([1.0] * 5) == (None, None)


def average(key: str, self_us: float, count: int, flops: int = 0, shapes: Any = ()) -> Any:
    return SimpleNamespace(
        key=key, self_cpu_time_total=self_us, self_device_time_total=0, count=count, flops=flops, input_shapes=shapes
    )


def test_operators_come_by_self_time_and_phases_are_not_among_them() -> None:
    table = summarise(
        [
            average("phase loss", 2e6, 2),
            average("aten::mm", 6e6, 4, flops=4 * 240, shapes=[[4, 5], [5, 6]]),
            *(average(f"aten::op{i}", 1e5, 2) for i in range(20)),
        ],
        num_steps=2,
        is_cuda=False,
    )
    assert len(table.table) == 15
    first = table.table[0]
    assert (first.name, first.calls_per_step, first.self_s_per_step) == ("aten::mm", 2, 3.0)
    assert first.share == pytest.approx(0.6)
    assert (first.flop, first.bytes) == (240, 4 * (20 + 30 + 24))
    assert table.outside_share == pytest.approx(0.2)
    assert not any(operator.name.startswith("phase") for operator in table.table)


def on_gpu(key: str, self_us: float, *, kind: str = "kernel", shapes: Any = ()) -> Any:
    """A row as the profiler makes it of one thing on a GPU: of an operator, a kernel, or a range over kernels."""
    return SimpleNamespace(
        key=key,
        self_cpu_time_total=7.0,
        self_device_time_total=self_us,
        count=2,
        flops=0,
        input_shapes=shapes,
        device_type=DeviceType.CPU if kind in ("operator", "range") else DeviceType.CUDA,
        is_user_annotation=kind == "annotation",
    )


def test_a_microsecond_of_a_gpu_is_one_however_often_it_is_listed() -> None:
    rows = [
        on_gpu("phase loss", 100, kind="range"),
        on_gpu("aten::mm", 80, kind="operator", shapes=[[4, 5], [5, 6]]),
        on_gpu("aten::relu", 20, kind="operator", shapes=[[4, 6]]),
        on_gpu("cudaLaunchKernel", 0, kind="operator"),
        on_gpu("sm90_gemm", 80),
        on_gpu("relu_kernel", 20),
        on_gpu("phase loss", 100, kind="annotation"),
    ]
    eager = summarise(rows, num_steps=2, is_cuda=True)
    assert [(row.name, row.share) for row in eager.table] == [("aten::mm", 0.8), ("aten::relu", 0.2)]
    assert (eager.step_s, eager.outside_share) == (pytest.approx(50e-6), None)
    assert eager.table[0].shapes == ((4, 5), (5, 6))
    replayed = summarise([row for row in rows if not row.key.startswith("aten")], num_steps=2, is_cuda=True)
    assert [(row.name, row.share) for row in replayed.table] == [("sm90_gemm", 0.8), ("relu_kernel", 0.2)]
    assert replayed.step_s == eager.step_s


def test_where_no_kernel_was_seen_the_cpus_time_is_shown() -> None:
    rows = [on_gpu("phase loss", 0, kind="range"), on_gpu("aten::mm", 0, kind="operator")]
    seen = summarise(rows, num_steps=1, is_cuda=True)
    assert (seen.step_s, seen.outside_share) == (pytest.approx(14e-6), 0.5)


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("aten::addmm", [[6], [4, 5], [5, 6]], 4 * (20 + 30 + 24 + 6)),
        ("aten::bmm", [[2, 4, 5], [2, 5, 6]], 2 * 4 * (20 + 30 + 24)),
        ("aten::_embedding_bag", [[100, 8], [12], [3], []], 12 * (8 + 32) + 3 * 32),
        ("aten::relu", [[4, 5]], 2 * 4 * 20),
        ("aten::unknown", [[4, 5]], None),
        ("aten::mm", [[4, 5]], None),
    ],
)
def test_bytes_of_known_operators_are_what_they_must_move(name: str, shapes: Any, expected: int | None) -> None:
    assert count_operator_bytes(name, shapes) == expected


def test_a_trace_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    def fail(path: str) -> None:
        Path(path).write_text("half of it")
        raise OSError

    with pytest.raises(OSError):
        write_trace(fail, tmp_path / "trace.json")
    assert list(tmp_path.iterdir()) == []


def test_a_trace_is_compressed_where_its_name_says_so(tmp_path: Path) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profiler:
        torch.ones(3).sum()
    write_trace(profiler.export_chrome_trace, tmp_path / "trace.json.gz")
    content = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    assert any(event.get("name") == "aten::sum" for event in content["traceEvents"])
