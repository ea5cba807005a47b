"""Workloads on toy data that make checkpoints, and what keeps these without a disk.

As a script, `checkpointing.py FOLDER NUM`: NUM children train and are killed, each at another moment, in FOLDER/<i>;
they keep all checkpoints, the newest, and the newest two, in turn.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from toy_clicks import BATCH, spec_maker, write_dataset

from harness.measure.checkpoints import CheckpointFolder
from reference_models.config.checkpoint import CheckpointConfig
from reference_models.dlrm.optimized import OptimizedWorkload
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.process.world import SingleProcess
from reference_models.training.checkpoints import Checkpoints, CheckpointStore, Tensors, join
from reference_models.training.loop import TrainingLoop

DIGEST = "d" * 64
ABOUT: Mapping[str, Any] = {
    "benchmark": "toy", "benchmark_version": 1, "definition_sha256": DIGEST, "dataset_sha256": None,
    "id_map_sha256": None, "implementation": "reference", "seed": 1, "policy": "intermittent", "bits": 32,
    "rounding": "plain",
}  # fmt: skip
WORKLOADS: Mapping[str, Callable[..., TrainingLoop]] = {
    "reference": ReferenceWorkload,
    "optimized": OptimizedWorkload,
}


@dataclass
class MemoryStore:
    """A `CheckpointStore` in memory."""

    bits: int
    chains: list[tuple[int, ...]] = field(default_factory=list)
    kept: list[dict[str, torch.Tensor]] = field(default_factory=list)

    def write(self, chain: Sequence[int], samples_count: int, tensors: Tensors) -> tuple[Mapping[str, int], int]:
        assert chain[-1] == len(self.kept)
        self.chains.append(tuple(chain))
        self.kept.append({name: tensor.clone() for name, tensor in tensors.items()})
        return {name: self.count_bytes(tensor) for name, tensor in tensors.items()}, 0

    def remove(self, index: int) -> None:
        self.kept[index].clear()

    def read(self, index: int) -> Tensors:
        chain = ({name: tensor.clone() for name, tensor in self.kept[each].items()} for each in self.chains[index])
        return join(chain, self.bits)

    def count_bytes(self, tensor: torch.Tensor) -> int:
        return tensor.nbytes


def begin(
    spec: Any,
    store: CheckpointStore,
    *,
    steps: int = 1,
    implementation: str = "reference",
    restore_after: Sequence[int] = (),
    **config: Any,
) -> tuple[Any, Checkpoints]:
    """A built workload that makes a checkpoint after so many steps each."""
    loop: Any = WORKLOADS[implementation](spec, SingleProcess())
    batch_size = spec.train.global_batch_size
    made = Checkpoints(loop, CheckpointConfig(every=steps * batch_size, **config), store, restore_after)
    loop.checkpoints = made
    loop.build()
    return loop, made


def train_and_be_killed(data: Path, folder: Path, after_s: float, keep: int | str) -> None:
    """Let a child make checkpoints in `folder`, one a step, and kill it after so long, wherever it is then."""
    folder.mkdir()
    if (child := os.fork()) == 0:
        store = CheckpointFolder(root=folder, about=ABOUT)
        loop, _ = begin(spec_maker(data)(), store, policy="intermittent", keep=keep)
        loop.train(50)
        os._exit(0)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    root, num_killed = Path(sys.argv[1]), int(sys.argv[2])
    root.joinpath("data").mkdir()
    write_dataset(root / "data")
    draw = random.Random(7)
    for number in range(num_killed):
        train_and_be_killed(root / "data", root / str(number), draw.uniform(0.2, 2.0), ("all", 1, 2)[number % 3])
    assert BATCH
