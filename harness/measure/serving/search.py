"""The highest rate that is judged VALID: step out until one rate is and one is not, then halve between them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


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
    factor: float = 1.25,
    resolution: float = 1.05,
    max_attempts: int = 8,
) -> tuple[Tried[T], ...]:
    """Try rates from `start` on; returns every attempt in its order, at most `max_attempts`.

    Steps begin with `factor` and grow by it, as long as all attempts are alike. The highest VALID rate below every
    INVALID one is then known to `resolution`, as far as the attempts go.
    """
    attempts: list[Tried[T]] = []
    low, high = 0.0, float("inf")
    rate, step = start, 1.0
    while len(attempts) < max_attempts:
        tried = attempt(rate)
        attempts.append(tried)
        if tried.is_valid:
            low = max(low, rate)
        else:
            high = min(high, rate)
        if low >= high or (low > 0 and high / low <= resolution):
            break
        step *= factor
        rate = low * step if high == float("inf") else high / step if low == 0 else (low * high) ** 0.5
    return tuple(attempts)
