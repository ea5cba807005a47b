"""Generate a click log's samples. Their bytes depend neither on the number of samples made at a time nor on the
number of threads.

The inner loop uses integer hashing, table lookups and element-wise float32 additions in a fixed order.
"""

import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig
from reference_models.data.click_log import tables
from reference_models.data.click_log.counter import FIRST_COUNTER, Words, counters, mix, stream_offset
from reference_models.data.click_log.teacher import CLASS_BITS, Teacher, build_teacher
from reference_models.data.store.generate import Parts, Piece
from reference_models.data.store.layout import SPLITS
from reference_models.data.store.store import Chunk

CHUNK_SAMPLES = 4096
"""Number of samples of a click log that are generated at a time: few enough for their columns to stay in the CPU's
cache."""
_TASK_CHUNKS = 16
_DENSE_PER_WORD = 5
_FRACTION_BITS = np.int64(20)
_FRACTION_MASK = np.int64((1 << 20) - 1)
_ENTRY_MASK = np.int64(tables.NUM_QUANTILES - 1)


class ChunkMaker:
    """Maker of samples of a click log, up to `max_samples` at a time. Each thread needs a maker of its own, since a
    maker reuses its scratch memory."""

    def __init__(self, teacher: Teacher, max_samples: int = CHUNK_SAMPLES) -> None:
        self.teacher, self.max_samples = teacher, max_samples
        self._num_sparse_words = (len(teacher.sparse) + 1) // 2
        num_dense_words = -(-len(teacher.dense) // _DENSE_PER_WORD)
        self._num_streams = self._num_sparse_words + num_dense_words + 1
        self._num_lookups = sum(feature.bag.shape[1] for feature in teacher.sparse)
        self._words = [np.empty(max_samples, np.uint64) for _ in range(2)]
        self._integers = [np.empty(max_samples, np.int64) for _ in range(3)]
        self._floats = [np.empty(max_samples, np.float32) for _ in range(2)]
        self._classes = np.empty((len(teacher.sparse), max_samples), np.int64)

    def make(self, split: str, start: int, stop: int) -> tuple[Chunk, NDArray[np.float32]]:
        """Return samples start to stop - 1 of a split as a `Chunk` (arrays to write), and their click logits: float32
        [stop - start]."""
        size = stop - start
        first = FIRST_COUNTER[split] + start
        base = counters(self.teacher.key, first, first + size, self._num_streams)
        logits = np.full(size, self.teacher.bias, np.float32)
        indices = self._draw_ids(base, logits)
        self._add_interactions(logits)
        dense = self._draw_dense(base, logits)
        word = self._word(base, self._num_streams - 1)
        entry = np.right_shift(word, np.uint64(64 - tables.THRESHOLD_BITS), out=word).view(np.int64)
        threshold = np.take(tables.logit_thresholds(), entry, out=self._floats[0][:size], mode="clip")
        labels = np.greater(logits, threshold).view(np.uint8)
        return Chunk(labels=labels, dense=dense, indices=indices), logits

    def _word(self, base: Words, stream: int) -> Words:
        word, scratch = self._words[0][: len(base)], self._words[1][: len(base)]
        np.add(base, stream_offset(stream), out=word)
        return mix(word, scratch)

    def _draw_ids(self, base: Words, logits: NDArray[np.float32]) -> NDArray[np.int32]:
        size = len(base)
        indices = np.empty((size, self._num_lookups), np.int32)
        entry, ids, width = (buffer[:size] for buffer in self._integers)
        value, column = self._floats[0][:size], 0
        for f, feature in enumerate(self.teacher.sparse):
            if f % 2 == 0:
                word = self._word(base, f // 2).view(np.int64)
            else:
                np.right_shift(word, np.int64(32), out=word)
            np.right_shift(word, _FRACTION_BITS, out=entry)
            np.bitwise_and(entry, _ENTRY_MASK, out=entry)
            np.take(feature.num_ids, entry, out=width, mode="clip")
            np.take(feature.first_id, entry, out=ids, mode="clip")
            np.bitwise_and(word, _FRACTION_MASK, out=entry)
            np.multiply(width, entry, out=width)
            np.right_shift(width, _FRACTION_BITS, out=width)
            np.add(ids, width, out=ids)
            np.take(feature.effect, ids, out=value, mode="clip")
            np.add(logits, value, out=logits)
            np.take(feature.latent_class, ids, out=self._classes[f, :size], mode="clip")
            multi_hot = feature.bag.shape[1]
            if multi_hot == 1:
                indices[:, column] = ids
            else:
                indices[:, column : column + multi_hot] = feature.bag[ids]
            column += multi_hot
        return indices

    def _add_interactions(self, logits: NDArray[np.float32]) -> None:
        size = len(logits)
        entry, value = self._integers[0][:size], self._floats[0][:size]
        for interaction in self.teacher.interactions:
            entry.fill(0)
            for feature in interaction.features:
                np.left_shift(entry, np.int64(CLASS_BITS), out=entry)
                np.bitwise_or(entry, self._classes[feature, :size], out=entry)
            np.take(interaction.term, entry, out=value, mode="clip")
            np.add(logits, value, out=logits)

    def _draw_dense(self, base: Words, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        size = len(base)
        dense = np.empty((size, len(self.teacher.dense)), np.float32)
        entry, value = self._integers[0][:size], self._floats[0][:size]
        for d, feature in enumerate(self.teacher.dense):
            if d % _DENSE_PER_WORD == 0:
                word = self._word(base, self._num_sparse_words + d // _DENSE_PER_WORD).view(np.int64)
            else:
                np.right_shift(word, np.int64(tables.QUANTILE_BITS), out=word)
            np.bitwise_and(word, _ENTRY_MASK, out=entry)
            np.take(feature.value, entry, out=value, mode="clip")
            dense[:, d] = value
            np.take(feature.effect, entry, out=value, mode="clip")
            np.add(logits, value, out=logits)
        return dense


def compute_click_probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the exact probability of the label 1 for each click logit: the share of the 2**16 equally likely label
    thresholds (`tables.logit_thresholds`) that are below the logit."""
    thresholds = tables.logit_thresholds()
    return np.searchsorted(thresholds, logits, side="left").astype(np.float64) / len(thresholds)


def oracle_scores(data: DataConfig, split: str) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Return the click probability, float64 [N], and the label, uint8 [N], of each of a split's N samples. No model
    can rank the samples better than these probabilities do."""
    maker = ChunkMaker(build_teacher(data))
    num_samples = _num_samples(data, split)
    probabilities, labels = np.empty(num_samples, np.float64), np.empty(num_samples, np.uint8)
    for start in range(0, num_samples, CHUNK_SAMPLES):
        stop = min(num_samples, start + CHUNK_SAMPLES)
        chunk, logits = maker.make(split, start, stop)
        probabilities[start:stop] = compute_click_probabilities(logits)
        labels[start:stop] = chunk.labels
    return probabilities, labels


def make_parts(data: DataConfig, chunk_samples: int = CHUNK_SAMPLES) -> Parts:
    """Return the tasks that generate both splits of a click log, and the function that yields a task's samples. A
    task is a split and the number of its first sample.

    The function yields `chunk_samples` samples at a time; the data's bytes do not depend on this number. Raises
    ConfigError if the definition has sizes or parameters that a click log cannot have.
    """
    teacher, own = build_teacher(data), threading.local()
    task_samples = chunk_samples * _TASK_CHUNKS

    def make(task: tuple[str, int]) -> Iterator[Piece]:
        if not hasattr(own, "maker"):
            own.maker = ChunkMaker(teacher, chunk_samples)
        split, first = task
        last = min(first + task_samples, _num_samples(data, split))
        for start in range(first, last, chunk_samples):
            yield split, start, own.maker.make(split, start, min(last, start + chunk_samples))[0]

    tasks = ((split, start) for split in SPLITS for start in range(0, _num_samples(data, split), task_samples))
    return Parts(tasks, make)


def _num_samples(data: DataConfig, split: str) -> int:
    return (data.train_samples if split == "train" else data.eval_samples) or 0
