"""Show the progress of a run, and of making its data, on standard error."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from harness.foundation.status_line import StatusLine, StatusRow
from reference_models.config.sections import DataConfig
from reports.text.formatting import rough_duration
from rules.benchmarks.loader import Quality
from rules.records.metrics import METRICS


class ProgressDisplay(Protocol):
    """Progress display of one repetition (run or measurement) on standard error."""

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Show a progress event of the repetition's process."""

    def finish(self, text: str) -> None:
        """Show `text`, how the repetition ended; show nothing where it is empty."""


class Outlook(NamedTuple):
    """Position of a repetition among all that a command makes, with durations to estimate the time left from."""

    number: int
    total: int
    label: str = ""
    """Label of the repetition's configuration; empty where the experiment has only one configuration."""
    usual_s: float | None = None
    """Mean seconds of the earlier repetitions of the same configuration. Before the first repetition of a
    configuration, the mean is over the repetitions of the other configurations. None before any repetition has
    ended."""
    later_s: float | None = None
    """Expected seconds of all later repetitions; None before the first repetition has ended."""

    def row(self, share: float, elapsed_s: float, what: str) -> StatusRow:
        """Return the status row for all repetitions of the command: the fraction done, and an estimate of the time
        left. The fraction `share` of the present repetition has been done in `elapsed_s` seconds."""
        parts: tuple[str, ...] = ()
        if self.usual_s is not None and self.later_s is not None:
            left_s = max(self.usual_s - elapsed_s, 0.0) + self.later_s
            parts = (f"about {rough_duration(left_s)} left",)
        return StatusRow(f"all {self.total} {what}", (self.number - 1 + min(share, 1.0)) / self.total, parts)

    def share(self, elapsed_s: float) -> float | None:
        """Return the estimated fraction of the present repetition that is done after `elapsed_s` seconds, from the
        mean duration of earlier ones; None where there are none."""
        return min(elapsed_s / self.usual_s, 0.99) if self.usual_s else None


ALONE = Outlook(number=1, total=1)
"""Progress shown for a repetition that is the only one of its command, or that is made at the same time as others: it
has no position in a sequence."""


class RunProgress:
    """Progress display of one run to the target; training ends at the latest after `quality.max_epochs`."""

    def __init__(
        self,
        label: str,
        quality: Quality,
        *,
        quiet: bool = False,
        outlook: Outlook = ALONE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line = StatusLine(quiet=quiet)
        self._label, self._max_epochs, self._target = label, quality.max_epochs, quality.target
        self._metric = METRICS[quality.metric].label
        self._outlook, self._clock, self._started_s, self._trained_s = outlook, clock, clock(), clock()
        self._max_samples = 1
        self._quality: float | None = None
        self._samples, self._samples_per_s = 0, 0.0
        if self._line.is_terminal:
            self._show("starting")

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Show a progress event of the run's process."""
        doing = ""
        if event["event"] == "start":
            self._max_samples, self._trained_s = max(1, int(self._max_epochs * event["train_samples"])), self._clock()
        elif event["event"] == "train":
            self._samples, self._samples_per_s = event["samples"], event["samples_per_s"]
        elif event["event"] == "eval":
            self._quality = event["quality"]
        elif event["event"] == "hash":
            doing = f"hashing the dataset that it read, {event['num_bytes'] / 1e9:.1f} GB"
        elif event["event"] == "weights":
            doing = "writing its weights"
        self._show(doing)

    def finish(self, text: str) -> None:
        """Show how the run ended; on a terminal, where there are several configurations, also the run's position and
        its configuration."""
        whose = ""
        if self._line.is_terminal and self._outlook.label:
            whose = f"[{self._outlook.number}/{self._outlook.total}] {self._outlook.label}, "
        self._line.finish(f"{whose}{self._label}: {text}")

    def _show(self, doing: str) -> None:
        elapsed_s, share = self._clock() - self._started_s, min(1.0, self._samples / self._max_samples)
        quality = "-" if self._quality is None else f"{self._quality:.5f}"  # four digits could hide a narrow miss
        trained_s = self._clock() - self._trained_s
        rest_s = trained_s / share - trained_s if share else None  # from the mean rate, which is steadier
        usual = self._outlook.share(elapsed_s)
        if usual is not None and self._outlook.usual_s is not None:
            left = f"{rough_duration(max(self._outlook.usual_s - elapsed_s, 0.0))} left"
        else:
            left = "" if rest_s is None else f"< {rough_duration(rest_s)} left"
        speed = f"{self._samples_per_s:,.0f} samples/s"
        done = share if usual is None else usual
        said = (doing,) if doing else (f"{self._metric} {quality} of {self._target:g}", speed, *filter(None, (left,)))
        rows = [StatusRow(self._label, done, said)]
        if self._outlook.total > 1:
            rows.insert(0, self._outlook.row(done, elapsed_s, "runs"))
        eta = "" if rest_s is None else f", at most {rough_duration(rest_s)} more"
        text = doing or (
            f"{share:4.0%} of the samples, {speed}, {self._metric} {quality} (target {self._target:g}){eta}"
        )
        self._line.show_rows(rows, f"{self._label}: {text}", now=bool(doing) and self._line.is_terminal)


class MeasuringProgress:
    """Progress display of one process that measures, such as throughput."""

    def __init__(
        self,
        label: str,
        *,
        quiet: bool = False,
        outlook: Outlook = ALONE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line, self._label = StatusLine(quiet=quiet), label
        self._outlook, self._clock, self._started_s = outlook, clock, clock()
        if self._line.is_terminal:
            self._show("")

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Show a progress event of the measuring process."""
        if event["event"] == "progress":
            self._show(event["doing"])

    def finish(self, text: str) -> None:
        """Remove the measurement's progress display from a terminal; `text` is not shown, since the command prints
        the measured value itself."""
        self._line.finish()

    def _show(self, doing: str) -> None:
        elapsed_s = self._clock() - self._started_s
        share = self._outlook.share(elapsed_s)
        rows = [StatusRow(self._label, None, tuple(filter(None, (doing,))))]
        if self._outlook.total > 1:
            rows.insert(0, self._outlook.row(share or 0.0, elapsed_s, "processes"))
        self._line.show_rows(rows, f"{self._label}: {doing}")


@contextmanager
def generation_progress(data: DataConfig, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a callback that shows how many samples of a dataset have been generated. The status line appears with the
    first call, so not at all where the dataset exists already."""
    total = (data.train_samples or 0) + (data.eval_samples or 0)
    line = StatusLine(quiet=quiet)
    done = 0

    def on_progress(num_samples: int) -> None:
        nonlocal done
        if line.is_terminal:
            line.show(f"generating {data.name}", share=(done + num_samples) / total)
        elif done == 0:
            line.show(f"generating {data.name}: {total:,} samples", now=True)
        done += num_samples

    try:
        yield on_progress
    except BaseException:
        line.finish()
        raise
    line.finish(f"generated {data.name}: {total:,} samples" if done and line.is_terminal else "")
