"""Command lines that are killed at one of their writes, as `kill -9` would, and what is left of them in the end."""

import builtins
import io
import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from scripted_commands import Ended, run_scripted_command
from scripted_workers import Moment, ScriptedWorkers

_WRITES = ("rename", "replace", "mkdir", "fsync", "unlink", "rmdir", "symlink", "remove")
_LOADS = re.compile(r',?\s*"loads": \[[^\]]*\]')
_TIMES = (
    (re.compile(r"\d{8}T\d{6}Z(-\d+)?"), "MOMENT"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00"), "TIME"),
    (re.compile(r'"time_ms": \d+'), '"time_ms": 0'),
    (re.compile(r'"(log_sha256|previous_sha256)": "\w+"'), r'"\1": "DIGEST"'),
    (re.compile(r'"(run_start_ms|run_stop_ms)": \d+'), r'"\1": 0'),
    (re.compile(r"\A[0-9a-f]{64}\n\Z"), "DIGEST"),
    (re.compile(r'"attempt": \d+'), '"attempt": 0'),
)


class Writes:
    """Counts what changes the disk; kills this process instead of doing number `kill_at`, counted from 0."""

    def __init__(self, kill_at: int | None) -> None:
        self.number, self._kill_at, self._is_another = 0, kill_at, False

    def on_work(self, is_working: bool) -> None:
        """Leave out what a worker writes, which is a process of its own."""
        self._is_another = is_working

    def count(self) -> None:
        if not self._is_another:
            if self.number == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            self.number += 1

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **options: Any) -> Any:
            self.count()
            return function(*values, **options)

        return call

    def opening(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: Any, mode: str = "r", *values: Any, **options: Any) -> Any:
            if set(mode) & set("wxa+"):
                self.count()
            return function(file, mode, *values, **options)

        return call


def run_counted(words: str, folder: Path, kill_at: int | None = None, passed_s: float = 0.0) -> tuple[Ended, int]:
    """Run a command line; how it ended, and how many times it wrote."""
    writes = Writes(kill_at)
    workers = ScriptedWorkers(Moment(passed_s), num_evals=1, on_work=writes.on_work)
    with ExitStack() as held:
        for name in _WRITES:
            held.enter_context(patch.object(os, name, writes.counting(getattr(os, name))))
        for module in (io, builtins):
            held.enter_context(patch.object(module, "open", writes.opening(module.open)))
        ended = run_scripted_command(words.split(), folder, workers)
    return ended, writes.number


def run_killed(words: str, folder: Path, kill_at: int, passed_s: float = 0.0) -> bool:
    """Run a command line in a process that is killed at that write; False where it ends before."""
    child = os.fork()
    if child == 0:
        try:
            run_counted(words, folder, kill_at, passed_s)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def state(folder: Path, place: Path) -> dict[str, str]:
    """Every file of a set, a sweep or a pair with its content; times, loads, which are lost with who watched them,
    `place` and attempts that failed aside."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if path.name == "lock" or path.name.endswith(".partial") or _has_later(path):
            continue
        name = _TIMES[0][0].sub("MOMENT", re.sub(r"attempt_\d+", "attempt", name))
        text = "" if path.suffix == ".html" else path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".json":
            text = json.dumps(json.loads(text), indent=1)
        text = _LOADS.sub("", text.replace(str(place.resolve()), "PLACE"))
        for pattern, word in _TIMES:
            text = pattern.sub(word, text)
        found[name] = re.sub(r"attempt_\d+", "attempt", text)
    return found


def _has_later(path: Path) -> bool:
    """Whether a file is of an attempt after which there was another."""
    attempt = next((part for part in path.parents if part.name.startswith("attempt_")), None)
    return attempt is not None and attempt != max(
        attempt.parent.glob("attempt_*"), key=lambda folder: int(folder.name.removeprefix("attempt_"))
    )
