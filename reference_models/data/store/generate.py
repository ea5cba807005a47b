"""Generate a dataset into the store, in independent parts by several threads."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from reference_models.config.sections import DataConfig
from reference_models.data.store.layout import SPLITS, Layout
from reference_models.data.store.manifest import write_manifest
from reference_models.data.store.store import Rows, SplitWriter, unfinished

Piece = tuple[str, int, Rows]
"""Generated piece of a dataset: split, number of the first sample, and the samples from that number on."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Tasks that generate both splits of a dataset, and the function that does a task.

    The bytes depend only on the dataset's definition.
    """

    tasks: Iterable[Any]
    """Independent tasks that together generate the dataset, in any order; one thread does a task."""
    make: Callable[[Any], Iterable[Piece]]
    """Function that yields the pieces of a task, called by several threads; all tasks' pieces cover both splits."""


def write_parts(
    folder: Path,
    data: DataConfig,
    layout: Layout,
    parts: Parts,
    *,
    num_threads: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> str:
    """Generate both splits of a dataset from `parts` into `folder` and return dataset_sha256.

    The bytes do not depend on `num_threads` (default: all cores). `on_progress` gets the number of samples just
    written. Raises OSError, and DatasetError if the digest is not the one that the definition pins; the folder then
    holds no dataset.
    """
    sizes = {"train": data.train_samples or 0, "eval": data.eval_samples or 0}
    with unfinished(folder, layout):
        with ExitStack() as open_files:
            writers: dict[str, SplitWriter] = {}
            for split in SPLITS:
                writers[split] = SplitWriter(folder, split, sizes[split], data, layout)
                open_files.callback(writers[split].close)

            def work(task: Any) -> int:
                count = 0
                for split, start, rows in parts.make(task):
                    writers[split].write(start, rows)
                    count += len(rows)
                return count

            num_threads = num_threads or os.cpu_count() or 1
            made = _work_in_threads(work, parts.tasks, num_threads, on_progress or (lambda count: None))
        if made != sum(sizes.values()):
            raise ValueError(f"data.kind {data.kind!r} made {made} samples, expected {sum(sizes.values())}")
        return write_manifest(folder, layout, _describe(data, sizes), sha256=data.sha256)


def _work_in_threads(
    work: Callable[[Any], int], tasks: Iterable[Any], num_threads: int, on_progress: Callable[[int], None]
) -> int:
    """Run `work` on each task, one task per thread at a time, so that an error or interrupt soon ends all.

    Returns the sum of the results.
    """
    left, total = iter(tasks), 0
    with ThreadPoolExecutor(num_threads) as pool:
        running: set[Future[int]] = {pool.submit(work, task) for task in islice(left, num_threads)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                total += future.result()
                on_progress(future.result())
                running |= {pool.submit(work, task) for task in islice(left, 1)}
    return total


def _describe(data: DataConfig, sizes: dict[str, int]) -> dict[str, Any]:
    """Return the content of a generated dataset's manifest, without the list of its files."""
    return {
        "kind": data.kind,
        "name": data.name,
        "splits": sizes,
        "num_dense": data.num_dense,
        "num_embeddings": list(data.num_embeddings or ()),
        "multi_hot": list(data.multi_hot),
        "seed": data.seed,
        "parameters": dict(data.parameters),
    }
