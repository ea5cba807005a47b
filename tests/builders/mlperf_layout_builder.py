"""Writes MLPerf's preprocessed Criteo layouts on a small scale, learnable, with capped tables.

The arrays come back as they were written, so that tests can hold the readers against them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig

NUM_DAYS = 24
NUM_DENSE = 13


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """One split as written: labels int32 [N], dense [N, 13], ids int32 [N, sum(multi_hot)]."""

    labels: NDArray[np.int32]
    dense: NDArray[np.float32] | NDArray[np.int32]
    ids: NDArray[np.int32]


def cap_tables(data: DataConfig, max_rows: int, *, train_samples: int, eval_samples: int) -> DataConfig:
    """`data` with no table above `max_rows` rows and the sample counts of a small set."""
    assert data.num_embeddings is not None
    return replace(
        data,
        num_embeddings=tuple(min(rows, max_rows) for rows in data.num_embeddings),
        train_samples=train_samples,
        eval_samples=eval_samples,
    )


def write_multi_hot_layout(
    folder: Path, data: DataConfig, rows_per_day: Sequence[int], seed: int = 0
) -> list[Written]:
    """The 24 days of `dlrm_dcnv2`: dense and labels as .npy, ids as members of an uncompressed .npz.

    Ids lie below `data.num_embeddings`. Days 0 to 22 are for training; evaluation reads the first
    ceil(rows_per_day[23] / 2) rows of day 23.
    """
    assert len(rows_per_day) == NUM_DAYS, "one count per day"
    folder.mkdir(parents=True, exist_ok=True)
    days = []
    for day, num_rows in enumerate(rows_per_day):
        drawn = draw_samples(data, num_rows, seed=seed * NUM_DAYS + day)
        dense = np.log(drawn.dense + 3, dtype=np.float32)
        np.save(folder / f"day_{day}_dense.npy", dense)
        np.save(folder / f"day_{day}_labels.npy", drawn.labels.reshape(-1, 1))
        columns = np.cumsum([0, *data.multi_hot])
        np.savez(
            folder / f"day_{day}_sparse_multi_hot.npz",
            **{str(f): drawn.ids[:, columns[f] : columns[f + 1]].copy() for f in range(data.num_sparse)},
        )
        days.append(Written(labels=drawn.labels, dense=dense, ids=drawn.ids))
    return days


def write_one_hot_layout(
    folder: Path, data: DataConfig, num_train: int, num_eval: int, seed: int = 0
) -> list[Written]:
    """The two binary files of `dlrm`: rows of 1 + 13 + 26 int32. Returns [train, eval]."""
    folder.mkdir(parents=True, exist_ok=True)
    splits = []
    for split, num_rows in (("train", num_train), ("test", num_eval)):
        drawn = draw_samples(data, num_rows, seed=2 * seed + (split == "test"))
        rows = np.concatenate([drawn.labels.reshape(-1, 1), drawn.dense, drawn.ids], axis=1).astype("<i4")
        (folder / f"terabyte_processed_{split}.bin").write_bytes(rows.tobytes())
        splits.append(drawn)
    return splits


def draw_samples(data: DataConfig, num_rows: int, seed: int) -> Written:
    """Samples whose labels follow from a few ids and one dense feature, so that a model can learn them."""
    assert data.num_embeddings is not None
    random = np.random.default_rng(seed)
    dense = random.geometric(0.2, (num_rows, data.num_dense)).astype(np.int32) - 1
    columns = []
    for num_embeddings, hot in zip(data.num_embeddings, data.multi_hot, strict=True):
        skewed = random.random((num_rows, hot)) ** 3
        columns.append((skewed * num_embeddings).astype(np.int32))
    ids = np.concatenate(columns, axis=1)
    one_per_feature = ids[:, np.cumsum([0, *data.multi_hot[:-1]])]
    effects = np.sin(one_per_feature * 2.399963 + np.arange(data.num_sparse)).sum(axis=1)
    logit = 1.2 * effects / np.sqrt(data.num_sparse) + 0.3 * (np.log1p(dense[:, 0]) - 1.2) - 1.0
    labels = (random.random(num_rows) < 1 / (1 + np.exp(-logit))).astype(np.int32)
    return Written(labels=labels, dense=dense, ids=ids)
