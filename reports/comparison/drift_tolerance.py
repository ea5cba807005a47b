"""Drift tolerance: the largest difference that slow drift of a system may cause between two result sets measured one
after the other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from reports.comparison.factor import factor_of
from reports.comparison.pairing import Pairing, compared_values
from reports.facts.noise import ASSUMED_DRIFT
from reports.results.reference_systems import system_of
from reports.results.result import Repetition, Result
from reports.statistics.distributions import student_quantile
from reports.statistics.ratios import fraction_from
from reports.text.formatting import epoch_ms, names, percent, plural, rough_duration

MIN_SETS = 3
CONFIDENCE = 0.98
"""Confidence of the prediction interval for drift: two more result sets of one configuration would differ by more
than this interval in one of fifty cases."""
LEAST_DRIFT = 0.05
"""Smallest drift tolerance that a measurement of drift can give, as a fraction: a few repeated result sets that
happen to agree do not prove a steady system."""
SET_OFFSET = 0.08
"""Deviation of a whole result set's mean speed from its machine's long-run mean speed: the standard deviation, as a
fraction of the long-run speed. It is the largest seen so far."""
REFERENCE_DRIFT = 0.3
"""Drift tolerance, as a fraction, between a reference system and another system. It is wide, because the reference
system was measured on another machine, months before. It is exp(2.33 sqrt(2) SET_OFFSET) - 1, the difference that two
sets exceed by chance in one of fifty cases if the mean speed of each deviates by SET_OFFSET."""
_OF_REFERENCE = "assumed, as the reference system was measured elsewhere, and each set may be off by up to 8 %"
_ASSUMED = f"assumed, as fewer than {MIN_SETS} sets of one configuration and code were found"
DRIFT_REACH = 2.0
"""Largest deviation of a result set's mean speed by drift, as a multiple of the standard deviation of the speed of
its runs. If single runs vary much, noise is probably slow: it affects neighbouring runs alike, so that averaging over
runs does not remove it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """Repeated result sets, grouped by configuration, from which drift is measured; `is_given` is True if the user
    named them."""

    groups: tuple[tuple[Result, ...], ...] = ()
    is_given: bool = False

    def of(self, base: Result, new: Result) -> "Repeats":
        """Return the groups of repeated result sets that have the configuration of one of two results. If the user
        named the sets, return all their groups. Groups of fewer than MIN_SETS sets are left out.

        If one of the two results is of a reference system and the other is not, return no groups.
        """
        if system_of(base) != system_of(new):
            return NO_REPEATS
        keys = {base.repetition, new.repetition} - {None}
        own = (group for group in self.groups if self.is_given or group[0].repetition in keys)
        large = tuple(group for group in own if len(group) >= MIN_SETS)
        return Repeats(groups=large, is_given=self.is_given)

    def around(self, base: Result, new: Result) -> "Repeats":
        """Return the groups of repeated result sets that enclose two results in time: the group's first set began no
        later than the earlier result, and its last set began no earlier than the later result."""
        sides, found = spans_ms((base, new)), []
        for group in self.groups if sides else ():
            spans = spans_ms(group)
            if spans and min(spans)[0] <= min(sides)[0] and max(spans)[0] >= max(sides)[0]:
                found.append(group)
        return Repeats(groups=tuple(found), is_given=self.is_given)

    def when(self, new: Result) -> str:
        """Return the number and time of the repeated result sets, '4 sets made within 12 min, 3.0 h before new';
        empty without repeated sets, or where a time is unknown."""
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
    """Drift tolerance of each compared quantity (such as throughput): the difference of logarithms that drift of a
    system may cause. `sets` names the repeated result sets from which it was measured.

    If `sets` is empty, the tolerance is assumed instead of measured, by default as ASSUMED_DRIFT for every quantity.
    `words` says briefly where the tolerance comes from.
    """

    widths: Mapping[str, float] = field(default_factory=dict)
    sets: tuple[str, ...] = ()
    words: str = _ASSUMED

    def width(self, name: str) -> float:
        """Return the drift tolerance (a difference of logarithms) of a compared quantity, such as time to train,
        throughput or the quantity of a measurement."""
        return self.widths.get(name, math.log1p(ASSUMED_DRIFT))


NO_REPEATS = Repeats()


def drifts(name: str) -> bool:
    """Return whether drift of the system changes a compared quantity: True for speeds and times, False for
    convergence and quality."""
    return name != "samples_to_converge" and factor_of(name).is_ratio


def measure_drift_tolerance(repeats: Repeats, names: Sequence[str]) -> DriftTolerance:
    """Measure the drift tolerance of each compared quantity. Two further result sets of one configuration would
    differ by less than this tolerance in 98 of 100 cases.

    The tolerance is measured from result sets in groups of equal configuration; groups of fewer than MIN_SETS are
    left out. It is t(0.99, degrees of freedom) x sqrt(2) x s, where s is the standard deviation of the sets' means,
    pooled over groups. A group of k sets has k - 1 degrees of freedom. The tolerance is at least LEAST_DRIFT, and at
    least the largest difference between two sets of one group, since a single sudden change of speed hardly raises s.
    """
    groups = [group for group in repeats.groups if len(group) >= MIN_SETS]
    widths = {}
    for name in filter(drifts, names):
        squares, degrees, apart = 0.0, 0, math.log1p(LEAST_DRIFT)
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
    """Cache of drift tolerances (largest differences that drift of a system may cause) between pairs of results. The
    tolerance from a given group of repeated result sets is computed once."""

    _known: dict[tuple[object, ...], DriftTolerance] = field(default_factory=dict)

    def of(self, base: Result, new: Result, repeats: Repeats) -> DriftTolerance:
        """Return the drift tolerance between two results of one kind of measurement. It is computed from repeated
        result sets: they have the configuration of one of the two results, and were measured both before and after
        the two results.

        Where there are too few of these sets, the tolerance is assumed to be ASSUMED_DRIFT. If one of the two results
        is of a reference system and the other is not, it is assumed to be REFERENCE_DRIFT, which is wider.
        """
        if system_of(base) != system_of(new):
            width = math.log1p(REFERENCE_DRIFT)
            return DriftTolerance(widths=dict.fromkeys(base.quantities, width), words=_OF_REFERENCE)
        own = repeats.of(base, new)
        around = own.around(base, new)
        key = (base.quantities[0], *map(id, around.groups))
        if key not in self._known:
            self._known[key] = measure_drift_tolerance(around, base.quantities)
        if self._known[key].sets:
            return replace(self._known[key], words=f"{around.when(new)}, around both sides")
        when = own.when(new)
        return DriftTolerance(words=f"assumed, as {when}, are not around both sides") if when else DriftTolerance()


def spans_ms(sides: Sequence[Result]) -> list[tuple[float, float]]:
    """Return the start and the end of each result's measurement, in ms since 1970. If both are unknown for a result,
    the time at which its run set was created stands for both. Return an empty list if this time is unknown as well
    for any of the results."""
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
    """Return the mean logarithm of a compared quantity over the runs of a result set; None where a run's value is
    unknown. For the time to train, return the mean logarithm of the time per sample instead, because drift of the
    system changes the speed but not the number of samples."""
    if name != "time_to_train":
        values = compared_values(samples, name)
        return None if values is None else float(values.mean())
    time, trained = compared_values(samples, name), compared_values(samples, "samples_to_converge")
    return None if time is None or trained is None else float((time - trained).mean())


def width_for(name: str, tolerance: DriftTolerance, pairing: Pairing) -> float:
    """Return the drift tolerance (a difference of logarithms) of a compared quantity between two results. It is the
    larger of two values: the given `tolerance`, and DRIFT_REACH times the standard deviation of single runs' speeds,
    pooled over both results."""
    return max(tolerance.width(name), DRIFT_REACH * (_own_spread(name, pairing) or 0.0))


def _own_spread(name: str, pairing: Pairing) -> float | None:
    return pairing.spread("throughput" if name == "time_to_train" else name)


def drift_words(name: str, tolerance: DriftTolerance, pairing: Pairing) -> str:
    """Return the drift tolerance of a compared quantity (such as throughput), with its source, in words: 'a
    difference of 20 % is allowed for drift (assumed)'."""
    width, spread = width_for(name, tolerance, pairing), _own_spread(name, pairing)
    if width > tolerance.width(name) and spread is not None:
        return (
            f"runs of one side differ by {percent(fraction_from(spread))} in speed among themselves, so a noisy "
            f"machine may explain differences of up to {far_words(fraction_from(width))}"
        )
    return f"a difference of {far_words(fraction_from(width))} is allowed for drift ({tolerance.words})"


def far_words(tolerance: float) -> str:
    """Format a drift tolerance (the largest difference that drift may cause), given as a fraction: '20 %',
    '2.4 %'."""
    return percent(tolerance, 0 if tolerance >= 0.0995 else 1)


def drift_source(sets: Sequence[str], words: str = "") -> str:
    """Return in words where a drift tolerance comes from: '98 % prediction interval, at least 5 %, from 3 sets: a, b,
    c'.

    `words` is the short text of the tolerance (DriftTolerance.words). `sets` are the names of the repeated result
    sets from which the tolerance was measured; it is empty where the tolerance is assumed.
    """
    if not sets:
        return words or _ASSUMED
    from_sets = f"{words or plural(len(sets), 'repeated set')}: {names(sets, 6)}"
    return f"{percent(CONFIDENCE, 0)} prediction interval, at least {percent(LEAST_DRIFT, 0)}, from {from_sets}"
