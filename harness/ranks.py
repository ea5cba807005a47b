"""Starting the ranks of one run with torchrun's launcher, and telling the parent which one failed first.

Started as `python -m harness.ranks NUM_RANKS SPEC.json`.
"""

import json
import signal
import sys
from datetime import UTC, datetime
from uuid import uuid4

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from harness.errors import ExitCode


def main(num_ranks: int, spec_path: str) -> int:
    """Run all ranks on this machine. Exit code 0 when all ended well, else that of the rank to blame."""
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
    )
    try:
        elastic_launch(config, sys.executable)("-m", "harness.rank", spec_path)
    except ChildFailedError as error:
        rank, failure = min(error.failures.items(), key=lambda item: _blame(item[1]))
        sys.stdout.write(
            json.dumps(
                {
                    "event": "rank_failed",
                    "rank": failure.local_rank if rank is None else rank,
                    "exit_code": failure.exitcode,
                    "time_utc": datetime.fromtimestamp(failure.timestamp, UTC).isoformat(),
                }
            )
            + "\n"
        )
        sys.stdout.flush()
        return failure.exitcode if failure.exitcode > 0 else ExitCode.INTERNAL_ERROR
    return ExitCode.DONE


def _blame(failure: ProcessFailure) -> tuple[int, float]:
    """A rank that was killed comes before one that gave a reason, and that before those that lost the others."""
    if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM:
        order = 0
    elif failure.exitcode > ExitCode.INTERNAL_ERROR:
        order = 1
    else:
        order = 2 if failure.exitcode > 0 else 3
    return order, failure.timestamp


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
