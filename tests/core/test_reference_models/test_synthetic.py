"""Made-up clicks: any shape, ids inside their tables, a power law scattered over the rows, the same every time."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from reference_models.data.registry import DATA_KINDS, open_dataset, parse_data
from reference_models.data.synthetic.config import count_bytes_per_sample, fitting_samples, has_signal
from reference_models.data.synthetic.dataset import compute_planted_logits, scatter, zipf_ranks
from reference_models.process.errors import ConfigError, DatasetError

pytestmark = pytest.mark.numeric


def synthetic(**changes: Any) -> dict[str, Any]:
    return {"kind": "made_up", "num_dense": 3, "num_embeddings": [100, 7], "multi_hot": [2, 1], **changes}


def test_batches_have_the_shape_asked_for_and_are_the_same_every_time(tmp_path: Any) -> None:
    data = parse_data(synthetic(train_samples=64, eval_samples=8))
    one, other = open_dataset(tmp_path / "nowhere", data), open_dataset(tmp_path, data)
    batch, again = one.train.read(16, 48), other.train.read(16, 48)
    assert batch.dense.shape == (32, 3)
    assert batch.indices.shape == (32, 3)
    assert (batch.dense == again.dense).all() and (batch.indices == again.indices).all()
    assert not (one.train.read(0, 8).indices == one.eval.read(0, 8).indices).all()
    assert set(batch.labels.tolist()) == {0.0, 1.0}
    assert batch.dense.isfinite().all()
    assert one.files == {} and one.dataset_sha256 is None
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("shape", ((10, 20, 2560), (8, 80, 128), (3, 1, 13)))
def test_planted_labels_can_be_learnt_and_all_else_stays(tmp_path: Any, shape: tuple[int, int, int]) -> None:
    num_tables, lookups, num_dense = shape
    table = {
        "kind": "made_up",
        "num_dense": num_dense,
        "num_tables": num_tables,
        "rows_per_table": 5000,
        "lookups_per_table": lookups,
        "train_samples": 2000,
    }
    data, coins = parse_data({**table, "labels": "planted"}), parse_data(table)
    assert has_signal(data) and not has_signal(coins)
    assert coins == parse_data({**table, "labels": "coin_flips"}) and "labels" not in coins.parameters
    for split in ("train", "eval"):
        batch, other = (getattr(open_dataset(tmp_path, each), split).read(0, 2000) for each in (data, coins))
        assert torch.equal(batch.dense, other.dense) and torch.equal(batch.indices, other.indices)
        logits = compute_planted_logits(batch.dense.double().numpy(), batch.indices.numpy(), data.multi_hot, 0)
        assert 0.77 <= roc_auc_score(batch.labels, logits) <= 0.85
        assert abs(roc_auc_score(other.labels, logits) - 0.5) < 0.05


@pytest.mark.parametrize(
    ("changes", "rows", "hots"),
    [
        ({}, (100, 7), (2, 1)),
        ({"num_tables": 5}, (100, 7, 100, 7, 100), (2, 1, 2, 1, 2)),
        ({"num_tables": 1}, (100,), (2,)),
        ({"rows_per_table": 9}, (9, 9), (2, 1)),
        ({"lookups_per_table": 4}, (100, 7), (4, 4)),
        ({"row_scale": 0.1}, (10, 1), (2, 1)),
        ({"row_scale": 2, "rows_per_table": 50}, (100, 100), (2, 1)),
    ],
)
def test_tables_follow_from_few_numbers(changes: dict[str, Any], rows: tuple[int], hots: tuple[int]) -> None:
    data = parse_data(synthetic(**changes))
    assert data.num_embeddings == rows
    assert data.multi_hot == hots


@pytest.mark.parametrize(
    ("table", "named"),
    [
        (synthetic(num_tables=0), "data.num_tables"),
        (synthetic(row_scale=0), "data.row_scale"),
        (synthetic(row_scale=1e40), "data.row_scale"),
        (synthetic(rows_per_table=-1), "data.rows_per_table"),
        (synthetic(zipf_exponent="steep"), "data.zipf_exponent"),
        (synthetic(lookups=3), "data.lookups"),
        (synthetic(multi_hot=[1, 1, 1]), "data.multi_hot"),
        ({"kind": "made_up", "multi_hot": [1]}, "data.num_embeddings"),
        ({"kind": "made_up", "rows_per_table": 5}, "data.num_tables"),
    ],
)
def test_a_section_that_makes_no_sense_is_an_error_that_names_the_key(table: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        parse_data(table)


def test_without_a_number_of_samples_it_is_not_for_runs_to_a_target(tmp_path: Any) -> None:
    assert "made_up" in DATA_KINDS
    with pytest.raises(DatasetError, match="--throughput"):
        open_dataset(tmp_path, parse_data(synthetic()))


@given(st.integers(1, 10**7), st.floats(0, 4), st.integers(0, 2**32 - 1))
def test_ids_lie_inside_their_table(num_rows: int, exponent: float, seed: int) -> None:
    drawn = np.append(np.random.default_rng(seed).random(200), [0.0, np.nextafter(1.0, 0.0)])
    ranks = zipf_ranks(drawn, num_rows, exponent)
    assert ranks.min() >= 0
    assert ranks.max() < num_rows
    rows = scatter(ranks, num_rows)
    assert rows.min() >= 0
    assert rows.max() < num_rows


@given(st.integers(1, 3000))
def test_scattering_loses_no_row(num_rows: int) -> None:
    assert len(set(scatter(np.arange(num_rows, dtype=np.int64), num_rows).tolist())) == num_rows


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.05, 2.0])
def test_ranks_follow_the_power_law(exponent: float) -> None:
    """A rank's chance is the law's integral over its step: 200,000 draws hit it within five standard errors."""
    num_rows, num = 50, 200_000
    counts = Counter(zipf_ranks(np.random.default_rng(3).random(num), num_rows, exponent).tolist())

    def integral(x: float) -> float:
        return math.log(x) if exponent == 1.0 else (x ** (1 - exponent) - 1) / (1 - exponent)

    for rank in range(num_rows):
        chance = (integral(rank + 2.0) - integral(rank + 1.0)) / integral(num_rows + 1.0)
        assert abs(counts[rank] - num * chance) <= 5 * math.sqrt(num * chance) + 1


def test_a_batch_for_every_step_as_far_as_memory_is_for_it() -> None:
    data = parse_data(synthetic())
    assert count_bytes_per_sample(data) == 4 * 3 + 8 * 3 + 4
    assert fitting_samples(data, 512, 30) == 512 * 30
    large = parse_data(synthetic(num_tables=1, multi_hot=[1 << 20]))
    assert fitting_samples(large, 16, 30) == 16 * 7  # 8 MiB a sample, 1 GiB in all
    assert fitting_samples(large, 4096, 30) == 4096
