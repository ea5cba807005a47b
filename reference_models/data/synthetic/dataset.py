"""Make synthetic clicks in memory: no file is read, so a throughput measured on them excludes input.

Ids follow a power law over the ranks of each table: a few rows are read most of the time, as in real click logs. A
fixed bijection scatters the ranks over the table's rows, so that hot rows are not neighbours. Labels are random, or
drawn from a planted logistic model, in which ids have larger effects than dense features.
"""

import math
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig
from reference_models.data.store.dataset import Batch, OpenedDataset
from reference_models.data.synthetic.config import ZIPF_EXPONENT, has_signal
from reference_models.process.errors import DatasetError

_GOLDEN_SECTION = 0.6180339887498949
_FITTING_ROWS = 1 << 31
"""Maximum number of rows of a table, so that products in `scatter`, which spreads popular rows over the table, do not
overflow int64."""
_TEACHER_STREAM, _NUM_CLASSES = 2, 4096
_DENSE_SCALE, _ID_SCALE = 0.5, 1.4
_DENSE_MEAN = 0.5963
"""Mean of a synthetic dense feature: log(1 + x) with x exponential of mean 1."""
_DENSE_DEVIATION = 0.42
"""Standard deviation of a synthetic dense feature: log(1 + x) with x exponential of mean 1."""


class SyntheticClicks:
    """Split of `num_samples` synthetic clicks, made at the first read; the same arguments give the same clicks."""

    def __init__(self, data: DataConfig, num_samples: int, stream: int) -> None:
        if data.num_embeddings is None:
            raise DatasetError(f"data {data.name!r}: synthetic data needs data.num_embeddings.")
        self.num_samples = num_samples
        self.num_embeddings, self.multi_hot, self.num_dense = data.num_embeddings, data.multi_hot, data.num_dense
        self._exponent = float(data.parameters.get("zipf_exponent", ZIPF_EXPONENT))
        self._seed = (data.seed or 0, stream)
        self._is_planted = has_signal(data)
        self._samples: Batch | None = None
        self._making = threading.Lock()  # readers may prefetch in another thread

    def read(self, start: int, stop: int) -> Batch:
        whole = self._whole()
        return Batch(whole.dense[start:stop], whole.indices[start:stop], whole.labels[start:stop])

    def read_into(self, start: int, stop: int, batch: Batch) -> None:
        whole = self._whole()
        batch.dense.copy_(whole.dense[start:stop])
        batch.indices.copy_(whole.indices[start:stop])
        batch.labels.copy_(whole.labels[start:stop])

    def _whole(self) -> Batch:
        with self._making:
            if self._samples is None:
                self._samples = self._make()
        return self._samples

    def _make(self) -> Batch:
        generator = np.random.default_rng(self._seed)
        indices = np.empty((self.num_samples, sum(self.multi_hot)), dtype=np.int64)
        column = 0
        for num_rows, hot in zip(self.num_embeddings, self.multi_hot, strict=True):
            drawn = generator.random((self.num_samples, hot))
            indices[:, column : column + hot] = scatter(zipf_ranks(drawn, num_rows, self._exponent), num_rows)
            column += hot
        dense = generator.exponential(size=(self.num_samples, self.num_dense))
        np.log1p(dense, out=dense)
        if self._is_planted:
            chances = 1 / (1 + np.exp(-compute_planted_logits(dense, indices, self.multi_hot, self._seed[0])))
            labels = (generator.random(self.num_samples) < chances).astype(np.int64)
        else:
            labels = generator.integers(0, 2, self.num_samples)
        return Batch(
            torch.from_numpy(dense.astype(np.float32)),
            torch.from_numpy(indices),
            torch.from_numpy(labels.astype(np.float32)),
        )


def compute_planted_logits(
    dense: NDArray[np.float64], indices: NDArray[np.int64], multi_hot: Sequence[int], seed: int
) -> NDArray[np.float64]:
    """Return the click logits [N] of N samples by the hidden model of `seed`. The samples have dense features `dense`
    [N, num_dense] and ids `indices` [N, sum(multi_hot)].

    The weights of dense features differ only in sign. Each table has 4096 random weights; an id has the weight at its
    number modulo 4096. The standard deviation of the logit's dense part is about 0.5, of its ids' part about 1.4;
    with these the best model has an AUC of about 0.8. Ids have the larger effect, since hot ids are learned within
    few steps, and a model of any shape then ranks better than chance.
    """
    teacher = np.random.default_rng((seed, _TEACHER_STREAM))
    weights = teacher.choice((-1.0, 1.0), dense.shape[1])
    weights *= _DENSE_SCALE / (_DENSE_DEVIATION * np.linalg.norm(weights))
    logits: NDArray[np.float64] = (dense - _DENSE_MEAN) @ weights
    column = 0
    for hot in multi_hot:
        effects = teacher.normal(scale=_ID_SCALE / math.sqrt(hot * len(multi_hot)), size=_NUM_CLASSES)
        logits += effects[indices[:, column : column + hot] % _NUM_CLASSES].sum(axis=1)
        column += hot
    return logits


def open_synthetic(folder: Path, data: DataConfig) -> OpenedDataset:
    """Open both splits of synthetic data, which are in memory; no sample is made before the first read.

    Raises DatasetError if data.train_samples is not set.
    """
    if data.train_samples is None:
        raise DatasetError(
            f"data {data.name!r}: synthetic data is for throughput only, where its size follows from the batch. "
            "Use --throughput STEPS."
        )
    eval_samples = data.eval_samples or data.train_samples
    return OpenedDataset(
        train=SyntheticClicks(data, data.train_samples, 0),
        eval=SyntheticClicks(data, eval_samples, 1),
        dataset_sha256=None,
        files={},
    )


def zipf_ranks(drawn: NDArray[np.float64], num_rows: int, exponent: float) -> NDArray[np.int64]:
    """Return popularity ranks 0 to num_rows - 1 from uniform numbers in [0, 1), by inversion of a power law.

    A rank's probability is the integral of x ** -exponent over [rank + 1, rank + 2), close to Zipf's law.
    """
    if exponent == 1.0:
        position = np.exp(drawn * math.log(num_rows + 1.0))
    else:
        power = 1.0 - exponent
        position = (1.0 + drawn * ((num_rows + 1.0) ** power - 1.0)) ** (1.0 / power)
    return np.minimum(position.astype(np.int64), num_rows) - 1


def scatter(ranks: NDArray[np.int64], num_rows: int) -> NDArray[np.int64]:
    """Return the table row of each popularity rank, so that hot rows are not neighbours: rank times a number coprime
    to `num_rows` and near 0.618 `num_rows`, modulo `num_rows`."""
    step = max(1, round(num_rows * _GOLDEN_SECTION))
    while math.gcd(step, num_rows) != 1:
        step += 1
    if num_rows < _FITTING_ROWS:
        return ranks * step % num_rows
    high, low = divmod(step, 1 << 20)  # products of up to 2^40 rows by 2^20 fit int64
    return ((ranks * high % num_rows << 20) + ranks * low) % num_rows
