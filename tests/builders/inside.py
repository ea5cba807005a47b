"""The command line and its workers inside the test's own process: nothing is started, nothing is imported again.

For tests of what a command says and leaves. What a process of its own is for (signals, streams, a kill, the current
folder's files) is tested with the fixture `dlrmbench`.
"""

import contextlib
import io
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from observed import leave_observation

from harness.cli import main
from harness.launch.process import STDERR_FILE, WorkerEnd, launch_worker, read_last_words
from harness.measure.job import explain_and_end, measure, read_job
from reference_models.process.world import SingleProcess


@contextlib.contextmanager
def _as_it_was() -> Iterator[None]:
    """What a command changes for the rest of its process is changed back."""
    environment, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        os.environ.clear()
        os.environ.update(environment)


def run_inside(folder: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run the command line with `folder` as the current one; output is text, the exit code is not checked."""
    words = [str(argument) for argument in arguments]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with _as_it_was(), contextlib.chdir(folder), streams[0], streams[1], pytest.raises(SystemExit) as leaving:
        main(words)
    code = leaving.value.code
    assert isinstance(code, int)
    said = (stream.buffer.getvalue().decode("utf-8") for stream in (out, err))  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(words, code, *said)


def work_inside(
    spec_path: Path, *, on_event: Callable[[Mapping[str, Any]], None] = lambda event: None, **options: object
) -> WorkerEnd:
    """Do a job as `launch_worker` has it done, without a process."""
    words = io.StringIO()
    with contextlib.redirect_stderr(words):
        code = explain_and_end(lambda: measure(*read_job(spec_path), SingleProcess(), on_event))
    leave_observation(spec_path.parent)
    path = spec_path.parent / STDERR_FILE
    path.write_text(words.getvalue(), encoding="utf-8")
    frames, last = read_last_words(path)
    return WorkerEnd(exit_code=code, last_words=last, own_frames=frames)


def use_workers_inside(monkeypatch: pytest.MonkeyPatch, *, num_real: int = 0) -> None:
    """In place of the processes of a set, but for the first `num_real`."""
    left = iter(range(num_real))

    def launch(spec_path: Path, **options: Any) -> WorkerEnd:
        return work_inside(spec_path, **options) if next(left, None) is None else launch_worker(spec_path, **options)

    monkeypatch.setattr("harness.experiment.executors.launch_worker", launch)
    monkeypatch.setattr("harness.autotune.id_maps.launch_worker", work_inside)


def use_study_workers_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the process that a study is measured in."""
    monkeypatch.setattr("harness.experiment.study.launch_worker", work_inside)


def use_short_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ceilings are of few bytes and repeated least, for tests that do not ask how near to them a step comes."""

    def shortly(call: Callable[[], object], device: Any, *, budget_s: float, at_least: int = 2) -> list[float]:
        return repeat(call, device, budget_s=0, at_least=at_least)

    from harness.measure.profile import measure_ceilings
    from harness.measure.profile.measure_ceilings import repeat

    monkeypatch.setattr(measure_ceilings, "repeat", shortly)
    monkeypatch.setattr(measure_ceilings, "SQUARE_SIZES", {"cpu": (128, 256)})
    monkeypatch.setattr(measure_ceilings, "COPY_BYTES", measure_ceilings.COPY_BYTES[:3])
