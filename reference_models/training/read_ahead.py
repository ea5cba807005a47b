"""Reading the next batches in a thread while the device works on this one."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Place = TypeVar("Place")
Read = TypeVar("Read")

DEPTH = 2
"""Batches read and not yet asked for, at most."""


def read_ahead(read: Callable[[Place], Read], places: Iterable[Place], depth: int = DEPTH) -> Iterator[Read]:
    """Yield `read` of each place in order, up to `depth` places ahead of what was asked for.

    What `read` raises is raised where that place's turn comes. Nothing is read beyond `places`, and nothing more
    once the iterator is closed.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as thread:
        waiting: deque[Future[Read]] = deque()
        try:
            for place in places:
                waiting.append(thread.submit(read, place))
                if len(waiting) > depth:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
