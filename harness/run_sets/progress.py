"""Progress on stderr: a bar on a terminal, plain lines otherwise."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from reference_models.config.sections import DataConfig

_PLAIN_EVERY_S = 5.0


class RunProgress:
    """What one run prints while it trains; it ends at the latest after `max_epochs`."""

    def __init__(
        self, label: str, max_epochs: float, target: float, *, quiet: bool = False, stream: TextIO | None = None
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._label, self._max_epochs, self._target = label, max_epochs, target
        self._max_samples = 1
        self._quiet, self._is_terminal = quiet, self._stream.isatty()
        self._quality: float | None = None
        self._samples, self._samples_per_s = 0, 0.0
        self._last_line_s = time.monotonic()

    def on_event(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "start":
            self._max_samples = max(1, int(self._max_epochs * event["train_samples"]))
        elif event["event"] == "train":
            self._samples, self._samples_per_s = event["samples"], event["samples_per_s"]
        elif event["event"] == "eval":
            self._quality = event["quality"]
        if self._quiet:
            return
        if self._is_terminal:
            self._stream.write("\r\x1b[2K" + self._text())
            self._stream.flush()
        elif time.monotonic() - self._last_line_s >= _PLAIN_EVERY_S:
            self._last_line_s = time.monotonic()
            self._stream.write(self._text() + "\n")
            self._stream.flush()

    def finish(self, text: str) -> None:
        if self._quiet:
            return
        self._stream.write(("\r\x1b[2K" if self._is_terminal else "") + f"{self._label}: {text}\n")
        self._stream.flush()

    def _text(self) -> str:
        share = min(1.0, self._samples / self._max_samples)
        filled = round(20 * share)
        quality = "-" if self._quality is None else f"{self._quality:.4f}"
        rest_s = (self._max_samples - self._samples) / self._samples_per_s if self._samples_per_s else None
        eta = "" if rest_s is None else f", at most {rest_s:.0f} s more"
        bar = f"[{'#' * filled}{'.' * (20 - filled)}] " if self._is_terminal else ""
        return (
            f"{self._label}: {bar}{share:4.0%} of the samples, {self._samples_per_s:,.0f} samples/s, "
            f"AUC {quality} (target {self._target:g}){eta}"
        )


@contextmanager
def generation_progress(data: DataConfig, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A callback for `generate`; the bar appears with the first samples, so nothing shows when none are made."""
    total = (data.train_samples or 0) + (data.eval_samples or 0)
    stream = sys.stderr
    done = 0

    def on_progress(num_samples: int) -> None:
        nonlocal done
        if quiet:
            return
        if stream.isatty():
            done += num_samples
            stream.write(f"\r\x1b[2Kgenerating {data.name}: {done / total:4.0%}")
            stream.flush()
        elif done == 0:
            done = num_samples
            stream.write(f"generating {data.name}: {total:,} samples\n")
            stream.flush()

    yield on_progress
    if done and stream.isatty():
        stream.write(f"\r\x1b[2Kgenerated {data.name}: {total:,} samples\n")
