"""Predict the samples of a prepared split, or of a file, with kept weights or a checkpoint: a logit for each, written
as Parquet."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.config.catalog import Entry
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.checkpoints import read_checkpoint
from harness.measure.id_maps import read_id_maps
from harness.measure.weights import read_weights
from reference_models.data.registry import open_dataset
from reference_models.data.store.dataset import has_soft_labels
from reference_models.process.atomic_write import replace_file
from reference_models.process.errors import ConfigError, NotFiniteError
from reference_models.registry import build_servable
from reference_models.serving.servable import Servable
from reference_models.training.workload import WorkloadSpec
from rules.records.kept.checkpoint import CHECKPOINTS_FOLDER

_MODEL = "model."
"""Prefix of the names of a model's weights in a checkpoint."""


class PredictionSummary(NamedTuple):
    """Number of written predictions, and the means of the predicted probabilities and of the samples' labels."""

    num_samples: int
    mean_probability: float
    mean_label: float | None
    """Mean of the predicted samples' labels; None for the rows of a file, whose labels are not read."""
    has_soft_labels: bool = False


def write_predictions(
    entry: Entry,
    weights: Path,
    data_dir: Path,
    split: Literal["train", "eval"],
    output: Path,
    *,
    on_progress: Callable[[float], None] = lambda share: None,
) -> PredictionSummary:
    """Write a model's predictions (logits) for the samples of a split to the Parquet file `output`, completely or not
    at all; return a summary of the predictions. The model has the weights in the folder `weights`.

    Columns: `row` int64, the sample's number in the split from 0; `label` uint8, or float32 for soft labels; `logit`
    float32, before the sigmoid. Raises ConfigError if the model's answer is not one logit. Raises HarnessError or
    DatasetError if weights or data are damaged or of another definition. Raises NotFiniteError if a logit is not
    finite.
    """
    import pyarrow as pa
    from pyarrow import parquet

    servable, spec = _open_model(entry, weights, data_dir)
    samples = getattr(open_dataset(data_dir, spec.data), split)
    is_soft = has_soft_labels(samples)
    kind = np.dtype(np.float32 if is_soft else np.uint8)
    schema = pa.schema([("row", pa.int64()), ("label", pa.from_numpy_dtype(kind)), ("logit", pa.float32())])
    probability = positives = 0.0
    with replace_file(output) as file, parquet.ParquetWriter(file, schema) as writer:
        for start in range(0, samples.num_samples, spec.train.eval_batch_size):
            batch = samples.read(start, min(start + spec.train.eval_batch_size, samples.num_samples))
            batch.check(samples, f"{data_dir}: {split} sample", start)
            rows = np.arange(start, start + len(batch.ids))
            logits = _answer(servable, batch, entry.benchmark.name, f"{split} sample", rows)
            labels = batch.labels.numpy().astype(kind)
            writer.write_table(pa.table([rows, labels, logits], schema=schema))
            probability += _sum_probabilities(logits)
            positives += float(labels.sum(dtype=np.float64))
            on_progress((start + len(logits)) / samples.num_samples)
    number = max(1, samples.num_samples)
    return PredictionSummary(samples.num_samples, probability / number, positives / number, is_soft)


def write_file_predictions(
    entry: Entry,
    weights: Path,
    data_dir: Path,
    path: Path,
    output: Path,
    *,
    on_progress: Callable[[float], None] = lambda share: None,
) -> PredictionSummary:
    """Write a model's predictions (logits) for the rows of the file `path` to the Parquet file `output`, completely
    or not at all; return a summary of the predictions. The model has the weights in the folder `weights`. The rows
    need no label.

    The weights were trained on the prepared data in `data_dir`; the dictionaries beside this data turn the rows'
    values into ids. Columns: `row` int64, the row's number in the file from 1, not counting a header; `logit`
    float32. Malformed rows are left out. Raises the errors of `write_predictions` and `encode_file`. Raises
    ConfigError if the data is not of the kind `columns`, or if `output` and `path` are the same file.
    """
    import pyarrow as pa
    import torch
    from pyarrow import parquet

    from reference_models.data.columns.encode import encode_file
    from reference_models.data.store.dataset import Batch, refuse_outside_ids
    from reference_models.process.open_file import refuse_irregular

    _refuse_same_file(path, output)
    if entry.workload.data.kind != "columns":
        raise ConfigError(
            f"{entry.benchmark.name}: its data is of kind {entry.workload.data.kind!r}; rows of a file are predicted "
            'where it is "columns". Leave --file out to predict a prepared split.'
        )
    refuse_irregular([path])
    servable, spec = _open_model(entry, weights, data_dir)
    samples = open_dataset(data_dir, spec.data).eval
    num_read, num_bytes = 0, max(1, path.stat().st_size)

    def on_bytes(count: int) -> None:
        nonlocal num_read
        num_read += count
        on_progress(min(1.0, num_read / num_bytes))

    schema = pa.schema([("row", pa.int64()), ("logit", pa.float32())])
    number, probability = 0, 0.0
    with replace_file(output) as file, parquet.ParquetWriter(file, schema) as writer:
        for piece in encode_file(path, spec.data, data_dir, on_bytes):
            for start in range(0, len(piece.rows), spec.train.eval_batch_size):
                part = slice(start, start + spec.train.eval_batch_size)
                rows = piece.rows[part]
                batch = Batch(
                    torch.from_numpy(piece.dense[part]),
                    torch.from_numpy(piece.ids[part].astype(np.int64)),
                    torch.zeros(len(rows)),
                )
                refuse_outside_ids(batch.ids, samples, f"{path}: row", rows)
                logits = _answer(servable, batch, entry.benchmark.name, f"{path}: row", rows)
                writer.write_table(pa.table([rows, logits], schema=schema))
                number, probability = number + len(rows), probability + _sum_probabilities(logits)
    return PredictionSummary(number, probability / max(1, number), None)


def _refuse_same_file(path: Path, output: Path) -> None:
    """Raise ConfigError where the path to read and the path to write, links followed, are the same file."""
    with suppress(OSError):  # mostly the output is not there yet; reading reports what cannot be read
        if path.samefile(output):
            raise ConfigError(f"{output}: is the file whose rows are predicted, {path}. Give another name with -o.")


def _open_model(entry: Entry, weights: Path, data_dir: Path) -> tuple[Servable, WorkloadSpec]:
    """Return the model with the weights in a folder, which were trained on the data in `data_dir`."""
    config, sha256 = entry.workload, entry.benchmark.definition_sha256
    maps = read_id_maps(config, data_dir)
    spec = config.spec(data_dir, 0, None, None if maps is None else maps.tables)
    map_sha256 = None if maps is None else maps.sha256
    if weights.parent.name == CHECKPOINTS_FOLDER:
        restored = read_checkpoint(weights, sha256, map_sha256)
        tensors = {name.removeprefix(_MODEL): value for name, value in restored.items() if name.startswith(_MODEL)}
    else:
        kept = read_weights(weights, sha256, map_sha256)
        tensors = dict(kept.tensors)
        _refuse_other_data(weights, kept.manifest.dataset_sha256, open_dataset(data_dir, spec.data).dataset_sha256)
    return build_servable(config.model_name, spec, tensors), spec


def _answer(servable: Servable, batch: Any, name: str, what: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return a model's logits [B] of a batch. `what` and `rows` [B] are for error messages: `what` is the word for a
    sample, such as row, and `rows` has each sample's number."""
    logits: NDArray[np.float32] = servable.answer(batch).numpy()
    if logits.ndim != 1 or not hasattr(batch, "labels"):
        raise ConfigError(f"{name}: its model does not give one logit for each sample, which is what is written.")
    if not np.isfinite(logits).all():
        row = rows[int(np.flatnonzero(~np.isfinite(logits))[0])]
        raise NotFiniteError(f"the logit of {what} {row} is not finite: the weights diverged.")
    return logits


def _sum_probabilities(logits: NDArray[np.float32]) -> float:
    return float((1 / (1 + np.exp(-logits.astype(np.float64)))).sum())


def _refuse_other_data(weights: Path, trained: str | None, found: str | None) -> None:
    """Raise HarnessError for weights that were trained on other data, in which the ids stand for other values."""
    if None not in (trained, found) and trained != found:
        raise HarnessError(
            f"{weights}: trained on other data ({str(trained)[:12]}) than that which is here ({str(found)[:12]}): "
            "ids stand for other values. Give the data of the run with --data.",
            ExitCode.INPUT,
        )
