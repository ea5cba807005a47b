"""Noticing that a rank is gone or stuck: every rank says that it lives, and looks at the others.

A rank that was stopped, or whose machine has left, closes no connection; the others would wait for it in a collective
call until that times out.
"""

import os
import sys
import threading
import time
from types import TracebackType

from harness.errors import ExitCode
from reference_models.distributed import ProcessGroup

BEAT_S = 1.0
LOST_AFTER_S = 20.0
"""A rank that has said nothing for this long is taken for lost, and all others end."""


class Heartbeat:
    """While entered, a thread of this rank beats into the ranks' common store and watches the other ranks.

    It ends this process with a message that names a rank which stopped beating. Time is each rank's own: a beat
    is a counter, and what is measured is how long it has stood still.
    """

    def __init__(self, world: ProcessGroup, *, lost_after_s: float = LOST_AFTER_S) -> None:
        self._world, self._lost_after_s = world, lost_after_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="heartbeat", daemon=True)

    def __enter__(self) -> "Heartbeat":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(2 * BEAT_S)

    def _watch(self) -> None:
        rank, size, beats = self._world.rank, self._world.size, 0
        last_seen = {other: (b"", time.monotonic()) for other in range(size) if other != rank}
        while not self._ended.wait(BEAT_S):
            beats += 1
            try:
                self._world.note(f"beat/{rank}", str(beats))
                for other, (value, since) in last_seen.items():
                    now = self._world.read_note(f"beat/{other}")
                    if now != value:
                        last_seen[other] = (now, time.monotonic())
                    elif time.monotonic() - since > self._lost_after_s:
                        self._end(f"rank {other} has not been heard of for {self._lost_after_s:.0f} s")
            except RuntimeError as error:
                if not self._ended.is_set():
                    self._end(f"rank 0, where the ranks meet, cannot be reached: {str(error).splitlines()[0]}")

    def _end(self, reason: str) -> None:
        sys.stderr.write(f"{reason}; rank {self._world.rank} ends.\n")
        sys.stderr.flush()
        os._exit(ExitCode.INTERRUPTED)
