"""The highest rate that is judged VALID: step out until one rate is and one is not, then halve between them.

A run that was held up says nothing of the rate, and an INVALID run right above one whose latency is far below the
limit is no property of a queue: such runs are made again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.extensions.serving.records import WIDEST_BRACKET

RESOLUTION = 1.02
"""Between the highest VALID rate and the lowest INVALID one."""
MAX_RATES, MAX_REPEATS = 16, 2
_FAR_BELOW = 0.5
"""Share of the limit: a latency below it, at a rate within `WIDEST_BRACKET`, makes an INVALID run odd."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One run at one rate."""

    rate: float
    is_valid: bool
    of_limit: float = 1.0
    """Its latency at the percentile, as a share of the limit."""
    is_held_up: bool = False
    """Whether it stood still for so long that the verdict may be due to that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bracket:
    """What the search found."""

    low: float | None
    """The highest VALID rate below every INVALID one."""
    high: float | None
    """The lowest rate above it that was INVALID in a run that was not held up; None where there was none."""


def search_highest(
    try_rate: Callable[[float], Attempt],
    start: float,
    *,
    least: float = 0.0,
    may_go_on: Callable[[], bool] = lambda: True,
) -> list[Attempt]:
    """Try rates from `start` on, at most `MAX_RATES`, none below `least`, as long as `may_go_on`; at least one.

    The first step is `RESOLUTION`, and each is twice as long, in powers of it, as the one before, as long as all
    attempts are alike: a start that is right takes two attempts. The highest VALID rate below every INVALID one is
    then known to `RESOLUTION`, as far as the attempts go.
    """
    attempts: list[Attempt] = []

    def judge(rate: float) -> bool:
        for _ in range(1 + MAX_REPEATS):
            attempts.append(try_rate(rate))
            if not _is_doubtful(attempts) or not may_go_on():
                break
        return attempts[-1].is_valid

    low, high = 0.0, float("inf")
    rate, power = start, 1
    for _ in range(MAX_RATES):
        if judge(rate):
            low = max(low, rate)
        else:
            high = min(high, rate)
        if (low > 0 and high / low <= RESOLUTION * (1 + 1e-9)) or not may_go_on():
            break
        if low > 0 and high < float("inf"):
            rate = (low * high) ** 0.5
        else:
            rate = low * RESOLUTION**power if low > 0 else max(least, high / RESOLUTION**power)
            power *= 2
        if rate == high:
            break
    return attempts


def _is_doubtful(attempts: Sequence[Attempt]) -> bool:
    """Whether the last attempt is INVALID for what may not be its rate."""
    last = attempts[-1]
    if last.is_valid:
        return False
    near = (each for each in attempts if each.is_valid and last.rate / WIDEST_BRACKET <= each.rate)
    return last.is_held_up or any(each.of_limit < _FAR_BELOW for each in near)


def bracket_of(attempts: Sequence[Attempt]) -> Bracket:
    """Return what is known after so many attempts; the last of a rate counts."""
    last = {attempt.rate: attempt for attempt in attempts}.values()
    invalid = [attempt for attempt in last if not attempt.is_valid]
    lowest = min((attempt.rate for attempt in invalid), default=float("inf"))
    low = max((attempt.rate for attempt in last if attempt.is_valid and attempt.rate < lowest), default=None)
    clean = (attempt.rate for attempt in invalid if not attempt.is_held_up)
    return Bracket(low=low, high=min(clean, default=None))
