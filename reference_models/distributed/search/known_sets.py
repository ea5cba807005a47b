"""Sets of tables whose costs are known, each twice, to learn from and to judge what was learnt. Torch-free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from reference_models.distributed.search.costs import Seconds, SetCost, Sets
from reference_models.distributed.search.task import Table

MIN_DIM = 4
"""Columns of the narrowest part of a table that is learnt from; cuts are halves."""
MIN_SETS = 100
"""Sets that were measured, with fewer of which no net is trained: a fifth of them judge it."""
_MAX_TABLES = 15


@runtime_checkable
class RepeatedCost(Protocol):
    """A cost that was measured in rounds, of which either half says what a set costs."""

    def __call__(self, sets: Sets, /) -> Seconds: ...

    def halves_of(self, sets: Sets) -> Seconds:
        """Return the medians of either half of the rounds: float64 [sets, 2], in seconds."""

    def spread_of(self, tables: Sequence[Table]) -> float | None:
        """Return how far apart the rounds of a set lay, as a fraction of their median."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownSets:
    """Sets of tables, what they cost, and what their tables cost alone, all known twice."""

    sets: Sets
    seconds: Seconds
    """By either half of the rounds, [sets, 2]; both are the same where nothing was measured."""
    alone: Mapping[Table, Sequence[float]]
    """The same of each table that a set has: 2 values in seconds."""
    spread: float = 0.0
    """How far apart the rounds of a set lay, as a fraction of their median: the sets' median; 0 of modelled costs."""


def list_parts(tables: Sequence[Table]) -> list[Table]:
    """List the different tables, then their halves, quarters and so on, down to MIN_DIM columns."""
    cuts = ((each, each.dim >> cut) for cut in range(8) for each in tables)
    return [*dict.fromkeys(each.with_columns(dim) for each, dim in cuts if dim >= min(MIN_DIM, each.dim))]


def draw_sets(pool: Sequence[Table], num_sets: int, seed: int) -> list[list[Table]]:
    """Draw sets of 1 to 15 of the tables, each any of them."""
    rng = np.random.default_rng(seed)
    picks = [rng.integers(len(pool), size=rng.integers(1, _MAX_TABLES + 1)) for _ in range(num_sets)]
    return [[pool[pick] for pick in each] for each in picks]


def ask_sets(cost: SetCost, sets: Sets) -> KnownSets:
    """Ask for the costs of sets and of each of their tables alone, all at once: what is measured takes turns."""
    pool = [*dict.fromkeys(table for each in sets for table in each)]
    together = [*sets, *([table] for table in pool)]
    seconds, spread = cost(together), 0.0
    halves = np.column_stack([seconds, seconds])
    if isinstance(cost, RepeatedCost):
        halves = cost.halves_of(together)
        spread = float(np.median([cost.spread_of(each) or 0.0 for each in sets]))
    alone = dict(zip(pool, halves[len(sets) :].tolist(), strict=True))
    return KnownSets(sets=sets, seconds=halves[: len(sets)], alone=alone, spread=spread)
