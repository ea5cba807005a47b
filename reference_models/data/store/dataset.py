"""What every reader of click data serves: contiguous batches of one split, without per-sample Python work."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from reference_models.data.store.read_files import ReadFiles

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Batch:
    """B samples. `indices` holds the ids of all features side by side, `multi_hot[f]` columns per feature."""

    dense: "torch.Tensor"
    """float32 [B, num_dense], already log(1 + x)."""
    indices: "torch.Tensor"
    """[B, sum(multi_hot)], each below its feature's num_embeddings; int64, or int32 where that was asked for."""
    labels: "torch.Tensor"
    """float32 [B], 0 or 1."""


class ClickDataset(Protocol):
    """One split. Opening it reads metadata only; the first `read` touches samples."""

    @property
    def num_samples(self) -> int: ...

    @property
    def num_embeddings(self) -> tuple[int, ...]: ...

    @property
    def multi_hot(self) -> tuple[int, ...]: ...

    @property
    def num_dense(self) -> int: ...

    def read(self, start: int, stop: int) -> Batch:
        """Read samples start to stop - 1 in dataset order."""

    def read_into(self, start: int, stop: int, batch: Batch) -> None:
        """Read samples start to stop - 1, all of which there are, into a batch of so many, whose ids may be int32."""


def empty_batch(
    split: ClickDataset, num_samples: int, *, has_int32_ids: bool = False, is_pinned: bool = False
) -> Batch:
    """Make the memory of a batch of the split's shapes, page-locked if it is to be copied to a GPU."""
    import torch  # here, so that generating and verifying data need no torch

    ids = torch.int32 if has_int32_ids else torch.int64
    return Batch(
        torch.empty(num_samples, split.num_dense, dtype=torch.float32, pin_memory=is_pinned),
        torch.empty(num_samples, sum(split.multi_hot), dtype=ids, pin_memory=is_pinned),
        torch.empty(num_samples, dtype=torch.float32, pin_memory=is_pinned),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedDataset:
    """Both splits of one dataset and its digest (None where the owner of the data publishes none)."""

    train: ClickDataset
    eval: ClickDataset
    dataset_sha256: str | None
    files: Mapping[str, int]
    """Data files by path with their size in bytes, for clearing their page cache."""
    read_files: ReadFiles = field(default_factory=ReadFiles)
    """What both splits have open: what shows which bytes they gave."""
