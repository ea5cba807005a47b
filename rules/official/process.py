"""Run the process in which the official checkers answer questions (the worker). It has limits and a clean
environment, and every question gets an answer.

If the worker dies or stalls over a question, the answer to that question is the reason why, and a new worker gets the
remaining questions.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Job = dict[str, Any]
ANSWER_TIMEOUT_S = 60.0
MEMORY_BYTES = 2 << 30
FILE_BYTES = 128 << 20
MAX_WORKERS = 20
_READ_BYTES = 1 << 16
_REASON_CHARS = 400


@dataclass(frozen=True, slots=True)
class Answer:
    """Outcome of one request to an official checker, which runs in a worker process: the checker's answer or, if the
    worker process ended before it answered, the way in which it ended."""

    outcome: str
    messages: tuple[str, ...]
    factor: float | None = None


@dataclass(slots=True)
class _Talk:
    """State of the exchange with one worker process: the answers so far, the id of the question being answered, and
    the reason why the exchange ended."""

    answers: dict[int, Answer]
    current: int | None = None
    ending: Literal["ended", "answer", "all"] = "ended"


def run_worker(
    worker: Path, jobs: Sequence[Job], folder: str, timeout_s: float, on_answer: Callable[[], None]
) -> dict[int, Answer]:
    """Return the official checkers' answers: a dict from the id of each question in `jobs` to its answer. The worker
    gets `timeout_s` seconds for all questions; `on_answer` is called for each answer."""
    deadline = time.monotonic() + timeout_s
    answers: dict[int, Answer] = {}
    waiting = list(jobs)
    for _ in range(MAX_WORKERS):
        if not waiting:
            return answers
        talk, reason = _run_once(worker, waiting, folder, deadline, on_answer)
        answers |= talk.answers
        waiting = [job for job in waiting if job["id"] not in answers]
        if talk.ending == "all":
            return answers | {job["id"]: Answer("timeout", (f"stopped after {timeout_s:g} s",)) for job in waiting}
        ended = Answer("timeout" if talk.ending == "answer" else "crashed", (reason,))
        if talk.current is None:  # it ended before its first question, and so would another one
            return answers | {job["id"]: ended for job in waiting}
        if talk.current not in answers:
            answers[talk.current] = ended
            waiting = [job for job in waiting if job["id"] != talk.current]
    given_up = Answer("not asked", (f"its process died {MAX_WORKERS} times on other questions",))
    return answers | {job["id"]: given_up for job in waiting}


def _run_once(
    worker: Path, jobs: Sequence[Job], folder: str, deadline: float, on_answer: Callable[[], None]
) -> tuple[_Talk, str]:
    request, cpu_s = Path(folder, ".request"), max(1, int(deadline - time.monotonic()) + 1)
    limits = {"parent": os.getpid(), "memory_bytes": MEMORY_BYTES, "file_bytes": FILE_BYTES, "cpu_s": cpu_s}
    request.write_text(json.dumps({"jobs": list(jobs), **limits}), encoding="utf-8")
    environment = {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": folder,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    errors = Path(folder, ".errors")
    with request.open("rb") as asking, errors.open("wb") as complaining:
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(worker)],
            stdin=asking,
            stdout=subprocess.PIPE,
            stderr=complaining,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            talk = _listen(process, deadline, on_answer)
        finally:
            _kill(process)
    if talk.ending == "answer":
        return talk, f"no answer within {ANSWER_TIMEOUT_S:g} s"
    code = process.returncode
    how = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
    return talk, _last_line(errors) or f"its process ended with {how}"


def _listen(process: "subprocess.Popen[bytes]", deadline: float, on_answer: Callable[[], None]) -> _Talk:
    """Read answers from a worker process until it closes its output, keeps silent for too long, or the time
    `deadline` has passed."""
    assert process.stdout is not None
    talk = _Talk(answers={})
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                talk.ending = "all"
                return talk
            if not selector.select(min(left_s, ANSWER_TIMEOUT_S)):
                talk.ending = "answer" if left_s > ANSWER_TIMEOUT_S else "all"
                return talk
            chunk = os.read(process.stdout.fileno(), _READ_BYTES)
            if not chunk:
                return talk
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                num_before = len(talk.answers)
                _take(line, talk)
                if len(talk.answers) > num_before:
                    on_answer()


def _take(line: bytes, talk: _Talk) -> None:
    try:
        said = json.loads(line)
        if "started" in said:
            talk.current = int(said["started"])
        else:
            talk.answers[int(said["ended"])] = Answer(said["outcome"], tuple(said["messages"]), said["factor"])
    except (ValueError, KeyError, TypeError):
        return


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End the worker process, and whatever processes it may have started, where it has not ended by itself; and wait
    for its end."""
    assert process.stdout is not None
    process.stdout.close()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _last_line(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _READ_BYTES))
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:_REASON_CHARS] if lines else ""
