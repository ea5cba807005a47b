"""Reading of the next batches by a thread, while the device works on the current batch."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Place = TypeVar("Place")
Read = TypeVar("Read")

DEPTH = 2
"""Maximum number of batches that the reading thread reads ahead of the batch in use."""


def read_ahead(read: Callable[[Place], Read], places: Iterable[Place], depth: int = DEPTH) -> Iterator[Read]:
    """Yield `read(place)` for each of `places` (such as the first samples of batches) in order, while a thread reads
    up to `depth` places ahead.

    If `read` raises an error for a place, the error is raised when that place's turn to be yielded comes. Nothing is
    read beyond `places`, or after the iterator is closed.
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
