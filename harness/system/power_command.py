"""Read the system's power in watts once a second from a user's command, such as one for a wall meter or IPMI.

The command comes only from the command line, and runs by the shell in its own process group.
"""

import math
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from itertools import pairwise

import numpy as np

from rules.logs.text import printable

NAME, SOURCE = "power command", "watts of --power-command, integrated"
PATIENCE_S = 5.0
"""Seconds after which a call of the user's power command (which prints watts) is ended."""
_MOST_BYTES = 1000


class PowerCommand(threading.Thread):
    """Thread that calls the user's power command until the thread is ended; the measured run never waits for it."""

    def __init__(self, command: str, interval_s: float, started_s: float) -> None:
        super().__init__(name="power-command", daemon=True)
        self._command, self._interval_s, self._started_s = command, interval_s, started_s
        self._readings: list[tuple[float, float]] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = threading.Event()
        self.problem = ""
        """Reason why the power command gave no energy; empty where it gave some."""

    def end(self) -> None:
        """Stop calling the power command, and end a call in progress; may be called again."""
        self._is_ended.set()
        self._kill()

    def take_energy(self, stopped_s: float) -> float | None:
        """End the calls of the power command, and return the energy in joules from `started_s` to `stopped_s`, which
        are times of the monotonic clock. The energy is the integral of the watts by the trapezoidal rule.

        The watts before the first reading are taken to equal the first reading, the watts after the last reading the
        last one. Return None if no energy can be computed; `problem` then has the reason.
        """
        self.end()
        self.join(1.0)  # longer only where a process outside the group still holds the output
        if not self._readings:
            self.problem = self.problem or "no reading came before the end."
        if self.problem:
            return None
        times, watts = zip(*self._readings, strict=True)
        points = [self._started_s, *(each for each in times if self._started_s < each < stopped_s), stopped_s]
        at = pairwise(np.interp(points, times, watts).tolist())
        return math.fsum((b - a) * (v + w) / 2 for (a, b), (v, w) in zip(pairwise(points), at, strict=True))

    def run(self) -> None:
        while not self._is_ended.is_set():
            begun_s = time.monotonic()
            watts = self._ask()
            if watts is None:
                return
            took_s = time.monotonic() - begun_s
            self._readings.append((begun_s + took_s / 2, watts))
            self._is_ended.wait(max(0.0, self._interval_s - took_s))

    def _ask(self) -> float | None:
        """Return the watts that one call of the user's power command prints; None if the call fails, or if measuring
        has ended."""
        self._process = process = subprocess.Popen(
            self._command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdout is not None
        patience = threading.Timer(0.0 if self._is_ended.is_set() else PATIENCE_S, self._kill)
        patience.start()
        with process.stdout as output:
            text = output.read(_MOST_BYTES).decode(errors="replace").strip()
        code, is_late = process.wait(), not patience.is_alive()
        patience.cancel()
        with suppress(ValueError):
            if code == 0 and not is_late and 0 <= (watts := float(text)) < math.inf:
                return watts
        if not self._is_ended.is_set():
            what = f"took longer than {PATIENCE_S:g} s" if is_late else f"ended with exit code {code}"
            self.problem = f"it {what} and printed {printable(text[:100])!r}, expected watts: a number alone."
        return None

    def _kill(self) -> None:
        if (process := self._process) is not None and process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def end_power_commands() -> None:
    """End all power commands of this process, however its measurement ended."""
    for thread in threading.enumerate():
        if isinstance(thread, PowerCommand):
            thread.end()
