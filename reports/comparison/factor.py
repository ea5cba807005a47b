"""One factor of a comparison: its values on both sides, what they differ by, and the verdict."""

from dataclasses import dataclass, replace

from reports.statistics.intervals import Interval
from reports.statistics.ratios import Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class FactorComparison:
    """One factor of new against base. Values are geometric means in `unit`; `ratio` is new over base. On a scale of
    differences values are means, `difference` is new minus base, intervals are its own, and there is no ratio.

    `interval` is the ratio's at the confidence asked for; `adjusted_interval` is at the level at which Holm's
    procedure tests this factor within its family, and it is what `verdict` goes by, together with the smallest
    effect asked for. `p_value` (Student's t), `permutation_p` and `cliffs_delta` (share of pairs of runs in which
    new is larger, minus the share in which it is smaller) are shown and decide nothing. `runs_needed` is how many
    runs per side would settle an inconclusive verdict with 80 % probability, None where more than 1,000 would or
    no number can be promised; `reason` says why there is no verdict where more is
    wrong than a wide interval. None is not known.
    """

    name: str
    unit: str
    num_base: int
    num_new: int
    base_value: float | None = None
    new_value: float | None = None
    ratio: float | None = None
    difference: float | None = None
    interval: Interval | None = None
    adjusted_interval: Interval | None = None
    p_value: float | None = None
    permutation_p: float | None = None
    cliffs_delta: float | None = None
    verdict: Verdict = "inconclusive"
    runs_needed: int | None = None
    reason: str | None = None

    @property
    def is_inverse(self) -> bool:
        """Whether more of it is less time."""
        return self.name == "throughput"

    @property
    def time_ratio(self) -> float | None:
        """What the factor does to the time: above 1 is slower. The product over the factors is the whole ratio."""
        return self.ratio if self.ratio is None or not self.is_inverse else 1.0 / self.ratio

    @property
    def shown_interval(self) -> Interval | None:
        """The interval that readers see: the one that decides, else the one that nothing is decided by."""
        return self.adjusted_interval or self.interval

    @property
    def time_interval(self) -> Interval | None:
        """`shown_interval` as a factor on the time."""
        shown = self.shown_interval
        if shown is None or not self.is_inverse:
            return shown
        return replace(shown, low=1.0 / shown.high, high=1.0 / shown.low)
