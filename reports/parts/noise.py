"""Words the detectable differences between result sets, with the assumptions that they depend on."""

from collections.abc import Sequence

from reports.comparison.drift_tolerance import DriftTolerance, drift_source
from reports.comparison.factor import factor_of
from reports.comparison.noise import MIN_EFFECT
from reports.facts.noise import ASSUMED_DRIFT, Shares, Smallest, is_speed_unsteady, spread_reach
from reports.parts.cells import ALL_EQUAL
from reports.parts.load import difference_words
from reports.results.result import Result, load_of
from reports.statistics.intervals import MIN_RUNS
from reports.text.formatting import interval, percent, ratio

POWER = "80 % power"
"""Statistical power at which a difference is called detectable."""
_INTERVALS = "The 95 % intervals assume independent processes, and do not include drift from hour to hour."
_UNSEEN = 0.005
"""Share of convergence, speed or overhead in the spread of times below which the share is printed as 0 %."""


def size_text(fraction: float | None) -> str:
    """Format a detectable difference in percent with at least two digits: '31 %', '8.2 %'; above 100 %, in words."""
    if fraction is not None and fraction > 1:
        return "over 100 %"
    return percent(fraction, 0 if fraction is not None and fraction >= 0.0995 else 1)


def smallest_words(smallest: Smallest) -> str:
    """Return in words the smallest differences that could be detected between a result set and another: '38 % in a
    later set, 7.8 % (4.5 – 31 %) alternately if this hour is usual (80 % power)'. The first is for a set measured
    later, the second for two sets measured alternately (A/B).

    The second difference is computed from the noise of this set's runs. "If this hour is usual" says that in another
    hour noise, and with it the difference, may be larger.
    """
    if smallest.apart > 1 and (smallest.in_turns is None or smallest.in_turns > 1):
        return "too noisy to compare: only differences over 100 % would be found"
    turns = "" if smallest.in_turns is None else f", {turns_text(smallest)} alternately if this hour is usual"
    return f"{size_text(smallest.apart)} in a later set{turns} ({POWER})"


def turns_text(smallest: Smallest, name: str = "") -> str:
    """Return the detectable difference of sets measured alternately (A/B), with its 95 % range: '7.8 % (4.5 – 31
    %)'; `name` stands before the range."""
    low, middle, high = map(size_text, (smallest.in_turns_low, smallest.in_turns, smallest.in_turns_high))
    return middle if low == high else f"{middle} ({name}{_between(low, high)})"


def variation_text(variation: float, number: int, step: float | None = None) -> str:
    """Return the coefficient of variation of `number` runs, with its interval: '3.0 % (95 %: 1.8 – 8.6 %)'.

    If all values are equal, return 'none: all equal'. `step` is given for values that change only at evaluations: the
    distance between two evaluations, as a fraction of the mean. If such values are all equal, return 'less than the
    2.0 % between two evaluations' for a `step` of 0.02.

    The interval assumes normally distributed values. If one run in twenty is late, it contains the true coefficient
    in only half of cases.
    """
    if variation < ALL_EQUAL:
        return f"less than the {percent(step)} between two evaluations" if step else "none: all equal"
    low, high = (percent(factor * variation) for factor in spread_reach(number))
    return f"{percent(variation)} (95 %: {_between(low, high)})"


def _between(low: str, high: str) -> str:
    """Format a range of two fractions in percent: '1.8 – 8.6 %', '12 % to over 100 %'."""
    return f"{low} to {high}" if high.startswith("over") else interval(low.removesuffix(" %"), high)


def outlier_words(result: Result) -> str | None:
    """Return in words the outliers of a result, which are runs far slower or faster than its other runs, and how the
    load of the system differed during them: 'run 3 (seed 17) at 0.65× the speed of the others, while other work kept
    1.8 of 2 CPUs busy (0.1 – 0.2)'. The range in brackets is that of the other runs. None if there is no outlier."""
    found = []
    for run, over in result.outliers:
        others = [load_of(other) for other in result.converged if other is not run]
        different = difference_words(load_of(run), others)
        seed = "" if run.seed is None else f" (seed {run.seed})"
        words = f"run {run.label}{seed} at {ratio(over)} the speed of the others"
        found.append(words if different is None else f"{words}, while {different}")
    return "; ".join(found) or None


def disturbed_words(speed_cv: float | None, num_runs: int, outlier: str | None) -> str:
    """Return the remark that a set was measured on a noisy machine: '; noisy machine: run 3 (seed 17) at 0.65× the
    speed of the others'. `outlier` describes an outlying run and is put after the colon. If there is no outlier but
    the speed varied between runs, the remark says so. Return '' if the speed did not vary.

    The speed varied if its coefficient of variation exceeds STEADY_SPEED at 95 % confidence for the number of runs.
    """
    if outlier:
        return f"; noisy machine: {outlier}"
    if speed_cv is None or not is_speed_unsteady(speed_cv, num_runs):
        return ""
    return f"; noisy machine: the speed varied by {variation_text(speed_cv, num_runs)} between runs"


def assumptions(num_runs: int, tolerances: Sequence[DriftTolerance]) -> str:
    """Return in words the assumptions behind the detectable differences of sets of `num_runs` runs. `tolerances` are
    possible drifts of speed; between sets measured one after the other, a difference must exceed them to be
    detected."""
    return (
        "Detectable differences are computed at the strictest level of Holm's method for four tests (time to train, "
        "convergence, throughput, overhead). The four tests together have 95 % confidence. "
        f"{_at_least(percent(MIN_EFFECT, 0))} {_statistics(num_runs, 'runs')} {_drift(tolerances)} If the runs of "
        "two sets alternate with equal seeds ('dlrmbench versus SET'), noise that lasts longer than a run affects "
        "both sets alike. Runs with equal seeds are assumed to need the same number of samples to converge. The "
        "detectable difference of alternating sets is computed from neighbouring runs of a set, so it leaves out "
        "changes of the system from hour to hour."
    )


def measured_assumptions(measured: Result, tolerance: DriftTolerance) -> str:
    """Return in words the assumptions behind a measurement's detectable differences. If the measurement has too few
    processes for a verdict, the words give the number of processes that a verdict needs."""
    number, factor = measured.num_runs, factor_of(measured.quantities[0])
    if number < MIN_RUNS:
        return f"A verdict takes at least {MIN_RUNS} processes on each side."
    is_ratio = factor.is_ratio
    least = percent(factor.min_effect, 0) if is_ratio else f"{factor.min_effect:g} {factor.title}"
    found = (
        f"A detectable difference is a true difference that one test at 95 % confidence shows with {POWER}. "
        f"{_at_least(least)} {_statistics(number, 'processes')}"
    )
    if is_ratio:
        turns = "If the processes of two sets alternate, as in a sweep, drift affects both sets alike."
        return f"{found} {_drift([tolerance])} {turns} {_INTERVALS}"
    found += f" {_INTERVALS}"
    return (
        f"{found} Pairing processes with equal seeds lowers the detectable difference where a seed affects both "
        "processes of a pair alike."
    )


def _at_least(least: str) -> str:
    """Return a sentence which says that no detectable difference is below `least`, the smallest effect that counts in
    a verdict."""
    return f"No detectable difference is stated below {least}, since verdicts ignore smaller effects."


def _drift(tolerances: Sequence[DriftTolerance]) -> str:
    """Return in words the drift of speed that is assumed between a set and a later set, and its source: repeated sets
    that showed this drift, or the default."""
    assumed = f"{percent(ASSUMED_DRIFT, 0)} ({drift_source(())})"
    sets = tuple(dict.fromkeys(label for tolerance in tolerances for label in tolerance.sets))
    far = assumed if not sets else f"what repeated sets differ by ({drift_source(sets)})"
    if sets and not all(tolerance.sets for tolerance in tolerances):
        far += f", or {percent(ASSUMED_DRIFT, 0)} for a set that was repeated too seldom"
    return (
        "If one set is measured later than the other, a difference must exceed the allowance for drift of speed. "
        f"The allowance for drift is twice the spread of speed within a set, but at least {far}."
    )


def _statistics(number: int, what: str) -> str:
    low, high = spread_reach(number)
    return (
        f"The compared sets are assumed to have {number} {what} with normally distributed values of the same spread. "
        f"From {number} {what} the true spread is known only to be {low:.1f} to {high:.1f} times the measured spread."
    )


def shares_words(shares: Shares) -> str:
    """Return in words the shares of convergence, speed and overhead in the spread of times: 'convergence 96 %, speed
    3 %, evaluation and overhead 1 %'. A part that offsets the others has a negative share."""
    parts = (
        (shares.convergence, "convergence"),
        (shares.speed, "speed"),
        (shares.overhead, "evaluation and overhead"),
    )
    shown = ", ".join(f"{name} {percent(share, 0)}" for share, name in parts)
    offsets = any(share < -_UNSEEN for share, _ in parts)
    return f"{shown} (a negative share offsets the others)" if offsets else shown
