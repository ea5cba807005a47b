"""What torch's own profiler sees: the operators that take the time, and a trace for Perfetto."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from harness.measure.profile.steps import ProfiledWorkload, train_steps

NUM_SHOWN = 15
_RANGE = "phase "
_BUDGET_S = 0.5
_MOST_STEPS = 5
_FLOAT_BYTES, _ID_BYTES = 4, 8
Shapes = Sequence[Sequence[int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorTime:
    """One operator with one set of input shapes. FLOP and bytes are per call, None where they are not known."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    calls_per_step: float
    self_s_per_step: float
    share: float
    flop: int | None
    bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorTable:
    """The operators of most self time, under the profiler, which itself slows small ones."""

    num_steps: int
    total_s_per_step: float
    outside_share: float
    """Of the time inside phases but outside of every operator: Python."""
    operators: tuple[OperatorTime, ...]


def profile_operators(
    workload: ProfiledWorkload, device: torch.device, *, step_s: float, trace: Path | None
) -> OperatorTable:
    """Train a few steps under torch.profiler; write a Chrome trace (gzipped where the name ends in .gz)."""
    num_steps = max(1, min(_MOST_STEPS, round(_BUDGET_S / step_s)))
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    ranges = _Ranges()
    with torch.profiler.profile(activities=activities, record_shapes=True, with_flops=True) as profiler:
        with workload.report_phases(ranges.enter):
            train_steps(workload, num_steps)
        ranges.close()
        workload.synchronize()
    if trace is not None:
        write_trace(profiler.export_chrome_trace, trace)
    return summarise(profiler.key_averages(group_by_input_shape=True), num_steps, is_cuda=device.type == "cuda")


def write_trace(export: Callable[[str], Any], path: Path) -> None:
    """Write by one rename; the draft keeps the ending, by which the profiler decides to compress."""
    suffix = ".json.gz" if path.name.endswith(".gz") else ".json"
    draft = path.with_name(f".{path.name}.partial{suffix}")
    try:
        export(str(draft))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


class _Ranges:
    """Phases as named ranges of the trace. A phase that another thread enters cannot close this thread's range."""

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


def summarise(averages: Sequence[Any], num_steps: int, *, is_cuda: bool) -> OperatorTable:
    """The operators by self time; `averages` are torch.profiler's, grouped by input shape."""
    times = [(one, (one.self_device_time_total if is_cuda else one.self_cpu_time_total) / 1e6) for one in averages]
    total_s = sum(self_s for one, self_s in times if is_cuda or not one.key.startswith("cuda"))
    outside_s = sum(self_s for one, self_s in times if one.key.startswith(_RANGE))
    shown = sorted((pair for pair in times if not pair[0].key.startswith(_RANGE)), key=lambda pair: -pair[1])
    return OperatorTable(
        num_steps=num_steps,
        total_s_per_step=total_s / num_steps,
        outside_share=outside_s / total_s if total_s else math.nan,
        operators=tuple(_operator(one, self_s, num_steps, total_s) for one, self_s in shown[:NUM_SHOWN]),
    )


def _operator(one: Any, self_s: float, num_steps: int, total_s: float) -> OperatorTime:
    shapes = tuple(
        tuple(int(size) for size in shape) for shape in one.input_shapes if isinstance(shape, list | tuple)
    )
    flop = round(one.flops / one.count) if one.flops else None
    return OperatorTime(
        name=one.key,
        shapes=tuple(shape for shape in shapes if shape),
        calls_per_step=one.count / num_steps,
        self_s_per_step=self_s / num_steps,
        share=self_s / total_s if total_s else math.nan,
        flop=flop,
        bytes=operator_bytes(one.key, shapes),
    )


def operator_bytes(name: str, shapes: Shapes) -> int | None:
    """Compulsory fp32 bytes of one call, by its inputs' shapes; None for operators that are not known here."""
    count = _BYTES.get(name)
    try:
        return None if count is None else count(shapes)
    except (IndexError, ValueError):
        return None


def _matmul_bytes(shapes: Shapes) -> int:
    left, right = (shape for shape in shapes[-2:])
    return _FLOAT_BYTES * (math.prod(left) + math.prod(right) + math.prod(left[:-1]) * right[-1])


def _addmm_bytes(shapes: Shapes) -> int:
    return _matmul_bytes([shape for shape in shapes if shape][1:3]) + _FLOAT_BYTES * math.prod(shapes[0])


def _mm_bytes(shapes: Shapes) -> int:
    return _matmul_bytes([shape for shape in shapes if shape][:2])


def _in_and_out(num_inputs: int) -> Callable[[Shapes], int]:
    """Inputs of equal size read, an output of that size written."""
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
