"""Pairs the runs of two compared results: runs with equal seeds form pairs; without equal seeds the results are
independent groups."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from reports.comparison.factor import factor_of
from reports.results.result import Repetition
from reports.statistics.ratios import (
    Difference,
    Floats,
    Moments,
    mean_of,
    moments_of,
    paired_difference,
    welch_of_moments,
)

_MIN_SHARE = 0.8
"""Share of the runs of the result with more runs that must have a partner of equal seed. Below this share, pairing
would leave out too many runs."""


class SideValues(NamedTuple):
    """Values of one result's runs in a compared quantity. `values` is None where the value of a run is unknown.
    `moments` (mean and variance) is None also where there are fewer than two runs."""

    values: Floats | None
    mean: float
    moments: Moments | None
    step: float
    """Mean resolution of one result's values in a compared quantity: the distance between two neighbouring possible
    values, such as at successive evaluations, as a fraction of the value. 0 if every value can occur."""


@dataclass(frozen=True, slots=True)
class KnownValues:
    """Cache of runs' values by compared quantity, shared by all comparisons that a result takes part in."""

    _known: dict[tuple[int, str], tuple[tuple[Repetition, ...], SideValues]] = field(default_factory=dict)

    def of(self, samples: tuple[Repetition, ...], factor: str) -> SideValues:
        """Return runs' values in a compared quantity; the cache identifies the tuple of runs by object
        identity."""
        key = id(samples), factor  # the cache keeps the runs, so their id stays unique
        if key not in self._known:
            values = compared_values(samples, factor)
            moments = moments_of(values) if values is not None and len(values) > 1 else None
            mean = float(mean_of(values)) if values is not None else math.nan
            side = SideValues(values=values, mean=mean, moments=moments, step=_step(samples, factor))
            self._known[key] = samples, side
        return self._known[key][1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairing:
    """Runs of two compared results (base and new); where they are paired, base[i] and new[i] share a seed.

    `share_turns` is True if a record says that both results were measured alternately (A/B); `is_cross_system` is
    True if they were measured on two systems.
    """

    base: tuple[Repetition, ...]
    new: tuple[Repetition, ...]
    is_paired: bool
    num_shared: int
    share_turns: bool = False
    is_cross_system: bool = False
    known: KnownValues = field(default_factory=KnownValues, compare=False, repr=False)

    @property
    def is_interleaved(self) -> bool:
        """Whether two results' runs were made alternately (A/B), so that drift of the system affects both alike.

        The runs' start times decide. If a start time is missing, the record of the sweep or A/B pair that made the
        runs decides. False for results of two systems, since two systems drift independently even if they are
        measured at the same time.
        """
        if self.is_cross_system:
            return False
        starts = [(sample.started_ms, side) for side in (0, 1) for sample in (self.base, self.new)[side]]
        if any(start is None for start, _ in starts):
            return self.share_turns
        sides = [side for _, side in sorted(starts, key=lambda entry: entry[0] or 0.0)]
        turns = sum(side != other for side, other in pairwise(sides))
        return turns >= min(len(self.base), len(self.new))

    def spread(self, factor: str) -> float | None:
        """Return the spread of single runs in a compared quantity: standard deviation of logarithms, pooled
        over both results."""
        base, new = self._of_sides(factor)
        if base.moments is None or new.moments is None:
            return None
        return math.sqrt((base.moments.variance + new.moments.variance) / 2)

    def method(self, factor: str) -> str:
        on = " on the logarithms" if factor_of(factor).is_ratio else ""
        if self.is_paired:
            return f"Student's t{on}, {len(self.base)} pairs of equal seeds"
        return f"Welch's t{on}"

    def compared(self, factor: str) -> tuple[Floats | None, Floats | None]:
        """Return both results' values in a compared quantity: logarithms, or plain values where differences
        are compared."""
        base, new = self._of_sides(factor)
        return base.values, new.values

    def means(self, factor: str) -> tuple[float, float]:
        """Return each result's mean in a compared quantity: of logarithms if ratios are compared, else of plain
        values. Both results' values must be known."""
        base, new = self._of_sides(factor)
        assert base.values is not None and new.values is not None
        return base.mean, new.mean

    def _of_sides(self, factor: str) -> tuple[SideValues, SideValues]:
        return self.known.of(self.base, factor), self.known.of(self.new, factor)

    def is_identical(self, factor: str) -> bool:
        """Return whether both runs of every pair have equal values in a compared quantity. For example, samples to
        converge are equal where only the speed changed."""
        base, new = self.compared(factor)
        return self.is_paired and base is not None and new is not None and bool(np.array_equal(base, new))

    @property
    def is_identical_convergence(self) -> bool:
        """Whether both runs of every pair of equal seed have bit-identical quality at every evaluation."""
        return self.is_paired and all(
            base.curve and base.curve == new.curve for base, new in zip(self.base, self.new, strict=True)
        )

    def step(self, factor: str) -> float:
        """Return the resolution of a compared quantity, as a fraction: the coarser one of the two results'
        resolutions. For example, the distance between evaluations limits the resolution of the samples to converge.

        If both runs of every pair have the same samples to converge, evaluations do not limit the comparison. The
        samples then have the resolution 0, and the time to train has the clock's.
        """
        if self.is_identical_convergence and factor in ("time_to_train", "samples_to_converge"):
            return 0.0 if factor == "samples_to_converge" else self.step("throughput")
        base, new = self._of_sides(factor)
        return max(base.step, new.step)

    def difference(self, factor: str, *, sign: float = 1.0, tolerance: float = 0.0) -> Difference | None:
        """Return the new result's mean in a compared quantity minus the baseline's mean, times `sign`. None if a mean
        is unknown or a result has fewer than two runs."""
        base, new = self._of_sides(factor)
        if base.values is None or new.values is None or base.moments is None or new.moments is None:
            return None
        step = self.step(factor)
        if self.is_paired:
            return paired_difference(sign * base.values, sign * new.values, step=step, tolerance=tolerance)
        return welch_of_moments(base.moments, new.moments, sign=sign, step=step, tolerance=tolerance)


def pair_runs(
    base: Sequence[Repetition],
    new: Sequence[Repetition],
    *,
    share_turns: bool = False,
    is_cross_system: bool = False,
    known: KnownValues | None = None,
) -> Pairing:
    """Pair the runs of two results by seed. At least two runs, and four in five of the runs of the result with more
    runs, must have a partner; else the runs are not paired."""
    by_seed, others = _by_seed(base), _by_seed(new)
    shared = [seed for seed in by_seed if seed in others]
    is_paired = len(shared) >= max(2, _MIN_SHARE * max(len(base), len(new)))
    return Pairing(
        base=tuple(by_seed[seed] for seed in shared) if is_paired else tuple(base),
        new=tuple(others[seed] for seed in shared) if is_paired else tuple(new),
        is_paired=is_paired,
        num_shared=len(shared),
        share_turns=share_turns,
        is_cross_system=is_cross_system,
        known=KnownValues() if known is None else known,
    )


def _by_seed(samples: Sequence[Repetition]) -> dict[int, Repetition]:
    """Return a dict from seeds to runs. It is empty where a run has no seed, or where two runs share a seed, since it
    is then unknown which of them to pair."""
    found = {sample.seed: sample for sample in samples if sample.seed is not None}
    return found if len(found) == len(samples) else {}


def compared_values(samples: Sequence[Repetition], factor: str) -> Floats | None:
    """Return one result's values in a compared quantity, per run: logarithms, or plain values where
    differences are compared; None if unknown."""
    known = np.asarray([sample.values[factor] for sample in samples if factor in sample.values], dtype=np.float64)
    if not len(known) or len(known) != len(samples):
        return None
    if not factor_of(factor).is_ratio:
        return known
    return np.log(known) if known.min() > 0 else None


def _step(samples: Sequence[Repetition], factor: str) -> float:
    steps = [sample.steps.get(factor, 0.0) for sample in samples]
    return float(mean_of(np.asarray(steps, dtype=np.float64))) if steps else 0.0
