"""extra/profile.json as the reports use it: rows of its tables, amounts as computers have them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import get_args

from reports.facts.records import read_record
from reports.text.formatting import count, num_bytes, printable
from rules.records.profile import (
    Bound,
    LayerProduct,
    MeasuredCeilings,
    OperatorRecord,
    PhaseRecord,
    ProfileRecord,
    Rate,
)

_FILE = Path("extra") / "profile.json"
_MAX_PROFILES = 20
_AUTOGRAD = "autograd::engine::evaluate_function: "
BOUNDS: tuple[Bound, ...] = get_args(Bound)
LIMITS = ("matmul", "matmul_median", "matmul_best_shape", "all_phases")


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseRow:
    """One phase of a step: time measured, all else computed. None where something is not known."""

    name: str
    label: str
    time_s: float | None
    share: float | None
    flop: float
    bytes: float | None
    flop_per_byte: float | None
    flop_per_s: float | None
    bytes_per_s: float | None
    rows_per_s: float | None
    ceiling_fraction: float | None
    bound: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitRow:
    """The speed of a step at some ceilings."""

    name: str
    samples_per_s: float | None
    fraction: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingRow:
    """One measured ceiling."""

    name: str
    size: str
    detail: str
    unit: str
    best: float | None
    median: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorRow:
    """One operator under torch.profiler; FLOP and bytes are per call and computed."""

    name: str
    shapes: str
    calls_per_step: float | None
    self_s: float | None
    share: float | None
    flop: float | None
    bytes: float | None

    @property
    def call_s(self) -> float | None:
        return self.self_s / self.calls_per_step if self.self_s and self.calls_per_step else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileFacts:
    """One profile."""

    benchmark: str
    implementation: str
    device: str
    precision: str
    num_threads: int
    batch_size: int
    num_steps: int
    step_s: float | None
    fastest_step_s: float | None
    instrumented_step_s: float | None
    fastest_instrumented_step_s: float | None
    samples_per_s: float | None
    named_share: float | None
    instrumentation_cost: float | None
    instrumentation_interval: tuple[float, float] | None
    flop_per_byte: float | None
    ridge_flop_per_byte: float | None
    bound_shares: tuple[tuple[str, float], ...]
    phases: tuple[PhaseRow, ...]
    limits: tuple[LimitRow, ...]
    ceilings: tuple[CeilingRow, ...]
    matmul_flop_per_s: float | None
    memory_bytes_per_s: float | None
    cache_bytes_per_s: float | None
    operators: tuple[OperatorRow, ...]
    operator_steps: int | None
    outside_share: float | None
    eval_s: float | None
    eval_samples_per_s: float | None
    eval_flop_per_s: float | None


def read_profiles(folders: Iterable[Path]) -> tuple[ProfileFacts, ...]:
    """The profiles of these folders, different ones only, at most _MAX_PROFILES."""
    problems: list[str] = []
    records = (read_profile(folder / _FILE, problems) for folder in islice(folders, _MAX_PROFILES))
    return tuple(dict.fromkeys(record for record in records if record is not None))


def read_profile(path: Path, problems: list[str]) -> ProfileFacts | None:
    """The profile in a file; None where there is none, or it is damaged, which is a problem."""
    record = read_record(path, ProfileRecord, problems)
    return None if record is None else profile_facts(record)


def profile_facts(record: ProfileRecord) -> ProfileFacts:
    """The rows that tables and charts show."""
    step, computed = record.step.measured, record.step.computed
    ceilings, ridge = record.ceilings.measured, record.ceilings.computed
    operators, evaluation = record.operators.measured, record.evaluation
    copies = [rate for copy in ceilings.copies if (rate := amount(copy.bytes_per_s.best)) is not None]
    low, high = step.instrumentation_cost_interval
    return ProfileFacts(
        benchmark=printable(record.benchmark, 80),
        implementation=printable(record.implementation, 80),
        device=printable(record.device, 80),
        precision=printable(record.precision, 80),
        num_threads=record.num_threads,
        batch_size=record.global_batch_size,
        num_steps=step.num_blocks * step.steps_per_block,
        step_s=amount(step.step_s),
        fastest_step_s=amount(step.fastest_step_s),
        instrumented_step_s=amount(step.instrumented_step_s),
        fastest_instrumented_step_s=amount(step.fastest_instrumented_step_s),
        samples_per_s=amount(step.samples_per_s),
        named_share=amount(step.named_share),
        instrumentation_cost=step.instrumentation_cost,
        instrumentation_interval=None if low is None or high is None else (low, high),
        flop_per_byte=amount(computed.flop_per_byte),
        ridge_flop_per_byte=amount(ridge.ridge_flop_per_byte),
        bound_shares=tuple(
            (name, share) for name in BOUNDS if (share := amount(computed.bound_shares.get(name))) is not None
        ),
        phases=tuple(map(_phase_row, record.phases)),
        limits=tuple(
            LimitRow(name=name, samples_per_s=amount(limit.samples_per_s), fraction=amount(limit.fraction))
            for name in LIMITS
            for limit in (getattr(computed.limits, name),)
        ),
        ceilings=tuple(_ceilings(ceilings)),
        matmul_flop_per_s=amount(ridge.best_matmul_flop_per_s),
        memory_bytes_per_s=amount(ridge.memory_bytes_per_s),
        cache_bytes_per_s=max(copies, default=None),
        operators=tuple(map(_operator_row, operators.table)),
        operator_steps=operators.num_steps,
        outside_share=amount(operators.outside_share),
        eval_s=amount(evaluation.measured.duration_s),
        eval_samples_per_s=amount(evaluation.measured.samples_per_s),
        eval_flop_per_s=amount(evaluation.computed.flop_per_s),
    )


def _phase_row(phase: PhaseRecord) -> PhaseRow:
    computed = phase.computed
    return PhaseRow(
        name=printable(phase.phase, 40),
        label=printable(phase.label or _readable(phase.phase), 40),
        time_s=amount(phase.measured.time_s),
        share=amount(computed.share),
        flop=computed.matmul_flop + computed.elementwise_flop,
        bytes=amount(computed.bytes),
        flop_per_byte=amount(computed.flop_per_byte),
        flop_per_s=amount(computed.flop_per_s),
        bytes_per_s=amount(computed.bytes_per_s),
        rows_per_s=amount(computed.rows_per_s),
        ceiling_fraction=amount(computed.ceiling_fraction),
        bound=computed.bound,
    )


def _readable(name: str) -> str:
    """'top mlp fwd' of top_mlp_forward, for a file that has no label."""
    return name.replace("_forward", " fwd").replace("_backward", " bwd").replace("_", " ")


def _ceilings(measured: MeasuredCeilings) -> Iterator[CeilingRow]:
    for product in (*measured.matmul, *measured.square):
        times = "" if product.num == 1 else f"{product.num} of "
        layers = product.used_by[:6] if isinstance(product, LayerProduct) else ()
        detail = ", ".join(printable(layer, 60) for layer in layers) or printable(product.layout, 60)
        shape = f"{times}{product.m}×{product.k}×{product.n}"
        yield _ceiling("matmul", shape, detail, "FLOP/s", product.flop_per_s)
    for copy in measured.copies:
        yield _ceiling("copy", num_bytes(copy.bytes), "read and written", "B/s", copy.bytes_per_s)
    for name, gather in (("gather, uniform", measured.random_rows), ("gather, batches", measured.batch_rows)):
        detail = f"from {count(gather.table_rows)} rows, by {printable(gather.method, 40)}"
        yield _ceiling(name, f"{gather.row_bytes} B/row", detail, "rows/s", gather.rows_per_s)
    transfer = measured.transfer
    # null is what a CPU has: there is nothing to copy to, and nothing was measured.
    moved, detail = (num_bytes(transfer.bytes), "pinned copy") if transfer else (num_bytes(None), "no device")
    yield _ceiling("host to device", moved, detail, "B/s", transfer.to_device_bytes_per_s if transfer else None)
    yield _ceiling("device to host", moved, detail, "B/s", transfer.to_host_bytes_per_s if transfer else None)


def _ceiling(name: str, size: str, detail: str, unit: str, rate: Rate | None) -> CeilingRow:
    best, median = (amount(rate.best), amount(rate.median)) if rate else (None, None)
    return CeilingRow(name=name, size=size, detail=detail, unit=unit, best=best, median=median)


def _operator_row(operator: OperatorRecord) -> OperatorRow:
    shapes = ("×".join(str(size) for size in shape[:6]) for shape in operator.shapes[:8])
    return OperatorRow(
        name=printable(operator.name, 60).removeprefix(_AUTOGRAD),
        shapes=printable(", ".join(shapes), 80),
        calls_per_step=amount(operator.calls_per_step),
        self_s=amount(operator.self_s_per_step),
        share=amount(operator.share),
        flop=amount(operator.flop),
        bytes=amount(operator.bytes),
    )


def amount(value: float | None) -> float | None:
    """A positive number as computers have them: beyond 1e-15 to 1e25 nothing is drawn or divided."""
    return value if value is not None and 1e-15 < value < 1e25 else None
