"""Run the worker processes of a usage (several models that one application requests): they build the models and
answer requests, each process one at a time."""

import heapq
import multiprocessing
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from harness.extensions.serving.config import read_serve
from harness.extensions.usage.definition import RETRIEVAL, STAND_IN, AskedModel, Usage
from harness.extensions.usage.schedule import ModelRequest, Span
from harness.extensions.usage.worker import work
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.kinds import Job
from reference_models.serving import pagerank

T = TypeVar("T")
NUM_QUERY_NODES = 200
"""Number of query nodes of a graph, drawn at random. A retrieval finds candidates near each of them."""
NUM_TRIED = 60
"""Number of query nodes of a graph for which a retrieval is repeated with several numbers of subgraphs (starting
nodes of its second stage)."""
MOST_FREED = 80
"""Maximum number of tables of freed dictionaries that Python keeps for reuse, of 120 bytes each (PyDict_MAXFREELIST,
3.11 to 3.13)."""
REPEATING_S = 0.5
"""Seconds for which one model is called repeatedly to time it."""
TIMING_S = 1.0
"""Seconds, per model, for which requests of all models are timed together."""
MIN_CALLS = 5
"""Minimum number of timed calls of a model."""
Answer = Callable[[int], object]
"""Function that makes a model answer a request, given the request's number."""
Models = dict[str, tuple[Any, Answer]]
"""Models that a worker process has built: a dict from a model's name to its settings and the function that answers
requests."""


class RetrievalTrial(NamedTuple):
    """Comparison, for one graph node, of two retrievals of candidates by PageRank. One has two stages, the second of
    which starts from `subgraphs` nodes that the first one found; the other has one stage."""

    node: int
    subgraphs: str
    """Number of nodes from which the retrieval's second stage goes on, each with a subgraph of its own; or all."""
    precision: float
    staged_s: float
    at_once_s: float
    staged_bytes: int
    """Peak bytes of all arrays that the retrieval in two stages makes, without the graph."""
    at_once_bytes: int
    num_near: int
    """Number of graph nodes that are at most as far from the query node as the first stage of the retrieval goes."""
    num_far: int
    """Number of graph nodes within reach of the query node in as many edges as both stages of the retrieval follow
    together."""


def open_retrieval(model: AskedModel, seed: int) -> tuple[pagerank.Graph, list[int]]:
    """Return the graph on which a retrieval finds candidates by PageRank, and the query nodes near which it looks for
    them. The graph is read from a file or generated. The query nodes are the given ones, or drawn at random if none
    are given.

    Raises DatasetError, with the line, if the file is malformed; OSError if it cannot be read; ConfigError if a given
    query node is not in the graph.
    """
    make = pagerank.GENERATED.get(model.graph)
    graph = pagerank.read_graph(Path(model.graph)) if make is None else make(seed)
    drawn = np.random.default_rng(seed).permutation(len(graph.names))[:NUM_QUERY_NODES].tolist()
    return graph, [graph.find(name) for name in model.query_nodes] or drawn


def build_models(models: Models, usage: Usage, served: Mapping[str, Any], seed: int) -> None:
    """Build the models of a usage (the models of one application) that this worker has not yet built with equal
    settings. `served` maps each model that is a benchmark to the job that builds it."""
    for name, model in usage.models.items():
        asked = (model, served.get(name), seed)
        if name not in models or models[name][0] != asked:
            models[name] = (asked, _build(*asked))


def _build(model: AskedModel, served: Mapping[str, Any] | None, seed: int) -> Answer:
    items, top_k = model.items or 1, model.top_k or 1
    if model.source == RETRIEVAL:
        graph, nodes = open_retrieval(model, seed)
        return lambda number: _find_in_stages(graph, nodes[number % len(nodes)], model.subgraphs, top_k)
    if model.source == STAND_IN:
        import torch

        widths = model.widths or ()
        layers = [torch.nn.Linear(before, after) for before, after in pairwise(widths)]
        stack = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.ReLU())))
        infer, rows = torch.inference_mode()(stack), torch.rand(items, widths[0])
        return lambda number: infer(rows)
    from harness.extensions.serving.model import build_served
    from harness.extensions.serving.worker_pool import QueryPart

    job = Job(**(served or {}), seed=seed, folder="")
    benchmark, config = job.parse()
    pool, _ = build_served(job, benchmark, config, read_serve(benchmark.sections), with_quality=False)
    return lambda number: pool.answer([QueryPart(number % len(pool.sizes), 0, items)])


def repeat_calls(models: Models, name: str) -> int:
    """Call a model repeatedly, as a warm-up and to measure its energy; return the number of calls."""
    count, end_s = 0, time.monotonic() + REPEATING_S
    while count < MIN_CALLS or time.monotonic() < end_s:
        models[name][1](count)
        count += 1
    return count


def answer_request(models: Models, name: str, number: int) -> tuple[float, float]:
    """Let a model answer one request; return its begin and end in seconds by the clock that all processes share."""
    begin_s = time.monotonic()
    models[name][1](number)
    return begin_s, time.monotonic()


def try_retrieval(
    models: Models, model: AskedModel, seed: int, numbers: Sequence[int | None], share: tuple[int, int]
) -> list[RetrievalTrial]:
    """Try a retrieval that finds candidates near a graph node by PageRank in two stages. The second stage goes on
    from only some nodes of the first, each with a subgraph of its own.

    Return precision (the agreement with the exact candidates), time and memory for each query node and each of
    `numbers`, the numbers of nodes from which the second stage goes on; None stands for all nodes of the first stage.

    `share` is (index, number of shares) and selects one share of the first NUM_TRIED query nodes. Each call is made
    twice: the first is timed, and in the second the memory is traced.
    """
    trials, (graph, nodes) = list[RetrievalTrial](), open_retrieval(model, seed)
    top_k = model.top_k or 1
    for node in nodes[:NUM_TRIED][share[0] :: share[1]]:
        if not trials:
            pagerank.diffuse_at_once(graph, node)  # the first call of a process takes longer
        exact = pagerank.diffuse_globally(graph, node)
        balls = [len(pagerank.find_ball(graph, node, steps)) for steps in (pagerank.STEPS[0], sum(pagerank.STEPS))]
        _, at_once_s, at_once_bytes = _observe(partial(_find_at_once, graph, node, top_k))
        for number in numbers:
            found, staged_s, staged_bytes = _observe(partial(_find_in_stages, graph, node, number, top_k))
            trials.append(
                RetrievalTrial(
                    node, str(number or "all"), pagerank.precision(found, exact), staged_s, at_once_s, staged_bytes,
                    at_once_bytes, *balls,
                )
            )  # fmt: skip
    return trials


def _find_at_once(graph: pagerank.Graph, node: int, top_k: int) -> pagerank.Nodes:
    return pagerank.diffuse_at_once(graph, node).top(top_k)


def _find_in_stages(graph: pagerank.Graph, node: int, num_subgraphs: int | None, top_k: int) -> pagerank.Nodes:
    return pagerank.diffuse_in_stages(graph, node, num_subgraphs).top(top_k)


def _observe(call: Callable[[], T]) -> tuple[T, float, int]:
    """Call a function twice; return its result, the seconds of the first call, and the peak memory of the second call
    in bytes.

    tracemalloc counts every array of numpy and scipy, temporary ones too. It does not count memory of freed
    dictionaries that Python keeps for later ones. The first call leaves such memory, so all of it is put to use
    before the second call. The second call's peak is then that of a process which makes the call for the first time.
    """
    began_s = time.perf_counter()
    found = call()
    took_s = time.perf_counter() - began_s
    in_use = [{"number": number} for number in range(MOST_FREED)]
    tracemalloc.start()
    try:
        call()
        return found, took_s, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        in_use.clear()


class Crew:
    """Worker processes that answer requests of models; they end with the `with` block, or with their parent
    process."""

    def __init__(self, num_workers: int, num_threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipes, self._its = zip(*(context.Pipe() for _ in range(num_workers)), strict=True)
        self._processes = [context.Process(target=work, args=(its, num_threads), daemon=True) for its in self._its]

    def __enter__(self) -> Self:
        for process, its in zip(self._processes, self._its, strict=True):
            process.start()
            its.close()  # so that the parent sees when a worker ends
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.terminate()
            process.join()

    def ask(self, questions: Sequence[Callable[[Models], T]]) -> list[T]:
        """Send each question to a worker of its own, all at the same time; return the answers in order. Raises the
        error of a worker."""
        for pipe, question in zip(self.pipes, questions, strict=False):
            pipe.send(question)
        return [receive(pipe) for pipe in self.pipes[: len(questions)]]

    def time_requests(self, names: Sequence[str], seed: int) -> dict[str, list[float]]:
        """Time requests of all models in shuffled order; return a dict from model to the seconds of each of its
        requests.

        A request is timed from the question to a worker until the worker's answer. As in serving, this includes
        waking the worker, which may have worked for another model before. After each request the worker rests for as
        long as the request took.
        """
        rng, requests, begun_s = np.random.default_rng(seed), list[ModelRequest](), list[float]()
        times_s: dict[str, list[float]] = {name: [] for name in names}
        clock = RealClock(self, requests)
        rested = [(0.0, worker) for worker in range(len(self.pipes))]
        turn, now_s, end_s = list[str](), 0.0, TIMING_S * len(names)
        while now_s < end_s or min(map(len, times_s.values())) < MIN_CALLS or len(rested) < len(self.pipes):
            is_over = now_s >= end_s and min(map(len, times_s.values())) >= MIN_CALLS
            if rested and rested[0][0] <= now_s and not is_over:
                turn = turn or rng.permutation(names).tolist()
                requests.append(ModelRequest(model=turn.pop(), number=len(requests), release_s=now_s, within_s=0.0))
                begun_s.append(now_s)
                clock.begin(heapq.heappop(rested)[1], len(requests) - 1, now_s)
            now_s, done = clock.wait(rested[0][0] if rested and not is_over else None)
            for place, span in done:
                took_s = now_s - begun_s[place]
                times_s[requests[place].model].append(took_s)
                heapq.heappush(rested, (now_s + took_s, span.worker))
        return times_s


def receive(pipe: Connection) -> Any:
    """Receive a worker's answer. Raises the error that the worker raised; HarnessError (exit 9) where the worker has
    ended."""
    try:
        answer = pipe.recv()
    except (EOFError, ConnectionError):
        raise HarnessError(
            "a worker process of the usage scenario was killed (out of memory?).", ExitCode.RESOURCES
        ) from None
    if isinstance(answer, Exception):
        raise answer
    return answer


class RealClock:
    """Clock of real time for a schedule, in which worker processes answer `requests`; it starts at 0 s when it is
    made."""

    def __init__(self, crew: Crew, requests: Sequence[ModelRequest]) -> None:
        self._pipes, self._requests, self._started_s = crew.pipes, requests, time.monotonic()
        self._running: dict[Any, tuple[int, int]] = {}

    def begin(self, worker: int, request: int, now_s: float) -> None:
        asked = self._requests[request]
        self._pipes[worker].send(partial(answer_request, name=asked.model, number=asked.number))
        self._running[self._pipes[worker]] = (worker, request)

    def wait(self, until_s: float | None) -> tuple[float, list[tuple[int, Span]]]:
        timeout_s = None if until_s is None else max(0.0, until_s + self._started_s - time.monotonic())
        done = []
        for pipe in wait([*self._running], timeout_s):
            worker, request = self._running.pop(pipe)
            begin_s, end_s = (moment_s - self._started_s for moment_s in receive(pipe))  # type: ignore[arg-type]
            done.append((request, Span(worker, begin_s, end_s)))
        return time.monotonic() - self._started_s, done
