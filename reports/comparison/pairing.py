"""Which runs of two sides are compared with each other: those of equal seeds in pairs, else all with all."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reports.comparison.factor import FACTORS, is_ratio
from reports.facts.sides import Sample
from reports.statistics.ratios import Floats

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
        on = " on the logarithms" if is_ratio(factor) else ""
        if self.is_paired:
            return f"Student's t{on}, {len(self.base)} pairs of equal seeds"
        return f"Welch's t{on}"

    def compared(self, factor: str) -> tuple[Floats | None, Floats | None]:
        """What is compared of both sides: logarithms, or values on a scale of differences.

        None where a run lacks what they are made of, or has no logarithm.
        """
        return _compared(self.base, factor), _compared(self.new, factor)

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


def _compared(samples: Sequence[Sample], factor: str) -> Floats | None:
    values = [_value(sample, factor) for sample in samples]
    known = np.asarray([value for value in values if value is not None], dtype=np.float64)
    if not len(known) or len(known) != len(values):
        return None
    if not is_ratio(factor):
        return known
    return np.log(known) if known.min() > 0 else None


def _value(sample: Sample, factor: str) -> float | None:
    """Each factor from the same three measurements, so that the logarithms add up."""
    if factor not in FACTORS:
        return sample.value
    time_s, train_s, samples = sample.time_to_train_s, sample.train_s, sample.num_samples
    if factor == "time_to_train":
        return time_s
    if train_s is None or samples is None:
        return None
    if factor == "throughput":
        return samples / train_s
    if time_s is None:
        return None
    return samples if factor == "samples_to_converge" else time_s / train_s


def _step(samples: Sequence[Sample], factor: str) -> float:
    """The mean grid of a factor; values on a scale of differences have none."""
    known = FACTORS.get(factor)
    return float(np.mean([getattr(sample, known.step) for sample in samples])) if samples and known else 0.0
