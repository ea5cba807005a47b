"""Communication among the processes (ranks) of a run: rank, size, exchange of values. Needs no torch.distributed if
there is only one process."""

from typing import Protocol, TypeVar

T = TypeVar("T")


class World(Protocol):
    """Exchange of values among a run's ranks (processes); every rank makes the same calls in the same order."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def gather(self, value: T) -> list[T] | None:
        """Return the values of all ranks, in rank order, on rank 0; None on all other ranks."""

    def broadcast(self, value: T) -> T:
        """Return the value that rank 0 gives, on every rank."""

    def barrier(self) -> None:
        """Wait until every rank of the run has called this."""


class SingleProcess:
    """World of a run in a single process: rank 0 of 1, which exchanges nothing."""

    rank = 0
    size = 1

    def gather(self, value: T) -> list[T] | None:
        return [value]

    def broadcast(self, value: T) -> T:
        return value

    def barrier(self) -> None:
        return None
