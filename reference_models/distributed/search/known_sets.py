"""Sets of embedding tables to train and test cost nets (nets that predict costs). The cost of each set is known from
two measurements. Torch-free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from reference_models.distributed.search.costs import Seconds, SetCost, Sets
from reference_models.distributed.search.task import EmbeddingTable

MIN_DIM = 4
"""Least number of columns of a part of a table, when tables are halved by columns for a cost net's training sets."""
MIN_SETS = 100
"""Least number of measured sets of tables with which a cost net is trained; a fifth of them is held out to test the
net."""
_MAX_TABLES = 15


@runtime_checkable
class RepeatedCost(Protocol):
    """Cost of sets of tables that is measured in rounds. Besides the cost over all rounds, it has a cost from each
    half of the rounds, which shows the noise."""

    def __call__(self, sets: Sets, /) -> Seconds: ...

    def halves_of(self, sets: Sets) -> Seconds:
        """Return the median seconds of each set of tables over each half of the measuring rounds: float64 [sets,
        2]."""

    def spread_of(self, tables: Sequence[EmbeddingTable]) -> float | None:
        """Return the spread of the seconds of one set, `tables`, over the measuring rounds, as a fraction of their
        median; None if the set was not measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownSets:
    """Sets of tables with their costs, and the cost of every table alone. A cost is a pair: measured costs are given
    for each half of the rounds; modelled ones are given twice."""

    sets: Sets
    seconds: Seconds
    """Seconds of each set of tables in each half of the measuring rounds, [sets, 2]; both columns are equal for
    modelled costs."""
    alone: Mapping[EmbeddingTable, Sequence[float]]
    """Seconds of each table that is alone on a device, in each half of the measuring rounds: 2 values per table."""
    spread: float = 0.0
    """Noise of the measured costs: how far the rounds of one set of tables differ, as a fraction of their median; the
    median over sets. 0 for modelled costs."""


def list_parts(tables: Sequence[EmbeddingTable]) -> list[EmbeddingTable]:
    """Return the distinct tables, then their halves by columns, their quarters and so on, down to MIN_DIM columns."""
    cuts = ((each, each.dim >> cut) for cut in range(8) for each in tables)
    return [*dict.fromkeys(each.with_columns(dim) for each, dim in cuts if dim >= min(MIN_DIM, each.dim))]


def draw_sets(pool: Sequence[EmbeddingTable], num_sets: int, seed: int) -> list[list[EmbeddingTable]]:
    """Draw `num_sets` sets of 1 to 15 random tables from `pool`."""
    rng = np.random.default_rng(seed)
    picks = [rng.integers(len(pool), size=rng.integers(1, _MAX_TABLES + 1)) for _ in range(num_sets)]
    return [[pool[pick] for pick in each] for each in picks]


def ask_sets(cost: SetCost, sets: Sets) -> KnownSets:
    """Return the costs of the sets of tables, and of each of their tables alone. All sets are passed to `cost` in one
    call: a cost that is measured then measures them alternately."""
    pool = [*dict.fromkeys(table for each in sets for table in each)]
    together = [*sets, *([table] for table in pool)]
    seconds, spread = cost(together), 0.0
    halves = np.column_stack([seconds, seconds])
    if isinstance(cost, RepeatedCost):
        halves = cost.halves_of(together)
        spread = float(np.median([cost.spread_of(each) or 0.0 for each in sets]))
    alone = dict(zip(pool, halves[len(sets) :].tolist(), strict=True))
    return KnownSets(sets=sets, seconds=halves[: len(sets)], alone=alone, spread=spread)
