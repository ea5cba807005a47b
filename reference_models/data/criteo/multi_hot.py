"""`dlrm_dcnv2` (v3.0 to v6.0): three files per day, days 0 to 22 to train, the first half of day 23 to evaluate.

`day_<k>_dense.npy` float32 [N, 13], already log(x + 3); `day_<k>_labels.npy` int32 [N, 1];
`day_<k>_sparse_multi_hot.npz` with uncompressed int32 members `0` to `25`, each [N, multi_hot[f]]. Written by
materialize_synthetic_multihot_dataset.py and read by mlcommons/training's multi_hot_criteo.py, whose "val" half (rows
0 to ceil(N / 2) - 1 of day 23: 89,137,319 samples) is what the benchmark evaluates.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig
from reference_models.data.criteo.ids import wrap_ids
from reference_models.data.criteo.npy import ArrayPlace, locate_npy, locate_npz
from reference_models.data.store.dataset import Batch, OpenedDataset
from reference_models.process.errors import DatasetError

NUM_DAYS = 24


@dataclass(frozen=True, kw_only=True, slots=True)
class DayPlaces:
    """Where one day's arrays lie; `num_rows` samples of each."""

    dense: ArrayPlace
    labels: ArrayPlace
    sparse: tuple[ArrayPlace, ...]
    num_rows: int


@dataclass(frozen=True, slots=True)
class _DayArrays:
    dense: NDArray[np.float32]
    labels: NDArray[np.int32]
    sparse: tuple[NDArray[np.int32], ...]


class MultiHotSplit:
    """Consecutive days as one split; a batch may span the border between two files."""

    def __init__(
        self, days: tuple[DayPlaces, ...], num_samples: int, data: DataConfig, num_embeddings: tuple[int, ...]
    ) -> None:
        self._days = days
        self._starts = np.cumsum([0, *(day.num_rows for day in days)]).tolist()
        self._mapped: dict[int, _DayArrays] = {}
        self._columns = np.cumsum([0, *data.multi_hot]).tolist()
        self.num_samples = num_samples
        self.num_dense = data.num_dense
        self.num_embeddings = num_embeddings
        self.multi_hot = data.multi_hot

    def read(self, start: int, stop: int) -> Batch:
        stop = min(stop, self.num_samples)
        num_rows = max(0, stop - start)
        dense = np.empty((num_rows, self.num_dense), np.float32)
        labels = np.empty(num_rows, np.float32)
        indices = np.empty((num_rows, self._columns[-1]), np.int64)
        for day, first in enumerate(self._starts[:-1]):
            low, high = max(start, first), min(stop, self._starts[day + 1])
            if low < high:
                into, source = slice(low - start, high - start), slice(low - first, high - first)
                self._copy(day, source, dense[into], labels[into], indices[into])
        return Batch(torch.from_numpy(dense), torch.from_numpy(indices), torch.from_numpy(labels))

    def _copy(
        self,
        day: int,
        source: slice,
        dense: NDArray[np.float32],
        labels: NDArray[np.float32],
        indices: NDArray[np.int64],
    ) -> None:
        arrays = self._map(day)
        dense[:] = arrays.dense[source]
        labels[:] = arrays.labels[source].reshape(-1)
        if not 0 <= labels.min() <= labels.max() <= 1:
            raise DatasetError(
                f"{self._days[day].labels}: labels other than 0 and 1 in rows {source.start} to {source.stop - 1}."
            )
        for feature, ids in enumerate(arrays.sparse):
            columns = indices[:, self._columns[feature] : self._columns[feature + 1]]
            columns[:] = ids[source]
            wrap_ids(columns, self.num_embeddings[feature])

    def _map(self, day: int) -> _DayArrays:
        if day not in self._mapped:
            places = self._days[day]
            self._mapped[day] = _DayArrays(
                places.dense.map(), places.labels.map(), tuple(place.map() for place in places.sparse)
            )
        return self._mapped[day]


def open_multi_hot(folder: Path, data: DataConfig) -> OpenedDataset:
    """Open all 24 days. DatasetError names the first file that is missing, cut short or of another shape."""
    assert data.num_embeddings is not None, "parse_data demands them for this kind"
    days = tuple(_locate_day(folder, day, data) for day in range(NUM_DAYS))
    train, last = days[:-1], days[-1]
    return OpenedDataset(
        train=MultiHotSplit(train, sum(day.num_rows for day in train), data, data.num_embeddings),
        eval=MultiHotSplit((last,), (last.num_rows + 1) // 2, data, data.num_embeddings),
        dataset_sha256=None,
        files={
            str(place.path): place.path.stat().st_size
            for day in days
            for place in (day.dense, day.labels, day.sparse[0])
        },
    )


def _locate_day(folder: Path, day: int, data: DataConfig) -> DayPlaces:
    dense = locate_npy(folder / f"day_{day}_dense.npy")
    labels = locate_npy(folder / f"day_{day}_labels.npy")
    path = folder / f"day_{day}_sparse_multi_hot.npz"
    members = locate_npz(path)
    num_rows = labels.shape[0] if labels.shape else 0
    sparse = []
    for feature, hot in enumerate(data.multi_hot):
        if str(feature) not in members:
            raise DatasetError(f"{path}: no array '{feature}'; expected '0' to '{data.num_sparse - 1}'.")
        sparse.append(_expect(members[str(feature)], (num_rows, hot), np.int32))
    return DayPlaces(
        dense=_expect(dense, (num_rows, data.num_dense), np.float32),
        labels=_expect(labels, (num_rows, 1), np.int32),
        sparse=tuple(sparse),
        num_rows=num_rows,
    )


def _expect(place: ArrayPlace, shape: tuple[int, int], dtype: Any) -> ArrayPlace:
    """`place`, if it has the shape that the day's labels and the definition ask for."""
    wanted = np.dtype(dtype).newbyteorder("<")
    if place.shape != shape or place.dtype != wanted or shape[0] == 0:
        raise DatasetError(
            f"{place}: {place.dtype} {place.shape}, expected {wanted} {shape} "
            "(rows of the day's labels, columns of the definition). The files do not belong together."
        )
    return place
