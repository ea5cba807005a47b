"""Measure how fast logs are judged, beside the official compliance checker on the same files.

    python tests/performance/check.py [--logs N] [--share S] FOLDER

FOLDER holds published results, such as training_results_v5.0/NVIDIA. They are copied until there are about N logs
in one round's tree. Ours judges the whole tree (every rule, every level) in this process; the official checker
reads a share of the same logs in this process too, alternately with ours, with its output silenced. Printed are logs
per second of each, by the clock and by this process's CPU time (which a busy machine changes less), and the ratio of
their medians; then ours with all processors, by the clock.
"""

import argparse
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

from rules.judge.checker import check_paths
from rules.tree.inventory import find_result_sets

_TURNS = 5


class Rate(NamedTuple):
    """Logs per second."""

    by_clock: float
    by_cpu: float


def rate(num_logs: int, judge: Callable[[], object]) -> Rate:
    clock_s, cpu_s = time.perf_counter(), time.process_time()
    judge()
    return Rate(num_logs / (time.perf_counter() - clock_s), num_logs / (time.process_time() - cpu_s))


def copy_round(folder: Path, num_logs: int, target: Path) -> list[Path]:
    """Copies of the submissions at or below a folder, side by side, until there are enough logs."""
    organizations = sorted({one.folder.parents[2] for one in find_result_sets(folder)})
    per_copy = sum(len(one.logs) for one in find_result_sets(folder))
    for index in range(max(1, round(num_logs / per_copy))):
        for organization in organizations:
            shutil.copytree(organization, target / f"{organization.name}-{index}")
    return [log for one in find_result_sets(target) for log in one.logs]


def judge_ours(target: Path, num_processes: int) -> None:
    check_paths([target], second_opinion=False, num_processes=num_processes)


def judge_official(logs: list[Path], ruleset: str) -> None:
    from mlperf_logging.compliance_checker import mlp_compliance

    logging.disable(logging.CRITICAL)
    for log in logs:
        mlp_compliance.enqueued_configs.clear()
        checker = mlp_compliance.make_checker("training", ruleset, True, False)
        mlp_compliance.main(str(log), f"training_{ruleset}/common.yaml", checker)
    logging.disable(logging.NOTSET)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--logs", type=int, default=1000)
    arguments.add_argument("--share", type=float, default=0.1, help="of the logs that the official checker reads")
    arguments.add_argument("--ruleset", default="5.1.0")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "training_results_v5.1"
        logs = copy_round(options.folder, options.logs, target)
        size = sum(log.stat().st_size for log in logs)
        shown = logs[:: max(1, round(1 / options.share))]
        print(f"{len(logs)} logs, {size / len(logs) / 1024:.1f} KiB each on average; official: {len(shown)} of them")
        judge_official(shown[:2], options.ruleset)
        ours, theirs = [], []
        for _ in range(_TURNS):
            ours.append(rate(len(logs), lambda: judge_ours(target, 1)))
            theirs.append(rate(len(shown), lambda: judge_official(shown, options.ruleset)))
        _compare("by the clock", [one.by_clock for one in ours], [one.by_clock for one in theirs])
        _compare("by CPU time", [one.by_cpu for one in ours], [one.by_cpu for one in theirs])
        num_processes = len(os.sched_getaffinity(0))
        many = [rate(len(logs), lambda: judge_ours(target, num_processes)).by_clock for _ in range(3)]
        print(f"ours with {num_processes} processes, by the clock: {median(many):,.0f} logs/s")
    return 0


def _compare(what: str, ours: list[float], theirs: list[float]) -> None:
    print(
        f"{what}: ours {median(ours):,.0f} logs/s ({min(ours):,.0f} to {max(ours):,.0f}), "
        f"official compliance checker {median(theirs):,.1f} logs/s ({min(theirs):,.1f} to {max(theirs):,.1f}): ratio "
        f"{median(ours) / median(theirs):.1f} (one process each, median of {_TURNS} turns)"
    )


if __name__ == "__main__":
    sys.exit(main())
