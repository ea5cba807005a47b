"""Ratios of times that were measured alternately, and whether they decide anything."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

MOST_SPREAD = 1.3
"""Greatest ratio of a cell by its least, over the rounds, that decides anything."""
Times = Mapping[str, Sequence[float]]
"""Seconds by name and round."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Of two times, round by round; the median is of the times' medians."""

    median: float
    rounds: tuple[float, ...]

    @classmethod
    def of(cls, times: Sequence[float], others: Sequence[float]) -> "Ratios":
        pairs = zip(times, others, strict=True)
        return cls(statistics.median(times) / statistics.median(others), tuple(time / other for time, other in pairs))

    @property
    def spread(self) -> float:
        return max(self.rounds) / min(self.rounds)

    def text(self) -> str:
        if len(self.rounds) == 1:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({min(self.rounds):.2f} to {max(self.rounds):.2f}){self._doubt}"

    def percent(self) -> str:
        if len(self.rounds) == 1:
            return f"{100 * self.median:.0f} %"
        return (
            f"{100 * self.median:.0f} % ({100 * min(self.rounds):.0f} to {100 * max(self.rounds):.0f} %){self._doubt}"
        )

    @property
    def _doubt(self) -> str:
        return " undecided" if self.spread > MOST_SPREAD else ""


def measure_again_in_doubt(measure: Callable[[], Times], ours: str, others: Sequence[str]) -> Times:
    """Measure; once more where a ratio to `ours` spreads too far, and then return the steadier of both."""

    def worst_spread(times: Times) -> float:
        return max(Ratios.of(times[name], times[ours]).spread for name in others)

    times = measure()
    return times if worst_spread(times) <= MOST_SPREAD else min(times, measure(), key=worst_spread)
