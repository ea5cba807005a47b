"""The orders in which repetitions of several configurations are made: pure functions of names and numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from harness.foundation.errors import ExitCode, HarnessError


class Step(NamedTuple):
    """One repetition of one configuration."""

    configuration: int
    """The place of the configuration in the experiment."""
    repetition: int


Order = Callable[[Sequence[int], int], Iterator[Step]]
"""From the places of the configurations and the number of repetitions of each to all steps."""


def turns(configurations: Sequence[int], repetitions: int) -> Iterator[Step]:
    """Make repetition k of every configuration before k + 1 of any, forwards and backwards in turn: A B, B A, A B …

    A drift of the system that is even in time then weighs on all configurations alike. Three and more are shuffled
    after every second repetition, the same way every time: else the last one's runs would follow each other, and a
    neighbour who comes for a while would meet both.
    """
    for repetition in range(repetitions):
        places, first = list(configurations), repetition - repetition % 2
        if first and len(places) > 2:
            Random(first).shuffle(places)
        for configuration in places if repetition == first else reversed(places):
            yield Step(configuration, repetition)


def pairs(configurations: Sequence[int], repetitions: int) -> Iterator[Step]:
    """Make both sides of a pair directly after each other, and repetition k of every pair before k + 1 of any.

    Configurations 2 i and 2 i + 1 are a pair. Which side is first changes with every repetition, and the order of the
    pairs as that of configurations in `turns`.
    """
    members: dict[int, list[int]] = {}
    for configuration in configurations:
        members.setdefault(configuration // 2, []).append(configuration)
    for step in turns(list(members), repetitions):
        sides = members[step.configuration]
        for side in sides if step.repetition % 2 == 0 else reversed(sides):
            yield Step(side, step.repetition)


def after(configurations: Sequence[int], repetitions: int) -> Iterator[Step]:
    """Make all repetitions of a configuration before those of the next: of a stage that follows another."""
    for configuration in configurations:
        for repetition in range(repetitions):
            yield Step(configuration, repetition)


ORDERS: Mapping[str, Order] = {
    "turns": turns,
    "pairs": pairs,
    "after": after,
}
"""By the name that a stage has on disk."""


def find_order(name: str) -> Order:
    """Find the order of that name. Raises HarnessError (exit 8) where this version has none."""
    if name not in ORDERS:
        raise HarnessError(
            f"order {name!r}: not known to this version, which has {', '.join(ORDERS)}.", ExitCode.INPUT
        )
    return ORDERS[name]
