"""What sets of tables cost on the CPU at hand: measured, with one thread."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from reference_models.distributed.search.costs import BIN_LOOKUPS, Seconds, Sets
from reference_models.distributed.search.net import repeatable
from reference_models.distributed.search.task import FLOAT_BYTES, Table
from reference_models.process.errors import ConfigError
from reference_models.training.eager import SGD
from reference_models.training.optimizers import SparseAdagrad

_NUM_ROUNDS = 7
_Key = tuple[Table, int]
"""A table, and which of the equal ones of its set."""


@dataclass(frozen=True, kw_only=True)
class MeasuredCost:
    """Lookup, backward and update of a set here: torch's EmbeddingBag, and the optimizers of `reference`.

    The median of rounds in which all sets that are asked for take turns, after one to warm up; a set is measured
    once. Rows are drawn, with the reuse that a table's bins have; equal tables of a set have each their own. Tables
    stay in memory while others have room.
    """

    batch_size: int
    available_bytes: int = field(repr=False)
    seed: int = 0
    known: dict[frozenset[tuple[Table, int]], float] = field(default_factory=dict, repr=False, compare=False)
    spreads: dict[frozenset[tuple[Table, int]], float] = field(default_factory=dict, repr=False, compare=False)
    """Between which quartiles the rounds of a set lay, as a fraction of their median."""
    lookups: "dict[_Key, _Lookup]" = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, sets: Sets, /) -> Seconds:
        """Raises ConfigError where the tables of the sets take more than `available_bytes`; sets share theirs."""
        counts = [Counter(each) for each in sets]
        keys = [frozenset(each.items()) for each in counts]
        new = {
            key: [(table, number) for table, count in each.items() for number in range(count)]
            for key, each in zip(keys, counts, strict=True)
            if each and key not in self.known
        }
        with repeatable(self.seed):
            self._take({key for each in new.values() for key in each})
            held = [[self.lookups[key] for key in each] for each in new.values()]
            taken = [[_time_step(each) for each in held] for _ in range(1 + _NUM_ROUNDS)]
        low, middle, high = np.quantile(np.array(taken[1:]), (0.25, 0.5, 0.75), axis=0)
        self.known.update(zip(new, middle.tolist(), strict=True))
        self.spreads.update(zip(new, ((high - low) / middle).tolist(), strict=True))
        return np.array([self.known[key] if key else 0.0 for key in keys])

    def spread_of(self, tables: Iterable[Table]) -> float | None:
        """Return how far apart the rounds of a set lay, as a fraction of their median; None where it has no table, or
        was not measured."""
        return self.spreads.get(frozenset(Counter(tables).items()))

    def _take(self, tables: set[_Key]) -> None:
        if sum(self._count_bytes(table) for table, _ in tables.union(self.lookups)) > self.available_bytes:
            self.lookups.clear()
        if (need := sum(self._count_bytes(table) for table, _ in tables)) > self.available_bytes:
            raise ConfigError(
                f"measuring {len(tables)} tables takes {need:,} bytes, {self.available_bytes:,} bytes of memory are "
                "free. Take another cost, or a smaller batch."
            )
        for table, number in tables.difference(self.lookups):
            rng = np.random.default_rng((self.seed, number))
            self.lookups[table, number] = _Lookup(table, self.batch_size, rng)

    def _count_bytes(self, table: Table) -> int:
        """Count weights, state, sums and their gradients; of each lookup its id, its gradient and a sorted copy."""
        floats = self.batch_size * (2 * table.dim + table.pooling * (2 * table.dim + 4))
        return table.memory_bytes + FLOAT_BYTES * int(floats)


class _Lookup:
    """A table with its optimizer, and the rows that one batch looks up."""

    def __init__(self, table: Table, batch_size: int, rng: np.random.Generator) -> None:
        weight = torch.full((table.num_embeddings, table.dim), 0.01)
        self.bag = nn.EmbeddingBag.from_pretrained(weight, freeze=False, mode="sum", sparse=True)
        self.rows = torch.from_numpy(draw_rows(table, batch_size, rng))
        self.starts = torch.arange(batch_size) * len(self.rows) // batch_size
        self.gradient = torch.ones(batch_size, table.dim)
        self.optimizer: torch.optim.Optimizer = SGD(self.bag.parameters(), lr=0.01)
        if table.optimizer != "sgd":
            is_rowwise = table.optimizer == "rowwise_adagrad"
            self.optimizer = SparseAdagrad(
                self.bag.parameters(), lr=0.01, lr_decay=0, initial_accumulator_value=0, eps=1e-8, rowwise=is_rowwise
            )


def draw_rows(table: Table, batch_size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the rows that a batch looks up, int64 [lookups]: of each reuse bin as many as it has, in any order."""
    lookups = np.round(batch_size * table.pooling * np.array(table.reuse))
    rows = np.maximum(np.round(lookups / BIN_LOOKUPS), lookups > 0).astype(np.int64)
    counts = np.repeat(lookups / np.maximum(rows, 1), rows).round().astype(np.int64)
    each = rng.choice(table.num_embeddings, size=len(counts), replace=len(counts) > table.num_embeddings)
    return rng.permutation(np.resize(np.repeat(each, counts), round(batch_size * table.pooling)))


def _time_step(lookups: Sequence[_Lookup]) -> float:
    start_s = time.perf_counter()
    sums = [each.bag(each.rows, each.starts) for each in lookups]
    torch.autograd.backward(sums, [each.gradient for each in lookups])
    for each in lookups:
        each.optimizer.step()
        each.optimizer.zero_grad()
    return time.perf_counter() - start_s
