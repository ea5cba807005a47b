"""Patterns from a teacher, in any chunks and by any number of threads: always the same bytes.

A row of the store is a pattern: `dense` its pixels (0 or 1), `indices` the class of each task. `labels` are 0 and
mean nothing. Integer hashing alone; see `click_log.counter`.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig
from reference_models.data.click_log.counter import FIRST_COUNTER, Words, counters, mix, stream_offset
from reference_models.data.patterns.teacher import PatternTeacher, build_teacher
from reference_models.data.store.store import SPLITS, Chunk, SplitWriter, unfinished, write_manifest

CHUNK_SAMPLES = 4096
_LANE = np.uint64(0xFFFF)
_LANE_BITS, _LANES = 16, 4
"""Pixels take 16 bits each of a word."""


def make_chunk(teacher: PatternTeacher, start: int, stop: int) -> Chunk:
    """Make the patterns of counters start to stop - 1."""
    num_tasks, num_classes, num_pixels = teacher.prototypes.shape
    streams = 1 + -(-num_pixels // _LANES)
    base = counters(teacher.key, start, stop, streams)
    drawn = _hash(base)
    classes = np.empty((stop - start, num_tasks), np.int32)
    pixels = np.empty((stop - start, num_pixels), np.uint8)
    for task in range(num_tasks):
        lane = drawn >> np.uint64(task * _LANE_BITS) & _LANE
        classes[:, task] = lane * np.uint64(num_classes) >> np.uint64(_LANE_BITS)
        negative = (drawn >> np.uint64(63 - task) & np.uint64(1)).astype(np.uint8)
        own = teacher.owners == task
        pixels[:, own] = teacher.prototypes[task][classes[:, task]][:, own] ^ negative[:, None]
    for stream in range(1, streams):
        word = _hash(base + stream_offset(stream))
        for lane_index in range(_LANES):
            pixel = (stream - 1) * _LANES + lane_index
            if pixel < num_pixels:
                is_turned = (word >> np.uint64(lane_index * _LANE_BITS) & _LANE) < np.uint64(teacher.flip_threshold)
                pixels[:, pixel] ^= is_turned
    return Chunk(labels=np.zeros(stop - start, np.uint8), dense=pixels.astype(np.float32), indices=classes)


def _hash(words: Words) -> Words:
    copied = words.copy()
    return mix(copied, np.empty_like(copied))


def oracle_scores(data: DataConfig, split: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return (score, class) of every pattern of a split: float64 [N, T, K], int64 [N, T]. No model can do better.

    A class is the likelier, the more pixels of its task are as in its prototype, or as in its negative, whichever
    are more: the log of the likelihood is log cosh of that surplus times a constant, plus another.
    """
    teacher, first = build_teacher(data), FIRST_COUNTER[split]
    size = (data.train_samples if split == "train" else data.eval_samples) or 0
    chunk = make_chunk(teacher, first, first + size)
    num_tasks, num_classes, _ = teacher.prototypes.shape
    scores = np.empty((size, num_tasks, num_classes))
    for task in range(num_tasks):
        own = teacher.owners == task
        signs = 2.0 * teacher.prototypes[task][:, own] - 1.0
        scores[:, task] = np.abs((2.0 * chunk.dense[:, own] - 1.0) @ signs.T)
    return scores, chunk.indices.astype(np.int64)


def generate(
    folder: Path,
    data: DataConfig,
    *,
    num_threads: int | None = None,
    on_progress: Callable[[int], None] | None = None,
    chunk_samples: int = CHUNK_SAMPLES,
) -> str:
    """Generate both splits into `folder` and return dataset_sha256.

    The bytes do not depend on `num_threads` (default: all cores) or `chunk_samples`. `on_progress` gets the number of
    samples just written. Raises ConfigError, OSError, and DatasetError when the digest is not the one that the
    definition pins; the folder then holds no dataset.
    """
    teacher = build_teacher(data)
    sizes = {"train": data.train_samples or 0, "eval": data.eval_samples or 0}
    tasks = [(split, start) for split in SPLITS for start in range(0, sizes[split], chunk_samples)]
    with unfinished(folder):
        writers = {
            split: SplitWriter(folder, split, sizes[split], data.num_dense, data.num_lookups) for split in SPLITS
        }

        def work(task: tuple[str, int]) -> int:
            split, start = task
            stop, first = min(sizes[split], start + chunk_samples), FIRST_COUNTER[split]
            writers[split].write(start, make_chunk(teacher, first + start, first + stop))
            return stop - start

        try:
            with ThreadPoolExecutor(num_threads or os.cpu_count() or 1) as pool:
                for count in pool.map(work, tasks):
                    if on_progress is not None:
                        on_progress(count)
        finally:
            for writer in writers.values():
                writer.close()
        return write_manifest(
            folder,
            {
                "kind": data.kind,
                "name": data.name,
                "splits": sizes,
                "num_dense": data.num_dense,
                "num_embeddings": list(data.num_embeddings or ()),
                "multi_hot": list(data.multi_hot),
                "seed": data.seed,
                "parameters": dict(data.parameters),
            },
            sha256=data.sha256,
        )
