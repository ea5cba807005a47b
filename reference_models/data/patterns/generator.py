"""Generate patterns. Their bytes depend neither on the number of patterns made at a time nor on the number of
threads.

A pattern is an image of pixels that are 0 or 1, with the class of each task. Random bits come from integer hashing,
without floating-point arithmetic; see `click_log.counter`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig
from reference_models.data.click_log.counter import FIRST_COUNTER, Words, counters, mix, stream_offset
from reference_models.data.patterns.teacher import PatternTeacher, build_teacher
from reference_models.data.store.generate import Parts, Piece
from reference_models.data.store.layout import SPLITS

CHUNK_SAMPLES = 4096
_LANE = np.uint64(0xFFFF)
_LANE_BITS = 16
"""Number of bits of a 64-bit random word that decide whether one pixel is flipped."""
_LANES = 4
"""Number of pixels that one 64-bit random word serves: each takes 16 bits, which decide whether it is flipped."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """Batch of n consecutive patterns: images float32 [n, P pixels], classes int32 [n, T tasks]."""

    images: NDArray[np.float32]
    classes: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.images)


def make_patterns(teacher: PatternTeacher, start: int, stop: int) -> Patterns:
    """Return the patterns number start to stop - 1; a pattern's number (counter) determines its random bits."""
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
    return Patterns(pixels.astype(np.float32), classes)


def _hash(words: Words) -> Words:
    copied = words.copy()
    return mix(copied, np.empty_like(copied))


def oracle_scores(data: DataConfig, split: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return two arrays for all N patterns of a split: the best possible score of each class of T tasks, float64 [N,
    T, K], and the true class, int64 [N, T].

    A task's score of a class is the number of the task's pixels that agree with the class's prototype, minus the
    number that do not. Its absolute value is taken, since a pattern may show the prototype's negative. The
    log-likelihood of the class is log cosh(score times a constant), plus a constant.
    """
    teacher, first = build_teacher(data), FIRST_COUNTER[split]
    size = (data.train_samples if split == "train" else data.eval_samples) or 0
    patterns = make_patterns(teacher, first, first + size)
    num_tasks, num_classes, _ = teacher.prototypes.shape
    scores = np.empty((size, num_tasks, num_classes))
    for task in range(num_tasks):
        own = teacher.owners == task
        signs = 2.0 * teacher.prototypes[task][:, own] - 1.0
        scores[:, task] = np.abs((2.0 * patterns.images[:, own] - 1.0) @ signs.T)
    return scores, patterns.classes.astype(np.int64)


def make_parts(data: DataConfig, chunk_samples: int = CHUNK_SAMPLES) -> Parts:
    """Return the work units that generate both splits of a dataset of patterns, and the function that yields the
    patterns of a unit. A unit has up to `chunk_samples` patterns. The data's bytes do not depend on `chunk_samples`.
    Raises ConfigError if the definition has sizes or parameters that patterns cannot have."""
    teacher = build_teacher(data)
    sizes = {"train": data.train_samples or 0, "eval": data.eval_samples or 0}

    def make(task: tuple[str, int]) -> Iterator[Piece]:
        split, start = task
        first, stop = FIRST_COUNTER[split], min(sizes[split], start + chunk_samples)
        yield split, start, make_patterns(teacher, first + start, first + stop)

    return Parts(((split, start) for split in SPLITS for start in range(0, sizes[split], chunk_samples)), make)
