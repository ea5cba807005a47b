"""The child of a measurement of throughput on several ranks: one rank.

Started by `harness.launch.torchrun` as `python -m harness.launch.throughput_rank SPEC.json`, once per rank; rank 0
answers.
"""

import sys
from pathlib import Path

from harness.config.catalog import parse_workload
from harness.foundation.files import read_json
from harness.launch.heartbeat import Heartbeat
from harness.launch.rank import COLLECTIVE_TIMEOUT_S, be_rank, end_process
from harness.run_sets.throughput import ThroughputSpec, answer, measure
from reference_models.distributed.process_group import join
from reference_models.distributed.rendezvous import meet
from rules.benchmarks.loader import parse_benchmark


def measure_rank(spec: ThroughputSpec) -> None:
    """Meet the other ranks, which read the same spec on the same machine, and measure with them."""
    benchmark = parse_benchmark(spec.tables, Path(spec.definition_path))
    runtime = parse_workload(benchmark, benchmark.sections).runtime
    meeting = meet(num_ranks=runtime.ranks)
    with Heartbeat(meeting):
        world = join(meeting, runtime.device.partition(":")[0], COLLECTIVE_TIMEOUT_S)
        measured = measure(spec, world)
        world.barrier()
    world.leave()
    if world.rank == 0:
        answer(measured)


if __name__ == "__main__":
    end_process(be_rank(sys.argv[1], lambda path: measure_rank(ThroughputSpec(**read_json(path)))))
