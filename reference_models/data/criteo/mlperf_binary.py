"""Read MLPerf's preprocessed Criteo 1TB files in place: memory-mapped, without conversion.

`dlrm` (v0.7 to v2.1): one binary file per split. A sample is 40 little-endian int32: label, 13 dense integers
(negatives already 0), 26 ids. facebookresearch/dlrm's `numpy_to_binary` writes this format and `CriteoBinDataset`
reads it. Evaluation uses the "test" file: the first half of day 23, rounded up.

`dlrm_dcnv2` (v3.0 to v6.0): three files per day. Days 0 to 22 are for training, the first half of day 23 is for
evaluation. `day_<k>_dense.npy` is float32 [N, 13], already log(x + 3); `day_<k>_labels.npy` is int32 [N, 1];
`day_<k>_sparse_multi_hot.npz` has uncompressed int32 members `0` to `25`, each [N, multi_hot[f]]. The files are
written by materialize_synthetic_multihot_dataset.py and read by mlcommons/training's multi_hot_criteo.py. The
evaluation half is what multi_hot_criteo.py calls "val": rows 0 to ceil(N / 2) - 1 of day 23, 89,137,319 samples.

Opening a dataset reads headers and sizes only; the first `read` touches samples. Ids are taken modulo their table's
rows, as the references do (facebookresearch/dlrm data_loader_terabyte.py, mlcommons/training multi_hot_criteo.py).
The same files therefore also serve tables with capped rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig
from reference_models.data.criteo.npy import ArrayPlace, locate_npy, locate_npz, open_data
from reference_models.data.store.dataset import Batch, OpenedDataset
from reference_models.data.store.read_files import ReadFiles
from reference_models.process.errors import DatasetError

NUM_DAYS = 24
FILE_NAMES = (
    ("terabyte_processed_train.bin", "terabyte_processed_test.bin"),
    ("train_data.bin", "test_data.bin"),
)
"""Names of the training and the test file: first those that facebookresearch/dlrm writes with
`--processed-data-file=terabyte_processed.npz`, then those that its data loader writes when run as a command."""
_INT32 = np.dtype("<i4")


class _Arrays(NamedTuple):
    dense: NDArray[Any]
    labels: NDArray[np.int32]
    sparse: tuple[NDArray[np.int32], ...]
    """Arrays of ids, in each of which a row is a sample: one array of all tables' ids, or an array for each table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """Part of a dataset's split that has files of its own, such as a day: its number of samples is `num_rows`, and
    `map` opens its files."""

    name: str
    num_rows: int
    map: Callable[[ReadFiles], _Arrays]
    files: tuple[ArrayPlace, ...]


class BinarySplit:
    """Dataset split of consecutive parts (files, or days of files); a batch may span the border between two parts."""

    def __init__(self, parts: Sequence[_Part], num_samples: int, data: DataConfig, files: ReadFiles) -> None:
        assert data.num_embeddings is not None, "parse_data demands them for these kinds"
        self._parts, self._files = parts, files
        self._starts = np.cumsum([0, *(part.num_rows for part in parts)]).tolist()
        self._mapped: dict[int, _Arrays] = {}
        self._columns = np.cumsum([0, *data.multi_hot]).tolist()
        self._takes_log = data.kind == "mlperf_one_hot"
        self.num_samples = num_samples
        self.num_dense = data.num_dense
        self.num_embeddings = data.num_embeddings
        self.multi_hot = data.multi_hot

    def read(self, start: int, stop: int) -> Batch:
        """Return samples start to stop - 1 of the split. Raises DatasetError for a label other than 0 and 1."""
        stop = min(stop, self.num_samples)
        batch = Batch.empty(self, max(0, stop - start))
        self.read_into(start, stop, batch)
        return batch

    def read_into(self, start: int, stop: int, batch: Batch) -> None:
        """Read the split's samples start to stop - 1 into a batch. Raises DatasetError for a label other than 0 and
        1."""
        self._files.samples_read += max(0, stop - start)
        dense, indices, labels = batch.dense.numpy(), batch.indices.numpy(), batch.labels.numpy()
        for number, first in enumerate(self._starts[:-1]):
            low, high = max(start, first), min(stop, self._starts[number + 1])
            if low < high:
                into, source = slice(low - start, high - start), slice(low - first, high - first)
                arrays = self._map(number)
                dense[into] = arrays.dense[source]
                labels[into] = arrays.labels[source]
                np.concatenate([ids[source] for ids in arrays.sparse], axis=1, out=indices[into])
                if not 0 <= labels[into].min() <= labels[into].max() <= 1:
                    rows = f"{source.start} to {source.stop - 1}"
                    raise DatasetError(f"{self._parts[number].name}: labels other than 0 and 1 in rows {rows}.")
        for feature, size in enumerate(self.num_embeddings):
            _wrap_ids(indices[:, self._columns[feature] : self._columns[feature + 1]], size)
        if self._takes_log:
            batch.dense.clamp_(min=0.0).add_(1.0).log_()

    def _map(self, number: int) -> _Arrays:
        if number not in self._mapped:
            self._mapped[number] = self._parts[number].map(self._files)
        return self._mapped[number]


def _wrap_ids(ids: NDArray[Any], num_rows: int) -> None:
    """Replace `ids` in place by their remainders modulo `num_rows`, as the references do. Since modulo is slow, it is
    left out if all ids are in 0 to `num_rows` - 1."""
    if ids.size and (ids.max() >= num_rows or ids.min() < 0):
        np.remainder(ids, num_rows, out=ids)


def open_mlperf_binary(folder: Path, data: DataConfig) -> OpenedDataset:
    """Open MLPerf's files of kind `data.kind` in `folder` and compare their sample counts with the definition.

    Raises DatasetError naming a file that is missing, cut short or of another shape.
    """
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder. Give the folder that holds the preprocessed files as --data.")
    if data.kind == "mlperf_one_hot":
        names = next((pair for pair in FILE_NAMES if (folder / pair[0]).exists()), FILE_NAMES[0])
        parts = [_locate_one_hot(folder / name, data) for name in names]
        num_eval = parts[-1].num_rows
    else:
        parts = [_locate_day(folder, day, data) for day in range(NUM_DAYS)]
        num_eval = (parts[-1].num_rows + 1) // 2
    counts = {"train": sum(part.num_rows for part in parts[:-1]), "eval": num_eval}
    for split, wanted in (("train", data.train_samples), ("eval", data.eval_samples)):
        if wanted is not None and wanted != counts[split]:
            raise DatasetError(
                f"{folder}: {counts[split]} {split} samples, the benchmark's definition says {wanted}. "
                "The files are incomplete or another dataset's."
            )
    files = {place.path: place.path.stat().st_size for part in parts for place in part.files}
    read_files = ReadFiles(files)
    return OpenedDataset(
        train=BinarySplit(parts[:-1], counts["train"], data, read_files),
        eval=BinarySplit(parts[-1:], counts["eval"], data, read_files),
        dataset_sha256=None,
        files={str(path): num_bytes for path, num_bytes in files.items()},
        read_files=read_files,
    )


def _locate_one_hot(path: Path, data: DataConfig) -> _Part:
    with open_data(path):
        num_bytes = path.stat().st_size
    num_columns = 1 + data.num_dense + data.num_sparse
    row_bytes = num_columns * _INT32.itemsize
    if num_bytes == 0 or num_bytes % row_bytes:
        raise DatasetError(
            f"{path}: {num_bytes} bytes are no whole number of samples of {row_bytes} bytes "
            f"({num_columns} int32). It was cut short: copy or preprocess it again."
        )
    num_rows = num_bytes // row_bytes
    place = ArrayPlace(path=path, shape=(num_rows, num_columns), dtype=_INT32)

    def open_arrays(files: ReadFiles) -> _Arrays:
        rows = place.map(files)
        return _Arrays(rows[:, 1 : 1 + data.num_dense], rows[:, 0], (rows[:, 1 + data.num_dense :],))

    return _Part(name=str(path), num_rows=num_rows, map=open_arrays, files=(place,))


def _locate_day(folder: Path, day: int, data: DataConfig) -> _Part:
    dense = locate_npy(folder / f"day_{day}_dense.npy")
    labels = locate_npy(folder / f"day_{day}_labels.npy")
    path = folder / f"day_{day}_sparse_multi_hot.npz"
    members = locate_npz(path)
    num_rows = labels.shape[0] if labels.shape else 0
    sparse = []
    for feature, hot in enumerate(data.multi_hot):
        if str(feature) not in members:
            raise DatasetError(f"{path}: no array '{feature}'; expected '0' to '{data.num_sparse - 1}'.")
        sparse.append(_expect(members[str(feature)], (num_rows, hot), _INT32))
    _expect(dense, (num_rows, data.num_dense), np.dtype("<f4"))
    _expect(labels, (num_rows, 1), _INT32)
    return _Part(
        name=str(labels),
        num_rows=num_rows,
        map=lambda files: _Arrays(
            dense.map(files), labels.map(files).reshape(-1), tuple(place.map(files) for place in sparse)
        ),
        files=(dense, labels, sparse[0]),
    )


def _expect(place: ArrayPlace, shape: tuple[int, int], dtype: np.dtype[Any]) -> ArrayPlace:
    """Return `place` (of an array in a file) if the array has the given shape and type. Raises DatasetError
    otherwise."""
    if place.shape != shape or place.dtype != dtype or shape[0] == 0:
        raise DatasetError(
            f"{place}: {place.dtype} {place.shape}, expected {dtype} {shape} "
            "(rows of the day's labels, columns of the definition). The files do not belong together."
        )
    return place
