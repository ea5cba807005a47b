"""Two configurations held side by side: the factors of the time to train, each with its uncertainty and verdict.

Per run, log(time to train) = log(samples to converge) - log(throughput) + log(overhead), where overhead is the time
to train over the time inside training. Factors are compared as differences of means of logs over the runs that
converged, so they add up exactly. The run is the unit of analysis.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reports.comparison.comparability import list_changes, systems_differ, why_refused
from reports.comparison.factor import FactorComparison
from reports.comparison.measured import judge_measured, measured_factor
from reports.comparison.pairing import Pairing, pair_runs
from reports.comparison.sample_size import runs_needed
from reports.facts.facts import SetFacts, Status
from reports.facts.sides import Side, side_of
from reports.statistics.intervals import MIN_RUNS, Interval
from reports.statistics.permutation import cliffs_delta, fisher_p, permutation_p
from reports.statistics.ratios import (
    Difference,
    Floats,
    Verdict,
    decide,
    holm_levels,
    paired_difference,
    welch_difference,
)
from reports.text.formatting import percent
from rules.records.measure import Measure

MIN_EFFECT = 0.03
MIN_EFFECTS: Mapping[str, float] = {"auc": 0.001}
"""Of what is compared by differences, by its unit."""
CONFIDENCE = 0.95
DRIFT_REACH = 2.0
"""A side as a whole may be off by as much as this many standard deviations of its single runs' speed: what disturbs
a system lasts longer than a run, so runs measured one after another are not independent in speed."""
FACTOR_NAMES = ("time_to_train", "samples_to_converge", "throughput", "overhead")
_UNITS = ("s", "samples", "samples/s", "1")
# More throughput is less time; the logs of the other factors count as they are.
_SIGNS = (1.0, 1.0, -1.0, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """New against base. `refusal` says why they may not be compared; there are no factors then.

    `verdict` is that of the time to train (of the throughput, where only that was measured), unless significantly
    fewer runs reach the target on one side (`converged_p`, Fisher's exact test, in the family). `is_paired` says that
    runs of equal seeds were compared with each other; `num_shared_seeds` counts those. `status` is base's. `changes`
    are (name, base, new) of settings and software that differ. `invalid_sides` names the sides that the rules reject.
    """

    base: str
    new: str
    refusal: str | None
    status: Status
    min_effect: float
    confidence: float
    measure: Measure | None = None
    is_cross_system: bool = False
    is_paired: bool = False
    num_shared_seeds: int = 0
    num_base: int = 0
    num_new: int = 0
    num_base_converged: int = 0
    num_new_converged: int = 0
    converged_p: float | None = None
    factors: tuple[FactorComparison, ...] = ()
    olympic_ratio: float | None = None
    score_ratio: float | None = None
    verdict: Verdict = "inconclusive"
    changes: tuple[tuple[str, str | None, str | None], ...] = ()
    notes: tuple[str, ...] = ()
    invalid_sides: tuple[str, ...] = ()

    def factor(self, name: str) -> FactorComparison | None:
        return next((one for one in self.factors if one.name == name), None)

    @property
    def whole(self) -> FactorComparison | None:
        """The factor that is explained by the others: time to train, or the throughput where only that is known."""
        return self.factors[0] if self.factors else None

    @property
    def is_regression(self) -> bool:
        """Slower as a whole; or, where the whole is inconclusive, slower in a factor without being faster in
        convergence or throughput. Less overhead excuses nothing: its share falls when the steps get slower."""
        if self.verdict != "inconclusive":
            return self.verdict in ("slower", "worse")
        is_slower = any(one.verdict == "slower" for one in self.factors)
        return is_slower and not any(one.verdict == "faster" for one in self.factors if one.name != "overhead")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Draft:
    """One comparison before its family is known: the logs of each factor and what follows from them alone."""

    base: Side
    new: Side
    refusal: str | None
    pairing: Pairing
    factors: tuple[FactorComparison, ...] = ()
    differences: tuple[Difference | None, ...] = ()
    converged_p: float | None = None

    @property
    def tested(self) -> list[int]:
        """The factors that enough runs on both sides allow to test."""
        return [
            index
            for index, (factor, difference) in enumerate(zip(self.factors, self.differences, strict=True))
            if difference is not None and min(factor.num_base, factor.num_new) >= MIN_RUNS
        ]


def compare_sets(
    base: SetFacts, new: SetFacts, *, min_effect: float = MIN_EFFECT, confidence: float = CONFIDENCE
) -> Comparison:
    """`new` against `base`; the family of tests is this comparison's factors."""
    return compare_all(base, [new], min_effect=min_effect, confidence=confidence)[0]


def compare_all(
    base: SetFacts, news: Sequence[SetFacts], *, min_effect: float = MIN_EFFECT, confidence: float = CONFIDENCE
) -> tuple[Comparison, ...]:
    """Each of `news` against `base`; the family of tests is all factors of all of them."""
    sides = [side_of(new) for new in news]
    return compare_sides(side_of(base), sides, min_effect=min_effect, confidence=confidence)


def compare_sides(
    base: Side, news: Sequence[Side], *, min_effect: float | None = None, confidence: float = CONFIDENCE
) -> tuple[Comparison, ...]:
    """As `compare_all`, for sides of any source; the smallest effect is that of base's scale where none is given."""
    if min_effect is None:
        min_effect = MIN_EFFECT if base.measure is None else MIN_EFFECTS[base.measure.unit]
    drafts = [_draft(base, new, confidence) for new in news]
    p_values = [draft.factors[index].p_value for draft in drafts for index in draft.tested]
    p_values += [draft.converged_p for draft in drafts if draft.converged_p is not None]
    family = np.asarray(p_values, dtype=np.float64)
    levels = holm_levels(family, 1.0 - confidence).tolist() if len(family) else []
    num_factors = sum(len(draft.tested) for draft in drafts)
    of_factors, of_shares = iter(levels[:num_factors]), iter(levels[num_factors:])
    finished = []
    for draft in drafts:
        factor_levels = [next(of_factors) for _ in draft.tested]
        share_level = next(of_shares) if draft.converged_p is not None else None
        finished.append(_finish(draft, factor_levels, share_level, min_effect, confidence))
    return tuple(finished)


def _draft(base: Side, new: Side, confidence: float) -> _Draft:
    refusal = why_refused(base, new)
    pairing = pair_runs(base.samples, new.samples)
    if refusal is not None:
        return _Draft(base=base, new=new, refusal=refusal, pairing=pairing)
    if base.measure is not None:
        made = [measured_factor(base.kind, base.measure, pairing, confidence)]
    else:
        names = ("throughput",) if base.kind == "throughput" else FACTOR_NAMES
        made = [_factor(name, pairing, confidence) for name in names]
    failed = base.num_runs != base.num_converged or new.num_runs != new.num_converged
    return _Draft(
        base=base,
        new=new,
        refusal=None,
        pairing=pairing,
        factors=tuple(factor for factor, _ in made),
        differences=tuple(difference for _, difference in made),
        converged_p=fisher_p(base.num_converged, base.num_runs, new.num_converged, new.num_runs) if failed else None,
    )


def _factor(name: str, pairing: Pairing, confidence: float) -> tuple[FactorComparison, Difference | None]:
    """One factor's values, and the difference of its effect on log time; None where it cannot be known."""
    position = FACTOR_NAMES.index(name)
    base, new = pairing.logs(name)
    factor = FactorComparison(name=name, unit=_UNITS[position], num_base=len(pairing.base), num_new=len(pairing.new))
    if base is None or new is None:
        side = "base" if base is None else "new"
        which = "no run converged" if not (pairing.base if base is None else pairing.new) else "a log does not say it"
        return replace(factor, reason=f"not known of {side}: {which}"), None
    log_ratio = float(new.mean() - base.mean())
    factor = replace(
        factor,
        base_value=math.exp(float(base.mean())),
        new_value=math.exp(float(new.mean())),
        ratio=math.exp(log_ratio),
        cliffs_delta=cliffs_delta(base, new),
    )
    if min(len(base), len(new)) < 2:
        return factor, None
    difference = _difference(pairing, name, base * _SIGNS[position], new * _SIGNS[position])
    return replace(
        factor,
        interval=_interval(difference, 1.0 - confidence, _SIGNS[position], pairing),
        p_value=float(difference.p_value()),
        permutation_p=permutation_p(base, new, is_paired=pairing.is_paired),
    ), difference


def _difference(pairing: Pairing, name: str, base: Floats, new: Floats) -> Difference:
    base_step, new_step = pairing.steps(name)
    if pairing.is_paired:
        return paired_difference(base, new, step=max(base_step, new_step))
    return welch_difference(base, new, base_step=base_step, new_step=new_step)


def _interval(difference: Difference, level: float, sign: float, pairing: Pairing) -> Interval:
    """The ratio's interval, in the factor's own direction."""
    reach, middle = float(difference.reach(level)), sign * float(difference.mean)
    return Interval(
        low=math.exp(middle - reach),
        high=math.exp(middle + reach),
        confidence=1.0 - level,
        coverage=None,
        method=pairing.method,
    )


def _finish(
    draft: _Draft, levels: Sequence[float], share_level: float | None, min_effect: float, confidence: float
) -> Comparison:
    base, new, pairing = draft.base, draft.new, draft.pairing
    comparison = Comparison(
        base=base.label, new=new.label, refusal=draft.refusal, status=base.status,
        min_effect=min_effect, confidence=confidence, measure=base.measure,
        is_cross_system=systems_differ(base, new), num_base=base.num_runs, num_new=new.num_runs,
        num_base_converged=base.num_converged, num_new_converged=new.num_converged,
    )  # fmt: skip
    if draft.refusal is not None:
        return comparison
    by_factor = dict(zip(draft.tested, levels, strict=True))
    factors = []
    for index, (factor, difference) in enumerate(zip(draft.factors, draft.differences, strict=True)):
        level = by_factor.get(index)
        if difference is not None and level is not None and base.measure is not None:
            factors.append(judge_measured(factor, difference, level, pairing, min_effect, base.measure))
        elif difference is not None and level is not None:
            factors.append(_judge(factor, difference, level, pairing, min_effect))
        elif factor.base_value is not None:
            text = (
                f"fewer than {MIN_RUNS} runs (base {factor.num_base}, new {factor.num_new}); "
                f"at least {MIN_RUNS} per side are needed to be judged"
            )
            factors.append(replace(factor, reason=text))
        else:
            factors.append(factor)
    share = _share_verdict(draft, share_level)
    factors = [_distrust(factor, base, new) for factor in factors]
    return replace(
        comparison,
        is_paired=pairing.is_paired,
        num_shared_seeds=pairing.num_shared,
        converged_p=draft.converged_p,
        factors=tuple(factors),
        olympic_ratio=_ratio(base.olympic_mean_s, new.olympic_mean_s),
        score_ratio=_ratio(base.score_s, new.score_s),
        verdict=share or factors[0].verdict,
        changes=list_changes(base, new),
        notes=_notes(base, new, pairing),
        invalid_sides=tuple(name for name, side in (("base", base), ("new", new)) if side.outcome == "invalid"),
    )


def _judge(
    factor: FactorComparison, difference: Difference, level: float, pairing: Pairing, min_effect: float
) -> FactorComparison:
    verdict: Verdict = str(decide(difference, np.asarray(level), min_effect))  # type: ignore[assignment]
    needed = runs_needed(difference, level, min_effect, pairing) if verdict == "inconclusive" else None
    sign = _SIGNS[FACTOR_NAMES.index(factor.name)]
    factor = replace(
        factor,
        adjusted_interval=_interval(difference, level, sign, pairing),
        verdict=verdict,
        runs_needed=needed,
    )
    # Also where more runs are asked for: they would not settle what drift may explain.
    is_large = abs(float(difference.mean)) >= math.log1p(min_effect)
    return _allow_for_drift(factor, pairing) if is_large else factor


def _allow_for_drift(factor: FactorComparison, pairing: Pairing) -> FactorComparison:
    """Sides measured one after the other differ in speed only where they differ by more than drift may do.

    Convergence follows the seeds and does not drift; the time to train does as far as the throughput does.
    """
    if factor.name == "samples_to_converge" or factor.ratio is None or pairing.is_interleaved:
        return factor
    spread = pairing.spread("overhead" if factor.name == "overhead" else "throughput")
    if spread is None or abs(math.log(factor.ratio)) > DRIFT_REACH * spread:
        return factor
    text = (
        f"runs of one side differ by {percent(math.expm1(spread))} in speed among themselves, so a disturbed system "
        "may explain it; measure undisturbed, or interleaved with 'dlrmbench sweep'"
    )
    return replace(factor, verdict="inconclusive", runs_needed=None, reason=text)


def _share_verdict(draft: _Draft, level: float | None) -> Verdict | None:
    """Slower where significantly fewer runs reach the target, None where that decides nothing."""
    if level is None or draft.converged_p is None or draft.converged_p > level:
        return None
    base, new = draft.base, draft.new
    return "slower" if new.num_converged / new.num_runs < base.num_converged / base.num_runs else "faster"


def _distrust(factor: FactorComparison, base: Side, new: Side) -> FactorComparison:
    """No praise for the survivors: a side of which more runs failed than Olympic scoring would drop is not called
    faster for those that converged. Throughput and overhead do not depend on who converges."""
    favoured = {"faster": new, "slower": base}.get(factor.verdict)
    if factor.name not in ("time_to_train", "samples_to_converge") or favoured is None:
        return factor
    if favoured.num_runs - favoured.num_converged <= favoured.num_tolerated:
        return factor
    text = f"{factor.verdict} only among the runs that converged, and too many of {favoured.label} did not"
    return replace(factor, verdict="inconclusive", reason=text)


def _ratio(base: float | None, new: float | None) -> float | None:
    return new / base if base and new and math.isfinite(base) and math.isfinite(new) else None


def _notes(base: Side, new: Side, pairing: Pairing) -> tuple[str, ...]:
    notes = []
    for name, side in (("base", base), ("new", new)):
        if side.outcome == "invalid":
            notes.append(f"{name}: the rules reject this set; 'dlrmbench check' says why")
        if side.num_converged < side.num_runs:
            missing = side.num_runs - side.num_converged
            notes.append(
                f"{name}: {missing} of {side.num_runs} runs did not reach the target and have no time; compared are "
                f"the {side.num_converged} that did"
            )
    if pairing.num_shared and not pairing.is_paired:
        notes.append(f"{pairing.num_shared} seeds are shared, too few of the runs to compare them in pairs")
    if base.round != new.round and base.round is not None and new.round is not None:
        notes.append(f"different rounds: {base.round} and {new.round}")
    return tuple(notes)
