"""Measure the time that the harness itself takes: between run_start and run_stop, and before and after.

python tests/performance/overhead.py [BENCHMARK] [--threads N] [--runs N] [--data FOLDER]

Inside: one process makes the run as a worker does, log and progress included (the parent's display too, which is
another process's work otherwise); what is neither training nor evaluating is the harness. Outside: `dlrmbench run` is
started for one run, and its whole time less that between run_start and run_stop is starting, checking, building the
model and writing results. A further run of a set costs its process: nearly all of that is importing torch.
"""

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from jobs import run_as_a_worker

from harness.config.catalog import Entry, load_entry
from harness.measure.clock import Clock
from harness.measure.job import send_to_parent
from harness.measure.run_log import RunLogWriter
from harness.measure.training import Monitor, run_once
from harness.run_sets.dataset import ensure_dataset
from harness.run_sets.progress import RunProgress
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
from reference_models.training.workload import TrainCounts


class Timed:
    """A workload that adds up what its training and evaluating take."""

    def __init__(self, workload: Any) -> None:
        self._workload, self.seconds = workload, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workload, name)

    def train(self, num_steps: int) -> TrainCounts:
        return self._timed(lambda: self._workload.train(num_steps))

    def evaluate(self) -> float:
        return self._timed(self._workload.evaluate)

    def _timed(self, work: Callable[[], Any]) -> Any:
        start_s = time.perf_counter()
        try:
            return work()
        finally:
            self.seconds += time.perf_counter() - start_s


def share_inside(entry: Entry, folder: Path, log_path: Path, seed: int) -> tuple[float, float]:
    """Share of the time from run_start to run_stop that is the harness's, and that time in seconds."""
    workload = Timed(
        find_implementation("dlrm", entry.workload.runtime.implementation).load(
            entry.workload.spec(folder, seed), SingleProcess()
        )
    )
    quality = entry.benchmark.quality

    def on_event(event: Mapping[str, Any]) -> None:
        send_to_parent(event)
        progress.on_event(event)

    clock = Clock()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        progress = RunProgress("run 1", quality, quiet=False)
        monitor = Monitor(clock, None, on_event=on_event)
        monitor.send("start", run_index=0, train_samples=entry.workload.data.train_samples)
        run_once(workload, entry.benchmark, {}, RunLogWriter(log_path, clock), clock, monitor)
    run_s = measured_s(log_path)
    return 1 - workload.seconds / run_s, run_s


def measured_s(log_path: Path) -> float:
    """From run_start to run_stop, by the log (milliseconds)."""
    times_ms = stamps_ms(log_path)
    return (times_ms["run_stop"] - times_ms["run_start"]) / 1000


def stamps_ms(log_path: Path) -> dict[str, int]:
    """The moment of each key's last line."""
    records = [json.loads(line.removeprefix(":::MLLOG ")) for line in log_path.read_text().splitlines()]
    return {record["key"]: record["time_ms"] for record in records}


def outside_s(name: str, data_root: Path, output: Path, threads: int, num_runs: int) -> tuple[float, list[float]]:
    """Seconds of `dlrmbench run` less those between run_start and run_stop: of the whole set, of each further run.

    A further run is from one init_start to the next.
    """
    command = [sys.executable, "-m", "harness", "run", name, "-n", str(num_runs), "--threads", str(threads)]
    start_s = time.perf_counter()
    done = subprocess.run([*command, "--data", str(data_root), "-o", str(output)], capture_output=True, text=True)
    whole_s = time.perf_counter() - start_s
    if done.returncode:
        sys.exit(f"dlrmbench run ended with exit code {done.returncode}:\n{done.stderr}")
    logs = sorted(output.rglob("result_*.txt"), key=lambda path: stamps_ms(path)["init_start"])
    begins_ms = [stamps_ms(path)["init_start"] for path in logs]
    trained_s = list(map(measured_s, logs))
    steps = zip(pairwise(begins_ms), trained_s, strict=False)
    return whole_s - sum(trained_s), [(after - before) / 1000 - took_s for (before, after), took_s in steps]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", nargs="?", default="dlrm_tiny")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", type=Path, help="where datasets lie; by default one is generated and dropped")
    options = parser.parse_args()
    run_as_a_worker()
    torch.set_num_threads(options.threads)
    entry = load_entry(options.benchmark)
    with tempfile.TemporaryDirectory() as scratch:
        data_root = options.data or Path(scratch)
        folder = ensure_dataset(entry.workload.data, data_root, num_threads=options.threads)
        inside = [share_inside(entry, folder, Path(scratch, f"{i}.txt"), i) for i in range(options.runs)]
        outside, _ = outside_s(options.benchmark, data_root, Path(scratch, "one"), options.threads, 1)
        num_runs = 1 + options.runs
        _, further = outside_s(options.benchmark, data_root, Path(scratch, "several"), options.threads, num_runs)
    run_s = statistics.median(seconds for _, seconds in inside)
    print(f"{options.benchmark}, {options.threads} threads; measured, medians of {options.runs} runs")
    print(
        f"  between run_start and run_stop: {run_s:.2f} s, the harness's share "
        f"{statistics.median(share for share, _ in inside):.2%} (bound: 1 %)"
    )
    print(f"  before and after, for a set of one run: {outside:.2f} s")
    print(f"  a further run, besides its training: {statistics.median(further):.2f} s (best {min(further):.2f})")


if __name__ == "__main__":
    main()
