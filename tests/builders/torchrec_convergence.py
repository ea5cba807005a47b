"""One launch of several ranks that trains dlrm_tiny to its target once per seed, so that imports are paid once.

Run by torchrun: `torchrec_convergence.py CASE.json OUT.json`. The case holds `data_dir`, `seeds` and `runtime`
values; rank 0 writes, for each seed, the qualities of all evaluations up to the one that met the target.
"""

import json
import logging
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
from waiting import HANG_S  # noqa: E402

from harness.config.catalog import load_entry  # noqa: E402
from harness.foundation.errors import end_process  # noqa: E402
from harness.measure.run_log import make_schedule  # noqa: E402
from reference_models.distributed.process_group import join  # noqa: E402
from reference_models.distributed.rendezvous import rendezvous  # noqa: E402
from reference_models.process.world import World  # noqa: E402
from reference_models.registry import find_implementation  # noqa: E402


def train_to_target(world: World, data_dir: Path, seed: int, runtime: dict[str, Any]) -> list[tuple[int, float]]:
    """Samples trained and quality at every evaluation; the last one met the target, where any did."""
    entry = load_entry("dlrm_tiny")
    spec = entry.workload.spec(data_dir, seed)
    chosen = {"implementation": "torchrec", "ranks": world.size, "threads": 1, **runtime}
    workload = find_implementation("dlrm", "torchrec").load(
        replace(spec, runtime=replace(spec.runtime, **chosen)), world
    )
    workload.build()
    qualities = []
    for block in make_schedule(entry.benchmark, workload.train_samples, workload.global_batch_size):
        workload.train(block.num_steps)
        quality = workload.evaluate()
        qualities.append((block.last_sample, quality))
        if entry.benchmark.is_met_by(quality):
            break
    return qualities


def main(case_path: str, out_path: str) -> None:
    case = json.loads(Path(case_path).read_text())
    world = join(rendezvous(), torch.device("cpu"), HANG_S)
    qualities = [
        train_to_target(world, Path(case["data_dir"]), seed, case.get("runtime", {})) for seed in case["seeds"]
    ]
    if world.rank == 0:
        Path(out_path).write_text(json.dumps(qualities))
    world.barrier()
    world.leave()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
    end_process(0)  # as the ranks of a run do
