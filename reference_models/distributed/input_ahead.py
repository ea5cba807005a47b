"""Sending of the next batch's ids to the ranks that hold their embedding rows, while the current batch is computed.

The idea is that of TorchRec's TrainPipelineSparseDist. That class rewrites a traced model, whereas the model here
accepts ids that were sent already. On GPUs copies and exchanges run on a stream of their own. Results equal those of
training without sending ahead. The module has not been run on GPUs.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import torch


class BatchOfIds(Protocol):
    """Batch that can be copied to a device, and whose `ids` are the input of embedding tables sharded over ranks."""

    @property
    def dense(self) -> torch.Tensor: ...

    @property
    def ids(self) -> Any: ...

    @property
    def labels(self) -> torch.Tensor: ...

    def to(self, device: torch.device) -> Self: ...


B = TypeVar("B", bound=BatchOfIds)


class Turn(NamedTuple, Generic[B]):
    """Batch to train on, and the next batch, `following`, which is None at the end of an epoch."""

    batch: B
    following: B | None


def with_following(batches: Iterable[B]) -> Iterator[Turn[B]]:
    """Yield each batch together with the next one. The next batch is read before the pair is yielded."""
    for batch, following in pairwise(chain(batches, (None,))):
        assert batch is not None
        yield Turn(batch, following)


@dataclass(frozen=True, slots=True)
class SentIds:
    """Ids that this rank received from all ranks, and TorchRec's context (an object) for pooling their embedding
    rows."""

    context: Any
    received: Any


@dataclass(slots=True)
class _OnTheWay(Generic[B]):
    """Batch whose ids are being sent to the ranks that hold their rows: first the number of ids for each rank, then
    the ids."""

    of: B
    here: B
    context: Any
    counts: Any
    ids: Any = None


class InputAhead(Generic[B]):
    """Sender of the next batch's ids to the ranks that hold their embedding rows; every rank makes the same calls in
    the same order."""

    def __init__(self, tables: Any, device: torch.device) -> None:
        self._tables, self._device = tables, device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._sent: _OnTheWay[B] | None = None

    def start(self, batch: B) -> None:
        """Copy the next batch to the device and start telling each rank how many ids it will get; return without
        waiting."""
        with self._on_stream():
            here, context = batch.to(self._device), self._tables.create_context()
            self._sent = _OnTheWay(batch, here, context, self._tables.input_dist(context, here.ids))

    def send(self) -> None:
        """Send the ids of the batch that `start` began, after waiting for the number of ids that this rank will
        get."""
        if self._sent is not None and self._sent.ids is None:
            with self._on_stream():
                self._sent.ids = self._sent.counts.wait()

    def take(self, batch: B) -> tuple[torch.Tensor, SentIds, torch.Tensor]:
        """Return dense features, received ids and labels of `batch` on the device; work on the current CUDA stream
        waits for them.

        The ids of a batch that was not sent ahead, such as an epoch's first, are sent by this call.
        """
        if self._sent is None or self._sent.of is not batch:
            self.start(batch)
        self.send()
        sent, self._sent = self._sent, None
        assert sent is not None
        with self._on_stream():
            received = sent.ids.wait()
        here = sent.here
        if self._stream is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_stream(self._stream)
            # The tensors' memory belongs to the other stream, which must not reuse it too early.
            for part in (here.dense, here.labels, received, sent.context):
                part.record_stream(current)
        return here.dense, SentIds(sent.context, received), here.labels

    def _on_stream(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
