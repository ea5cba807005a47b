"""Measured costs of sets: what is measured, how often, and what does not fit. No time is asserted."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from reference_models.distributed.search import measured
from reference_models.distributed.search.costs import BIN_LOOKUPS
from reference_models.distributed.search.measured import MeasuredCost, draw_rows
from reference_models.distributed.search.task import NUM_REUSE_BINS, Table
from reference_models.distributed.search.tasks import zipf_reuse
from reference_models.process.errors import ConfigError

pytestmark = pytest.mark.numeric

BATCH = 256
TABLE = Table(num_embeddings=500, dim=8, pooling=1.5, reuse=zipf_reuse(500, 1.05, 384), optimizer="rowwise_adagrad")
TABLES = [
    TABLE,
    replace(TABLE, dim=16, optimizer="adagrad"),
    replace(TABLE, pooling=0.01, optimizer="sgd"),
    replace(TABLE, pooling=0),
]


def test_each_set_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets take turns: every round has all of them, in their order; what is known is not measured again."""
    seen: list[list[int]] = []

    def step(lookups: list[measured._Lookup]) -> float:
        seen.append(sorted(each.bag.embedding_dim for each in lookups))
        return len(seen) * 1.0

    monkeypatch.setattr(measured, "_time_step", step)
    cost = MeasuredCost(batch_size=BATCH, available_bytes=1 << 30)
    first = cost([[TABLE], TABLES[:2], [], TABLES[1::-1]])
    assert seen == [[8], [8, 16]] * 8
    assert first.tolist() == [9, 10, 0, 10]  # medians of 3, 5, ... 15 and of 4, 6, ... 16
    assert cost([TABLES[:2], [TABLE, TABLE]]).tolist() == [10, 21]
    assert seen[16:] == [[8, 8]] * 8


def test_equal_tables_are_looked_up_and_updated_each(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[measured._Lookup] = []
    monkeypatch.setattr(measured, "_time_step", lambda lookups: seen.extend(lookups) or 1.0)
    cost = MeasuredCost(batch_size=BATCH, available_bytes=1 << 30)
    cost([[TABLE] * 3])
    assert len({id(each.bag.weight) for each in seen}) == 3 and not torch.equal(seen[0].rows, seen[1].rows)
    with pytest.raises(ConfigError, match="measuring 3 tables"):
        MeasuredCost(batch_size=BATCH, available_bytes=cost._count_bytes(TABLE) * 2)([[TABLE] * 3])


def test_a_step_looks_up_and_updates() -> None:
    """After a step the rows that were looked up have moved, and no other."""
    rng = np.random.default_rng(0)
    lookups = [measured._Lookup(table, BATCH, rng) for table in TABLES]
    before = [each.bag.weight.detach().clone() for each in lookups]
    assert measured._time_step(lookups) > 0
    for each, weight in zip(lookups, before, strict=True):
        moved = (each.bag.weight.detach() != weight).any(dim=1).nonzero().squeeze(1)
        assert torch.equal(moved, each.rows.unique())
        assert each.bag.weight.grad is None and len(each.starts) == BATCH


def test_costs_are_seconds_of_this_system() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    cost = MeasuredCost(batch_size=BATCH, available_bytes=1 << 30)
    costs = cost([TABLES, [], [TABLE]])
    assert costs[1] == 0 and (costs[[0, 2]] > 0).all()
    assert np.array_equal(cost([TABLES[::-1], [], [TABLE]]), costs)
    assert torch.get_num_threads() == threads and torch.equal(torch.get_rng_state(), state)


def test_tables_beyond_the_memory_are_refused() -> None:
    large = replace(TABLE, num_embeddings=10**9)
    with pytest.raises(
        ConfigError, match=r"measuring 1 tables takes 36,0.* bytes, 1,000,000 bytes of memory are free"
    ):
        MeasuredCost(batch_size=BATCH, available_bytes=1_000_000)([[large], [large]])


@pytest.mark.parametrize("exponent", [0.0, 1.05, 2.0])
def test_drawn_rows_have_the_reuse_of_the_table(exponent: float) -> None:
    num_lookups = 20_000
    table = Table(num_embeddings=30_000, dim=4, pooling=2.0, reuse=zipf_reuse(30_000, exponent, num_lookups))
    rows = draw_rows(table, num_lookups // 2, np.random.default_rng(0))
    assert len(rows) == num_lookups and rows.min() >= 0 and rows.max() < 30_000
    assert len(np.unique(rows)) == pytest.approx(num_lookups * (table.reuse @ (1 / BIN_LOOKUPS)), rel=0.05)
    counts = np.unique(rows, return_counts=True)[1]
    bins = np.bincount(np.ceil(np.log2(counts)).astype(int), counts, NUM_REUSE_BINS) / num_lookups
    assert max(np.abs(bins - table.reuse)) < 0.15
