"""Dataset split held in a GPU's memory, if it is small enough: read once, then sliced into batches."""

from collections.abc import Iterable

import torch

from reference_models.data.store.dataset import Batch, ClickDataset

FREE_MEMORY_DIVISOR = 4
"""A dataset split is held on a GPU if the split's size times this number is at most the GPU's free memory."""


class HeldSplit:
    """Samples of a dataset split held on a device; labels are held on the host, too, since some evaluations read them
    there."""

    def __init__(self, whole: Batch, labels: torch.Tensor) -> None:
        self._whole, self._labels = whole, labels

    def slice(self, start: int, stop: int, *, has_host_labels: bool) -> Batch:
        """Return samples `start` to `stop` - 1 as a batch of views; with `has_host_labels` its labels are on the
        host."""
        labels = self._labels if has_host_labels else self._whole.labels
        return Batch(self._whole.dense[start:stop], self._whole.indices[start:stop], labels[start:stop])


def fits(split: ClickDataset, free_bytes: int) -> bool:
    """Return whether a dataset split is small enough to be held on a device with `free_bytes` of free memory."""
    numbers = split.num_dense + sum(split.multi_hot) + 1
    return FREE_MEMORY_DIVISOR * 4 * numbers * split.num_samples <= free_bytes


def hold(split: ClickDataset, batches: Iterable[Batch], device: torch.device) -> HeldSplit:
    """Copy the consecutive `batches` of a dataset split, from its first sample to its last, to the device."""
    labels = torch.empty(split.num_samples)
    whole: Batch | None = None
    start = 0
    for batch in batches:
        if whole is None:
            whole = Batch(
                *(
                    torch.empty((split.num_samples, *part.shape[1:]), dtype=part.dtype, device=device)
                    for part in (batch.dense, batch.indices, batch.labels)
                )
            )
        stop = start + len(batch.labels)
        for name in ("dense", "indices", "labels"):
            getattr(whole, name)[start:stop].copy_(getattr(batch, name), non_blocking=True)
        labels[start:stop] = batch.labels
        start = stop
    assert whole is not None and start == split.num_samples
    return HeldSplit(whole, labels)
