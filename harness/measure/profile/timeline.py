"""Stamps where phases begin, and the seconds between them."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from reference_models.training.phases import Enter, Phase


class Timeline:
    """Collects the phases that a workload tells. One stamp takes about a tenth of a microsecond on a CPU.

    On a CUDA device a stamp is an event on the current stream, so that nothing waits for the device.
    """

    def __init__(self, device: torch.device) -> None:
        self._stamps: list[tuple[str, Any]] = []
        self._is_cuda = device.type == "cuda"
        self.enter: Enter = self._record_event if self._is_cuda else _stamping(self._stamps)

    def _record_event(self, phase: str) -> None:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        self._stamps.append((phase, event))

    def take(self) -> dict[str, float]:
        """Seconds in each phase up to now, which ends the last one; then begins anew. The device must be done."""
        self.enter(Phase.OTHER)
        if self._is_cuda:
            torch.cuda.synchronize()
        stamps = self._stamps.copy()
        self._stamps.clear()
        seconds: dict[str, float] = {}
        for (phase, start), (_, stop) in pairwise(stamps):
            took_s = start.elapsed_time(stop) / 1e3 if self._is_cuda else (stop - start) / 1e9
            seconds[phase] = seconds.get(phase, 0.0) + took_s
        return seconds


def _stamping(stamps: list[tuple[str, Any]]) -> Enter:
    """A function without attribute look-ups, since it runs inside what is measured."""
    append: Callable[[tuple[str, Any]], None] = stamps.append
    now = time.monotonic_ns

    def enter(phase: str) -> None:
        append((phase, now()))

    return enter
