"""profile.json: every number under `measured` or `computed`; computed ones come from measured times and ceilings."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from harness.measure.profile.analysis import PhaseProfile, StepLimits, side_of_ridge, step_intensity
from harness.measure.profile.ceilings import Ceilings
from harness.measure.profile.operators import OperatorTable
from harness.measure.profile.steps import StepTimes
from reference_models.costs.phases import Matmul, PhaseCosts
from rules.records.codec import VERSION


def make_document(
    about: Mapping[str, Any],
    *,
    times: StepTimes,
    phases: Sequence[PhaseProfile],
    labels: Mapping[str, str],
    counts: Mapping[str, PhaseCosts],
    products: Sequence[Matmul],
    limits: StepLimits,
    ceilings: Ceilings,
    operators: OperatorTable,
    evaluation: Mapping[str, Any],
) -> dict[str, Any]:
    batch_size = about["global_batch_size"]
    return {
        "schema_version": VERSION,
        **about,
        "step": {
            "measured": _measured_step(times, batch_size),
            "computed": _computed_step(times, phases, counts, limits, ceilings, batch_size),
        },
        "phases": [_phase(profile, labels) for profile in phases],
        "evaluation": evaluation,
        "ceilings": _ceilings(ceilings, products),
        "operators": {
            "measured": {
                "num_steps": operators.num_steps,
                "step_s": operators.total_s_per_step,
                "outside_share": _finite(operators.outside_share),
                "table": [_operator(one) for one in map(asdict, operators.operators)],
            }
        },
    }


def _measured_step(times: StepTimes, batch_size: int) -> dict[str, Any]:
    cost, low, high = times.instrumentation_cost()
    return {
        "num_blocks": len(times.plain_s),
        "steps_per_block": times.steps_per_block,
        "step_s": times.step_s,
        "fastest_step_s": min(times.plain_s),
        "told_step_s": statistics.median(times.told_s),
        "fastest_told_step_s": min(times.told_s),
        "samples_per_s": batch_size / times.step_s,
        "named_share": times.named_share,
        "instrumentation_cost": cost,
        "instrumentation_cost_interval": [_finite(low), _finite(high)],
    }


def _computed_step(
    times: StepTimes,
    phases: Sequence[PhaseProfile],
    counts: Mapping[str, PhaseCosts],
    limits: StepLimits,
    ceilings: Ceilings,
    batch_size: int,
) -> dict[str, Any]:
    flop = sum(one.matmul_flop for one in counts.values())
    shares: dict[str, float] = {}
    for one in phases:
        if one.bound is not None and one.share is not None:
            shares[one.bound] = shares.get(one.bound, 0.0) + one.share
    seconds = {
        "matmul": limits.matmul_s,
        "matmul_median": limits.matmul_median_s,
        "matmul_best_shape": limits.matmul_best_shape_s,
        "all_phases": limits.all_phases_s,
    }
    intensity = step_intensity(counts)
    return {
        "matmul_flop": flop,
        "bytes": sum(one.bytes for one in counts.values()),
        "flop_per_s": flop / times.step_s,
        "flop_per_byte": intensity,
        "ridge_side": side_of_ridge(intensity, ceilings),
        "bound_shares": shares,
        "limits": {
            name: {
                "step_s": limit_s,
                "samples_per_s": batch_size / limit_s if limit_s else None,
                "fraction": limit_s / times.step_s,
            }
            for name, limit_s in seconds.items()
        },
    }


def _phase(one: PhaseProfile, labels: Mapping[str, str]) -> dict[str, Any]:
    per_s = 1 / one.time_s if one.time_s else None
    return {
        "phase": str(one.phase),
        "label": labels.get(one.phase),
        "measured": {"time_s": one.time_s},
        "computed": {
            "share": one.share,
            "matmul_flop": one.counts.matmul_flop,
            "elementwise_flop": one.counts.elementwise_flop,
            "bytes": one.counts.bytes,
            "rows": one.counts.rows,
            "flop_per_byte": one.counts.flop / one.counts.bytes if one.counts.bytes else None,
            "flop_per_s": per_s and one.counts.flop * per_s,
            "bytes_per_s": per_s and one.counts.bytes * per_s,
            "rows_per_s": per_s and one.counts.rows * per_s,
            "compute_limit_s": one.limit.compute_s,
            "memory_limit_s": one.limit.memory_s,
            "gather_limit_s": one.limit.gather_s,
            "ceiling_fraction": one.ceiling_fraction,
            "bound": one.bound,
        },
    }


def _ceilings(ceilings: Ceilings, products: Sequence[Matmul]) -> dict[str, Any]:
    used: dict[tuple[int, int, int, int], list[str]] = {}
    for product in products:
        used.setdefault(product.shape, []).append(f"{product.layer} {str(product.phase).rpartition('_')[2]}")
    return {
        "measured": {
            "matmul": [{**asdict(one), "used_by": used[shape]} for shape, one in ceilings.matmul.items()],
            "square": [asdict(one) for one in ceilings.square],
            "copies": [asdict(one) for one in ceilings.copies],
            "random_rows": asdict(ceilings.random_rows),
            "batch_rows": asdict(ceilings.batch_rows),
            "transfer": None if ceilings.transfer is None else asdict(ceilings.transfer),
        },
        "computed": {
            "best_matmul_flop_per_s": ceilings.best_matmul.flop_per_s.best,
            "memory_bytes_per_s": ceilings.memory_bytes_per_s,
            "ridge_flop_per_byte": ceilings.ridge_flop_per_byte,
            "random_rows_bytes_per_s": ceilings.random_rows.bytes_per_s,
            "batch_rows_bytes_per_s": ceilings.batch_rows.bytes_per_s,
        },
    }


def _operator(one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "share": _finite(one["share"]), "shapes": [list(shape) for shape in one["shapes"]]}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
