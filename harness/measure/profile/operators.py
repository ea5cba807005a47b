"""List the operators that take the most time according to torch's profiler, and write a trace for Perfetto."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity

from harness.measure.profile.steps import ProfiledWorkload
from harness.measure.throughput import train_steps
from reports.text.atomic_write import draft_file
from rules.records.profile import MeasuredOperators, OperatorRecord

NUM_SHOWN = 15
_RANGE = "phase "
_BUDGET_S = 0.5
_MOST_STEPS = 5
_FLOAT_BYTES, _ID_BYTES = 4, 8
Shapes = Sequence[Sequence[int]]


def profile_operators(
    workload: ProfiledWorkload, device: torch.device, *, step_s: float, trace: Path | None
) -> MeasuredOperators:
    """Train a few steps under torch.profiler; return the operators that take the most time, and write a Chrome trace
    to `trace`, gzipped where the name ends in .gz."""
    num_steps = max(1, min(_MOST_STEPS, round(_BUDGET_S / step_s)))
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    ranges = _Ranges()
    # One cycle, whose events are kept either way; without acc_events, torch 2.11 warns that they may be lost.
    with torch.profiler.profile(
        activities=activities, record_shapes=True, with_flops=True, acc_events=True
    ) as profiler:
        with workload.report_phases(ranges.enter):
            train_steps(workload.train, num_steps)
        ranges.close()
        workload.synchronize()
    if trace is not None:
        write_trace(profiler.export_chrome_trace, trace)
    return summarise(profiler.key_averages(group_by_input_shape=True), num_steps, is_cuda=device.type == "cuda")


def write_trace(export: Callable[[str], Any], path: Path) -> None:
    """Write a profiler's trace to a draft file, which is then renamed to `path`. The draft has the same ending as
    `path`, since by it the profiler decides whether to compress."""
    with draft_file(path, ".json.gz" if path.name.endswith(".gz") else ".json") as draft:
        export(str(draft))


class _Ranges:
    """Marker of the phases of a training step as named ranges in a profiler's trace. Phases that another thread
    enters are ignored: they cannot close this thread's range."""

    def __init__(self) -> None:
        self._open: torch.autograd.profiler.record_function | None = None
        self._thread = threading.get_ident()

    def enter(self, phase: str) -> None:
        if threading.get_ident() != self._thread:
            return
        self.close()
        self._open = torch.autograd.profiler.record_function(_RANGE + phase)
        self._open.__enter__()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None


def summarise(averages: Sequence[Any], num_steps: int, *, is_cuda: bool) -> MeasuredOperators:
    """Return the operators of a profiled step, ordered by their own time. The times include the profiler's overhead.

    `averages` are the rows of torch.profiler's table, grouped by input shape. On a CPU, `outside_share` of the result
    is the fraction of the time that was spent inside phases but outside of operators, that is in Python. On a GPU the
    times are those of kernels, and do not include Python. If CUPTI is missing, the profiler sees no kernels, and the
    times on a GPU are times of the CPU.
    """
    kernels = [average for average in averages if _is_kernel(average)] if is_cuda else []
    if kernels:
        return _summarise_kernels(averages, kernels, num_steps)
    times = [(average, average.self_cpu_time_total / 1e6) for average in averages]
    total_s = sum(self_s for average, self_s in times if not average.key.startswith("cuda"))
    outside_s = sum(self_s for average, self_s in times if average.key.startswith(_RANGE))
    shown = [pair for pair in times if not pair[0].key.startswith(_RANGE)]
    return _in_order(shown, num_steps, total_s, outside_share=outside_s / total_s if total_s else None)


def _is_kernel(average: Any) -> bool:
    """Return whether a row of torch.profiler's table is a kernel on the GPU, and not a named range."""
    return average.device_type == DeviceType.CUDA and not average.is_user_annotation


def _summarise_kernels(averages: Sequence[Any], kernels: Sequence[Any], num_steps: int) -> MeasuredOperators:
    """Return the times of GPU kernels: by operator if the profiler knows which operators launched the kernels, else
    by kernel. It knows the operators in eager steps. It does not know them for kernels of a replayed CUDA graph,
    which no operator launched.

    The profiler lists the same microseconds three times: for a kernel, for its operator and for its named range. So
    only one of these lists may be summed. The list of kernels is always complete.
    """
    total_s = sum(kernel.self_device_time_total for kernel in kernels) / 1e6
    operators = [
        (average, average.self_device_time_total / 1e6)
        for average in averages
        if average.device_type == DeviceType.CPU
        and average.key.startswith("aten::")
        and average.self_device_time_total
    ]
    is_eager = sum(self_s for _, self_s in operators) > total_s / 2
    shown = operators if is_eager else [(kernel, kernel.self_device_time_total / 1e6) for kernel in kernels]
    return _in_order(shown, num_steps, total_s, outside_share=None)


def _in_order(
    times: Sequence[tuple[Any, float]], num_steps: int, total_s: float, *, outside_share: float | None
) -> MeasuredOperators:
    shown = sorted(times, key=lambda pair: -pair[1])[:NUM_SHOWN]
    return MeasuredOperators(
        num_steps=num_steps,
        step_s=total_s / num_steps,
        outside_share=outside_share,
        table=tuple(_operator(average, self_s, num_steps, total_s) for average, self_s in shown),
    )


def _operator(average: Any, self_s: float, num_steps: int, total_s: float) -> OperatorRecord:
    shapes = tuple(
        tuple(int(size) for size in shape) for shape in average.input_shapes if isinstance(shape, list | tuple)
    )
    return OperatorRecord(
        name=average.key,
        shapes=tuple(shape for shape in shapes if shape),
        calls_per_step=average.count / num_steps,
        self_s_per_step=self_s / num_steps,
        share=self_s / total_s if total_s else None,
        flop=round(average.flops / average.count) if average.flops else None,
        bytes=count_operator_bytes(average.key, shapes),
    )


def count_operator_bytes(name: str, shapes: Shapes) -> int | None:
    """Return the bytes that a call of an operator must at least move (inputs read once, output written once, in
    fp32), by the shapes of its inputs; None for operators not in `_BYTES`."""
    count = _BYTES.get(name)
    try:
        return None if count is None else count(shapes)
    except (IndexError, ValueError):
        return None


def _mm_bytes(shapes: Shapes) -> int:
    left, right = [shape for shape in shapes if shape][:2]
    return _FLOAT_BYTES * (math.prod(left) + math.prod(right) + math.prod(left[:-1]) * right[-1])


def _addmm_bytes(shapes: Shapes) -> int:
    return _mm_bytes([shape for shape in shapes if shape][1:]) + _FLOAT_BYTES * math.prod(shapes[0])


def _in_and_out(num_inputs: int) -> Callable[[Shapes], int]:
    """Return a function that counts the fp32 bytes of an elementwise operator with `num_inputs` inputs and an output,
    all of the same size."""
    return lambda shapes: _FLOAT_BYTES * (num_inputs + 1) * math.prod(shapes[0])


def _embedding_bag_bytes(shapes: Shapes) -> int:
    weight, ids, bags = shapes[:3]
    return math.prod(ids) * (_ID_BYTES + _FLOAT_BYTES * weight[1]) + math.prod(bags) * _FLOAT_BYTES * weight[1]


_BYTES: Mapping[str, Callable[[Shapes], int]] = {
    "aten::mm": _mm_bytes,
    "aten::bmm": _mm_bytes,
    "aten::addmm": _addmm_bytes,
    "aten::relu": _in_and_out(1),
    "aten::clamp_min": _in_and_out(1),
    "aten::threshold_backward": _in_and_out(2),
    "aten::sqrt": _in_and_out(1),
    "aten::addcmul_": _in_and_out(3),
    "aten::addcdiv_": _in_and_out(3),
    "aten::_embedding_bag": _embedding_bag_bytes,
}
