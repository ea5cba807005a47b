"""Costs of sets of embedding tables, measured on this machine's CPU with one thread."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from reference_models.distributed.search.costs import BIN_LOOKUPS, Seconds, Sets
from reference_models.distributed.search.net import repeatable
from reference_models.distributed.search.task import FLOAT_BYTES, EmbeddingTable, Optimizer
from reference_models.fused.merged_embedding import LookupPlan, MergedEmbedding, choose_row_type
from reference_models.process.errors import ConfigError

_HALF_OF_ROUND = (0, 1, 1, 0, 0, 1, 1, 0)
"""Half (0 or 1) to which each measuring round belongs, ordered so that a drift linear in time affects both halves
equally."""
_LEARNING_RATE, _EPS = 0.01, 1e-8
_LOOKUP_BYTES = 64
"""Number of bytes of memory per lookup: id, row and bag, their sort keys, and a sorted copy."""
_Key = tuple[EmbeddingTable, int]
"""Key of a table in a set of tables: the table, and a number that tells equal tables of the set apart."""
_Form = tuple[int, Optimizer]
"""Number of columns and optimizer of a table: tables that agree in both are looked up and updated together."""
_SetKey = frozenset[tuple[EmbeddingTable, int]]


@dataclass(frozen=True, kw_only=True)
class MeasuredCost:
    """Measured seconds of lookup, backward and update of a set of tables, as the optimized implementation does them.

    Tables of equal width and optimizer share one lookup and one sorted update (`MergedEmbedding`, without compiled
    functions).

    A set's cost is the median of several rounds after a warm-up round; each round measures all requested sets in
    turn. A set whose cost is known from an earlier call is not measured again. The rows to look up are random; how
    often they are repeated in a batch follows the table's distribution of reuse. Equal tables of a set look up
    different rows. Tables stay in memory while there is room. The lookups of a set's tables are merged anew in every
    round; merging is not timed.
    """

    batch_size: int
    available_bytes: int = field(repr=False)
    seed: int = 0
    known: dict[_SetKey, float] = field(default_factory=dict, repr=False, compare=False)
    spreads: dict[_SetKey, float] = field(default_factory=dict, repr=False, compare=False)
    """Interquartile range of the seconds of each set of tables over the measuring rounds, as a fraction of their
    median."""
    halves: dict[_SetKey, tuple[float, float]] = field(default_factory=dict, repr=False, compare=False)
    """Median measured seconds of a step of each set of tables, for the first and for the second half of the
    rounds."""
    lookups: "dict[_Key, _Lookup]" = field(default_factory=dict, repr=False, compare=False)
    merged: "dict[_Form, _MergedTables]" = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, sets: Sets, /) -> Seconds:
        """Measure the seconds per step of sets of tables. A table that is in several sets is in memory once.

        Raises ConfigError if all tables together take more than `available_bytes`.
        """
        counts = [Counter(each) for each in sets]
        keys = [frozenset(each.items()) for each in counts]
        new = {
            key: [(table, number) for table, count in each.items() for number in range(count)]
            for key, each in zip(keys, counts, strict=True)
            if each and key not in self.known
        }
        with repeatable(self.seed), torch.no_grad():
            self._take({key for each in new.values() for key in each})
            taken = np.array([[self._time(each) for each in new.values()] for _ in (None, *_HALF_OF_ROUND)])[1:]
        low, middle, high = np.quantile(taken, (0.25, 0.5, 0.75), axis=0)
        halves = [np.median(taken[np.equal(_HALF_OF_ROUND, half)], axis=0).tolist() for half in (0, 1)]
        self.known.update(zip(new, middle.tolist(), strict=True))
        self.spreads.update(zip(new, ((high - low) / middle).tolist(), strict=True))
        self.halves.update(zip(new, zip(*halves, strict=True), strict=True))
        return np.array([self.known[key] if key else 0.0 for key in keys])

    def spread_of(self, tables: Iterable[EmbeddingTable]) -> float | None:
        """Return the interquartile range of the seconds of the set `tables` over the measuring rounds, as a fraction
        of their median.

        Returns None for an empty set, or for a set that was not measured.
        """
        return self.spreads.get(_key_of(tables))

    def halves_of(self, sets: Sets) -> Seconds:
        """Return the median seconds of measured sets of tables over each half of the measuring rounds: float64 [sets,
        2].

        Raises KeyError for a set that was not measured.
        """
        return np.array([self.halves[_key_of(each)] for each in sets]).reshape(-1, 2)

    def _time(self, keys: Sequence[_Key]) -> float:
        forms: dict[_Form, list[_Key]] = {}
        for key in keys:
            forms.setdefault(_form_of(key), []).append(key)
        return _time_step(
            [
                _MergedLookup(self.merged[form], {key: self.lookups[key] for key in of}, self.batch_size)
                for form, of in forms.items()
            ]
        )

    def _take(self, keys: set[_Key]) -> None:
        if sum(self._count_bytes(table) for table, _ in keys.union(self.lookups)) > self.available_bytes:
            self.lookups.clear()
            self.merged.clear()
        if (need := sum(self._count_bytes(table) for table, _ in keys)) > self.available_bytes:
            raise ConfigError(
                f"measuring {len(keys)} tables takes {need:,} bytes, {self.available_bytes:,} bytes of memory are "
                "free. Take another cost, or a smaller batch."
            )
        new = keys.difference(self.lookups)
        for table, number in new:
            rng = np.random.default_rng((self.seed, number))
            self.lookups[table, number] = _Lookup(table, self.batch_size, rng)
        for form in {_form_of(key) for key in new}:
            self.merged.pop(form, None)
            self.merged[form] = _MergedTables(form, [key for key in self.lookups if _form_of(key) == form])

    def _count_bytes(self, table: EmbeddingTable) -> int:
        """Return the bytes that measuring a table takes: weights, optimizer state, pooled rows, their gradients, and
        lookups."""
        of_sums = FLOAT_BYTES * self.batch_size * 2 * table.dim
        return table.memory_bytes + of_sums + int(self.batch_size * table.pooling * _LOOKUP_BYTES)


def _key_of(tables: Iterable[EmbeddingTable]) -> _SetKey:
    return frozenset(Counter(tables).items())


def _form_of(key: _Key) -> _Form:
    return key[0].dim, key[0].optimizer


class _Lookup:
    """Rows of a table that a batch looks up, int64 [lookups], and the samples that look them up, int64 [lookups]."""

    def __init__(self, table: EmbeddingTable, batch_size: int, rng: np.random.Generator) -> None:
        self.rows = torch.from_numpy(draw_rows(table, batch_size, rng))
        starts = torch.arange(batch_size + 1) * len(self.rows) // batch_size
        self.samples = torch.repeat_interleave(torch.arange(batch_size), starts.diff())


class _MergedTables:
    """Tables of equal width and optimizer in one weight [sum(rows), columns], with the optimizer's sums of squares,
    if any."""

    def __init__(self, form: _Form, keys: Sequence[_Key]) -> None:
        dim, optimizer = form
        rows = [table.num_embeddings for table, _ in keys]
        self.starts = dict(zip(keys, np.cumsum([0, *rows]).tolist(), strict=False))
        self.weight = torch.full((sum(rows), dim), 0.01)
        width = {"sgd": 0, "adagrad": dim, "rowwise_adagrad": 1}[optimizer]
        self.sums = torch.zeros(sum(rows), width) if width else None


class _MergedLookup:
    """Lookups of a batch in those tables of a set that have equal width and optimizer, ordered by sample."""

    def __init__(self, of: _MergedTables, lookups: dict[_Key, _Lookup], batch_size: int) -> None:
        num_tables = len(lookups)
        rows = [table.num_embeddings for table, _ in lookups]
        self.embedding = MergedEmbedding(of.weight, of.sums, rows, [1] * num_tables)
        row_type = choose_row_type(len(of.weight))
        shifted = torch.cat([each.rows + of.starts[key] for key, each in lookups.items()])
        # A sample's bags: an empty bag in the place of the dense vector, then a bag of each table.
        bags = [each.samples * (num_tables + 1) + 1 + at for at, each in enumerate(lookups.values())]
        ordered, order = torch.sort(torch.cat(bags), stable=True)
        counts = torch.bincount(ordered, minlength=batch_size * (num_tables + 1))
        self.rows = shifted[order].to(row_type)
        self.plan = LookupPlan(starts=(counts.cumsum(0) - counts).to(row_type), bags=ordered)
        self.gradients = torch.ones(batch_size, num_tables + 1, of.weight.shape[1])

    def read(self) -> torch.Tensor:
        return self.embedding.read(self.rows, self.plan)

    def update(self) -> None:
        if len(self.rows):
            self.embedding.update(self.rows, self.plan, self.gradients, _LEARNING_RATE, _EPS)


def draw_rows(table: EmbeddingTable, batch_size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw random rows of a table for a batch's lookups, int64 [lookups], shuffled.

    Each reuse bin (number of lookups of a row in the batch) gets as many lookups as the table's statistics say.
    """
    lookups = np.round(batch_size * table.pooling * np.array(table.reuse))
    rows = np.maximum(np.round(lookups / BIN_LOOKUPS), lookups > 0).astype(np.int64)
    counts = np.repeat(lookups / np.maximum(rows, 1), rows).round().astype(np.int64)
    each = rng.choice(table.num_embeddings, size=len(counts), replace=len(counts) > table.num_embeddings)
    return rng.permutation(np.resize(np.repeat(each, counts), round(batch_size * table.pooling)))


def _time_step(lookups: Sequence[_MergedLookup]) -> float:
    start_s = time.perf_counter()
    sums = [each.read() for each in lookups]
    for each in lookups:
        each.update()
    del sums
    return time.perf_counter() - start_s
