"""Launch one worker process and follow it until it ends."""

import getpass
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, Self

from harness.foundation.errors import ExitCode, is_starved
from harness.launch import timekeeper
from harness.launch.deadline import Deadline
from harness.launch.slots import Slot, stop_process
from harness.measure.kinds import EVENT_MARK, OnEvent
from harness.system.code import other_path_variables, safe_path_variables
from harness.system.software import WORKER_VARIABLES
from reference_models.process.errors import OWN_FRAME
from rules.logs.text import printable

STDERR_FILE, STDOUT_FILE = "stderr.txt", "stdout.txt"
CLOCK_FILE = "clock.json"
_PRELOADS = ("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES")
"""Environment variables removed for the timekeeper process, since a preloaded library could falsify its clock; the
worker keeps them."""
_MAX_PRINTED_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """Python interpreter of another dlrmbench installation, which runs worker processes, and default environment
    variables for these workers."""

    python: str
    variables: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerEnd:
    """End of a worker process: its exit code and the last line of its stderr. If a signal killed the worker, the exit
    code is minus the signal's number.

    If the run was killed after its time limit, the exit code is TIMEOUT and `last_words` is the reason. If there were
    several ranks, `rank` is the rank to blame. `own_frames` are the traceback lines in the user's own code.
    """

    exit_code: int
    last_words: str
    rank: int | None = None
    own_frames: tuple[str, ...] = ()


def launch_worker(
    spec_path: Path,
    *,
    num_threads: int,
    on_event: OnEvent = lambda event: None,
    num_ranks: int = 1,
    interpreter: Interpreter | None = None,
    variables: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    slot: Slot | None = None,
) -> WorkerEnd:
    """Run the job in `spec_path` to its end, in one process or several ranks; return how the worker ended.

    A timekeeper process starts the worker and writes the observed times of a run to CLOCK_FILE beside the job's file.
    If `interpreter` is given, it runs the worker instead of this process's interpreter. `variables` were chosen for
    the job and override the environment. If `slot` is given, all processes stay on its cores and see its GPUs.

    The worker ends a run at its deadline, `timeout_s` seconds after the run began. If the worker hangs and does not
    do so, all of its processes are killed (see `Deadline`), and the exit code is 124. If an exception leaves this
    call, such as StopWork from another thread, the worker is stopped first.
    """
    several = ["harness.launch.torchrun", str(num_ranks), str(spec_path)]
    what = ["harness.measure.job", str(spec_path)] if num_ranks == 1 else several
    failed: Mapping[str, Any] | None = None
    stderr_path = spec_path.parent / STDERR_FILE
    if interpreter is None:
        python, environ = sys.executable, {**WORKER_VARIABLES, **os.environ, **safe_path_variables()}
    else:
        python, environ = interpreter.python, {**interpreter.variables, **other_path_variables(os.environ)}
    environ |= {
        "OMP_NUM_THREADS": str(num_threads),
        "MKL_NUM_THREADS": str(num_threads),
        "PYTHONUNBUFFERED": "1",
        **(variables or {}),
        **({} if slot is None else slot.variables),
    }
    with stderr_path.open("wb") as stderr, _PrintedFile(spec_path.parent / STDOUT_FILE) as printed:
        process = _start([python, "-P", "-m", *what], environ, stderr, spec_path, slot, is_marked=interpreter is None)
        deadline = Deadline(process.pid, timeout_s)
        try:
            assert process.stdout is not None
            with deadline, nullcontext() if slot is None else slot.stop.covering(process):
                for line in process.stdout:
                    said, event = _split_event(line, is_marked=interpreter is None)
                    if said:
                        printed.write(said)
                    if event is None or deadline.take(event["event"]):
                        continue
                    if event["event"] == "rank_failed":
                        failed = event
                    else:
                        on_event(event)
            exit_code = process.wait()
        except BaseException:
            stop_process(process)
            raise
        finally:
            remove_empty_cache(environ)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
    if deadline.reason is not None:
        return WorkerEnd(exit_code=ExitCode.TIMEOUT, last_words=deadline.reason)
    if failed is not None:
        rank = int(failed["rank"])
        frames, words = read_last_words(spec_path.parent / f"stderr_rank_{rank}.txt")
        return WorkerEnd(exit_code=int(failed["exit_code"]), last_words=words, rank=rank, own_frames=frames)
    frames, words = read_last_words(stderr_path)
    return WorkerEnd(exit_code=exit_code, last_words=words, own_frames=frames)


def _start(
    command: Sequence[str],
    environ: Mapping[str, str],
    stderr: IO[bytes],
    spec_path: Path,
    slot: Slot | None,
    *,
    is_marked: bool,
) -> "subprocess.Popen[bytes]":
    """Start the timekeeper process, which in turn starts `command`; return the timekeeper. The timekeeper passes on
    the command's input and output, and ends with the command's exit code."""
    asked = {
        "command": [_plain(word) for word in command],
        "environ": {_plain(name): _plain(value) for name, value in environ.items()},
        "record": str(spec_path.with_name(CLOCK_FILE).absolute()),
        "is_marked": is_marked,
    }
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", timekeeper.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={name: value for name, value in os.environ.items() if name not in _PRELOADS},
        start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends the worker
    )
    assert process.stdin is not None
    if slot is not None:
        try:
            slot.pin(process.pid)  # before it gets its command
        except BaseException:
            stop_process(process)
            raise
    with suppress(BrokenPipeError):  # the exit code tells more
        process.stdin.write(f"{json.dumps(asked)}\n".encode())
        process.stdin.flush()
    return process


def _plain(text: str) -> str:
    """Return a word of a command line or of the environment as text that JSON can hold. The word may be any bytes;
    each byte becomes one character."""
    return os.fsencode(text).decode("latin-1")


class _PrintedFile:
    """File for the printed output of the user's own code, created with the first output and limited in size."""

    def __init__(self, path: Path) -> None:
        self._path, self._left = path, _MAX_PRINTED_BYTES
        self._file: IO[bytes] | None = None
        path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, line: bytes) -> None:
        if self._file is None:
            self._file = self._path.open("wb")
        if self._left > 0:
            self._file.write(line[: self._left])
            self._left -= len(line)
            if self._left <= 0:
                self._file.write(b"\nMore was printed, and is not kept.\n")
            self._file.flush()


def remove_empty_cache(environ: Mapping[str, str]) -> None:
    """Remove torch's folder for compiled code where the folder is empty."""
    with suppress(OSError, KeyError):  # the folder is missing or not empty; or the user has no name
        if "TORCHINDUCTOR_CACHE_DIR" not in environ:
            user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())  # the name that torch uses
            (Path(tempfile.gettempdir()) / f"torchinductor_{user}").rmdir()


def _split_event(line: bytes, *, is_marked: bool) -> tuple[bytes, dict[str, Any] | None]:
    """Return a line of a worker's output in two parts: the text that the user's code or a library printed, and the
    event at the end of the line. The event is None if the line has none.

    `is_marked` says whether a mark precedes each event. Older versions of dlrmbench, which mark no events, print each
    event as a whole line.
    """
    said, mark, text = line.rpartition(EVENT_MARK.encode())
    if not mark and is_marked:
        return line, None
    try:
        event = json.loads(text)
    except ValueError:
        return line, None
    return (said, event) if isinstance(event, dict) and "event" in event else (line, None)


def read_last_words(stderr_path: Path) -> tuple[tuple[str, ...], str]:
    """Read the file with a worker's stderr; return the traceback lines of the user's own code (none if that code did
    not fail), and the last line."""
    if not stderr_path.exists():
        return (), ""
    *before, last = stderr_path.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [""]
    frames = [*takewhile(lambda line: line.startswith(OWN_FRAME), reversed(before))]
    return tuple(map(printable, reversed(frames))), last


def explain_end(end: WorkerEnd) -> tuple[str, ExitCode]:
    """Return the reason why a worker process ended early, and the exit code for it."""
    who = "the worker" if end.rank is None else f"rank {end.rank}"
    if end.exit_code < 0:
        try:
            name = signal.Signals(-end.exit_code).name
        except ValueError:
            name = f"signal {-end.exit_code}"
        return f"{who} was killed by {name} (out of memory?).", ExitCode.RESOURCES
    reason = end.last_words or f"{who} ended with exit code {end.exit_code}."
    if end.rank is not None and "rank" not in reason:
        reason = f"{who}: {reason}"
    if is_starved(reason):
        return reason, ExitCode.RESOURCES
    known = end.exit_code in set(ExitCode) and end.exit_code != ExitCode.DONE
    return reason, ExitCode(end.exit_code) if known else ExitCode.INTERNAL_ERROR
