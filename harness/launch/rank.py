"""Run one rank of a job of several ranks, of any kind of measurement: from the rendezvous to the job's end.

Started by `harness.launch.torchrun` as `python -m harness.launch.rank SPEC.json`, once per rank. Rank 0 writes the
log and the record; every rank's stderr goes to its own file in the job's folder.
"""

import os
import signal
import sys
import traceback
from pathlib import Path

from harness.foundation.errors import ExitCode, end_process
from harness.launch.consistency import agree
from harness.launch.heartbeat import Heartbeat
from harness.measure.job import explain_and_end, measure, read_job, send_to_parent, watch_parent
from harness.system.code import describe_code
from reference_models.distributed.process_group import join
from reference_models.distributed.rendezvous import rendezvous
from reference_models.training.devices import describe_gpu

COLLECTIVE_TIMEOUT_S = 300.0
"""Time limit in seconds of one collective call between ranks. It applies when a rank does not join the call but still
sends its heartbeat."""


def stderr_path(folder: Path, rank: int) -> Path:
    return folder / f"stderr_rank_{rank}.txt"


def run_rank(spec_path: Path) -> None:
    """Join the other ranks, check that all have the same job, and do that job together."""
    kind, job = read_job(spec_path)
    _, config = job.parse()
    runtime = config.runtime
    describe_code()
    num_ranks = kind.num_ranks(job)
    device = kind.rank_device(runtime, num_ranks)
    meeting = rendezvous(num_ranks=num_ranks, gpu=describe_gpu(device))
    with Heartbeat(meeting):
        world = join(meeting, device, COLLECTIVE_TIMEOUT_S)
        agree(world, job, config)
        measure(kind, job, world, send_to_parent)
        world.barrier()
    world.leave()


def main(spec_path: str) -> int:
    """Do this rank's part of the job and return the exit code; its stderr, and an error in one line, go to the rank's
    own file."""
    # The main thread may wait inside a collective call, where no Python handler runs: end at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    path = Path(spec_path)
    with stderr_path(path.parent, int(os.environ["RANK"])).open("wb") as stderr:
        os.dup2(stderr.fileno(), 2)
    watch_parent()
    try:
        return explain_and_end(lambda: run_rank(path))
    except BaseException:
        # At Python's normal exit torch's threads may abort the process when another rank is gone.
        traceback.print_exc()
        return ExitCode.INTERNAL_ERROR


if __name__ == "__main__":
    end_process(main(sys.argv[1]))
