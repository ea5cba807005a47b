"""Print what checkpoints cost: stalls over index_select of the same rows, and throughput with and without them.

    .venv/bin/python tests/performance/checkpoints.py [DATA] [PAIRS]

Of dlrm_small: plain 8 bits, a checkpoint every 10 %. Ratios of one process each, taken in turns; of a quiet machine.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from harness.config.run_config import Override
from harness.measure.companions import measuring
from harness.measure.kinds import find_kind
from harness.measure.throughput import ThroughputJob
from harness.run_sets.dataset import ensure_dataset
from reference_models.process.world import SingleProcess
from reference_models.training.checkpoints import Checkpoints
from rules.records.measured.throughput import ProcessRecord

KIND = find_kind("throughput")


@contextmanager
def built(data_root: Path, folder: Path, **checkpoint: Any) -> Iterator[Any]:
    """A workload that is built; its checkpoints are ended with it."""
    given = {"runtime.threads": 1, "runtime.implementation": "optimized"}
    given |= {f"checkpoint.{key}": value for key, value in checkpoint.items()}
    overrides = [Override(key=key, value=value, source="here") for key, value in given.items()]
    resolved = KIND.resolve("dlrm_small", overrides, None)
    data = ensure_dataset(resolved.workload.data, data_root, num_threads=1)
    job = ThroughputJob(
        tables=dict(resolved.tables),
        definition_path=str(resolved.benchmark.path),
        data_dir=str(data),
        seed=3,
        folder=str(folder),
        num_steps=1,
    )
    with measuring(job, SingleProcess(), lambda event: None, ProcessRecord) as process:
        process.workload.build()
        process.start()
        yield process.workload
        process.stop()


def time_selects(made: Checkpoints) -> None:
    """Let each copy be followed by an index_select of the same rows of the tables; both in processor time."""
    copy, ratios = made._copy, []

    def timed() -> Any:
        loop = made._loop
        rows = [each.numel() and each for each in made._touched.list_rows()]
        tables = [table.detach() for group in loop.optimizers[0].param_groups for table in group["params"]]
        began_s = time.thread_time()
        entry = copy()
        copied_s = time.thread_time()
        if not entry["is_base"]:
            for table, which in zip(tables, rows, strict=True):
                table.index_select(0, which if isinstance(which, torch.Tensor) else torch.empty(0, dtype=torch.int64))
            ratios.append((copied_s - began_s) / (time.thread_time() - copied_s))
        return entry

    made._copy = timed  # type: ignore[method-assign]
    made.ratios = ratios  # type: ignore[attr-defined]


def stall_ratio(data_root: Path) -> None:
    with TemporaryDirectory() as folder:
        with built(data_root, Path(folder), every="2%", bits=8, policy="one_shot") as workload:
            time_selects(workload.checkpoints)
            workload.train_step = lambda *_: torch.zeros(())  # which rows change is the data's matter
            while workload.train(200).num_steps == 200:
                pass
        found = sorted(workload.checkpoints.ratios)
        print(f"stall / index_select: median {median(found):.2f}, {found[0]:.2f} to {found[-1]:.2f}, n {len(found)}")


def throughput_ratio(data_root: Path, num_pairs: int) -> None:
    ratios = []
    for number in range(num_pairs):
        took_s = {}
        for name in ("plain", "kept") if number % 2 else ("kept", "plain"):
            with TemporaryDirectory() as folder:
                asked = {"every": "10%", "bits": 8} if name == "kept" else {"every": "never"}
                with built(data_root, Path(folder), **asked) as workload:
                    workload.train(20)
                    began_s = time.perf_counter()
                    while workload.train(200).num_steps == 200:
                        pass
                    if workload.checkpoints is not None:
                        workload.checkpoints._wait()
                    took_s[name] = time.perf_counter() - began_s
        ratios.append(took_s["plain"] / took_s["kept"])
        print(f"pair {number + 1}: {ratios[-1]:.3f} of the throughput without checkpoints")
    if ratios:
        print(f"geometric mean of {num_pairs} pairs: {geometric_mean(ratios):.3f}")


if __name__ == "__main__":
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "data")
    stall_ratio(root)
    throughput_ratio(root, int(sys.argv[2]) if len(sys.argv) > 2 else 10)
