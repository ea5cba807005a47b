"""What drift may do between two sets that were measured one after the other: the band that a difference must exceed.

A system's speed drifts: neighbours, clocks and temperatures last longer than a run, and a set that is quiet in itself
may as a whole be off by more than its runs lie apart. Only sets of one configuration, measured again and again, show
by how much; without them a band is assumed. Sides whose runs took turns need none, and convergence follows the seeds
and does not drift.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from reports.comparison.factor import factor_of
from reports.comparison.pairing import Pairing, compared_values
from reports.facts.noise import DRIFT_BAND
from reports.results.result import Repetition, Result
from reports.statistics.distributions import student_quantile
from reports.statistics.ratios import fraction_from
from reports.text.formatting import names, percent, plural

MIN_SETS = 3
CONFIDENCE = 0.98
"""Confidence of the prediction interval: two further sets differ by more in one of fifty cases."""
DRIFT_REACH = 2.0
"""A side as a whole may be off by as much as this many standard deviations of its single runs' speed: where a
disturbance is seen inside a set, its runs are not independent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """Sets that repeat each other, in groups of one configuration each; `is_given` where the user named them."""

    groups: tuple[tuple[Result, ...], ...] = ()
    is_given: bool = False

    def of(self, base: Result, new: Result) -> "Repeats":
        """The groups that say something of these two: those of their own configurations, unless they were given."""
        keys = {base.repetition, new.repetition} - {None}
        own = tuple(group for group in self.groups if self.is_given or group[0].repetition in keys)
        return Repeats(groups=own, is_given=self.is_given)


@dataclass(frozen=True, kw_only=True, slots=True)
class DriftTolerance:
    """By factor how far apart drift may move two sets, as a difference of logarithms; `sets` are what shows it.

    Without sets nothing is measured, and DRIFT_BAND holds for every factor.
    """

    widths: Mapping[str, float] = field(default_factory=dict)
    sets: tuple[str, ...] = ()

    def width(self, name: str) -> float:
        """Return the tolerance of a factor, or of what a kind of measurement compares."""
        return self.widths.get(name, math.log1p(DRIFT_BAND))


NO_REPEATS = Repeats()


def drifts(name: str) -> bool:
    """Whether a system's drift moves a factor: every speed and time; convergence and qualities follow the seeds."""
    return name != "samples_to_converge" and factor_of(name).is_ratio


def measure_drift_tolerance(repeats: Repeats, names: Sequence[str]) -> DriftTolerance:
    """The band of each factor: how far apart two further sets are, in 98 of 100 cases, by those that were repeated.

    The spread of the sets' means is pooled over groups of at least MIN_SETS; with k sets of one group the band is
    t(0.99, k - 1) times the square root of 2 times their standard deviation.
    """
    groups = [group for group in repeats.groups if len(group) >= MIN_SETS]
    widths = {}
    for name in filter(drifts, names):
        squares, degrees = 0.0, 0
        for group in groups:
            means = [mean for result in group if (mean := _mean_speed(result.samples, name)) is not None]
            if len(means) >= MIN_SETS:
                squares += float(np.square(np.asarray(means) - np.mean(means)).sum())
                degrees += len(means) - 1
        if degrees:
            student = float(student_quantile(degrees, (1 + CONFIDENCE) / 2))
            widths[name] = student * math.sqrt(2.0 * squares / degrees)
    return DriftTolerance(
        widths=widths, sets=tuple(result.label for group in groups for result in group) if widths else ()
    )


@dataclass(frozen=True, slots=True)
class DriftTolerances:
    """The bands between pairs of sides, measured once for all pairs that repeat the same."""

    _known: dict[tuple[str | None, ...], DriftTolerance] = field(default_factory=dict)

    def of(self, base: Result, new: Result, repeats: Repeats) -> DriftTolerance:
        """The band between two sides of one kind, by the sets that repeat one of them."""
        key = (base.quantities[0], base.repetition, new.repetition)
        if key not in self._known:
            self._known[key] = measure_drift_tolerance(repeats.of(base, new), base.quantities)
        return self._known[key]


def _mean_speed(samples: Sequence[Repetition], name: str) -> float | None:
    """The mean logarithm of what drifts in a factor: of the time to train, the time per sample."""
    if name != "time_to_train":
        values = compared_values(samples, name)
        return None if values is None else float(values.mean())
    time, trained = compared_values(samples, name), compared_values(samples, "samples_to_converge")
    return None if time is None or trained is None else float((time - trained).mean())


def width_for(name: str, band: DriftTolerance, pairing: Pairing) -> float:
    """The band of a factor between these two sides: wider where their own runs show a disturbance."""
    return max(band.width(name), DRIFT_REACH * (_own_spread(name, pairing) or 0.0))


def _own_spread(name: str, pairing: Pairing) -> float | None:
    return pairing.spread("throughput" if name == "time_to_train" else name)


def drift_words(name: str, band: DriftTolerance, pairing: Pairing) -> str:
    """'drift may make 20 % between such sets (assumed: ...)': how far, and how that is known."""
    width, spread = width_for(name, band, pairing), _own_spread(name, pairing)
    if width > band.width(name) and spread is not None:
        return (
            f"runs of one side differ by {percent(fraction_from(spread))} in speed among themselves, so a disturbed "
            f"system may explain it, up to {far_words(fraction_from(width))}"
        )
    return f"drift may make {far_words(fraction_from(width))} ({drift_source(band.sets)})"


def far_words(band: float) -> str:
    """'20 %', '2.4 %': a band as a fraction."""
    return percent(band, 0 if band >= 0.0995 else 1)


def drift_source(sets: Sequence[str]) -> str:
    """How far drift may go is known from what: '98 % prediction interval from 4 repeated sets: a, b, c, d'."""
    if not sets:
        return f"assumed: no {MIN_SETS} sets are known here that repeat one configuration and code"
    from_sets = f"{plural(len(sets), 'repeated set')}: {names(sets, 6)}"
    return f"{percent(CONFIDENCE, 0)} prediction interval from {from_sets}"
