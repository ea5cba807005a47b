"""What drift may do between two sets that were measured one after the other: the band that a difference must exceed.

A system's speed drifts: neighbours, clocks and temperatures last longer than a run, and a set that is quiet in itself
may as a whole be off by more than its runs lie apart. Only sets of one configuration, measured again and again, show
by how much, and of their own hours alone: they have to lie around both sides in time. Without such sets a band is
assumed. Sides whose runs took turns need none, and convergence follows the seeds and does not drift.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from reports.comparison.factor import factor_of
from reports.comparison.pairing import Pairing, compared_values
from reports.facts.noise import DRIFT_BAND
from reports.results.reference_systems import system_of
from reports.results.result import Repetition, Result
from reports.statistics.distributions import student_quantile
from reports.statistics.ratios import fraction_from
from reports.text.formatting import epoch_ms, names, percent, plural, rough_duration

MIN_SETS = 3
CONFIDENCE = 0.98
"""Confidence of the prediction interval: two further sets differ by more in one of fifty cases."""
LEAST_BAND = 0.05
"""No measured band is narrower: a few sets that happen to agree do not show that the system is still."""
SET_OFFSET = 0.08
"""Standard deviation of the offsets of whole sets from their machine's mean, as a fraction: the most seen so far."""
REFERENCE_BAND = 0.3
"""Drift tolerance between a reference system and another, as a fraction: it was measured on another machine, months
before. As with repeated sets, two offsets of SET_OFFSET lie further apart in one of fifty cases: 2.33 times the
square root of 2 times 8 % is 26 % of the logarithm."""
_OF_REFERENCE = "assumed: a reference system was measured elsewhere and before, and sets are off by up to 8 % each"
_ASSUMED = f"assumed: no {MIN_SETS} sets are known here that repeat one configuration and code"
DRIFT_REACH = 2.0
"""A side as a whole may be off by as much as this many standard deviations of its single runs' speed: where a
disturbance is seen inside a set, its runs are not independent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """Sets that repeat each other, in groups of one configuration each; `is_given` where the user named them."""

    groups: tuple[tuple[Result, ...], ...] = ()
    is_given: bool = False

    def of(self, base: Result, new: Result) -> "Repeats":
        """The groups that say something of these two: those of their own configurations, unless they were given; none
        between a reference system and another."""
        if system_of(base) != system_of(new):
            return NO_REPEATS
        keys = {base.repetition, new.repetition} - {None}
        own = (group for group in self.groups if self.is_given or group[0].repetition in keys)
        large = tuple(group for group in own if len(group) >= MIN_SETS)
        return Repeats(groups=large, is_given=self.is_given)

    def around(self, base: Result, new: Result) -> "Repeats":
        """The groups whose first set began no later than either of these two, and whose last no earlier."""
        sides, found = spans_ms((base, new)), []
        for group in self.groups if sides else ():
            spans = spans_ms(group)
            if spans and min(spans)[0] <= min(sides)[0] and max(spans)[0] >= max(sides)[0]:
                found.append(group)
        return Repeats(groups=tuple(found), is_given=self.is_given)

    def when(self, new: Result) -> str:
        """'4 sets made within 12 min, 3.0 h before new'; empty without sets, and where a moment is not known."""
        spans, ours = spans_ms([each for group in self.groups for each in group]), spans_ms((new,))
        if not spans or not ours:
            return ""
        first, last = min(spans)[0], max(span[1] for span in spans)
        text = f"{plural(len(spans), 'set')} made within {rough_duration((last - first) / 1e3)}"
        if last <= ours[0][0]:
            return f"{text}, {rough_duration((ours[0][0] - last) / 1e3)} before new"
        return text if first < ours[0][1] else f"{text}, {rough_duration((first - ours[0][1]) / 1e3)} after new"


@dataclass(frozen=True, kw_only=True, slots=True)
class DriftTolerance:
    """By factor how far apart drift may move two sets, as a difference of logarithms; `sets` are what shows it.

    Without sets nothing is measured, and DRIFT_BAND holds for every factor. `words` say in short how it is known.
    """

    widths: Mapping[str, float] = field(default_factory=dict)
    sets: tuple[str, ...] = ()
    words: str = _ASSUMED

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
    t(0.99, k - 1) times the square root of 2 times their standard deviation. It is no narrower than LEAST_BAND, nor
    than two of the sets lie apart: the one that follows a step counts as much as the many before it.
    """
    groups = [group for group in repeats.groups if len(group) >= MIN_SETS]
    widths = {}
    for name in filter(drifts, names):
        squares, degrees, apart = 0.0, 0, math.log1p(LEAST_BAND)
        for group in groups:
            means = [mean for result in group if (mean := _mean_speed(result.samples, name)) is not None]
            if len(means) >= MIN_SETS:
                squares += float(np.square(np.asarray(means) - np.mean(means)).sum())
                degrees, apart = degrees + len(means) - 1, max(apart, max(means) - min(means))
        if degrees:
            student = float(student_quantile(degrees, (1 + CONFIDENCE) / 2))
            widths[name] = max(student * math.sqrt(2.0 * squares / degrees), apart)
    return DriftTolerance(
        widths=widths, sets=tuple(result.label for group in groups for result in group) if widths else ()
    )


@dataclass(frozen=True, slots=True)
class DriftTolerances:
    """The bands between pairs of sides, measured once for all pairs that the same groups show them for."""

    _known: dict[tuple[object, ...], DriftTolerance] = field(default_factory=dict)

    def of(self, base: Result, new: Result, repeats: Repeats) -> DriftTolerance:
        """The band between two sides of one kind, by the sets around both that repeat one of them.

        It is assumed, and wider, where one is a reference system's.
        """
        if system_of(base) != system_of(new):
            width = math.log1p(REFERENCE_BAND)
            return DriftTolerance(widths=dict.fromkeys(base.quantities, width), words=_OF_REFERENCE)
        own = repeats.of(base, new)
        around = own.around(base, new)
        key = (base.quantities[0], *map(id, around.groups))
        if key not in self._known:
            self._known[key] = measure_drift_tolerance(around, base.quantities)
        if self._known[key].sets:
            return replace(self._known[key], words=f"{around.when(new)}, around both sides")
        when = own.when(new)
        return DriftTolerance(words=f"assumed: {when}, not around both sides") if when else DriftTolerance()


def spans_ms(sides: Sequence[Result]) -> list[tuple[float, float]]:
    """When each was made, from its first moment to its last; empty where one does not say it."""
    found = []
    for side in sides:
        known = [moment for sample in side.samples for moment in (sample.started_ms, sample.stopped_ms)]
        created = epoch_ms(side.asked.created_utc) if side.asked and not any(known) else None
        moments = [moment for moment in (*known, created) if moment is not None]
        if not moments:
            return []
        found.append((min(moments), max(moments)))
    return found


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
    """'drift may make 20 % (assumed)': how far, and how that is known."""
    width, spread = width_for(name, band, pairing), _own_spread(name, pairing)
    if width > band.width(name) and spread is not None:
        return (
            f"runs of one side differ by {percent(fraction_from(spread))} in speed among themselves, so a disturbed "
            f"system may explain it, up to {far_words(fraction_from(width))}"
        )
    return f"drift may make {far_words(fraction_from(width))} ({band.words})"


def far_words(band: float) -> str:
    """'20 %', '2.4 %': a band as a fraction."""
    return percent(band, 0 if band >= 0.0995 else 1)


def drift_source(sets: Sequence[str], words: str = "") -> str:
    """'98 % prediction interval, at least 5 %, from 3 repeated sets: a, b, c'; `words` are a DriftTolerance's."""
    if not sets:
        return words or _ASSUMED
    from_sets = f"{words or plural(len(sets), 'repeated set')}: {names(sets, 6)}"
    return f"{percent(CONFIDENCE, 0)} prediction interval, at least {percent(LEAST_BAND, 0)}, from {from_sets}"
