"""Queries: batches of items (samples, such as candidates for a user) that a model is asked to score. Functions read
queries from a dataset, cut some of a query's items out, and merge queries.

The type of a query is the model's batch type, a dataclass of tensors. The first axis of each tensor is items. A batch
type with members for which this does not hold has its own method `cut`.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import torch

from reference_models.process.errors import ConfigError


@runtime_checkable
class CutsItself(Protocol):
    """Query (batch of items to score) of sequences. It has its own method `cut`, since some of its members are tuples
    with an entry for each sequence."""

    def cut(self, start: int, stop: int) -> Any:
        """Return a batch of the items (samples to score) `start` to `stop` - 1 of this batch."""


def refuse_batch(batch: Any, name: str) -> None:
    """Raise ConfigError for a batch that cannot be cut into items (samples to score); `name` is the implementation's,
    for the message."""
    if isinstance(batch, CutsItself) and is_dataclass(batch):
        return
    members = [getattr(batch, field.name) for field in fields(batch)] if is_dataclass(batch) else [batch]
    if wrong := [member for member in members if not isinstance(member, torch.Tensor)]:
        raise ConfigError(
            f"implementation {name!r} cannot be served: its batch, a {type(batch).__name__}, holds a "
            f"{type(wrong[0]).__name__}, expected a dataclass of tensors, or one with a method `cut`."
        )


def cut(batch: Any, start: int, stop: int) -> Any:
    """Return the items (samples to score) `start` to `stop` - 1 of a query, as a batch."""
    if isinstance(batch, CutsItself):
        return batch.cut(start, stop)
    return replace(batch, **{field.name: getattr(batch, field.name)[start:stop] for field in fields(batch)})


def merge(batches: Sequence[Any]) -> Any:
    """Return one batch of the items (samples to score) of several queries, in the order of the queries."""
    if len(batches) == 1:
        return batches[0]
    return replace(batches[0], **{field.name: _join(batches, field.name) for field in fields(batches[0])})


def _join(batches: Sequence[Any], name: str) -> Any:
    members = [getattr(batch, name) for batch in batches]
    return torch.cat(members) if isinstance(members[0], torch.Tensor) else tuple(chain.from_iterable(members))


def read_queries(read: Callable[[int, int], Any], num_samples: int, sizes: Sequence[int]) -> list[Any]:
    """Return a query (a batch of samples to score) of each of `sizes`, in order. `read(start, stop)` reads samples of
    a dataset split of `num_samples` samples; after the last sample, reading begins again at the first.

    Raises ValueError for sizes below 1.
    """
    if any(size < 1 for size in sizes):
        raise ValueError(f"sizes of queries are {list(sizes)[:8]}, expected whole numbers of at least 1")
    position, made = 0, []
    for size in sizes:
        parts: list[Any] = []
        while size > 0:
            stop = min(position + size, num_samples)
            parts.append(read(position, stop))
            size, position = size - (stop - position), stop % num_samples
        made.append(merge(parts))
    return made
