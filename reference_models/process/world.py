"""The processes of one run: rank, size, and what they send each other. One process needs no torch.distributed."""

from typing import Protocol, TypeVar

T = TypeVar("T")


class World(Protocol):
    """What an implementation and the harness may ask of the other ranks. Every rank makes the same calls."""

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
    """The world of one process."""

    rank = 0
    size = 1

    def gather(self, value: T) -> list[T] | None:
        return [value]

    def broadcast(self, value: T) -> T:
        return value

    def barrier(self) -> None:
        return None
