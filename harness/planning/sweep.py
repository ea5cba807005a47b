"""List the configurations of a sweep, for `sweep --dry-run`, with the estimated time of each; run nothing."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.autotune.precision import read_precision
from harness.autotune.tuning import to_be_timed
from harness.config.run_config import RunConfig
from harness.config.synthetic import hold_in_memory
from harness.foundation.study import make_study, make_table
from harness.measure.kinds import Kind, Work
from harness.planning.plan import TimeEstimate, estimate_time, read_sizes
from reference_models.data.registry import locate_dataset
from reports.statistics.intervals import MIN_RUNS
from reports.text.formatting import plural, rough_duration
from rules.records.study import Parameter, StudyRecord

_CHOICE_S = 3.0
"""Seconds that autotuning takes to time threads and kernels of a small model, without the start of its two
processes."""


def plan_sweep(
    kind: Kind,
    options: Mapping[str, int],
    configs: Sequence[tuple[str, RunConfig]],
    num_runs: int,
    data_root: Path | None,
    *,
    is_autotuned: bool,
) -> StudyRecord:
    """Return a table of a sweep's configurations with the modelled time of one process each, and the time of the
    whole sweep."""
    configs = [(label, read_precision(config, data_root)[0]) for label, config in configs]
    start_s = measure_start_s()
    times = [estimate_process(kind, options, config, data_root) for _, config in configs]
    known = [estimate.run_s for estimate in times if estimate is not None]
    num_choices = _count_choices(configs, data_root) if is_autotuned else 0
    total_s = num_runs * (len(times) * start_s + sum(known)) + num_choices * (2 * start_s + _CHOICE_S)
    bound = ", if no run meets its target earlier" if kind.ends_early else ""
    missing = len(times) - len(known)
    unknown = f"; of {plural(missing, 'configuration')} only the start is counted" if missing else ""
    processes = plural(len(configs) * num_runs, "process", "processes")
    few = f"A verdict needs at least {MIN_RUNS} runs of each configuration; {num_runs} give none."
    shapes = plural(num_choices, "shape")
    return make_study(
        "sweep",
        f"{plural(len(configs), 'configuration')} of {configs[0][1].benchmark.name}, {plural(num_runs, 'run')} each",
        configs[0][1].benchmark,
        findings=(
            f"About {rough_duration(total_s)} in all{bound}: {processes}{unknown}.",
            *([f"This includes timing threads, and products or workers, for {shapes}."] if num_choices else []),
            *([few] if num_runs < MIN_RUNS else []),
        ),
        parameters=(
            Parameter(name="start of a process", value=start_s, unit="s", source="measured", note="imports torch"),
        ),
        tables=(
            make_table(
                "Time of one process of each configuration, without its start",
                (("Configuration", None, "given"), ("Time", "s", "modelled"), ("From", None, "given")),
                [
                    (label, estimate.run_s if estimate else None, estimate.method if estimate else None)
                    for (label, _), estimate in zip(configs, times, strict=True)
                ],
            ),
        ),
    )


def estimate_process(
    kind: Kind, options: Mapping[str, int], config: RunConfig, data_root: Path | None
) -> TimeEstimate | None:
    """Return the estimated time of one process of a measurement, from a few steps that are timed now; None for
    several ranks, for GPUs, and for data of unknown size."""
    runtime, work = config.workload.runtime, _work(kind, options, config, data_root)
    if work is None or runtime.ranks > 1 or runtime.device != "cpu":
        return None
    data_dir = locate_dataset(config.workload.data, data_root)
    sizes, _ = read_sizes(hold_in_memory(config.workload, work.num_steps).data, data_dir)
    return None if sizes is None else estimate_time(config, sizes[2], work, data_dir)


def _count_choices(configs: Sequence[tuple[str, RunConfig]], data_root: Path | None) -> int:
    """Return how often autotuning must time threads (and perhaps kernels or workers) before the first run of a sweep:
    once for each model shape for which no earlier run set has made this choice."""
    keys = set[str]()
    for _, config in configs:
        candidates = to_be_timed(config, locate_dataset(config.workload.data, data_root))
        keys |= set() if candidates is None else {candidates.key}
    return len(keys)


def _work(kind: Kind, options: Mapping[str, int], config: RunConfig, data_root: Path | None) -> Work | None:
    """Return the steps and evaluations of one process of the measurement `kind`; None where they are not known."""
    sizes, _ = read_sizes(config.workload.data, locate_dataset(config.workload.data, data_root))
    return kind.work(options, config, None if sizes is None else sizes[:2])


def measure_start_s() -> float:
    """Return the measured seconds of a fresh process's start: Python with torch imported."""
    started_s = time.monotonic()
    subprocess.run([sys.executable, "-P", "-c", "import torch"], check=False, capture_output=True)
    return time.monotonic() - started_s
