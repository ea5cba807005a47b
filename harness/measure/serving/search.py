"""The highest rate that is judged VALID: step out until one rate is and one is not, then halve between them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
RESOLUTION = 1.02
"""Between the highest VALID rate and the lowest INVALID one."""
MAX_ATTEMPTS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried(Generic[T]):
    """One rate with what was found."""

    rate: float
    is_valid: bool
    found: T


def search_highest(
    attempt: Callable[[float], Tried[T]],
    start: float,
    *,
    least: float = 0.0,
    resolution: float = RESOLUTION,
    max_attempts: int = MAX_ATTEMPTS,
) -> tuple[Tried[T], ...]:
    """Try rates from `start` on; returns every attempt in its order, at most `max_attempts`, none below `least`.

    The first step is `resolution`, and each is twice as long, in powers of it, as the one before, as long as all
    attempts are alike: a start that is right takes two attempts. The highest VALID rate below every INVALID one is
    then known to `resolution`, as far as the attempts go.
    """
    attempts: list[Tried[T]] = []
    low, high = 0.0, float("inf")
    rate, power = start, 1
    while len(attempts) < max_attempts:
        tried = attempt(rate)
        attempts.append(tried)
        if tried.is_valid:
            low = max(low, rate)
        else:
            high = min(high, rate)
        if low > 0 and high / low <= resolution * (1 + 1e-9):
            break
        if low > 0 and high < float("inf"):
            rate = (low * high) ** 0.5
        else:
            rate = low * resolution**power if low > 0 else max(least, high / resolution**power)
            power *= 2
        if rate == high:
            break
    return tuple(attempts)
