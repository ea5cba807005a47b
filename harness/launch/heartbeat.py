"""Detect a lost or stuck rank by heartbeats that every rank sends, and end all ranks with one reason.

Closed connections do not suffice to detect a lost rank. A rank that is stopped, or whose machine is unreachable,
closes no connection; the other ranks would wait for it in a collective call until the call times out. A killed rank
closes its connections, but the other ranks cannot tell which rank was killed.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import TracebackType

from harness.foundation.errors import (
    ExitCode,
    HarnessError,
    RefusedByAllError,
    compose_message,
    exit_code_of,
)
from reference_models.distributed.rendezvous import Rendezvous, call_within

BEAT_S = 1.0
LOST_AFTER_S = 20.0
"""Seconds without a heartbeat after which a rank counts as lost, and all others end."""
SILENT_AFTER_S = 5.0
"""Seconds without a heartbeat after which a rank counts as lost once a connection between ranks has broken. A broken
connection shows that some rank is gone, but not which one. Without a broken connection LOST_AFTER_S applies."""
_GONE_AFTER_S = 3.0
"""Seconds after the last answer of the ranks' key-value store after which the store's host counts as gone, if the
connection to the store has broken. Until then this rank waits, since it may be about to end normally itself."""
_TERMINATED_FOR_S = 4.5
"""Seconds for which a rank that gets SIGTERM looks for a lost rank, the likely cause, before it reports the signal as
the reason: launchers terminate all ranks when one is lost."""
_SETTLE_S = 10.0
_SIGNALS = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """Reason why all ranks end, with their exit code. The first rank that knows a reason publishes it, so it is the
    same on every rank."""

    rank: int
    reason: str
    code: int


class Heartbeat:
    """Context manager that sends this rank's heartbeat to the ranks' key-value store. It also watches the heartbeats
    of the other ranks, and the signals that this process gets.

    A heartbeat is a counter. Each rank measures with its own clock how long another rank's counter has not changed.
    When a rank is lost, fails or gets a signal to end, the processes of all ranks end with the same reason and exit
    code, even if their main threads are waiting. `on_end` is called once before this process ends, with the reason
    and the exit code.
    """

    def __init__(self, meeting: Rendezvous, *, lost_after_s: float = LOST_AFTER_S) -> None:
        self.on_end: Callable[[str, int], None] | None = None
        self._meeting, self._lost_after_s = meeting, lost_after_s
        now_s = time.monotonic()
        self._seen = {rank: ("", now_s) for rank in range(meeting.size) if rank != meeting.rank}
        self._answered_s, self._is_broken = now_s, False
        self._ticked_s, self._held_up_s = now_s, 0.0
        self._received: End | None = None
        self._ended, self._concluding = threading.Event(), threading.Lock()
        self._signals, self._wakeup = socket.socketpair()
        self._wakeup.setblocking(False)
        self._threads = [
            threading.Thread(target=target, name="heartbeat", daemon=True) for target in (self._beat, self._watch)
        ]

    def __enter__(self) -> "Heartbeat":
        # Python's handlers run in the main thread only, which may wait in a collective call.
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise HarnessError with the real reason, such as a lost rank, in place of an error that only reports a
        broken connection."""
        if error is None:
            self._stop()
            self._within(2 * self._lost_after_s, self._leave)
            return
        lost = self._find_lost(error)
        own = lost or self._describe(error)
        end = self._conclude(own, publishes=not isinstance(error, RefusedByAllError))
        self._stop()
        if lost is not None or end != own:
            raise HarnessError(f"{end.reason}; rank {self._meeting.rank} ends.", ExitCode(end.code)) from error

    def _stop(self) -> None:
        self._ended.set()
        signal.set_wakeup_fd(-1)
        self._wakeup.send(b"\0")
        for thread in self._threads:
            thread.join(2 * BEAT_S)
        self._signals.close()
        self._wakeup.close()

    def _leave(self) -> None:
        """Wait, on the rank that hosts the ranks' key-value store, until all others have left: a late rank would
        otherwise take the finished host for lost."""
        meeting = self._meeting
        meeting.note(f"ended/{meeting.rank}", "1")
        if meeting.is_host:
            self._wait_for([f"ended/{rank}" for rank in self._seen], self._lost_after_s)

    def _beat(self) -> None:
        meeting, beats = self._meeting, 0
        while not self._ended.is_set():
            beats += 1
            try:
                meeting.note(f"beat/{meeting.rank}", str(beats))
                for rank, (value, _) in self._seen.items():
                    if (now := meeting.read_note(f"beat/{rank}")) != value:
                        self._seen[rank] = (now, time.monotonic())
                if note := meeting.read_note("end"):
                    self._received = End(**json.loads(note))
            except RuntimeError:
                self._is_broken = True
                return
            self._answered_s = time.monotonic()
            self._ended.wait(BEAT_S)

    def _watch(self) -> None:
        rank = self._meeting.rank
        while not self._ended.is_set():
            signals = self._wait_for_signals(BEAT_S)
            self._held_up_s, self._ticked_s = self._longest_hold_up_s(), time.monotonic()
            if self._ended.is_set():
                return
            end = self._look(self._lost_after_s)
            if end is None and signals:
                if signals[0] == signal.SIGTERM:
                    end = self._look_for(_TERMINATED_FOR_S, _GONE_AFTER_S)
                end = end or self._describe_signal(signals[0])
            if end is not None:
                end = self._conclude(end, publishes=True)
                sys.stderr.write(f"{end.reason}; rank {rank} ends.\n")
                sys.stderr.flush()
                os._exit(end.code)

    def _wait_for_signals(self, seconds: float) -> list[int]:
        ready, _, _ = select.select([self._signals], [], [], seconds)
        return [number for number in self._signals.recv(64) if number in _SIGNALS] if ready else []

    def _look(self, patience_s: float) -> End | None:
        """Return why all ranks must end: the reason that another rank published, or that ranks sent no heartbeat for
        `patience_s` seconds; None where there is no reason."""
        if self._received is not None:
            return self._received
        now_s, meeting = time.monotonic(), self._meeting
        code = int(ExitCode.RESOURCES)
        if (held_up_s := self._longest_hold_up_s()) > self._lost_after_s:
            # Then the other ranks have given up on this one, and their silence tells nothing.
            return End(
                rank=meeting.rank, reason=f"rank {meeting.rank} itself did not run for {held_up_s:.0f} s", code=code
            )
        if self._is_broken:
            if now_s - self._answered_s < _GONE_AFTER_S:
                return None
            return End(rank=0, reason=f"{meeting.host} is gone (killed, out of memory?)", code=code)
        if now_s - self._answered_s > patience_s:
            return End(rank=0, reason=f"{meeting.host} has not answered for {patience_s:.0f} s", code=code)
        silent = [rank for rank, (_, since_s) in list(self._seen.items()) if now_s - since_s > patience_s]
        if not silent:
            return None
        hint = " (killed, out of memory?)" if patience_s < self._lost_after_s else ""
        who = f"rank {silent[0]} has" if len(silent) == 1 else f"ranks {', '.join(map(str, silent))} have"
        return End(rank=silent[0], reason=f"{who} not been heard of for {patience_s:.0f} s{hint}", code=code)

    def _longest_hold_up_s(self) -> float:
        """Return the longest time in seconds for which this process did not run, such as while stopped."""
        return max(self._held_up_s, time.monotonic() - self._ticked_s)

    def _look_for(self, seconds: float, patience_s: float) -> End | None:
        until_s = time.monotonic() + seconds
        while (end := self._look(patience_s)) is None and time.monotonic() < until_s:
            time.sleep(BEAT_S / 10)
        return end

    def _find_lost(self, error: BaseException) -> End | None:
        """Return why a rank was lost, if that may have caused an error of this rank's main thread: through a broken
        connection, or through a launcher that ends all ranks. None if the error is this rank's own."""
        if not isinstance(error, Exception | KeyboardInterrupt):  # SIGTERM, as the command line raises it
            return self._look_for(_TERMINATED_FOR_S, _GONE_AFTER_S)
        if not isinstance(error, RuntimeError) or exit_code_of(error) is not None:
            return None
        return self._look_for(2 * SILENT_AFTER_S, SILENT_AFTER_S)

    def _describe(self, error: BaseException) -> End:
        """Return the reason for all ranks to end, made from an error in this rank's main thread that no other rank
        caused."""
        rank, code = self._meeting.rank, exit_code_of(error)
        if code is not None:
            return End(rank=rank, reason=f"rank {rank}: {compose_message(error)}", code=code)
        if not isinstance(error, Exception):
            return self._describe_signal(signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
        words = (str(error) or "no message").splitlines()[0]
        reason = f"rank {rank}: internal error: {type(error).__name__}: {words}"
        return End(rank=rank, reason=reason, code=ExitCode.INTERNAL_ERROR)

    def _describe_signal(self, number: int) -> End:
        kind, rank = signal.Signals(number), self._meeting.rank
        return End(rank=rank, reason=f"rank {rank} was ended by {kind.name}", code=_SIGNALS[kind])

    def _conclude(self, own: End, *, publishes: bool) -> End:
        """Agree with the other ranks on one reason to end, record it, and publish it. A second thread that calls this
        waits forever, since the process is about to end."""
        self._concluding.acquire()
        end = own
        if publishes:
            end = self._within(_GONE_AFTER_S, lambda: self._publish(own)) or own
        if self.on_end is not None:
            self.on_end(end.reason, end.code)
        # Rank 0 may be stopped, or wait for this rank's note: do not wait long for a blocked rank.
        self._within(_GONE_AFTER_S if end.rank == 0 != self._meeting.rank else _SETTLE_S, lambda: self._settle(end))
        return end

    def _publish(self, own: End) -> End:
        return End(**json.loads(self._meeting.first_note("end", json.dumps(asdict(own)))))

    def _settle(self, end: End) -> None:
        """Wait until rank 0 has recorded the reason to end and, on the host of the ranks' key-value store, until all
        other ranks have read the reason."""
        meeting = self._meeting
        if meeting.rank != 0 and end.rank != 0:
            self._wait_for(["ended/0"], _SETTLE_S)
        meeting.note(f"ended/{meeting.rank}", "1")
        if meeting.is_host:
            self._wait_for([f"ended/{rank}" for rank in self._seen if rank != end.rank], _SETTLE_S)

    def _wait_for(self, keys: list[str], seconds: float) -> None:
        """Wait, for `seconds` at most, until the ranks' key-value store has all of these keys."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and not all(self._meeting.read_note(key) for key in keys):
            time.sleep(BEAT_S / 10)

    @staticmethod
    def _within(seconds: float, call: Callable[[], End | None]) -> End | None:
        """Return the result of a call to the ranks' shared store; None when the store's host is gone or does not
        answer."""
        with contextlib.suppress(RuntimeError, TimeoutError):
            return call_within(seconds, call)
        return None
