"""Time each part of the forward pass by batch size, and compare the times with this system's ceilings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from harness.config.catalog import WorkloadConfig
from harness.foundation.study import make_study, make_table
from harness.measure.kinds import Job, Kind, OnEvent
from harness.measure.profile.analysis import find_bound, move_s
from harness.measure.refusals import refuse_threads
from reference_models.config.sections import RuntimeConfig
from reference_models.costs import PhaseCosts
from reference_models.process.errors import ConfigError
from reference_models.process.world import World
from reference_models.registry import build_servable, label_of, refuse_impossible_serving
from reference_models.serving.servable import explain_emulation
from reports.kinds.forward import CEILINGS, WHOLE
from reports.text.formatting import count, duration, percent
from rules.records.profile import CopyRate
from rules.records.study import STUDY_FILE, Cell, Origin, Parameter, StudyRecord, StudyTable

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
_REMARK = (
    "Weights are random; trained weights take as long. The roof of a part of the forward pass is its time at the "
    "roofline ceiling, the longer of two times: that of its matrix products at the best rate measured here, and that "
    "of moving its bytes at the best rate measured for copies of at least as many bytes. A part is bound by overhead "
    "if it takes more than twice its time at the roofline ceiling."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardJob(Job):
    """Job that times the forward pass by batch size, for the models of one or more benchmark definitions with equal
    device, precisions and threads."""

    batch_sizes: Sequence[int]
    others: Sequence[Mapping[str, Any]] = ()
    """Further benchmark definitions: for each, the job's fields that differ from this job's."""


class Ceilings(NamedTuple):
    """Best rates of matrix products and copies measured on this system."""

    flop_per_s: float
    """Measured FLOP/s of square matrix products in the precision in which the model is served."""
    copies: tuple[CopyRate, ...]
    """Measured rates of memory copies, by size; the last is between buffers that no cache holds."""


def profile_forward(job: ForwardJob, world: World, on_event: OnEvent) -> StudyRecord:
    """Time the forward pass of each definition's model, with random weights, by batch size.

    Raises ConfigError for a model that cannot be served, DatasetError for damaged data.
    """
    from harness.measure.profile.measure_ceilings import find_best_flop_per_s, measure_copies
    from harness.measure.profile.steps import measure_answers
    from harness.measure.profile.worker import available_bytes
    from reference_models.training.devices import find_device

    on_event({"event": "progress", "doing": "measuring ceilings, and parts at each batch size"})
    benchmark, first = job.parse()
    device, sizes = find_device(first.runtime.device), list(dict.fromkeys(job.batch_sizes))
    tables, findings, ceilings = [], [], None
    for each in (job, *(replace(job, **other) for other in job.others)):
        subject, workload = each.parse()
        runtime, labels = workload.runtime, workload.model_spec.phases
        servable = build_servable(workload.model_name, each.spec(workload))
        if ceilings is None:
            copies = measure_copies(device, available_bytes(device))
            ceilings = Ceilings(find_best_flop_per_s(device, runtime.precision), copies)
        batches = zip(sizes, servable.queries(sizes), strict=True)
        times = {size: measure_answers(servable, batch, device) for size, batch in batches}
        precisions = {"precision": runtime.precision, "table_precision": runtime.table_precision}
        count_costs = partial(workload.model_spec.costs.forward, workload.model, workload.data.mapped, **precisions)
        costs = {size: count_costs(batch_size=size) for size in sizes}
        tables.append(forward_table(subject.name, times, costs, labels, ceilings))
        findings.append(describe_times(subject.name, times, labels))
    assert ceilings is not None
    answers = [*findings]
    if warning := explain_emulation(first.runtime):
        findings.append(f"Warning: {warning}")
    return make_study(
        "forward",
        "; ".join(answer.removesuffix(".") for answer in answers),
        None if job.others else benchmark,
        parameters=_list_parameters(first.runtime, ceilings),
        tables=tables,
        findings=(*findings, _REMARK),
    )


def _list_parameters(runtime: RuntimeConfig, ceilings: Ceilings) -> tuple[Parameter, ...]:
    rates = [copy.bytes_per_s.best for copy in ceilings.copies]
    named: tuple[tuple[Any, ...], ...] = (
        ("device", runtime.device, None, "given", None),
        ("threads", runtime.threads, None, "given", None),
        ("precision", runtime.precision, None, "given", "of matrix products"),
        ("table precision", runtime.table_precision, None, "given", "of embedding rows"),
        (CEILINGS[0], ceilings.flop_per_s, "FLOP/s", "measured", "the best of squares"),
        (CEILINGS[1], rates[-1], "B/s", "measured", "the largest copy"),
        (CEILINGS[2], max(rates), "B/s", "measured", "the fastest copy"),
    )
    return tuple(
        Parameter(name=name, value=value, unit=unit, source=by, note=note) for name, value, unit, by, note in named
    )


def forward_table(
    name: str,
    times: Mapping[int, Mapping[str, float]],
    costs: Mapping[int, Mapping[str, PhaseCosts]],
    labels: Mapping[str, str],
    ceilings: Ceilings,
) -> StudyTable:
    """Return a table of the measured times, with one row for each batch size and part of the forward pass, and one
    for each batch size and the whole pass."""
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
    fraction, bound = find_bound(
        time_s,
        {"compute": costs.matmul_flop / ceilings.flop_per_s, "memory": move_s(costs.bytes, ceilings.copies)},
    )
    intensity = costs.flop / costs.bytes if costs.bytes else None
    return (size, label, time_s, time_s / whole_s, costs.flop, costs.bytes, intensity, costs.flop / time_s, fraction,
            bound)  # fmt: skip


def describe_times(name: str, times: Mapping[int, Mapping[str, float]], labels: Mapping[str, str]) -> str:
    """Return a sentence with the time of the smallest and the largest batch, and the part that takes the most
    time."""
    parts = []
    for size in sorted({min(times), max(times)}):
        phases = times[size]
        whole_s, largest = sum(phases.values()), max(phases, key=lambda phase: phases[phase])
        share = percent(phases[largest] / whole_s, 0)
        parts.append(f"a batch of {count(size)} takes {duration(whole_s)}, {share} of it {labels[largest]}")
    return f"{name}: {'; '.join(parts)}."


class ForwardKind(Kind):
    """Kind of measurement that times each part of the forward pass in one process, without a run set."""

    def check(self, workload: WorkloadConfig) -> None:
        if workload.model_spec.serve is None:
            raise ConfigError(
                f"model {label_of(workload.model_name)!r} does not report the phases of its forward pass: its "
                "ModelSpec has no `serve`. Profile its training step: leave --forward out."
            )
        refuse_impossible_serving(workload.model_name, workload.runtime)
        refuse_threads(workload.runtime.threads)


KIND = ForwardKind(name="forward", job=ForwardJob, record=StudyRecord, run=profile_forward, file=STUDY_FILE)
