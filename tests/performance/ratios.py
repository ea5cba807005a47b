"""Ratios of times that were measured alternately, and whether they decide anything."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

WIDEST = 1.1
"""Greatest ratio of an interval's ends that decides anything."""
CONFIDENCE = 0.95
Times = Mapping[str, Sequence[float]]
"""Seconds by name and round."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratios of two times, one per round."""

    rounds: tuple[float, ...]

    @classmethod
    def of(cls, times: Sequence[float], others: Sequence[float]) -> "Ratios":
        return cls(tuple(time / other for time, other in zip(times, others, strict=True)))

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def interval(self) -> tuple[float, float]:
        """An interval of the median by the ranks of the rounds, at least 95 % sure; all of fewer than six rounds.

        It supposes that rounds are independent, and nothing of how they are distributed (the sign test's interval).
        """
        num_rounds, ordered = len(self.rounds), sorted(self.rounds)
        outside, left_out = 1 / 2**num_rounds, 0
        while 2 * (outside + math.comb(num_rounds, left_out + 1) / 2**num_rounds) <= 1 - CONFIDENCE:
            left_out += 1
            outside += math.comb(num_rounds, left_out) / 2**num_rounds
        return ordered[left_out], ordered[-1 - left_out]

    @property
    def is_decided(self) -> bool:
        low, high = self.interval
        return high / low <= WIDEST

    def text(self) -> str:
        """'1.42 (1.38 to 1.47; rounds 1.17 to 1.74)': the median, its interval, the least and the greatest round."""
        return self._text(lambda ratio: f"{ratio:.2f}", "")

    def percent(self) -> str:
        """'84 % (82 to 86; rounds 75 to 90)'."""
        return self._text(lambda ratio: f"{100 * ratio:.0f}", " %")

    def _text(self, number: Callable[[float], str], unit: str) -> str:
        if len(self.rounds) == 1:
            return number(self.median) + unit
        low, high, least, greatest = map(number, (*self.interval, min(self.rounds), max(self.rounds)))
        doubt = "" if self.is_decided else " undecided"
        return f"{number(self.median)}{unit} ({low} to {high}; rounds {least} to {greatest}){doubt}"


def measure_until_decided(
    measure_round: Callable[[int], Mapping[str, float]], ours: str, others: Sequence[str], least: int, most: int
) -> Times:
    """Measure rounds, at least `least`, until the ratio of each of `others` to `ours` is decided, or `most` are made.

    `measure_round` is given the round's number and returns seconds by name.
    """
    times: dict[str, list[float]] = {}
    for number in range(most):
        for name, took_s in measure_round(number).items():
            times.setdefault(name, []).append(took_s)
        if number + 1 >= least and all(Ratios.of(times[name], times[ours]).is_decided for name in others):
            break
    return times
