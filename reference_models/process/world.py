"""Processes of a run: rank, size and exchanges of values. A single process needs no torch.distributed."""

from typing import Protocol, TypeVar

T = TypeVar("T")


class World(Protocol):
    """Exchanges among a run's ranks, for implementations and the harness. Every rank makes the same calls."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def gather(self, value: T) -> list[T] | None:
        """Return the values of all ranks in rank order on rank 0, None elsewhere."""

    def broadcast(self, value: T) -> T:
        """Return rank 0's value on every rank."""

    def barrier(self) -> None:
        """Wait until every rank is here."""


class SingleProcess:
    """World of a single process."""

    rank = 0
    size = 1

    def gather(self, value: T) -> list[T] | None:
        return [value]

    def broadcast(self, value: T) -> T:
        return value

    def barrier(self) -> None:
        return None
