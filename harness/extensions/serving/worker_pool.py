"""Run the workers of a service: threads that take parts of queries from one queue, answer them, and report
completion."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeAlias

from harness.foundation.queue_simulation import Workers


@dataclass(frozen=True, slots=True)
class QueryPart:
    """Part of a query for one call of the model, or a whole query: the items (candidates to rank) `start` to `stop` -
    1 of the query at index `place` of a pool."""

    place: int
    start: int
    stop: int

    @property
    def items(self) -> int:
        return self.stop - self.start


_SWITCH_S = 0.0005
"""Interval in seconds at which Python switches threads while queries are answered; Python's default, ten times as
long, is longer than most queries take."""
Answer: TypeAlias = Callable[[Sequence[QueryPart]], object]
"""Function that answers parts of queries in one call of the model."""


def split_query(place: int, items: int, workers: Workers) -> tuple[QueryPart, ...]:
    """Split the query at `place` of the pool into the parts that `workers` take, in the order of items."""
    start, parts = 0, []
    for size in workers.split(items):
        parts.append(QueryPart(place, start, start + size))
        start += size
    return tuple(parts)


@dataclass(slots=True)
class Query:
    """A query of LoadGen that is not fully answered yet, with the number of its parts that are left to answer."""

    response_id: int
    issued_s: float
    num_left: int


QueuedPart: TypeAlias = tuple[Query, QueryPart]


@contextmanager
def switching_often() -> Iterator[None]:
    """Shorten Python's thread switch interval, so that workers do not delay the thread that issues queries."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)


class RequestQueue:
    """Queue of parts of queries, first in first out, from which workers take the parts of one call; None marks the
    end."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._waiting: SimpleQueue[QueuedPart | None] = SimpleQueue()
        self._held: QueuedPart | None = None
        """Part of a query that could not join the last call of the model, and begins the next call."""
        self._gathering, self._counting = threading.Lock(), threading.Lock()

    def put(self, query: Query, parts: Sequence[QueryPart]) -> None:
        for part in parts:
            self._waiting.put((query, part))

    def close(self) -> None:
        """Tell every worker of the queue that no query follows."""
        for _ in range(self._workers.count):
            self._waiting.put(None)

    def take(self) -> list[QueuedPart]:
        """Return the next part of a query, together with the parts to merge with it into one call of the model; wait
        until they have arrived. Empty once the queue has ended.

        Only one worker at a time gathers parts for a call: two at once would divide the waiting parts between them.
        """
        with self._gathering:
            first = self._held or self._waiting.get()
            self._held = None
            if first is None:
                return []
            call, (query, part) = [first], first
            left = None if self._workers.max_items is None else self._workers.max_items - part.items
            while left:
                following = self._next(query.issued_s + self._workers.wait_s - time.perf_counter())
                if following is None:
                    break
                if following[1].items > left or following[0] is call[-1][0]:
                    self._held = following
                    break
                call.append(following)
                left -= following[1].items
            return call

    def _next(self, timeout_s: float) -> QueuedPart | None:
        try:
            following = self._waiting.get(timeout=timeout_s) if timeout_s > 0 else self._waiting.get_nowait()
        except Empty:
            return None
        if following is None:  # leave the mark of the end for the next worker
            self._waiting.put(None)
        return following

    def finish(self, call: Sequence[QueuedPart]) -> list[int]:
        """Count the answered parts of queries in a call; return the response ids of queries that are now fully
        answered."""
        done = []
        with self._counting:
            for query, _ in call:
                query.num_left -= 1
                if query.num_left == 0:
                    done.append(query.response_id)
        return done


def start_workers(
    answer: Answer,
    line: RequestQueue,
    num_workers: int,
    complete: Callable[[Sequence[int]], None],
    failures: list[BaseException],
) -> list[threading.Thread]:
    """Start the threads that answer the calls of queue `line`; `complete` gets the ids of fully answered queries."""

    def work() -> None:
        try:
            while call := line.take():
                answer([part for _, part in call])
                if done := line.finish(call):
                    complete(done)
        except BaseException as error:
            failures.append(error)

    crew = [threading.Thread(target=work, name=f"worker-{index}", daemon=True) for index in range(num_workers)]
    for worker in crew:
        worker.start()
    return crew
