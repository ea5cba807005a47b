"""Measured costs of sets: what is measured, how often, and what does not fit. No time is asserted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from reference_models.distributed.search import measured
from reference_models.distributed.search.costs import BIN_LOOKUPS
from reference_models.distributed.search.measured import MeasuredCost, draw_rows
from reference_models.distributed.search.task import NUM_REUSE_BINS, EmbeddingTable
from reference_models.distributed.search.tasks import zipf_reuse
from reference_models.process.errors import ConfigError
from reference_models.training.eager import SGD
from reference_models.training.optimizers import SparseAdagrad

pytestmark = pytest.mark.numeric

BATCH = 256
TABLE = EmbeddingTable(
    num_embeddings=500, dim=8, pooling=1.5, reuse=zipf_reuse(500, 1.05, 384), optimizer="rowwise_adagrad"
)
TABLES = [
    TABLE,
    replace(TABLE, dim=16, optimizer="adagrad"),
    replace(TABLE, pooling=0.01, optimizer="sgd"),
    replace(TABLE, pooling=0),
]


def test_each_set_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets take turns: every round has all of them, in their order; what is known is not measured again."""
    seen: list[list[int]] = []

    def step(lookups: list[measured._MergedLookup]) -> float:
        seen.append(sorted(each.embedding.weight.shape[1] for each in lookups))
        return len(seen) * 1.0

    monkeypatch.setattr(measured, "_time_step", step)
    cost = MeasuredCost(batch_size=BATCH, available_bytes=1 << 30)
    first = cost([[TABLE], TABLES[:2], [], TABLES[1::-1]])
    assert seen == [[8], [8, 16]] * 9
    assert first.tolist() == [10, 11, 0, 11]  # medians of 3, 5, ... 17 and of 4, 6, ... 18
    assert cost.halves_of([[TABLE], TABLES[:2]]).tolist() == [[10, 10], [11, 11]], "a drift is in both halves"
    assert cost([TABLES[:2], [TABLE, TABLE]]).tolist() == [11, 23.5]
    assert seen[18:] == [[8]] * 9, "tables of one width and optimizer are one lookup"


def test_halves_of_rounds_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([9.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 1.0])
    monkeypatch.setattr(measured, "_time_step", lambda lookups: next(times))
    cost = MeasuredCost(batch_size=BATCH, available_bytes=1 << 30)
    assert cost([[TABLE]]).tolist() == [1.5] and cost.halves_of([[TABLE]]).tolist() == [[1.0, 2.0]]
    assert cost.halves_of([]).shape == (0, 2) and cost.spread_of([TABLE]) == pytest.approx(1 / 1.5)


def test_equal_tables_are_looked_up_and_updated_each(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[measured._MergedLookup] = []
    monkeypatch.setattr(measured, "_time_step", lambda lookups: seen.extend(lookups) or 1.0)
    cost = MeasuredCost(batch_size=BATCH, available_bytes=1 << 30)
    cost([[TABLE] * 3])
    of_tables = [seen[0].rows // TABLE.num_embeddings == at for at in range(3)]
    assert len(seen[0].embedding.weight) == 3 * TABLE.num_embeddings
    assert [int(each.sum()) for each in of_tables] == [BATCH * 3 // 2] * 3
    first, second = (seen[0].rows[each] % TABLE.num_embeddings for each in of_tables[:2])
    assert not torch.equal(first, second)
    with pytest.raises(ConfigError, match="measuring 3 tables"):
        MeasuredCost(batch_size=BATCH, available_bytes=cost._count_bytes(TABLE) * 2)([[TABLE] * 3])


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise_adagrad"])
def test_a_step_reads_and_updates_as_single_tables_do(monkeypatch: pytest.MonkeyPatch, optimizer: Any) -> None:
    """By torch's EmbeddingBag and the optimizers of `reference`, on a table each: sums and weights are the same."""
    made: list[tuple[measured._MergedLookup, torch.Tensor]] = []

    def step(lookups: list[measured._MergedLookup]) -> float:
        (each,) = lookups
        made.append((each, each.read()))
        each.update() if len(made) == 1 else None
        return 1.0

    monkeypatch.setattr(measured, "_time_step", step)
    tables = [replace(table, dim=8, optimizer=optimizer) for table in TABLES]
    cost = MeasuredCost(batch_size=BATCH, available_bytes=1 << 30)
    cost([tables])
    merged, sums = made[0]
    for at, table in enumerate(tables):
        lookup, first = cost.lookups[table, 0], cost.merged[8, optimizer].starts[table, 0]
        bag = nn.EmbeddingBag.from_pretrained(
            torch.full((table.num_embeddings, 8), 0.01), freeze=False, mode="sum", sparse=True
        )
        with torch.enable_grad():
            out = bag(lookup.rows, torch.searchsorted(lookup.samples, torch.arange(BATCH)))
            out.backward(torch.ones_like(out))
        rule: torch.optim.Optimizer = SGD(bag.parameters(), lr=0.01)
        if optimizer != "sgd":
            is_rowwise = optimizer == "rowwise_adagrad"
            rule = SparseAdagrad(
                bag.parameters(), lr=0.01, lr_decay=0, initial_accumulator_value=0, eps=1e-8, rowwise=is_rowwise
            )
        rule.step()
        np.testing.assert_allclose(sums[:, 1 + at].numpy(), out.detach().numpy(), rtol=1e-5)
        found = merged.embedding.weight[first : first + table.num_embeddings]
        np.testing.assert_allclose(found.numpy(), bag.weight.detach().numpy(), rtol=1e-5, atol=1e-8)
        assert int((found != 0.01).any(dim=1).sum()) == len(lookup.rows.unique())


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
    table = EmbeddingTable(num_embeddings=30_000, dim=4, pooling=2.0, reuse=zipf_reuse(30_000, exponent, num_lookups))
    rows = draw_rows(table, num_lookups // 2, np.random.default_rng(0))
    assert len(rows) == num_lookups and rows.min() >= 0 and rows.max() < 30_000
    assert len(np.unique(rows)) == pytest.approx(num_lookups * (table.reuse @ (1 / BIN_LOOKUPS)), rel=0.05)
    counts = np.unique(rows, return_counts=True)[1]
    bins = np.bincount(np.ceil(np.log2(counts)).astype(int), counts, NUM_REUSE_BINS) / num_lookups
    assert max(np.abs(bins - table.reuse)) < 0.15
