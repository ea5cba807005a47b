"""Peak memory of a few training steps and an evaluation on a CPU, beside what is held: weights, state and batches.

python tests/performance/memory.py [--gb N] [--optimizer NAME] [--implementation NAME] [--threads N]

Each implementation and optimizer has a process of its own, with a worker's environment, and is measured from where
torch is imported and nothing is built (VmHWM less VmRSS, Linux). tests/core/test_reference_models/test_memory.py pins
the same bound at a small size, by what torch's allocator counts.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from jobs import run_as_a_worker
from step import status_kib

from reference_models.config.sections import parse_runtime, parse_train
from reference_models.data.registry import parse_data
from reference_models.dlrm.config import parse_model
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation, find_model
from reference_models.training.workload import WorkloadSpec

BOUND = 1.15
BATCH, STEPS, DIM, TABLES = 1024, 8, 64, 26
OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=1.0, help="of the weights of all tables")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, help="this one alone")
    parser.add_argument("--implementation", choices=["reference", "optimized"], help="this one alone")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def specification(options: argparse.Namespace) -> WorkloadSpec:
    rows = [round(options.gb * 1e9 / (4 * DIM * TABLES))] * TABLES
    data = {"kind": "synthetic", "num_embeddings": rows, "num_dense": 13, "train_samples": BATCH * STEPS}
    layers = {"interaction": "dot", "embedding_dim": DIM, "bottom_mlp": [512, 256, DIM], "top_mlp": [512, 256, 1]}
    train = {
        "global_batch_size": BATCH,
        "eval_batch_size": BATCH,
        "opt_name": options.optimizer,
        "opt_base_learning_rate": 0.01,
    }
    return WorkloadSpec(
        model=parse_model(layers),
        data=parse_data(data),
        train=parse_train(train),
        runtime=parse_runtime({"threads": options.threads}),
        data_dir=Path(),
        seed=1,
    )


def held_bytes(workload: Any) -> dict[str, int]:
    """Bytes of weights, of optimizer state, and of the samples of both splits."""
    state = workload.state()
    sums = [entry["sum"] for part in state["optimizers"] for entry in part["state"].values() if "sum" in entry]
    data = workload.dataset()
    splits = [split.read(0, split.num_samples) for split in (data.train, data.eval)]
    batches = [part for split in splits for part in (split.dense, split.indices, split.labels)]
    kinds = {"weights": list(state["model"].values()), "state": sums, "batches": batches}
    return {name: sum(tensor.nbytes for tensor in tensors) for name, tensors in kinds.items()}


def measure(options: argparse.Namespace) -> None:
    """Print one line: what is held, and the peak, in MB and as a multiple."""
    workload: Any = find_implementation("dlrm", options.implementation).load(specification(options), SingleProcess())
    before = status_kib("VmRSS")
    workload.build()
    built = status_kib("VmHWM")
    workload.train(STEPS)
    workload.evaluate()
    peak = status_kib("VmHWM")
    held = held_bytes(workload)
    ratio = (peak - before) * 1024 / sum(held.values())
    spec = specification(options)
    planned = find_model("dlrm").costs.memory(spec.model, spec.data, spec.train, eval_samples=workload.eval_samples)
    parts = ", ".join(f"{name} {size / 1e6:,.0f} MB" for name, size in held.items())
    print(
        f"{options.implementation:10s} {options.optimizer:16s} {parts}; peak {(peak - before) * 1024 / 1e6:,.0f} MB "
        f"(built {(built - before) * 1024 / 1e6:,.0f}) beyond torch's {before * 1024 / 1e6:,.0f}: {ratio:.3f} times "
        f"what is held{'' if ratio <= BOUND else f', ABOVE {BOUND}'}; 'plan' {planned.total_bytes / 1e6:,.0f} MB",
        flush=True,
    )


def main() -> None:
    options = parse()
    run_as_a_worker()
    if options.in_this_process:
        measure(options)
        return
    for implementation in [options.implementation] if options.implementation else ["reference", "optimized"]:
        for optimizer in [options.optimizer] if options.optimizer else OPTIMIZERS:
            chosen = ["--implementation", implementation, "--optimizer", optimizer, "--gb", str(options.gb)]
            command = [sys.executable, __file__, "--in-this-process", "--threads", str(options.threads), *chosen]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
