"""Search the highest rate of queries that LoadGen calls VALID: step until one rate is VALID and one is not, bisect
between them, and repeat runs at both ends.

Near the highest VALID rate, chance decides whether a run is VALID. Runs at both ends of the bracket are therefore
repeated until two runs at each end agree, so that neither verdict is favoured. An INVALID run in which the service
stood still for a while (was held up) says nothing about the rate, and is made again.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

RESOLUTION = 1.02
"""Ratio of the lowest INVALID rate of queries to the highest VALID one at which the search between them ends."""
MAX_RATES = 16
ENOUGH = 2
"""Number of runs of equal verdict, of three at most, that settle whether a rate is VALID."""
MAX_HELD_UP = 3
"""Number of INVALID runs at one rate in which the service was held up (stood still), after which the rate counts as
INVALID."""
FAR = 16
"""Exponent of RESOLUTION for the smallest step down from a rate at which the service was held up (stood still) in all
runs. Such runs do not show how far away the highest VALID rate is, and each such rate takes MAX_HELD_UP runs, so the
step is large."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RateAttempt:
    """LoadGen's verdict on one run at one rate of queries."""

    rate: float
    is_valid: bool
    is_held_up: bool = False
    """Whether the service stood still for so long that this may have decided the verdict."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Votes:
    """Numbers of LoadGen's runs at one rate of queries, by verdict."""

    valid: int = 0
    invalid: int = 0
    held_up: int = 0
    """Number of INVALID runs in which the service stood still for so long that this may have decided the verdict."""

    @property
    def is_valid(self) -> bool:
        return self.valid > self.invalid

    @property
    def is_settled(self) -> bool:
        """Whether no further run at the rate is needed: enough runs agree, or the service stood still in enough
        INVALID runs."""
        return max(self.valid, self.invalid) >= ENOUGH or self.held_up >= MAX_HELD_UP

    @property
    def is_open(self) -> bool:
        """Whether the rate has no verdict yet: as many of its runs are VALID as INVALID, or the service stood still
        in all of its runs."""
        return self.valid == self.invalid and not self.is_settled


@dataclass(frozen=True, kw_only=True, slots=True)
class Bracket:
    """Rates of queries between which a search for the highest VALID rate ended."""

    low: float | None
    """Highest VALID rate of queries below every INVALID one; None where no rate was VALID."""
    high: float | None
    """Lowest INVALID rate. It does not count rates at which the service stood still in all INVALID runs. None where
    there was no INVALID rate."""


def count_votes(attempts: Sequence[RateAttempt]) -> dict[float, Votes]:
    """Count LoadGen's verdicts at each rate of queries."""
    votes: dict[float, Votes] = {}
    for each in attempts:
        old = votes.get(each.rate, Votes())
        is_held_up = each.is_held_up and not each.is_valid
        votes[each.rate] = Votes(
            valid=old.valid + each.is_valid,
            invalid=old.invalid + (not each.is_valid and not is_held_up),
            held_up=old.held_up + is_held_up,
        )
    return votes


def search_highest(
    try_rate: Callable[[float], RateAttempt],
    start: float,
    *,
    least: float = 0.0,
    most: float = math.inf,
    may_go_on: Callable[[], bool] = lambda: True,
) -> list[RateAttempt]:
    """Search the highest VALID rate. Try at most `MAX_RATES` rates between `least` and `most`, beginning at `start`,
    as long as `may_go_on` returns True; at least one rate is tried. Return the attempts in order.

    - The first step multiplies or divides the rate by `RESOLUTION`. As long as all rates have the same verdict, each
      step is the square of the step before it.
    - A step down from a rate at which the service stood still in all runs is at least `RESOLUTION` to the power of
      `FAR`.
    - The search ends with a VALID and an INVALID rate that differ by a factor of about `RESOLUTION`, unless it is
      stopped early.
    """
    attempts: list[RateAttempt] = []
    rate: float | None = start
    power = 1
    while rate is not None:
        attempts.append(try_rate(rate))
        if not may_go_on():
            break
        votes = count_votes(attempts)
        if votes[rate].is_open:
            continue
        low, high = _ends(votes)
        if low is not None and high is not None:
            power = 1  # where repetition changes an end's verdict, the highest VALID rate is near that end
            if high / low <= RESOLUTION * (1 + 1e-9):
                rate = next((end for end in (low, high) if not votes[end].is_settled), None)
            else:
                rate = (low * high) ** 0.5
        else:
            if high is not None and votes[high].held_up >= MAX_HELD_UP:
                power = max(power, FAR)
            step = RESOLUTION**power
            rate = min(most, (low or start) * step) if high is None else max(least, high / step)
            power *= 2
            if rate in (low, high):
                break
        if rate is not None and rate not in votes and len(votes) == MAX_RATES:
            break
    return attempts


def _ends(votes: dict[float, Votes]) -> tuple[float | None, float | None]:
    """Return the highest VALID rate below every INVALID one, and the lowest INVALID one above it."""
    high = min((rate for rate, each in votes.items() if not each.is_valid), default=None)
    valid = (rate for rate, each in votes.items() if each.is_valid and (high is None or rate < high))
    return max(valid, default=None), high


def bracket_of(attempts: Sequence[RateAttempt]) -> Bracket:
    """Return the rates between which the highest VALID rate lies after `attempts`; the majority of the runs at a rate
    decides whether it is VALID."""
    votes = count_votes(attempts)
    low, _ = _ends(votes)
    clean = (rate for rate, each in votes.items() if not each.is_valid and each.invalid)
    return Bracket(low=low, high=min(clean, default=None))
