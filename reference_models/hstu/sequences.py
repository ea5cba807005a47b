"""Batches of a log of users' events, for HSTU: each user's history and candidates, sequences of unequal lengths.

A sample is an event to be predicted, a candidate. Its history is the user's last events before the time window of the
candidate, so it holds no event of that window, and is the same in whatever batch the candidate is. Neighbouring
candidates of one user and window in a batch share their history in one sequence.
"""

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray

from reference_models.data.click_sequence.teacher import ARTIST, ITEM, USER
from reference_models.data.store.dataset import ClickDataset
from reference_models.hstu.config import SequenceShape
from reference_models.process.errors import DatasetError

AGAIN = "The dataset is damaged: generate it again."


@dataclass(frozen=True, slots=True)
class Sequences:
    """Batch of S users' sequences: T past events and B candidates, counted over all sequences. Both are stored
    sequence after sequence, and in order of time within a sequence."""

    past_items: torch.Tensor
    """Items of the past events of a batch's sequences: int64 [T]."""
    past_artists: torch.Tensor
    """Artists of the items of the past events: int64 [T]."""
    past_actions: torch.Tensor
    """Actions of the past events, 1 where the event was a click, else 0: int64 [T]."""
    past_ages: torch.Tensor
    """Ages of the past events, 1 for the last event of a history, 2 for the event before, and so on: int64 [T]."""
    past_lengths: tuple[int, ...]
    """Number of past events of each sequence, possibly 0: S numbers."""
    items: torch.Tensor
    """Items of the candidates (events to be predicted): int64 [B]."""
    artists: torch.Tensor
    """Artists of the items of the candidates (events to be predicted): int64 [B]."""
    lengths: tuple[int, ...]
    """Number of candidates (events to be predicted) of each sequence, at least one: S numbers."""
    labels: torch.Tensor
    """Labels of the candidates, 1 for a click, else 0: float32 [B]."""

    def cut(self, start: int, stop: int) -> "Sequences":
        """Return a batch of the candidates `start` to `stop` - 1, each with the whole history of its sequence."""
        ends = np.cumsum(self.lengths)
        lengths = np.minimum(ends, stop) - np.maximum(ends - self.lengths, start)
        kept = slice(int(np.argmax(lengths > 0)), int(np.searchsorted(ends, stop)) + 1)
        before = sum(self.past_lengths[: kept.start])
        past, items = slice(before, before + sum(self.past_lengths[kept])), slice(start, stop)
        names = [field.name for field in fields(self) if field.name not in ("past_lengths", "lengths")]
        tensors = {name: getattr(self, name)[past if name.startswith("past_") else items] for name in names}
        return Sequences(past_lengths=self.past_lengths[kept], lengths=tuple(lengths[kept].tolist()), **tensors)

    def to(self, device: torch.device) -> "Sequences":
        """Return the batch with all tensors on a device, except the labels."""
        if device.type == "cpu":
            return self
        names = [field.name for field in fields(self) if field.name not in ("past_lengths", "lengths", "labels")]
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=True) for name in names})


def make_synthetic_sequences(num_samples: int, shape: SequenceShape) -> Sequences:
    """Return a synthetic batch of full sequences: item and artist 0, actions and labels alternately 0 and 1."""
    candidates, past = shape.num_candidates, shape.num_past
    lengths = [candidates] * (num_samples // candidates) + [num_samples % candidates] * bool(num_samples % candidates)
    num_past = past * len(lengths)
    return Sequences(
        past_items=torch.zeros(num_past, dtype=torch.int64),
        past_artists=torch.zeros(num_past, dtype=torch.int64),
        past_actions=torch.arange(num_past) % 2,
        past_ages=torch.arange(past, 0, -1).repeat(len(lengths)),
        past_lengths=(past,) * len(lengths),
        items=torch.zeros(num_samples, dtype=torch.int64),
        artists=torch.zeros(num_samples, dtype=torch.int64),
        lengths=tuple(lengths),
        labels=(torch.arange(num_samples) % 2).float(),
    )


class SequenceLog:
    """Events of a dataset split and, for an evaluation split, of the training split before it, grouped by user; the
    constructor reads and checks all events."""

    def __init__(self, split: ClickDataset, before: ClickDataset | None, place: str, shape: SequenceShape) -> None:
        self._first = 0 if before is None else before.num_samples
        self._shape = shape
        parts = [_Rows(part, place) for part in (before, split) if part is not None and part.num_samples]
        self._items, self._artists, self._users, self._times, self._labels = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("items", "artists", "users", "times", "labels")
        )
        self._windows = self._times // shape.num_candidates
        self._place = place
        self._check_windows()
        self._by_user = np.argsort(self._users, kind="stable")
        self._check_times()
        self._user_begins = np.searchsorted(self._users[self._by_user], np.arange(split.num_embeddings[USER]))
        self._window_begins = self._find_window_begins()

    def _name(self, row: int) -> str:
        """Return an event's name in error messages, by its number in its own split."""
        if row < self._first:
            return f"{self._place}: sample {row} of the split before it"
        return f"{self._place}: sample {row - self._first}"

    def _check_windows(self) -> None:
        late = np.flatnonzero(np.diff(self._windows) < 0)
        if late.size:
            row = int(late[0]) + 1
            raise DatasetError(
                f"{self._name(row)}: its time {self._times[row]} is in window {self._windows[row]}, after one of "
                f"window {self._windows[row - 1]}. Expected events in order of time. {AGAIN}"
            )

    def _check_times(self) -> None:
        times, users = self._times[self._by_user], self._users[self._by_user]
        wrong = np.flatnonzero((np.diff(users) == 0) & (np.diff(times) <= 0))
        if wrong.size:
            row = int(self._by_user[wrong + 1].min())
            raise DatasetError(
                f"{self._name(row)}: time {self._times[row]} of user {self._users[row]} is not after that user's "
                f"event before it. Expected events in order of time. {AGAIN}"
            )

    def _find_window_begins(self) -> NDArray[np.int64]:
        """Return, for each event, where the events of the same user and time window begin among all events sorted by
        user: int64 [N]."""
        users, windows = self._users[self._by_user], self._windows[self._by_user]
        is_first = np.concatenate([[True], (np.diff(users) != 0) | (np.diff(windows) != 0)])
        begins = np.flatnonzero(is_first)
        counts = np.diff(np.append(begins, len(users)))
        found = np.empty(len(users), np.int64)
        found[self._by_user] = np.repeat(begins, counts)
        return found

    def read(self, start: int, stop: int) -> Sequences:
        """Return samples `start` to `stop` - 1 of the split as candidates, with the histories of their users."""
        rows = slice(self._first + start, self._first + stop)
        begins = self._window_begins[rows]
        is_first = np.concatenate([[True], np.diff(begins) != 0])
        firsts = np.flatnonzero(is_first)
        ends = begins[firsts]
        past_begins = np.maximum(self._user_begins[self._users[rows][firsts]], ends - self._shape.num_past)
        past_lengths = ends - past_begins
        offsets = np.cumsum(past_lengths) - past_lengths
        inside = np.arange(int(past_lengths.sum())) - np.repeat(offsets, past_lengths)
        past = self._by_user[np.repeat(past_begins, past_lengths) + inside]
        return Sequences(
            past_items=torch.from_numpy(self._items[past]),
            past_artists=torch.from_numpy(self._artists[past]),
            past_actions=torch.from_numpy(self._labels[past].astype(np.int64)),
            past_ages=torch.from_numpy(np.repeat(past_lengths, past_lengths) - inside),
            past_lengths=tuple(past_lengths.tolist()),
            items=torch.from_numpy(self._items[rows].copy()),
            artists=torch.from_numpy(self._artists[rows].copy()),
            lengths=tuple(np.diff(np.append(firsts, len(begins))).tolist()),
            labels=torch.from_numpy(self._labels[rows].astype(np.float32)),
        )


class _Rows:
    """All events of a split of a sequence log, each checked, as arrays int64 and uint8 [N]."""

    def __init__(self, split: ClickDataset, place: str) -> None:
        batch = split.read(0, split.num_samples)
        batch.check(split, f"{place}: sample", 0)
        indices, times = batch.indices.numpy(), batch.dense.numpy()[:, 0]
        odd = np.flatnonzero(~((times >= 0) & (times < 2**24) & (times == np.floor(times))))
        if odd.size:
            raise DatasetError(
                f"{place}: sample {odd[0]}: time {times[odd[0]]:g}, expected a whole number below 2**24. {AGAIN}"
            )
        self.items, self.users, self.artists = (indices[:, column].copy() for column in (ITEM, USER, ARTIST))
        self.times, self.labels = times.astype(np.int64), batch.labels.numpy().astype(np.uint8)
