"""Progress of a run and of making its data, on standard error; the runner, external ranks and verbs use it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from harness.foundation.status_line import StatusLine
from reference_models.config.sections import DataConfig
from rules.benchmarks.loader import Quality
from rules.records.metrics import METRICS

_WIDE = 120
"""Columns of a terminal that has room for a bar and for words."""


class Progress(Protocol):
    """What is shown of one repetition while it is made."""

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Show what the process sent."""

    def finish(self, text: str) -> None:
        """Say how it ended, where there is something to say."""


class RunProgress:
    """What one run prints while it trains; it ends at the latest after `quality.max_epochs`."""

    def __init__(self, label: str, quality: Quality, *, quiet: bool = False) -> None:
        self._line = StatusLine(quiet=quiet)
        self._label, self._max_epochs, self._target = label, quality.max_epochs, quality.target
        self._metric = METRICS[quality.metric].label
        self._max_samples = 1
        self._quality: float | None = None
        self._samples, self._samples_per_s = 0, 0.0

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Show what the run's process sent."""
        if event["event"] == "start":
            self._max_samples = max(1, int(self._max_epochs * event["train_samples"]))
        elif event["event"] == "train":
            self._samples, self._samples_per_s = event["samples"], event["samples_per_s"]
        elif event["event"] == "eval":
            self._quality = event["quality"]
        elif event["event"] == "hash":
            self._line.show(f"{self._label}: hashing the dataset that it read, {event['num_bytes'] / 1e9:.1f} GB")
            return
        elif event["event"] == "weights":
            self._line.show(f"{self._label}: writing its weights")
            return
        self._line.show(self._text())

    def finish(self, text: str) -> None:
        """Say how the run ended."""
        self._line.finish(f"{self._label}: {text}")

    def _text(self) -> str:
        share = min(1.0, self._samples / self._max_samples)
        quality = "-" if self._quality is None else f"{self._quality:.5f}"  # four digits round a miss to the target
        rest_s = (self._max_samples - self._samples) / self._samples_per_s if self._samples_per_s else None
        if self._line.is_terminal and self._line.columns < _WIDE:
            eta = "" if rest_s is None else f", {rest_s:.0f} s"
            return (
                f"{self._label}: {share:4.0%}, {self._samples_per_s:,.0f} samples/s, "
                f"{self._metric} {quality} (target {self._target:g}){eta}"
            )
        eta = "" if rest_s is None else f", at most {rest_s:.0f} s more"
        return (
            f"{self._label}: {self._line.bar(share)}{share:4.0%} of the samples, "
            f"{self._samples_per_s:,.0f} samples/s, {self._metric} {quality} (target {self._target:g}){eta}"
        )


class MeasuringProgress:
    """What one process that measures says of itself, where it does."""

    def __init__(self, label: str, *, quiet: bool = False) -> None:
        self._line, self._label = StatusLine(quiet=quiet), label

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Show what the process sent."""
        if event["event"] == "progress":
            self._line.show(f"{self._label}: {event['doing']}")

    def finish(self, text: str) -> None:
        """Leave nothing on a terminal: what was measured is said elsewhere."""
        self._line.finish()


@contextmanager
def generation_progress(data: DataConfig, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Make a callback for `generate`; the line appears with the first samples, so none where none are made."""
    total = (data.train_samples or 0) + (data.eval_samples or 0)
    line = StatusLine(quiet=quiet)
    done = 0

    def on_progress(num_samples: int) -> None:
        nonlocal done
        if line.is_terminal:
            line.show(f"generating {data.name}: {(done + num_samples) / total:4.0%}")
        elif done == 0:
            line.show(f"generating {data.name}: {total:,} samples", now=True)
        done += num_samples

    yield on_progress
    if done and line.is_terminal:
        line.finish(f"generated {data.name}: {total:,} samples")
