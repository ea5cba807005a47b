"""The highest rate that is judged VALID: step out until one rate is and one is not, halve between them, then repeat
the runs at both ends.

At the border a run is VALID or not by chance. Whatever end of the bracket is repeated until two of its runs agree, so
that neither verdict has a better chance than the other. Runs that were held up and INVALID say nothing of the rate,
and are made again.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

RESOLUTION = 1.02
"""Between the highest VALID rate and the lowest INVALID one."""
MAX_RATES = 16
ENOUGH = 2
"""Runs of equal verdict that settle a rate, of three at most."""
MAX_HELD_UP = 3
"""Runs at one rate that may be held up, before it counts as INVALID."""
FAR = 16
"""Least step down, as a power of RESOLUTION, from a rate at which all runs were held up: these tell nothing of how
far the border is, and each such rate takes MAX_HELD_UP of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RateAttempt:
    """One run at one rate."""

    rate: float
    is_valid: bool
    is_held_up: bool = False
    """Whether it stood still for so long that the verdict may be due to that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Votes:
    """The runs at one rate, by their verdicts."""

    valid: int = 0
    invalid: int = 0
    held_up: int = 0
    """INVALID, and held up."""

    @property
    def is_valid(self) -> bool:
        return self.valid > self.invalid

    @property
    def is_settled(self) -> bool:
        """Whether no further run is needed: enough of them agree, or all stood still."""
        return max(self.valid, self.invalid) >= ENOUGH or self.held_up >= MAX_HELD_UP

    @property
    def is_open(self) -> bool:
        """Whether there is no verdict at all yet: as many runs are VALID as are not, or all were held up."""
        return self.valid == self.invalid and not self.is_settled


@dataclass(frozen=True, kw_only=True, slots=True)
class Bracket:
    """What the search found."""

    low: float | None
    """The highest VALID rate below every INVALID one."""
    high: float | None
    """The lowest rate above it that was INVALID in a run that was not held up; None where there was none."""


def count_votes(attempts: Sequence[RateAttempt]) -> dict[float, Votes]:
    """Count the verdicts of each rate."""
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
    """Try rates from `start` on, at most `MAX_RATES`, from `least` to `most`, as long as `may_go_on`; at least one.

    The first step is `RESOLUTION`, and each is twice as long, in powers of it, as the one before, as long as all
    rates are judged alike: a start that is right takes two runs there and two above; below a rate at which all runs
    were held up it is at least `FAR`. The highest VALID rate below
    every INVALID one is then known to `RESOLUTION`, as far as the attempts go.
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
            power = 1  # an end that is turned has the border beside it
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
    """Return what is known after so many attempts; most runs of a rate decide."""
    votes = count_votes(attempts)
    low, _ = _ends(votes)
    clean = (rate for rate, each in votes.items() if not each.is_valid and each.invalid)
    return Bracket(low=low, high=min(clean, default=None))
