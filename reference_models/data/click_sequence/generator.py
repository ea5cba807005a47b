"""Generate a sequence log's events. Their bytes depend neither on the number of users made at a time nor on the
number of threads.

A row of the dataset is an event: `labels` is 1 for a click, `dense` is the time (the number of the user's earlier
events), `indices` are the item, the user and the item's artist. Rows are sorted by time window, then by user, then by
time. The evaluation split follows the training split.

The inner loop uses integer hashing, table lookups and element-wise float32 additions in a fixed order; see
`click_log.tables`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig
from reference_models.data.click_log import tables
from reference_models.data.click_log.counter import Words, counters, mix, stream_offset
from reference_models.data.click_log.generator import compute_click_probabilities
from reference_models.data.click_sequence.teacher import (
    ARTIST,
    ITEM,
    MAX_EVENTS,
    NUM_TABLES,
    USER,
    SequenceTeacher,
    build_teacher,
)
from reference_models.data.store.generate import Parts, Piece
from reference_models.data.store.layout import SPLITS
from reference_models.data.store.store import Chunk

CHUNK_USERS = 256
"""Number of users whose events are generated at a time."""
_NUM_STREAMS = 3
_CLASS, _ITEM, _LABEL = range(_NUM_STREAMS)
_HALF = np.uint64(0xFFFF)
_FRACTION_BITS = 20


@dataclass(frozen=True, slots=True)
class Window:
    """Generated events of U users in one time window, a row per user: arrays [U, events_per_window]."""

    start: int
    """Row number of the window's first event, counted over both splits."""
    items: NDArray[np.int64]
    labels: NDArray[np.uint8]
    logits: NDArray[np.float32]


def make_windows(teacher: SequenceTeacher, first_user: int, last_user: int, num_windows: int) -> Iterator[Window]:
    """Yield the time windows of users first_user to last_user - 1 in order. The labels of earlier windows determine
    the click probabilities of each window."""
    per_window, users = teacher.events_per_window, np.arange(first_user, last_user, dtype=np.uint64)
    num_events = num_windows * per_window
    drawn = np.empty((len(users), num_events), np.int64)
    clicks = np.empty((len(users), num_events), np.int64)
    favourites = _draw_favourites(teacher, users)
    who = np.arange(len(users))[:, None]
    for window in range(num_windows):
        begin = window * per_window
        words = _words(teacher.key, users, begin, per_window)
        classes = _draw_classes(teacher, words[_CLASS], favourites)
        scores = np.zeros((len(users), teacher.terms.shape[-1]), np.float32)
        for age, term in enumerate(teacher.terms[:begin]):
            place = begin - 1 - age
            np.add(scores, term[clicks[:, place], drawn[:, place]], out=scores)
        items = _draw_items(teacher, words[_ITEM], classes)
        logits = np.add(np.add(teacher.effect[items], teacher.bias), scores[who, classes])
        entry = (words[_LABEL] >> np.uint64(64 - tables.THRESHOLD_BITS)).astype(np.int64)
        labels = np.greater(logits, tables.logit_thresholds()[entry])
        drawn[:, begin : begin + per_window], clicks[:, begin : begin + per_window] = classes, labels
        row = (window * teacher.num_users + first_user) * per_window
        yield Window(row, items, labels.view(np.uint8), logits)


def _words(key: int, users: Words, first_event: int, num_events: int) -> list[Words]:
    """Return the random 64-bit words of each user's events, an array per random stream: uint64 [U, num_events]."""
    events = np.arange(first_event, first_event + num_events, dtype=np.uint64)
    index = users[:, None] * np.uint64(MAX_EVENTS) + events
    base = index * stream_offset(_NUM_STREAMS) + counters(key, 0, 1, 1)
    return [mix(word, np.empty_like(word)) for word in (base + stream_offset(s) for s in range(_NUM_STREAMS))]


def _draw_favourites(teacher: SequenceTeacher, users: Words) -> NDArray[np.int64]:
    """Return the favourite latent classes of items of each user, all different: int64 [U, num_favourites]."""
    num_classes = teacher.terms.shape[-1]
    index = users[:, None] * np.uint64(num_classes) + np.arange(num_classes, dtype=np.uint64)
    words = np.asarray(index * stream_offset(1) + counters(teacher.favourite_key, 0, 1, 1), np.uint64)
    return np.argsort(mix(words, np.empty_like(words)), axis=1, kind="stable")[:, : teacher.num_favourites]


def _draw_classes(teacher: SequenceTeacher, words: Words, favourites: NDArray[np.int64]) -> NDArray[np.int64]:
    num_classes, num_favourites = teacher.terms.shape[-1], teacher.num_favourites
    which = ((words >> np.uint64(16) & _HALF) * np.uint64(num_favourites) >> np.uint64(16)).astype(np.int64)
    any_class = ((words >> np.uint64(32) & _HALF) * np.uint64(num_classes) >> np.uint64(16)).astype(np.int64)
    is_favourite = (words & _HALF) < np.uint64(teacher.favourite_threshold)
    return np.where(is_favourite, np.take_along_axis(favourites, which, axis=1), any_class)


def _draw_items(teacher: SequenceTeacher, words: Words, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    entry = (words >> np.uint64(64 - tables.QUANTILE_BITS)).astype(np.int64)
    fraction = (words & np.uint64((1 << _FRACTION_BITS) - 1)).astype(np.int64)
    inside = (teacher.num_items[classes, entry] * fraction) >> _FRACTION_BITS
    return teacher.items[teacher.first_item[classes, entry] + inside]


def oracle_scores(data: DataConfig, split: str) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Return the click probability, float64 [N], and the label, uint8 [N], of each of a split's N events. No model
    can rank the events better than these probabilities do."""
    teacher = build_teacher(data)
    first, size = _place(data, split)
    logits, labels = np.empty(size, np.float32), np.empty(size, np.uint8)
    for users in _tasks(teacher.num_users):
        for window in make_windows(teacher, users.start, users.stop, _num_windows(data, teacher)):
            place = slice(window.start - first, window.start - first + window.labels.size)
            if 0 <= place.start < size:
                logits[place], labels[place] = window.logits.ravel(), window.labels.ravel()
    return compute_click_probabilities(logits), labels


def make_parts(data: DataConfig, chunk_users: int = CHUNK_USERS) -> Parts:
    """Return the tasks that generate both splits of a sequence log, and the function that yields a task's events. A
    task is a range of `chunk_users` users, whose events it generates for both splits.

    The data's bytes do not depend on `chunk_users`. Raises ConfigError if the definition has sizes or parameters that
    a sequence log cannot have.
    """
    teacher = build_teacher(data)

    def make(users: range) -> Iterator[Piece]:
        for window in make_windows(teacher, users.start, users.stop, _num_windows(data, teacher)):
            split = "train" if window.start < _place(data, "train")[1] else "eval"
            yield split, window.start - _place(data, split)[0], _as_chunk(window, teacher, users.start)

    return Parts(_tasks(teacher.num_users, chunk_users), make)


def _as_chunk(window: Window, teacher: SequenceTeacher, first_user: int) -> Chunk:
    num_users, per_window = window.items.shape
    begin = window.start // (teacher.num_users * per_window) * per_window
    times = np.broadcast_to(np.arange(begin, begin + per_window, dtype=np.float32), window.items.shape)
    users = np.broadcast_to(np.arange(first_user, first_user + num_users)[:, None], window.items.shape)
    columns = {ITEM: window.items, USER: users, ARTIST: teacher.artist[window.items]}
    indices = np.stack([columns[column].ravel() for column in range(NUM_TABLES)], axis=1).astype(np.int32)
    return Chunk(labels=window.labels.ravel(), dense=times.reshape(-1, 1).copy(), indices=indices)


def _tasks(num_users: int, chunk_users: int = CHUNK_USERS) -> Iterator[range]:
    for start in range(0, num_users, chunk_users):
        yield range(start, min(num_users, start + chunk_users))


def _num_windows(data: DataConfig, teacher: SequenceTeacher) -> int:
    per_window = teacher.num_users * teacher.events_per_window
    return sum(_place(data, split)[1] for split in SPLITS) // per_window


def _place(data: DataConfig, split: str) -> tuple[int, int]:
    """Return the number of a split's first row, counted over both splits, and the split's number of rows."""
    train, evaluation = data.train_samples or 0, data.eval_samples or 0
    return (0, train) if split == "train" else (train, evaluation)
