"""The highest rate that is judged VALID: step out until one rate is and one is not, then halve between them."""

from collections.abc import Callable

RESOLUTION = 1.02
"""Between the highest VALID rate and the lowest INVALID one."""
MAX_ATTEMPTS = 8


def search_highest(
    is_valid: Callable[[float], bool], start: float, *, least: float = 0.0, max_attempts: int = MAX_ATTEMPTS
) -> list[tuple[float, bool]]:
    """Try rates from `start` on; returns each with its verdict, at most `max_attempts`, none below `least`.

    The first step is `RESOLUTION`, and each is twice as long, in powers of it, as the one before, as long as all
    attempts are alike: a start that is right takes two attempts. The highest VALID rate below every INVALID one is
    then known to `RESOLUTION`, as far as the attempts go.
    """
    attempts: list[tuple[float, bool]] = []
    low, high = 0.0, float("inf")
    rate, power = start, 1
    while len(attempts) < max_attempts:
        attempts.append((rate, is_valid(rate)))
        if attempts[-1][1]:
            low = max(low, rate)
        else:
            high = min(high, rate)
        if low > 0 and high / low <= RESOLUTION * (1 + 1e-9):
            break
        if low > 0 and high < float("inf"):
            rate = (low * high) ** 0.5
        else:
            rate = low * RESOLUTION**power if low > 0 else max(least, high / RESOLUTION**power)
            power *= 2
        if rate == high:
            break
    return attempts
