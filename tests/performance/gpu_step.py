"""Memory and traffic of one captured step at full size, without a GPU: on tensors that have no memory.

python tests/performance/gpu_step.py [BENCHMARK] [--optimizer NAME] [--batch N] [--operators]

Prints what the step of `optimized` on CUDA holds at its peak (weights, optimizer state, buffers, temporaries; without
CUDA's context, its libraries' workspaces and what fragmentation wastes) and the bytes that its operators move, with
Triton's kernels and with torch's operators alone, in fp32 and bf16. Ids are drawn as synthetic data's are. Bytes are
counted by tests/builders/step_traffic.py, beside those of the step before its defects were mended.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "builders"))

from fake_step import trace
from step_traffic import BEFORE, draw_runs

from reference_models.data.registry import parse_data
from rules.benchmarks.loader import load_benchmark


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", nargs="?", default="dlrm_dcnv2")
    parser.add_argument("--optimizer", default="rowwise_adagrad", choices=["adagrad", "rowwise_adagrad", "sgd"])
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--operators", action="store_true", help="print the bytes of each operator, too")
    return parser.parse_args()


def main() -> None:
    options = parse()
    sections: dict[str, Any] = dict(load_benchmark(options.benchmark).sections)
    data = parse_data(sections["data"])
    assert data.num_embeddings is not None
    runs = draw_runs(data.num_embeddings, data.multi_hot, options.batch)
    print(
        f"{options.benchmark}, {options.optimizer}, batch {options.batch:,}: {runs.num_lookups:,} lookups of "
        f"{runs.num_rows:,} rows (drawn); computed on fake tensors, torch {torch.__version__}"
    )
    is_the_base = (options.benchmark, options.optimizer, options.batch) == ("dlrm_dcnv2", "rowwise_adagrad", 65536)
    for has_kernels in (True, False):
        for name, dtype in (("fp32", None), ("bf16", torch.bfloat16)):
            traced = trace(
                sections, options.optimizer, options.batch, has_kernels=has_kernels, dtype=dtype, runs=runs
            )
            moved = traced.traffic.num_bytes
            beside = f", {moved / BEFORE[name]:.2f} of what 5f93909's moved" if is_the_base else ""
            print(
                f"  {name}, {'kernels' if has_kernels else 'operators':9s} peak {traced.device_bytes / 1e9:6.1f} GB "
                f"(a step's temporaries {traced.training.peak_bytes / 1e9:4.1f}), moved {moved / 1e9:6.1f} GB{beside}"
            )
            for operator, number in traced.traffic.by_operator.most_common() if options.operators else ():
                print(f"    {operator:36s} x{traced.training.calls[operator]:4d} {number / 1e9:8.2f} GB")


if __name__ == "__main__":
    main()
