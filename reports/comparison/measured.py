"""What kinds of measurement compare by differences: quality, by its AUC."""

from dataclasses import replace

import numpy as np

from reports.comparison.factor import FactorComparison
from reports.comparison.pairing import Pairing
from reports.comparison.sample_size import runs_beyond
from reports.statistics.intervals import Interval
from reports.statistics.permutation import cliffs_delta, permutation_p
from reports.statistics.ratios import Difference, Verdict, decide_beyond, paired_difference, welch_difference
from rules.records.measure import Measure


def measured_factor(
    name: str, measure: Measure, pairing: Pairing, confidence: float
) -> tuple[FactorComparison, Difference | None]:
    """What a kind of measurement compares by differences, and the difference; None where it is not known."""
    (base, new), unit = pairing.values, measure.unit
    factor = FactorComparison(name=name, unit=unit, num_base=len(pairing.base), num_new=len(pairing.new))
    if base is None or new is None:
        return replace(factor, reason=f"not known of {'base' if base is None else 'new'}"), None
    factor = replace(
        factor,
        base_value=float(base.mean()),
        new_value=float(new.mean()),
        difference=float(new.mean() - base.mean()),
        cliffs_delta=cliffs_delta(base, new),
    )
    if min(len(base), len(new)) < 2:
        return factor, None
    if pairing.is_paired:
        difference = paired_difference(base, new, step=0.0)
    else:
        difference = welch_difference(base, new, base_step=0.0, new_step=0.0)
    return replace(
        factor,
        interval=_plain_interval(difference, 1.0 - confidence, pairing),
        p_value=float(difference.p_value()),
        permutation_p=permutation_p(base, new, is_paired=pairing.is_paired),
    ), difference


def _plain_interval(difference: Difference, level: float, pairing: Pairing) -> Interval:
    """The difference's own."""
    reach, middle = float(difference.reach(level)), float(difference.mean)
    low, high = middle - reach, middle + reach
    return Interval(low=low, high=high, confidence=1.0 - level, coverage=None, method=pairing.method)


def judge_measured(
    factor: FactorComparison, difference: Difference, level: float, pairing: Pairing, margin: float, measure: Measure
) -> FactorComparison:
    """The factor with its verdict at Holm's level, `margin` being the smallest effect in the measure's unit."""
    found = str(decide_beyond(difference, np.asarray(level), margin))
    more, less = ("better", "worse") if measure.direction == "higher" else ("worse", "better")
    # `decide_beyond` is of times: "slower" is a difference above zero.
    verdict: Verdict = {"slower": more, "faster": less}.get(found, found)  # type: ignore[assignment]
    return replace(
        factor,
        adjusted_interval=_plain_interval(difference, level, pairing),
        verdict=verdict,
        runs_needed=runs_beyond(difference, level, margin, pairing) if verdict == "inconclusive" else None,
    )
