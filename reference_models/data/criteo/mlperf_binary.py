"""MLPerf's preprocessed Criteo 1TB files, read where they lie: memory-mapped, nothing converted beforehand.

Opening reads headers and sizes only; the first `read` touches samples. Ids are taken modulo their table's rows, as
the references do (facebookresearch/dlrm data_loader_terabyte.py, mlcommons/training multi_hot_criteo.py), so the
same files also serve capped tables.
"""

from pathlib import Path

from reference_models.config.sections import DataConfig
from reference_models.data.criteo.multi_hot import open_multi_hot
from reference_models.data.criteo.one_hot import open_one_hot
from reference_models.data.store.dataset import OpenedDataset
from reference_models.process.errors import DatasetError


def open_mlperf_binary(folder: Path, data: DataConfig) -> OpenedDataset:
    """Open the official layout of `data.kind` in `folder` and hold its sample counts against the definition.

    Raises DatasetError naming the file that is missing, cut short or of another shape.
    """
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder. Give the folder that holds the preprocessed files as --data.")
    opened = open_one_hot(folder, data) if data.kind == "mlperf_one_hot" else open_multi_hot(folder, data)
    for split, wanted, found in (
        ("train", data.train_samples, opened.train.num_samples),
        ("eval", data.eval_samples, opened.eval.num_samples),
    ):
        if wanted is not None and wanted != found:
            raise DatasetError(
                f"{folder}: {found} {split} samples, the benchmark's definition says {wanted}. "
                "The files are incomplete or another dataset's."
            )
    return opened
