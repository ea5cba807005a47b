"""Computes the detectable differences of result sets and measurements, with drift between sets, for tables, pages and
scores."""

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from reports.comparison.drift_tolerance import DRIFT_REACH, DriftTolerance, DriftTolerances, Repeats
from reports.comparison.factor import FACTORS, factor_of
from reports.comparison.pairing import compared_values
from reports.comparison.repeats import find_repeats
from reports.facts.noise import Noise, Smallest, noise_of, noise_of_rates, noise_of_values
from reports.results.measured import value_step
from reports.results.result import Result
from reports.statistics.ratios import fraction_from
from reports.tables.records import ReportDocument
from reports.tables.rows import document_of

MIN_EFFECT = FACTORS["time_to_train"].min_effect


def find_tolerances(sides: Sequence[Result], repeats: Repeats | None = None) -> tuple[DriftTolerance, ...]:
    """Return one drift tolerance for each result in `sides`: the difference that drift may cause between the result
    and another set of the same configuration, measured at another time. The tolerances are computed from the repeated
    result sets in `repeats`. If this is None, repeated sets are searched for in the folders where the results lie."""
    known, tolerances = find_repeats(sides) if repeats is None else repeats, DriftTolerances()
    return tuple(tolerances.of(side, side, known) for side in sides)


def noise_of_runs(result: Result, tolerance: DriftTolerance) -> Noise:
    """Return the noise of a result's runs that train to a target quality: the share of each factor (such as
    throughput) in the variance of the time to train, and the smallest differences that a comparison would detect.

    `tolerance` is the drift tolerance. Where the runs of the set differ much in speed, a larger tolerance is assumed.
    """
    own = _own_reach(compared_values(result.samples, "throughput"))
    tolerances = {name: fraction_from(max(tolerance.width(name), own)) for name in ("time_to_train", "throughput")}
    return noise_of(result.samples, min_effect=MIN_EFFECT, tolerances=tolerances)


def _own_reach(logs: NDArray[np.float64] | None) -> float:
    return DRIFT_REACH * float(logs.std(ddof=1)) if logs is not None and len(logs) > 1 else 0.0


def noise_of_processes(result: Result, tolerance: DriftTolerance) -> Smallest | None:
    """Return the detectable difference (80 % power) between two measurements like `result`; a measurement of quality
    does not drift."""
    (name,) = result.quantities
    min_effect, values = factor_of(name).min_effect, [sample.values[name] for sample in result.samples]
    if result.measure.scale != "ratio":
        return noise_of_values(values, min_effect=min_effect)
    step = value_step(result)
    width = fraction_from(max(tolerance.width(name), _own_reach(compared_values(result.samples, name))))
    return noise_of_rates(values, min_effect=min_effect, tolerance=width, step=step)


def describe_sets(sets: Sequence[Result]) -> ReportDocument:
    """Return the document with the rows of all report tables for the result sets; each set's row also has the
    detectable differences of the set's runs."""
    document = document_of(sets)
    noises = [noise_of_runs(result, tolerance) for result, tolerance in zip(sets, find_tolerances(sets), strict=True)]
    members = zip(document.configurations, noises, strict=True)
    return replace(document, configurations=tuple(replace(member, **_columns(noise)) for member, noise in members))


def _columns(noise: Noise) -> dict[str, float | None]:
    """Return the fields of a SetRow (table row of a result set) that describe noise; an infinite detectable
    difference becomes None."""
    shares = noise.shares
    found: dict[str, float | None] = {
        "convergence_share": shares.convergence if shares else None,
        "speed_share": shares.speed if shares else None,
        "overhead_share": shares.overhead if shares else None,
    }
    for name, smallest in (("time", noise.time), ("throughput", noise.throughput)):
        for where in ("apart", "in_turns", "in_turns_low", "in_turns_high"):
            size = getattr(smallest, where) if smallest else None
            found[f"smallest_{name}_{where}"] = size if size is not None and math.isfinite(size) else None
    return found
