"""Compares two configurations in the time to train and in its factors (samples to converge, throughput, overhead),
each with its uncertainty and verdict.

For each run, log(time to train) = log(samples to converge) - log(throughput) + log(overhead). Overhead is the time to
train divided by the time inside training. A factor's effect is the difference between both configurations' means of
its logarithm over converged runs. The effects of the factors add up exactly to the difference in the logarithm of the
time to train. The run is the unit of analysis.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from msgspec.structs import replace

from reports.comparison.comparability import (
    beside_command,
    list_changes,
    list_processor_change,
    notes_of,
    systems_differ,
    why_refused,
)
from reports.comparison.drift_tolerance import (
    NO_REPEATS,
    DriftTolerance,
    DriftTolerances,
    Repeats,
    drift_words,
    drifts,
    width_for,
)
from reports.comparison.factor import factor_of
from reports.comparison.pairing import KnownValues, Pairing, pair_runs
from reports.comparison.precision import runs_needed, smallest_shown
from reports.comparison.records import Comparison, FactorComparison
from reports.comparison.repeats import find_repeats
from reports.facts.noise import is_disturbed
from reports.results.result import Result
from reports.statistics.intervals import MIN_RUNS, Interval
from reports.statistics.multiple_testing import TestResult, judge_family
from reports.statistics.permutation import cliffs_delta, fisher_p, permutation_p
from reports.statistics.ratios import Difference, Verdict, factor_from, fraction_from

CONFIDENCE = 0.95
_SHOWN_SMALL = ("no difference shown", "below the smallest effect")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Draft:
    """Comparison of two results before the correction for multiple testing: for each compared quantity a difference,
    no verdict yet."""

    base: Result
    new: Result
    pairing: Pairing
    comparison: Comparison
    tolerance: DriftTolerance | None = None
    differences: tuple[Difference | None, ...] = ()
    is_described: bool = True
    is_explained: bool = True

    @property
    def tested(self) -> list[int]:
        """Indices of the compared quantities (such as throughput) that have enough runs in both results for a
        test."""
        return [
            index
            for index, (factor, difference) in enumerate(zip(self.comparison.factors, self.differences, strict=True))
            if difference is not None and min(factor.num_base, factor.num_new) >= MIN_RUNS
        ]

    def margin(self, name: str) -> float:
        """Return the smallest effect of interest on the scale of a quantity's differences: log(1 + effect) where
        results are compared by ratios, else the effect."""
        min_effect = self.comparison.min_effect
        return math.log1p(min_effect) if factor_of(name).is_ratio else min_effect


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupContext:
    """Data that all comparisons in one group of comparable results share: result sets that repeat a configuration,
    from which drift of the system is estimated, and cached values of runs."""

    repeats: Repeats = NO_REPEATS
    known: KnownValues = field(default_factory=KnownValues, compare=False, repr=False)


def context_of(group: Sequence[Result]) -> GroupContext:
    """Find the result sets that repeat the configuration of one of the results, once for all comparisons of a
    page."""
    return GroupContext(repeats=find_repeats(group))


def compare_results(
    base: Result,
    news: Sequence[Result],
    *,
    min_effect: float | None = None,
    confidence: float = CONFIDENCE,
    context: GroupContext | None = None,
    explained: Collection[int] | None = None,
    is_described: bool = True,
) -> tuple[Comparison, ...]:
    """Compare each result in `news` with the baseline `base`; the other arguments are passed on to
    `compare_pairs`."""
    return compare_pairs(
        [(base, new) for new in news],
        min_effect=min_effect,
        confidence=confidence,
        context=context,
        explained=explained,
        is_described=is_described,
    )


def compare_pairs(
    pairs: Sequence[tuple[Result, Result]],
    *,
    min_effect: float | None = None,
    confidence: float = CONFIDENCE,
    context: GroupContext | None = None,
    explained: Collection[int] | None = None,
    is_described: bool = True,
) -> tuple[Comparison, ...]:
    """Compare the second result of each pair with the first. All tests (of every compared quantity, such as
    throughput, in every pair) are one family: Holm's method corrects their significance levels together."""
    context = GroupContext() if context is None else context
    drafts = []
    find_tolerance = partial(DriftTolerances().of, repeats=context.repeats)
    for number, (base, new) in enumerate(pairs):
        settings = _Settings(
            min_effect=factor_of(base.quantities[0]).min_effect if min_effect is None else min_effect,
            confidence=confidence,
            find_tolerance=find_tolerance,
            is_described=is_described,
            known=context.known,
        )
        is_explained = is_described and (explained is None or number in explained)
        drafts.append(dataclasses.replace(_draft(base, new, settings), is_explained=is_explained))
    tested = [
        (draft.margin(draft.comparison.factors[index].name), difference)
        for draft in drafts
        for index in draft.tested
        if (difference := draft.differences[index]) is not None
    ]
    shares = [draft.comparison.converged_p for draft in drafts if draft.comparison.converged_p is not None]
    tests, share_levels = judge_family(tested, shares, confidence)
    of_factors, of_shares = iter(tests), iter(share_levels)
    finished = []
    for draft in drafts:
        by_factor = {index: next(of_factors) for index in draft.tested}
        finished.append(_finish(draft, by_factor, None if draft.comparison.converged_p is None else next(of_shares)))
    return tuple(finished)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Settings:
    """Settings that all comparisons with one baseline share: smallest effect, confidence, drift tolerance, cached
    values."""

    min_effect: float
    confidence: float
    find_tolerance: Callable[[Result, Result], DriftTolerance]
    is_described: bool
    known: KnownValues


def _draft(base: Result, new: Result, settings: _Settings) -> _Draft:
    share_turns = base.turns is not None and base.turns == new.turns
    is_cross_system = systems_differ(base, new)
    pairing = pair_runs(
        base.samples, new.samples, share_turns=share_turns, is_cross_system=is_cross_system, known=settings.known
    )
    comparison = Comparison(
        base=base.label, new=new.label, refusal=why_refused(base, new), status=base.status,
        min_effect=settings.min_effect, confidence=settings.confidence,
        is_cross_system=is_cross_system, num_base=base.num_runs, num_new=new.num_runs,
        num_base_converged=base.num_converged, num_new_converged=new.num_converged,
    )  # fmt: skip
    if comparison.refusal is not None:
        return _Draft(base=base, new=new, pairing=pairing, comparison=comparison)
    names = base.quantities
    tolerance = None if pairing.is_interleaved else settings.find_tolerance(base, new)
    made = [_factor(name, pairing, settings, tolerance) for name in names]
    failed = base.num_runs != base.num_converged or new.num_runs != new.num_converged
    comparison = replace(
        comparison,
        is_paired=pairing.is_paired,
        is_interleaved=pairing.is_interleaved,
        is_one_after_the_other=tolerance is not None and any(map(drifts, names)),
        repeated_sets=tolerance.sets if tolerance else (),
        drift_source=tolerance.words if tolerance else "",
        drift=drift_words(names[0], tolerance, pairing) if tolerance and drifts(names[0]) else "",
        measure_better=beside_command(base, new) if tolerance and settings.is_described else None,
        num_shared_seeds=pairing.num_shared,
        converged_p=fisher_p(base.num_converged, base.num_runs, new.num_converged, new.num_runs) if failed else None,
        factors=tuple(factor for factor, _ in made),
        olympic_ratio=_ratio(base.score.olympic_mean_s, new.score.olympic_mean_s),
        score_ratio=_ratio(base.score.score_s, new.score.score_s),
        changes=(*list_processor_change(base, new), *list_changes(base, new)) if settings.is_described else (),
        notes=notes_of(base, new, pairing) if settings.is_described else (),
        invalid_sides=tuple(name for name, side in (("base", base), ("new", new)) if side.outcome == "invalid"),
        disturbed_sides=tuple(name for name, side in (("base", base), ("new", new)) if is_disturbed(side)),
    )
    differences = tuple(difference for _, difference in made)
    return _Draft(
        base=base,
        new=new,
        pairing=pairing,
        comparison=comparison,
        tolerance=tolerance,
        differences=differences,
        is_described=settings.is_described,
    )


def _factor(
    name: str, pairing: Pairing, settings: _Settings, tolerance: DriftTolerance | None
) -> tuple[FactorComparison, Difference | None]:
    """Return one compared quantity with the values of both results, and the difference between the results. The
    quantity has no verdict yet. The difference is None where it is unknown. For a factor of the time to train (such
    as throughput), the difference is the factor's effect on the logarithm of the time to train."""
    base, new = pairing.compared(name)
    kind = factor_of(name)
    factor = FactorComparison(name=name, unit=kind.unit, num_base=len(pairing.base), num_new=len(pairing.new))
    if base is None or new is None:
        side = "base" if base is None else "new"
        which = "no run converged" if not (pairing.base if base is None else pairing.new) else "a log does not say it"
        return replace(factor, reason=f"not known of {side}: {which}"), None
    (base_mean, new_mean), sign = pairing.means(name), kind.sign
    if kind.is_ratio:
        ratio, base_value, new_value = (
            factor_from(new_mean - base_mean),
            factor_from(base_mean),
            factor_from(new_mean),
        )
        time_ratio = ratio if sign > 0 else 1.0 / ratio
        factor = replace(factor, ratio=ratio, time_ratio=time_ratio if kind.is_of_time else None)
    else:
        base_value, new_value = base_mean, new_mean
        factor = replace(factor, difference=new_mean - base_mean)
    delta = cliffs_delta(base, new) if settings.is_described else None
    factor = replace(factor, base_value=base_value, new_value=new_value, cliffs_delta=delta)
    width = width_for(name, tolerance, pairing) if tolerance is not None and drifts(name) else None
    difference = pairing.difference(name, sign=sign, tolerance=width or 0.0)
    if difference is None or not settings.is_described:
        return factor, difference
    return replace(
        factor,
        interval=_interval(factor, difference, 1.0 - settings.confidence, pairing),
        p_value=float(difference.p_value()),
        drift_tolerance=None if width is None else fraction_from(width),
        is_identical=name == "samples_to_converge" and pairing.is_identical_convergence,
        permutation_p=permutation_p(base, new, is_paired=pairing.is_paired),
    ), difference


def _interval(factor: FactorComparison, difference: Difference, level: float, pairing: Pairing) -> Interval:
    """Return the confidence interval of the ratio (or the difference) of two results in a compared quantity, new
    result against baseline."""
    reach, middle = float(difference.reach(level)), factor_of(factor.name).sign * float(difference.mean)
    low, high = middle - reach, middle + reach
    if factor.difference is None:
        low, high = factor_from(low), factor_from(high)
    return Interval(low=low, high=high, confidence=1.0 - level, method=pairing.method(factor.name))


def _finish(draft: _Draft, tests: Mapping[int, TestResult], share_level: float | None) -> Comparison:
    """Return the comparison with a verdict for each compared quantity (such as throughput). `tests` maps the index of
    each tested quantity to its test result."""
    if draft.comparison.refusal is not None:
        return draft.comparison
    factors = []
    for index, (factor, difference) in enumerate(zip(draft.comparison.factors, draft.differences, strict=True)):
        test = tests.get(index)
        if difference is not None and test is not None:
            factors.append(_distrust(_judge(factor, difference, test, draft), draft))
        elif factor.base_value is not None:
            few = f"too few runs (base {factor.num_base}, new {factor.num_new})"
            factors.append(replace(factor, reason=f"{few}: a verdict takes at least {MIN_RUNS} per side"))
        else:
            factors.append(factor)
    verdict = _share_verdict(draft, share_level) or factors[0].verdict
    is_excluded = 0 in tests and _excludes_regression(draft)
    return replace(
        draft.comparison,
        factors=tuple(factors),
        verdict=verdict,
        is_regression=_is_regression(verdict, factors),
        is_regression_excluded=is_excluded,
        pairs_to_tell=_pairs_to_tell(draft, factors) if draft.is_explained and not is_excluded else (),
    )


def _is_regression(verdict: Verdict, factors: Sequence[FactorComparison]) -> bool:
    """Return whether the new result is a regression: slower in time to train, or worse in the measured quantity.

    If that verdict is inconclusive, the factors of the time (convergence, throughput, overhead) decide: one is
    slower, and neither convergence nor throughput is faster. A smaller overhead makes up for nothing: overhead is a
    share of the training time, so it falls whenever steps get slower.

    If only the overhead is slower, it is compared with the throughput, since overhead also rises when steps get
    faster. The result is then a regression unless throughput and overhead together save time.
    """
    if verdict != "inconclusive":
        return verdict in ("slower", "worse")
    slower = {factor.name for factor in factors if factor.verdict == "slower"}
    if slower == {"overhead"}:
        ratios = [factor.time_ratio or 1.0 for factor in factors if factor.name in ("throughput", "overhead")]
        return math.prod(ratios) >= 1.0
    return bool(slower) and not any(factor.verdict == "faster" for factor in factors if factor.name != "overhead")


def _excludes_regression(draft: _Draft) -> bool:
    """Return whether a regression is excluded: the new result is shown not to be slower, or worse, by as much as the
    smallest effect of interest (non-inferiority test).

    One end of a one-sided interval decides, at the requested confidence. The confidence is not adjusted for multiple
    tests, because every one of several comparisons has to pass. The drift tolerance widens the interval. A regression
    is never excluded where the drift tolerance is assumed instead of measured, or where more runs failed to converge
    than scoring may drop.
    """
    difference, name = draft.differences[0], draft.comparison.factors[0].name
    is_assumed = draft.tolerance is not None and drifts(name) and not draft.tolerance.sets
    if difference is None or is_assumed or draft.new.num_runs - draft.new.num_converged > draft.new.num_tolerated:
        return False
    sign = 1.0 if factor_of(name).more in ("slower", "worse") else -1.0
    return float(difference.below_p(draft.margin(name), sign)) <= 1.0 - draft.comparison.confidence


def _pairs_to_tell(draft: _Draft, factors: Sequence[FactorComparison]) -> tuple[int | None, ...]:
    """Return how many pairs of runs, made alternately, should suffice to exclude a regression in the time to train
    (or in the measured quantity). None stands for more than 1,000 pairs. If the results were measured one after the
    other, a second number is for excluding a regression in throughput.

    The true difference is assumed to be the measured one if the results were measured alternately, and zero
    otherwise.
    """
    if not draft.comparison.is_one_after_the_other:
        return (factors[0].runs_needed,)
    level, found = 1.0 - draft.comparison.confidence, []
    for name, difference in zip((factor.name for factor in factors), draft.differences, strict=True):
        if difference is not None and drifts(name) and name != "overhead":
            alike = dataclasses.replace(difference, mean=np.zeros(()), tolerance=0.0)
            found.append(runs_needed(alike, level, draft.margin(name), draft.pairing, level))
    return tuple(needed.number if needed else None for needed in found)


def _judge(factor: FactorComparison, difference: Difference, test: TestResult, draft: _Draft) -> FactorComparison:
    """Return the comparison in one quantity with its verdict, from the confidence interval and test at the
    significance level that Holm's method sets."""
    kind, pairing, margin, found = factor_of(factor.name), draft.pairing, draft.margin(factor.name), test.found
    # Slower is a difference above zero.
    verdict: Verdict = kind.more if found == "slower" else kind.less if found == "faster" else found  # type: ignore[assignment]
    if factor.name == "samples_to_converge" and pairing.is_identical(factor.name):
        verdict = "identical"
    if not draft.is_described:
        return replace(factor, verdict=verdict)
    level = 2.0 * test.within if verdict in _SHOWN_SMALL else test.apart
    factor = replace(factor, adjusted_interval=_interval(factor, difference, level, pairing), verdict=verdict)
    if verdict != "inconclusive":
        return factor
    reason = _drift_reason(factor.name, difference, test, draft)
    if not draft.is_explained:
        return replace(factor, reason=reason)
    smallest = smallest_shown(difference, test.apart, margin, pairing)
    needed = runs_needed(difference, test.apart, margin, pairing, test.within)
    return replace(
        factor,
        smallest_shown=None if smallest == math.inf else fraction_from(smallest) if kind.is_ratio else smallest,
        runs_needed=needed.number if needed else None,
        runs_needed_low=needed.low if needed else None,
        runs_needed_high=needed.high if needed else None,
        reason=reason,
    )


def _drift_reason(name: str, difference: Difference, test: TestResult, draft: _Draft) -> str | None:
    """Return the reason why possible drift of the system prevents a verdict on a compared quantity; None where drift
    does not prevent it."""
    size, margin, tolerance = abs(float(difference.mean)), draft.margin(name), float(difference.tolerance)
    if draft.tolerance is None or not tolerance:
        return None
    never = tolerance >= (size if size >= margin else margin - size)
    return drift_words(name, draft.tolerance, draft.pairing) if never or test.in_turns != "inconclusive" else None


def _share_verdict(draft: _Draft, level: float | None) -> Verdict | None:
    """Return 'slower' where significantly fewer runs of the new result than of the baseline reach the target,
    'faster' where more do, else None."""
    share_p = draft.comparison.converged_p
    if level is None or share_p is None or share_p > level:
        return None
    base, new = draft.base, draft.new
    return "slower" if new.num_converged / new.num_runs < base.num_converged / base.num_runs else "faster"


def _distrust(factor: FactorComparison, draft: _Draft) -> FactorComparison:
    """Return the comparison in one quantity, with an inconclusive verdict where failed runs may have caused the
    verdict. This is so if the verdict favours a result in which more runs failed to converge than scoring may drop.
    Only verdicts on the time to train and on the samples to converge are changed."""
    favoured = {"faster": draft.new, "slower": draft.base}.get(factor.verdict)
    if factor.name not in ("time_to_train", "samples_to_converge") or favoured is None:
        return factor
    if favoured.num_runs - favoured.num_converged <= favoured.num_tolerated:
        return factor
    text = f"{factor.verdict} only among the runs that converged, and too many of {favoured.label} did not"
    return replace(factor, verdict="inconclusive", reason=text)


def _ratio(base: float | None, new: float | None) -> float | None:
    return new / base if base and new and math.isfinite(base) and math.isfinite(new) else None
