"""Read a dataset's split with its ids mapped to rows of smaller embedding tables."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference_models.config.id_map import IdMapConfig
from reference_models.data.store.dataset import ClickDataset, OpenedDataset, has_soft_labels
from reference_models.process.errors import DatasetError


class MappedSplit:
    """Dataset split whose ids are mapped to rows of smaller tables. Each mapped table has a map int32 [ids, k] from
    an id to k rows.

    Each id of a sample is replaced by its k rows, in neighbouring columns; the split's sizes are those of the smaller
    tables. If the maps are None, since they are not made yet, the split has sizes but cannot read samples. Ids are
    checked while they are read: DatasetError names the first id outside of its table.
    """

    def __init__(self, split: ClickDataset, name: str, config: IdMapConfig, maps: Mapping[int, Any] | None) -> None:
        self._split, self._name, self._maps = split, name, maps
        self.num_samples, self.num_dense = split.num_samples, split.num_dense
        self.has_soft_labels = has_soft_labels(split)
        self.num_embeddings, widths = zip(*config.shapes(split.num_embeddings), strict=True)
        self.multi_hot = tuple(num * width for num, width in zip(split.multi_hot, widths, strict=True))
        self._flat: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]] | None = None

    def read(self, start: int, stop: int) -> Any:
        """Return samples start to stop - 1 of the split as a batch, with ids mapped to rows."""
        import torch

        batch = self._split.read(start, stop)
        return replace(batch, indices=torch.from_numpy(self._map(batch, start)))

    def read_into(self, start: int, stop: int, batch: Any) -> None:
        """Read samples start to stop - 1 of the split, with mapped ids, into a batch, whose ids may be int32."""
        read = self._split.read(start, stop)
        np.copyto(batch.indices.numpy(), self._map(read, start), casting="same_kind")
        batch.dense.copy_(read.dense)
        batch.labels.copy_(read.labels)

    def _map(self, batch: Any, start: int) -> NDArray[np.int64]:
        batch.check(self._split, f"{self._name} sample", start)
        flat, columns, offsets = self._flat = self._flat or self._flatten()
        rows: NDArray[np.int64] = flat[batch.indices.numpy()[:, columns] + offsets].astype(np.int64)
        return rows

    def _flatten(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Return the maps of all tables joined in one flat array, and two arrays that say how to read it. They have
        one entry for each column of ids that a map yields: the position of the sample's id column that is mapped, and
        where the map's column begins in the flat array."""
        if self._maps is None:
            raise DatasetError(
                "the map of ids to rows is not made yet, expected it in id_maps when the dataset is opened."
            )
        parts, columns, offsets, size, first = [], [], [], 0, 0
        for table, (num_ids, num) in enumerate(zip(self._split.num_embeddings, self._split.multi_hot, strict=True)):
            made = self._maps.get(table, np.arange(num_ids, dtype=np.int32)[:, None])
            width = made.shape[1]
            columns += [first + column for column in range(num) for _ in range(width)]
            offsets += [size + num_ids * part for _ in range(num) for part in range(width)]
            parts.append(made.T.reshape(-1))
            size, first = size + made.size, first + num
        return np.concatenate(parts), np.array(columns), np.array(offsets)


def map_splits(opened: OpenedDataset, config: IdMapConfig, maps: Mapping[int, Any] | None) -> OpenedDataset:
    """Return the dataset with the ids of both splits mapped to rows of smaller tables by `maps`. If `maps` is None,
    since the maps are not made yet, the splits have the smaller tables' sizes but cannot be read.

    The dataset is returned unchanged if every table keeps all of its rows.
    """
    num_ids = opened.train.num_embeddings
    if tuple(rows for rows, _ in config.shapes(num_ids)) == tuple(num_ids):
        return opened
    train, evaluation = (MappedSplit(getattr(opened, name), name, config, maps) for name in ("train", "eval"))
    return replace(opened, train=train, eval=evaluation)
