"""Sends a batch's ids to the ranks that hold their rows while the batch before it is computed.

The idea is that of TorchRec's TrainPipelineSparseDist, which rewrites a traced model for it; here the model takes ids
that have been sent. Copies and exchanges are on a stream of their own; between CPUs there is none. The numbers are
those of training batch by batch. Was not run on GPUs.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import torch


class BatchOfIds(Protocol):
    """A batch that can be copied to a device, whose `ids` a sharded module takes."""

    @property
    def dense(self) -> torch.Tensor: ...

    @property
    def ids(self) -> Any: ...

    @property
    def labels(self) -> torch.Tensor: ...

    def to(self, device: torch.device) -> Self: ...


B = TypeVar("B", bound=BatchOfIds)


class Turn(NamedTuple, Generic[B]):
    """A batch to train on, and the one after it; None at the end of an epoch."""

    batch: B
    following: B | None


def with_following(batches: Iterable[B]) -> Iterator[Turn[B]]:
    """Yield each batch with the one after it, which must have been read for that."""
    for batch, following in pairwise(chain(batches, (None,))):
        assert batch is not None
        yield Turn(batch, following)


@dataclass(frozen=True, slots=True)
class SentIds:
    """What this rank has received of all ranks' ids, and the context in which its sharded module pools them."""

    context: Any
    received: Any


@dataclass(slots=True)
class _OnTheWay(Generic[B]):
    """A batch whose ids are being sent: first how many there are, then they themselves."""

    of: B
    here: B
    context: Any
    counts: Any
    ids: Any = None


class InputAhead(Generic[B]):
    """Sends ids for one sharded module; every rank makes the same calls in the same order."""

    def __init__(self, tables: Any, device: torch.device) -> None:
        self._tables, self._device = tables, device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._sent: _OnTheWay[B] | None = None

    def start(self, batch: B) -> None:
        """Copy a batch to the device and send how many of its ids go to each rank. Returns at once."""
        with self._on_stream():
            here, context = batch.to(self._device), self._tables.create_context()
            self._sent = _OnTheWay(batch, here, context, self._tables.input_dist(context, here.ids))

    def send(self) -> None:
        """Send the ids of the batch that was started, once this rank knows how many it gets, which it waits for."""
        if self._sent is not None and self._sent.ids is None:
            with self._on_stream():
                self._sent.ids = self._sent.counts.wait()

    def take(self, batch: B) -> tuple[torch.Tensor, SentIds, torch.Tensor]:
        """Return dense features, ids and labels of `batch` on the device, in the order of the current stream.

        A batch that was not started, as an epoch's first, is sent now.
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
            # Their memory belongs to the other stream, which must not use it again too early.
            for part in (here.dense, here.labels, received, sent.context):
                part.record_stream(current)
        return here.dense, SentIds(sent.context, received), here.labels

    def _on_stream(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
