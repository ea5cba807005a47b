"""Find the bottleneck of each phase of a training step, and of the whole step, from measured times, computed work
(FLOP, bytes, rows) and measured ceilings (best rates). Imports no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reference_models.costs import Matmul, PhaseCosts
from reference_models.training.phases import Phase
from rules.records.profile import (
    Bound,
    CeilingsRecord,
    ComputedCeilings,
    ComputedPhase,
    ComputedStep,
    CopyRate,
    MeasuredCeilings,
    MeasuredPhase,
    PhaseRecord,
    StepLimit,
    StepLimits,
)

OVERHEAD_BELOW = 0.5
"""Limit below which a phase is bound by overhead: its least time at the ceilings (best rates), as a fraction of its
measured time."""


def compute_ceilings(measured: MeasuredCeilings) -> CeilingsRecord:
    """Return the measured ceilings (best rates of this system) with the values of the roofline that follow from them,
    such as the ridge in FLOP per byte."""
    best = max(product.flop_per_s.best for product in (*measured.matmul, *measured.square))
    memory = measured.copies[-1].bytes_per_s.best  # between the largest buffers, which no cache holds
    return CeilingsRecord(
        measured=measured,
        computed=ComputedCeilings(
            best_matmul_flop_per_s=best,
            memory_bytes_per_s=memory,
            ridge_flop_per_byte=best / memory,
            random_rows_bytes_per_s=measured.random_rows.rows_per_s.best * measured.random_rows.row_bytes,
            batch_rows_bytes_per_s=measured.batch_rows.rows_per_s.best * measured.batch_rows.row_bytes,
        ),
    )


def matmul_s(products: Sequence[Matmul], ceilings: CeilingsRecord, *, at_median: bool = False) -> float:
    """Return the seconds that all matrix products of a phase or a step take, each at the best rate (or the median
    rate) measured for its shape."""
    rates = {(each.num, each.m, each.k, each.n): each.flop_per_s for each in ceilings.measured.matmul}
    return sum(
        product.flop / (rates[product.shape].median if at_median else rates[product.shape].best)
        for product in products
    )


def move_s(num_bytes: float, copies: Sequence[CopyRate]) -> float:
    """Return the seconds to move `num_bytes` of memory, at the best rate of all measured copies of at least that
    size."""
    large_enough = [copy for copy in copies if copy.bytes >= num_bytes] or [copies[-1]]
    return num_bytes / max(copy.bytes_per_s.best for copy in large_enough)


def find_bound(time_s: float | None, limits_s: Mapping[Bound, float]) -> tuple[float | None, Bound | None]:
    """Return what bounds a phase, and how closely: the largest of its limits as a fraction of its time. `limits_s`
    has the limits, which are the least seconds that the phase can take on each resource.

    The phase is bound by the resource with the largest limit. It is bound by overhead if the fraction is below
    `OVERHEAD_BELOW`, or if all limits are 0; in the latter case the fraction is None. Both values are None if no time
    was measured for the phase.
    """
    if not time_s:
        return None, None
    resource = max(limits_s, key=lambda name: limits_s[name])
    fraction = limits_s[resource] / time_s if limits_s[resource] else None
    return fraction, "overhead" if fraction is None or fraction < OVERHEAD_BELOW else resource


def join_replayed(
    times_s: Mapping[str, float], costs: dict[str, PhaseCosts], products: tuple[Matmul, ...]
) -> tuple[dict[str, PhaseCosts], tuple[Matmul, ...]]:
    """Join the phases that a CUDA graph replayed together into one phase, REPLAY. It gets their work (FLOP, bytes,
    rows) and their matrix products, since only the replay as a whole was timed. Change nothing if no graph was
    replayed."""
    if Phase.REPLAY not in times_s:
        return costs, products
    inside = [phase for phase in costs if phase not in times_s]
    outside = {phase: costs[phase] for phase in costs if phase in times_s}
    replayed = sum((costs[phase] for phase in inside), start=PhaseCosts())
    return {**outside, Phase.REPLAY: replayed}, tuple(replace(product, phase=Phase.REPLAY) for product in products)


def analyse_phases(
    times_s: Mapping[str, float],
    costs: Mapping[str, PhaseCosts],
    products: Sequence[Matmul],
    ceilings: CeilingsRecord,
    labels: Mapping[str, str],
) -> tuple[PhaseRecord, ...]:
    """Return the analysis of every phase of a step that has a measured time or computed work. `labels` has the phases
    in the order in which they are returned, the order of the model."""
    return tuple(
        PhaseRecord(
            phase=str(phase),
            label=label,
            measured=MeasuredPhase(time_s=times_s.get(phase)),
            computed=_analyse_phase(
                times_s.get(phase),
                sum(times_s.values()),
                costs.get(phase, PhaseCosts()),
                [product for product in products if product.phase == phase],
                ceilings,
            ),
        )
        for phase, label in labels.items()
        if phase in times_s or phase in costs
    )


def _analyse_phase(
    time_s: float | None, step_s: float, costs: PhaseCosts, products: Sequence[Matmul], ceilings: CeilingsRecord
) -> ComputedPhase:
    """Return the values computed for a phase: its fraction of the step's time, its work and rates, its least time on
    each resource, and what bounds it.

    - Compute: the least time is the time of the matrix products at the rates measured for their shapes.
    - Memory: it is the time of all other bytes at the measured rate of copies of as many bytes. Operands of matrix
      products are not counted, since moving them is part of the products' measured time.
    - Embedding rows: it is the time of gathering them at the rate measured with real batches.
    """
    beside = costs.bytes - sum(product.bytes for product in products)
    limits_s: dict[Bound, float] = {
        "compute": matmul_s(products, ceilings),
        "gather": costs.rows / ceilings.measured.batch_rows.rows_per_s.best,
        "memory": move_s(max(beside, 0), ceilings.measured.copies),
    }
    per_s = 1 / time_s if time_s else None
    fraction, bound = find_bound(time_s, limits_s)
    return ComputedPhase(
        share=None if time_s is None else time_s / step_s,
        matmul_flop=costs.matmul_flop,
        elementwise_flop=costs.elementwise_flop,
        bytes=costs.bytes,
        rows=costs.rows,
        flop_per_byte=costs.flop / costs.bytes if costs.bytes else None,
        flop_per_s=per_s and costs.flop * per_s,
        bytes_per_s=per_s and costs.bytes * per_s,
        rows_per_s=per_s and costs.rows * per_s,
        compute_limit_s=limits_s["compute"],
        memory_limit_s=limits_s["memory"],
        gather_limit_s=limits_s["gather"],
        ceiling_fraction=fraction,
        bound=bound,
    )


def analyse_step(
    step_s: float,
    phases: Sequence[PhaseRecord],
    costs: Mapping[str, PhaseCosts],
    products: Sequence[Matmul],
    ceilings: CeilingsRecord,
    batch_size: int,
) -> ComputedStep:
    """Return a summary of a step of `step_s` seconds: its work, its least time at the ceilings (best rates), and the
    fractions of its time that are bound by each resource or by overhead."""
    flop = sum(phase.matmul_flop for phase in costs.values())
    num_bytes = sum(phase.bytes for phase in costs.values())
    intensity = sum(phase.flop for phase in costs.values()) / num_bytes
    shares: dict[Bound, float] = {}
    for phase in (phase.computed for phase in phases):
        if phase.bound is not None and phase.share is not None:
            shares[phase.bound] = shares.get(phase.bound, 0.0) + phase.share

    def limit(limit_s: float) -> StepLimit:
        rate = batch_size / limit_s if limit_s else None
        return StepLimit(step_s=limit_s, samples_per_s=rate, fraction=limit_s / step_s)

    best_flop_per_s = ceilings.computed.best_matmul_flop_per_s
    return ComputedStep(
        matmul_flop=flop,
        bytes=num_bytes,
        flop_per_s=flop / step_s,
        flop_per_byte=intensity,
        ridge_side="compute" if intensity >= ceilings.computed.ridge_flop_per_byte else "memory",
        bound_shares=shares,
        limits=StepLimits(
            matmul=limit(matmul_s(products, ceilings)),
            matmul_median=limit(matmul_s(products, ceilings, at_median=True)),
            matmul_best_shape=limit(sum(product.flop for product in products) / best_flop_per_s),
            all_phases=limit(sum(phase_limit_s(phase.computed) for phase in phases)),
        ),
    )


def phase_limit_s(phase: ComputedPhase) -> float:
    """Return the least time of a phase in seconds: the largest of its resources' limits, each at its own measured
    ceiling."""
    return max(phase.compute_limit_s, phase.memory_limit_s, phase.gather_limit_s)
