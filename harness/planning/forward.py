"""`profile --forward`: where the time of answering a batch goes, and how far from this system's ceilings it is."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from harness.config.run_config import RunConfig
from harness.foundation.errors import HarnessError
from harness.study import make_table
from harness.system.software import WORKER_VARIABLES
from reference_models.costs import PhaseCosts
from reference_models.registry import build_servable
from reference_models.serving.servable import ReportsForwardPhases, Servable, explain_emulation
from reports.page.figures.study import CEILINGS, WHOLE
from reports.text.formatting import count, duration, percent
from rules.records.study import Cell, Origin, Parameter, StudyRecord, StudyTable

if TYPE_CHECKING:
    import torch

    from reference_models.data.store.dataset import Batch

BATCH_SIZES = (1, 16, 64, 256, 1024)
COLUMNS: tuple[tuple[str, str | None, Origin], ...] = (
    ("Batch", None, "given"),
    ("Part", None, "given"),
    ("Time", "s", "measured"),
    ("Share", "share", "measured"),
    ("FLOP", "FLOP", "computed"),
    ("Bytes", "B", "computed"),
    ("FLOP/B", None, "computed"),
    ("Reached", "FLOP/s", "measured"),
    ("Of the roof", "share", "computed"),
    ("Bound by", None, "computed"),
)
_SQUARES = (512, 1024)
_BUDGET_S = 0.4
_LEAST, _WARM_UP = 20, 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceilings:
    """The best that was measured here."""

    flop_per_s: float
    """Of square matrix products in the precision that is served."""
    copies: tuple[tuple[int, float], ...]
    """Bytes read and written by a copy, and bytes per second; the last between buffers that no cache holds."""

    @property
    def memory_bytes_per_s(self) -> float:
        return self.copies[-1][1]

    @property
    def cache_bytes_per_s(self) -> float:
        return max(rate for _, rate in self.copies)

    def move_s(self, num_bytes: int) -> float:
        """Return the seconds to move so many bytes, at the best rate of any copy that is not smaller."""
        large_enough = [rate for size, rate in self.copies if size >= num_bytes] or [self.memory_bytes_per_s]
        return num_bytes / max(large_enough)


def profile_forward(
    configs: Sequence[tuple[RunConfig, Path]], batch_sizes: Sequence[int], num_threads: int
) -> StudyRecord:  # fmt: skip
    """Time the forward pass of each configuration, whose data is at the path, with random weights, by batch size.

    All configurations have the same device and precisions, of which the ceilings are measured. Raises ConfigError
    for what cannot be served, DatasetError for damaged data.
    """
    os.environ.update({**WORKER_VARIABLES, **os.environ})  # as in a run, and before torch is imported
    tables, findings = [], []
    runtime = replace(configs[0][0].workload.runtime, threads=num_threads)
    ceilings = None
    for config, data_dir in configs:
        workload = replace(config.workload, runtime=replace(config.workload.runtime, threads=num_threads))
        servable = build_servable(workload.model_name, workload.spec(data_dir, seed=0))
        if ceilings is None:
            ceilings = measure_ceilings(runtime.device, runtime.precision)
        times = {
            size: time_phases(servable, batch, runtime.device)
            for size, batch in _queries(servable, batch_sizes).items()
        }
        costs = {
            size: workload.model_spec.costs.forward(
                workload.model,
                workload.data,
                batch_size=size,
                precision=runtime.precision,
                table_precision=runtime.table_precision,
            )
            for size in times
        }
        labels = workload.model_spec.phases
        tables.append(forward_table(config.benchmark.name, times, costs, labels, ceilings))
        findings.append(describe_times(config.benchmark.name, times, labels))
    assert ceilings is not None
    peak, memory, cache = CEILINGS
    if warning := explain_emulation(runtime):
        findings.append(f"Warning: {warning}")
    findings.append(
        "Weights are random, which costs what learnt ones cost. The roof of a part is the larger of its matrix "
        "products at the best rate measured here and of its bytes at the best rate of a copy that is as large. Bound "
        "by overhead: more than twice the time at the roof."
    )
    only = configs[0][0].benchmark if len(configs) == 1 else None
    return StudyRecord(
        kind="forward",
        title=f"Answering batches: {', '.join(config.benchmark.name for config, _ in configs)}",
        benchmark=None if only is None else only.name,
        definition_sha256=None if only is None else only.definition_sha256,
        seed=None,
        parameters=(
            _parameter("device", runtime.device, None),
            _parameter("threads", num_threads, None),
            _parameter("precision", runtime.precision, "of matrix products"),
            _parameter("table precision", runtime.table_precision, "of embedding rows"),
            _rate(peak, ceilings.flop_per_s, "FLOP/s", "the best of squares"),
            _rate(memory, ceilings.memory_bytes_per_s, "B/s", "the largest copy"),
            _rate(cache, ceilings.cache_bytes_per_s, "B/s", "the fastest copy"),
        ),
        tables=tuple(tables),
        findings=tuple(findings),
        checks=(),
    )


def _parameter(name: str, value: str | int, note: str | None) -> Parameter:
    return Parameter(name=name, value=value, unit=None, source="given", note=note)


def _rate(name: str, value: float, unit: str, note: str) -> Parameter:
    return Parameter(name=name, value=value, unit=unit, source="measured", note=note)


def _queries(servable: Servable, batch_sizes: Sequence[int]) -> "dict[int, Batch]":
    sizes = list(dict.fromkeys(batch_sizes))
    return dict(zip(sizes, servable.queries(sizes), strict=True))


def time_phases(servable: Servable, batch: "Batch", device_name: str) -> dict[str, float]:
    """Return the seconds of each phase of answering a batch: means over the middle half of the repetitions."""
    import torch

    from harness.measure.profile.steps import Timeline

    if not isinstance(servable, ReportsForwardPhases):
        raise HarnessError("the model does not report the phases of its forward pass and cannot be profiled so.")
    timeline = Timeline(torch.device(device_name))
    for _ in range(_WARM_UP):
        servable.answer(batch)
    taken: list[dict[str, float]] = []
    until_s = time.monotonic() + _BUDGET_S
    while len(taken) < _LEAST or time.monotonic() < until_s:
        servable.answer_in_phases(batch, timeline.enter)
        taken.append(timeline.take())
    taken.sort(key=lambda phases: sum(phases.values()))
    middle = taken[len(taken) // 4 : -(len(taken) // 4)]
    return {phase: fmean(phases[phase] for phases in middle) for phase in middle[0]}


def measure_ceilings(device_name: str, precision: str) -> Ceilings:
    """Measure the best rate of square products in a precision, and of copies; a few seconds."""
    import torch

    from harness.measure.profile.measure_ceilings import COPY_BYTES, measure_copy, measure_matmul
    from harness.system.resources import read_resources
    from reference_models.training.devices import find_device

    device = find_device(device_name)
    if precision == "int8":
        best = max(_int8_rate(size, device) for size in _SQUARES)
    else:
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        shapes = [(1, size, size, size) for size in _SQUARES]
        best = max(measure_matmul(shape, device, dtype).flop_per_s.best for shape in shapes)
    sizes = [size for size in COPY_BYTES if size <= read_resources().available_memory_bytes // 4] or COPY_BYTES[:1]
    return Ceilings(
        flop_per_s=best, copies=tuple((size, measure_copy(size, device).bytes_per_s.best) for size in sizes)
    )


def _int8_rate(size: int, device: "torch.device") -> float:
    import torch

    from harness.measure.profile.measure_ceilings import rate, repeat

    left, right = (torch.ones(size, size, dtype=torch.int8, device=device) for _ in range(2))
    return rate(2 * size**3, repeat(lambda: torch._int_mm(left, right.t()), device, budget_s=0.2)).best


def forward_table(
    name: str,
    times: Mapping[int, Mapping[str, float]],
    costs: Mapping[int, Mapping[str, PhaseCosts]],
    labels: Mapping[str, str],
    ceilings: Ceilings,
) -> StudyTable:
    """Make a row per batch size and part, and one of the whole batch."""
    rows = []
    for size, phases in times.items():
        whole_s = sum(phases.values())
        parts = [(labels[phase], phases[phase], costs[size][phase]) for phase in labels if phase in phases]
        parts.append((WHOLE, whole_s, sum((part for _, _, part in parts), PhaseCosts())))
        rows += [_row(size, label, time_s, whole_s, part, ceilings) for label, time_s, part in parts]
    return make_table(name, COLUMNS, rows)


def _row(
    size: int, label: str, time_s: float, whole_s: float, costs: PhaseCosts, ceilings: Ceilings
) -> tuple[Cell, ...]:
    from harness.measure.profile.analysis import find_bound

    fraction, bound = find_bound(
        time_s,
        {"compute": costs.matmul_flop / ceilings.flop_per_s, "memory": ceilings.move_s(costs.bytes)},
    )
    intensity = costs.flop / costs.bytes if costs.bytes else None
    return (size, label, time_s, time_s / whole_s, costs.flop, costs.bytes, intensity, costs.flop / time_s, fraction,
            bound)  # fmt: skip


def describe_times(name: str, times: Mapping[int, Mapping[str, float]], labels: Mapping[str, str]) -> str:
    """Say how long the smallest and the largest batch take, and what most of it goes into."""
    parts = []
    for size in sorted({min(times), max(times)}):
        phases = times[size]
        whole_s, largest = sum(phases.values()), max(phases, key=lambda phase: phases[phase])
        share = percent(phases[largest] / whole_s, 0)
        parts.append(f"a batch of {count(size)} takes {duration(whole_s)}, {share} of it {labels[largest]}")
    return f"{name}: {'; '.join(parts)}."
