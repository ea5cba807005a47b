"""Define the protocol of dataset readers: contiguous batches of a split, without per-sample Python work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from reference_models.data.store.read_files import ReadFiles
from reference_models.process.errors import DatasetError

if TYPE_CHECKING:
    import torch
    from numpy import int64
    from numpy.typing import NDArray


class Sizes(Protocol):
    """Sizes of a sample: number of dense features, rows of each embedding table, ids per table. Definitions,
    manifests and readers have these members."""

    @property
    def num_dense(self) -> int: ...

    @property
    def num_embeddings(self) -> Sequence[int] | None: ...

    @property
    def multi_hot(self) -> Sequence[int]: ...


class ClickDataset(Protocol):
    """Split of a dataset (training or evaluation). Opening reads metadata only; the first `read` reads samples."""

    @property
    def num_samples(self) -> int: ...

    @property
    def num_embeddings(self) -> tuple[int, ...]: ...

    @property
    def multi_hot(self) -> tuple[int, ...]: ...

    @property
    def num_dense(self) -> int: ...

    def read(self, start: int, stop: int) -> Any:
        """Return samples start to stop - 1 of the split, in dataset order, as a batch (`Batch` or `ImageBatch`)."""

    def read_into(self, start: int, stop: int, batch: Any) -> None:
        """Read samples start to stop - 1 of the split, all of which must exist, into a batch of stop - start samples;
        the batch's ids may be int32."""


def has_soft_labels(split: ClickDataset) -> bool:
    """Return whether the labels of a split are soft, shares from 0 to 1; a split that does not say so has labels 0
    and 1."""
    return getattr(split, "has_soft_labels", False) is True


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch of B clicks. `indices` has the ids of all sparse features: `multi_hot[f]` columns for feature f."""

    dense: "torch.Tensor"
    """Dense features of B clicks as a model takes them, such as log(1 + x) of counts: float32 [B, num_dense]."""
    indices: "torch.Tensor"
    """Ids of B clicks [B, sum(multi_hot)], each below its feature's num_embeddings; int64, or int32 if requested."""
    labels: "torch.Tensor"
    """Labels of B clicks, float32 [B]: 0 or 1; soft labels are any numbers from 0 to 1."""

    @property
    def ids(self) -> "torch.Tensor":
        """Ids of embedding rows [B, sum(multi_hot)], under the name `ids` that every class of batches has."""
        return self.indices

    @classmethod
    def empty(
        cls, split: ClickDataset, num_samples: int, *, has_int32_ids: bool = False, is_pinned: bool = False
    ) -> "Batch":
        """Return an uninitialised batch with the split's numbers of features and ids, page-locked for copies to a GPU
        if `is_pinned`."""
        import torch  # here, so that generating and verifying data need no torch

        ids = torch.int32 if has_int32_ids else torch.int64
        return cls(
            torch.empty(num_samples, split.num_dense, dtype=torch.float32, pin_memory=is_pinned),
            torch.empty(num_samples, sum(split.multi_hot), dtype=ids, pin_memory=is_pinned),
            torch.empty(num_samples, dtype=torch.float32, pin_memory=is_pinned),
        )

    @classmethod
    def synthetic(cls, split: ClickDataset, num_embeddings: Sequence[int], batch_size: int) -> "Batch":
        """Return a synthetic batch of clicks with the split's numbers of features and ids: ids count up through
        tables, labels alternate."""
        import torch

        positions = torch.arange(batch_size).unsqueeze(1)
        limits = torch.tensor(num_embeddings).repeat_interleave(torch.tensor(split.multi_hot))
        return cls(
            torch.sin(positions + torch.arange(split.num_dense)),
            (positions + torch.arange(len(limits))) % limits,
            (positions.squeeze(1) % 2).float(),
        )

    def check(self, split: ClickDataset, place: str, start: int) -> None:
        """Raise DatasetError for the first id outside its table, or the first label that is not 0 or 1 (soft labels:
        not from 0 to 1).

        `place` names the split in messages, `start` is the number of the batch's first sample. Dense values are not
        checked: if one is not finite, the loss or the score is not finite either, which shows it.
        """
        import numpy as np

        refuse_outside_ids(self.indices, split, place, start)
        labels, is_soft = self.labels.numpy(), has_soft_labels(split)
        wrong = ~((labels >= 0) & (labels <= 1)) if is_soft else (labels != 0) & (labels != 1)
        if wrong.any():
            sample = np.flatnonzero(wrong)[0]
            raise DatasetError(
                f"{place} {start + sample}: label {labels[sample]:g}, expected {'0 to 1' if is_soft else '0 or 1'}. "
                "The dataset is damaged: prepare it again."
            )


@dataclass(frozen=True, slots=True)
class ImageBatch:
    """Batch of B images, each with a class for every task."""

    images: "torch.Tensor"
    """Pixels of B images, row by row: float32 [B, P]."""
    classes: "torch.Tensor"
    """Class of B images for each of T tasks: int64 [B, T], each below its task's number of classes."""

    @property
    def ids(self) -> "torch.Tensor":
        """Class of each image for each task [B, T], under the name `ids` that every class of batches has."""
        return self.classes

    @classmethod
    def empty(cls, split: ClickDataset, num_samples: int) -> "ImageBatch":
        """Return an uninitialised batch of `num_samples` images, with the split's numbers of pixels and tasks."""
        batch = Batch.empty(split, num_samples)
        return cls(batch.dense, batch.indices)

    @classmethod
    def synthetic(cls, split: ClickDataset, num_classes: Sequence[int], batch_size: int) -> "ImageBatch":
        """Return a synthetic batch of images, with the split's numbers of pixels and tasks. The classes of successive
        images count up through all classes of a task."""
        batch = Batch.synthetic(split, num_classes, batch_size)
        return cls(batch.dense, batch.indices)

    def check(self, split: ClickDataset, place: str, start: int) -> None:
        """Raise DatasetError for the first image with a class number that its task does not have."""
        refuse_outside_ids(self.classes, split, place, start)


def refuse_outside_ids(ids: "torch.Tensor", split: ClickDataset, place: str, start: "int | NDArray[int64]") -> None:
    """Raise DatasetError for the first of the ids [B, sum(multi_hot)] that is outside its embedding table.

    `start` numbers the samples in messages: it is the number of the first sample if the samples are consecutive, else
    an array [B] of the numbers of all samples.
    """
    import numpy as np

    values = ids.numpy()
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    limits = np.repeat(np.asarray(split.num_embeddings, dtype=unsigned), split.multi_hot)
    outside = values.view(unsigned) >= limits
    if outside.any():
        sample, column = np.argwhere(outside)[0]
        feature = int(np.searchsorted(np.cumsum(split.multi_hot), column, side="right"))
        number = start + sample if isinstance(start, int) else start[sample]
        raise DatasetError(
            f"{place} {number}, sparse feature {feature}: id {int(values[sample, column])} is outside "
            f"its table of {split.num_embeddings[feature]} rows. The dataset is damaged: prepare it again."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedDataset:
    """Training and evaluation split of a dataset, and its sha256 (None for data outside of the store)."""

    train: ClickDataset
    eval: ClickDataset
    dataset_sha256: str | None
    files: Mapping[str, int]
    """Dict from the path of each data file to its size in bytes; used to clear the files' page cache."""
    read_files: ReadFiles = field(default_factory=ReadFiles)
    """Files that are open to read both splits, kept to verify after a run which bytes were read."""
