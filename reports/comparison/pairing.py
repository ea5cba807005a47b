"""Which runs of two sides are compared: those of equal seeds in pairs, else all with all; and how many it takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import stdtrit

from reports.comparison.factor import factor_of
from reports.facts.sides import Sample
from reports.statistics.intervals import MIN_RUNS
from reports.statistics.ratios import Difference, Floats

POWER = 0.8
MAX_RUNS = 1_000
_MIN_SHARE = 0.8
"""Of the larger side, this share of the runs must have a partner; pairs would leave out too much otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairing:
    """The runs that are compared; where paired, base[i] and new[i] share a seed."""

    base: tuple[Sample, ...]
    new: tuple[Sample, ...]
    is_paired: bool
    num_shared: int

    @property
    def is_interleaved(self) -> bool:
        """Whether the sides' runs took turns, so that a drift of the system meets both alike.

        By their starts; measurements that have none are taken to have taken turns where they were made in pairs.
        """
        starts = [(sample.started_ms, side) for side in (0, 1) for sample in (self.base, self.new)[side]]
        if any(start is None for start, _ in starts):
            return self.is_paired
        sides = [side for _, side in sorted(starts, key=lambda entry: entry[0] or 0.0)]
        turns = sum(side != other for side, other in pairwise(sides))
        return turns >= min(len(self.base), len(self.new))

    def spread(self, factor: str) -> float | None:
        """How far single runs of a side lie apart in `factor`: standard deviation of the logs, both sides pooled."""
        base, new = self.compared(factor)
        if base is None or new is None or min(len(base), len(new)) < 2:
            return None
        return float(np.sqrt((base.var(ddof=1) + new.var(ddof=1)) / 2))

    def method(self, factor: str) -> str:
        on = " on the logarithms" if factor_of(factor).is_ratio else ""
        if self.is_paired:
            return f"Student's t{on}, {len(self.base)} pairs of equal seeds"
        return f"Welch's t{on}"

    def compared(self, factor: str) -> tuple[Floats | None, Floats | None]:
        """What is compared of both sides: logarithms, or values on a scale of differences.

        None where a run lacks what they are made of, or has no logarithm.
        """
        return compared_values(self.base, factor), compared_values(self.new, factor)

    def is_identical(self, factor: str) -> bool:
        """Whether every pair has equal values, as settings that change no update have of samples to converge."""
        base, new = self.compared(factor)
        return self.is_paired and base is not None and new is not None and bool(np.array_equal(base, new))

    def steps(self, factor: str) -> tuple[float, float]:
        """The grid of both sides' logarithms."""
        return _step(self.base, factor), _step(self.new, factor)


def pair_runs(base: Sequence[Sample], new: Sequence[Sample]) -> Pairing:
    """Pairs by seed where at least two, and four in five of the larger side's runs, have a partner."""
    by_seed, others = _by_seed(base), _by_seed(new)
    shared = [seed for seed in by_seed if seed in others]
    if len(shared) < 2 or len(shared) < _MIN_SHARE * max(len(base), len(new)):
        return Pairing(base=tuple(base), new=tuple(new), is_paired=False, num_shared=len(shared))
    return Pairing(
        base=tuple(by_seed[seed] for seed in shared),
        new=tuple(others[seed] for seed in shared),
        is_paired=True,
        num_shared=len(shared),
    )


def _by_seed(samples: Sequence[Sample]) -> dict[int, Sample]:
    """Samples by their seed; none where two share one, because it is then unknown who is whose partner."""
    found = {sample.seed: sample for sample in samples if sample.seed is not None}
    return found if len(found) == len(samples) else {}


def compared_values(samples: Sequence[Sample], factor: str) -> Floats | None:
    """What is compared of one side, as `Pairing.compared` has it."""
    known = np.asarray([sample.values[factor] for sample in samples if factor in sample.values], dtype=np.float64)
    if not len(known) or len(known) != len(samples):
        return None
    if not factor_of(factor).is_ratio:
        return known
    return np.log(known) if known.min() > 0 else None


def _step(samples: Sequence[Sample], factor: str) -> float:
    """The mean grid of a factor; values without one have none."""
    return float(np.mean([sample.steps.get(factor, 0.0) for sample in samples])) if samples else 0.0


def runs_needed(difference: Difference, level: float, margin: float, pairing: Pairing) -> int | None:
    """Runs per side (or pairs) after which a verdict has 80 % probability, if the difference is as measured.

    `margin` is the smallest effect on the scale of the differences. Beyond it, the interval has to leave out 'no
    difference'; within it, the interval has to lie inside. None where more than 1,000 would be needed, as for one
    right at the smallest effect.
    """
    size = abs(float(difference.mean))
    room = size if size >= margin else margin - size
    # What one run on each side would have, so that n runs have it over the square root of n.
    spread = float(difference.standard_error) * math.sqrt(_effective_runs(pairing))
    numbers = np.arange(MIN_RUNS, MAX_RUNS + 1, dtype=np.float64)
    degrees = numbers - 1 if pairing.is_paired else 2 * (numbers - 1)
    needed = (stdtrit(degrees, 1 - level / 2) + stdtrit(degrees, POWER)) * spread / np.sqrt(numbers)
    enough = np.flatnonzero(needed <= room)
    return int(numbers[enough[0]]) if len(enough) else None


def _effective_runs(pairing: Pairing) -> float:
    """Runs per side of a balanced comparison with the same standard error, taking both spreads as alike."""
    if pairing.is_paired:
        return len(pairing.base)
    return 2.0 / (1.0 / len(pairing.base) + 1.0 / len(pairing.new))
