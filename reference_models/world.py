"""The processes of one run: rank, size, gather, barrier. One process needs none of torch.distributed."""

from typing import Protocol, TypeVar

T = TypeVar("T")


class World(Protocol):
    """What an implementation may ask of the other ranks."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def gather(self, value: T) -> list[T] | None:
        """Values of all ranks in rank order on rank 0, None elsewhere."""

    def barrier(self) -> None: ...


class SingleProcess:
    """The world of one process."""

    rank = 0
    size = 1

    def gather(self, value: T) -> list[T] | None:
        return [value]

    def barrier(self) -> None:
        return None
