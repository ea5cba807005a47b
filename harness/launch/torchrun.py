"""Start the ranks of one job with torchrun's launcher, and report to the parent which rank failed first.

Started as `python -m harness.launch.torchrun NUM_RANKS SPEC.json`; each rank is `harness.launch.rank SPEC.json`.
"""

import os
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeVar
from uuid import uuid4

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from harness.foundation.errors import ExitCode, end_process
from harness.measure.job import send_to_parent

T = TypeVar("T")
_LAUNCHER_KILLS_AFTER_S = 25
"""Seconds after a job's first failure: a rank that is killed later than this counts as killed by torchrun's agent,
not as a cause of the failure. When one rank fails, the agent asks the other ranks to end. After 30 s it kills those
that have not ended."""


def main(num_ranks: int, spec_path: str) -> int:
    """Run all ranks of a job on this machine. Return 0 if all ranks ended well, else the exit code of the rank to
    blame."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_ranks,
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.1,
        start_method="spawn",
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),  # the default leaves a folder in /tmp
    )
    try:
        elastic_launch(config, sys.executable)("-P", "-m", "harness.launch.rank", spec_path)
    except ChildFailedError as error:
        rank, failure = find_culprit(error.failures)
        send_to_parent(
            {
                "event": "rank_failed",
                "rank": failure.local_rank if rank is None else rank,
                "exit_code": failure.exitcode,
                "time_utc": datetime.fromtimestamp(failure.timestamp, UTC).isoformat(),
            }
        )
        return failure.exitcode if failure.exitcode > 0 else ExitCode.INTERNAL_ERROR
    return ExitCode.DONE


def find_culprit(failures: Mapping[T, ProcessFailure]) -> tuple[T, ProcessFailure]:
    """Return the rank to blame for a failure. Killed ranks come first, then ranks that gave a reason, then ranks that
    lost another rank; ranks that the launcher itself ended come last."""
    first_s = min(failure.timestamp for failure in failures.values())

    def order(failure: ProcessFailure) -> tuple[int, float]:
        by_launcher = failure.timestamp - first_s > _LAUNCHER_KILLS_AFTER_S
        if failure.exitcode == -signal.SIGTERM or (failure.exitcode < 0 and by_launcher):
            place = 3
        elif failure.exitcode < 0:
            place = 0
        else:
            place = 1 if failure.exitcode > ExitCode.INTERNAL_ERROR else 2
        return place, failure.timestamp

    return min(failures.items(), key=lambda item: order(item[1]))


if __name__ == "__main__":
    end_process(main(int(sys.argv[1]), sys.argv[2]))
