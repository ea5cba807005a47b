"""`dlrm` (v0.7 to v2.1): one binary file per split, each sample 40 little-endian int32.

Label, 13 dense integers (negatives already 0), 26 ids, as facebookresearch/dlrm's `numpy_to_binary` writes and
`CriteoBinDataset` reads them. Evaluation uses the "test" file: the first half of day 23, rounded up.
"""

from pathlib import Path

import numpy as np
import torch

from reference_models.config.sections import DataConfig
from reference_models.data.criteo.ids import wrap_ids
from reference_models.data.criteo.npy import ArrayPlace, open_data
from reference_models.data.store.dataset import Batch, OpenedDataset
from reference_models.process.errors import DatasetError

FILE_NAMES = (
    ("terabyte_processed_train.bin", "terabyte_processed_test.bin"),
    ("train_data.bin", "test_data.bin"),
)
"""The names that `--processed-data-file=terabyte_processed.npz` makes, and those of the loader's own command."""
_DTYPE = np.dtype("<i4")


class OneHotSplit:
    """One binary file, read by slices of its memory map."""

    def __init__(self, place: ArrayPlace, data: DataConfig, num_embeddings: tuple[int, ...]) -> None:
        self._place = place
        self._rows: np.ndarray[tuple[int, ...], np.dtype[np.int32]] | None = None
        self.num_samples = place.shape[0]
        self.num_dense = data.num_dense
        self.num_embeddings = num_embeddings
        self.multi_hot = data.multi_hot

    def read(self, start: int, stop: int) -> Batch:
        if self._rows is None:
            self._rows = self._place.map()
        rows = self._rows[start:stop]
        labels = rows[:, 0]
        if labels.size and not 0 <= labels.min() <= labels.max() <= 1:
            raise DatasetError(
                f"{self._place}: labels other than 0 and 1 in samples {start} to {stop - 1}: not this layout."
            )
        dense = torch.from_numpy(rows[:, 1 : 1 + self.num_dense].astype(np.float32))
        indices = rows[:, 1 + self.num_dense :].astype(np.int64)
        for feature, num_rows in enumerate(self.num_embeddings):
            wrap_ids(indices[:, feature], num_rows)
        return Batch(
            dense.clamp_(min=0.0).add_(1.0).log_(),
            torch.from_numpy(indices),
            torch.from_numpy(labels.astype(np.float32)),
        )


def open_one_hot(folder: Path, data: DataConfig) -> OpenedDataset:
    """Open both files. DatasetError when they are missing or no whole number of samples long."""
    assert data.num_embeddings is not None, "parse_data demands them for this kind"
    names = next((pair for pair in FILE_NAMES if (folder / pair[0]).exists()), FILE_NAMES[0])
    train, evaluation = (_locate(folder / name, data) for name in names)
    return OpenedDataset(
        train=OneHotSplit(train, data, data.num_embeddings),
        eval=OneHotSplit(evaluation, data, data.num_embeddings),
        dataset_sha256=None,
        files={str(place.path): place.num_bytes for place in (train, evaluation)},
    )


def _locate(path: Path, data: DataConfig) -> ArrayPlace:
    with open_data(path):
        num_bytes = path.stat().st_size
    num_columns = 1 + data.num_dense + data.num_sparse
    row_bytes = num_columns * _DTYPE.itemsize
    if num_bytes == 0 or num_bytes % row_bytes:
        raise DatasetError(
            f"{path}: {num_bytes} bytes are no whole number of samples of {row_bytes} bytes "
            f"({num_columns} int32). It was cut short: copy or preprocess it again."
        )
    return ArrayPlace(
        path=path,
        member=None,
        offset_bytes=0,
        shape=(num_bytes // row_bytes, num_columns),
        dtype=_DTYPE,
        fortran_order=False,
    )
