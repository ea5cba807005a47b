"""Order the repetitions of several configurations, such as alternately: pure functions of indices and numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from harness.foundation.errors import ExitCode, HarnessError


class OrderStep(NamedTuple):
    """One repetition (run or measurement) of one configuration of an experiment."""

    configuration: int
    """Index of the repetition's configuration in the experiment."""
    repetition: int


Order = Callable[[Sequence[int], int], Iterator[OrderStep]]
"""Function that takes the indices of the configurations and the number of repetitions of each, and yields all
repetitions in the order in which they are made."""


def turns(configurations: Sequence[int], repetitions: int) -> Iterator[OrderStep]:
    """Yield the repetitions of configurations alternately, forwards and backwards: A B, B A, A B …

    Repetition k of every configuration comes before repetition k + 1 of any. A drift of the system that is linear in
    time then affects all configurations alike.

    Three and more configurations are put in another, shuffled order after every second repetition; the orders are the
    same in every experiment. In an unchanged order A B C, C B A, A B C … the configurations A and C would always have
    two repetitions in direct succession, and a single burst of load could hit both.
    """
    for repetition in range(repetitions):
        places, first = list(configurations), repetition - repetition % 2
        if first and len(places) > 2:
            Random(first).shuffle(places)
        for configuration in places if repetition == first else reversed(places):
            yield OrderStep(configuration, repetition)


def pairs(configurations: Sequence[int], repetitions: int) -> Iterator[OrderStep]:
    """Yield the repetitions of several pairs of configurations. The two configurations of a pair are measured
    directly after each other. Repetition k of every pair comes before repetition k + 1 of any.

    Configurations 2 i and 2 i + 1 are a pair. Which of them goes first alternates from repetition to repetition. The
    order of the pairs is the one that `turns` gives to single configurations.
    """
    members: dict[int, list[int]] = {}
    for configuration in configurations:
        members.setdefault(configuration // 2, []).append(configuration)
    for step in turns(list(members), repetitions):
        sides = members[step.configuration]
        for side in sides if step.repetition % 2 == 0 else reversed(sides):
            yield OrderStep(side, step.repetition)


def after(configurations: Sequence[int], repetitions: int) -> Iterator[OrderStep]:
    """Yield all repetitions of a configuration before those of the next. Profiles, which are made after the runs,
    have this order."""
    for configuration in configurations:
        for repetition in range(repetitions):
            yield OrderStep(configuration, repetition)


ORDERS: Mapping[str, Order] = {
    "turns": turns,
    "pairs": pairs,
    "after": after,
}
"""Orders of repetitions. The key is an order's name, which each stage of an experiment (such as the runs, or a
profile) records in experiment.json."""


def find_order(name: str) -> Order:
    """Return the order of repetitions that is called `name`. Raises HarnessError (exit 8) where this version of
    dlrmbench has none of that name."""
    if name not in ORDERS:
        raise HarnessError(
            f"order {name!r}: not known to this version, which has {', '.join(ORDERS)}.", ExitCode.INPUT
        )
    return ORDERS[name]
