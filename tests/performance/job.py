"""The whole job, from run_start to the target: ours beside the reference, fed and judged by itself and as is usual.

python tests/performance/job.py [BENCHMARK] [--threads N] [--pairs N] [--workers N]

Ours has its products chosen by timing, reads slices ahead and sorts for its AUC. `stock` is the reference
implementation with a torch.utils.data.DataLoader over single samples and scikit-learn's roc_auc_score; `workers` the
same with as many processes that load. All train from the same seeds in turns and evaluate where the benchmark says.
One that rounds otherwise may reach the target an evaluation earlier or later, which is luck: ratios are of the time
per sample trained, evaluations included, seed by seed; their median is printed with the least and the greatest.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jobs import run_as_a_worker
from sklearn.metrics import roc_auc_score
from torch.utils.data import DataLoader, Dataset

from harness.config.catalog import Entry, load_entry
from harness.measure.run_log import make_schedule
from harness.run_sets.dataset import ensure_dataset
from reference_models.config.sections import RuntimeConfig
from reference_models.data.store.dataset import Batch, ClickDataset
from reference_models.dlrm.optimized import OptimizedWorkload
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.fused.choice import MatmulChoice
from reference_models.process.world import SingleProcess

W = TypeVar("W", bound=ReferenceWorkload)
Sample = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Samples(Dataset[Sample]):
    """Samples one by one, as datasets for DataLoader are written."""

    def __init__(self, split: ClickDataset, start: int, stop: int) -> None:
        self._batch = split.read(start, stop)  # mapped or in memory: indexing it costs no reading

    def __len__(self) -> int:
        return len(self._batch.labels)

    def __getitem__(self, index: int) -> Sample:
        return self._batch.dense[index], self._batch.indices[index], self._batch.labels[index]


class StockWorkload(ReferenceWorkload):
    """The reference with a per-sample DataLoader and scikit-learn's AUC."""

    num_loaders = 0
    _ahead: Iterator[Batch] = iter(())
    _next_start = -1

    def read_batches(self, split: ClickDataset, name: str, starts: range, batch_size: int) -> Iterator[Batch]:
        """One loader for a whole epoch and one per evaluation, so that no block waits for processes to start."""
        if name != "train":
            yield from self._load(split, starts, batch_size)
        elif starts:
            if starts[0] != self._next_start:
                self._ahead = self._load(split, range(starts[0], split.num_samples, batch_size), batch_size)
            self._next_start = starts[-1] + batch_size
            yield from islice(self._ahead, len(starts))

    def _load(self, split: ClickDataset, starts: range, batch_size: int) -> Iterator[Batch]:
        if starts:
            samples = Samples(split, starts[0], min(starts[-1] + batch_size, split.num_samples))
            for dense, indices, labels in DataLoader(samples, batch_size=batch_size, num_workers=self.num_loaders):
                yield Batch(dense, indices, labels)

    def evaluate(self) -> float:
        scores, labels = [], []
        self.model.eval()
        with torch.no_grad():
            size = self.spec.train.eval_batch_size
            for batch in self.read_batches(self.data.eval, "eval", range(0, self.eval_samples, size), size):
                scores.append(torch.sigmoid(self.compute_logits(self.model, batch)).numpy())
                labels.append(batch.labels.numpy())
        return float(roc_auc_score(np.concatenate(labels), np.concatenate(scores)))


@dataclass(frozen=True, slots=True)
class Outcome:
    duration_s: float
    samples_count: int
    reached: bool

    @property
    def per_sample_s(self) -> float:
        return self.duration_s / self.samples_count


def make(
    kind: type[W], entry: Entry, data_dir: Path, seed: int, threads: int, matmul: MatmulChoice | None = None
) -> W:
    runtime = RuntimeConfig(device="cpu", threads=threads, precision="fp32", implementation="reference")
    spec = replace(entry.workload.spec(data_dir, seed), runtime=runtime, matmul=matmul)
    workload = kind(spec, SingleProcess())
    workload.build()
    return workload


def train_to_target(workload: ReferenceWorkload, entry: Entry) -> Outcome:
    start_s = time.perf_counter()
    for block in make_schedule(entry.benchmark, workload.train_samples, workload.global_batch_size):
        workload.train(block.num_steps)
        if entry.benchmark.is_met_by(workload.evaluate()):
            return Outcome(time.perf_counter() - start_s, block.last_sample, True)
    return Outcome(time.perf_counter() - start_s, block.last_sample, False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", nargs="?", default="dlrm_small")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--data", type=Path, help="where datasets lie; by default one is generated and dropped")
    parser.add_argument("--workers", type=int, default=2, help="processes that load for `workers`; 0 leaves it out")
    options = parser.parse_args()
    run_as_a_worker()
    entry = load_entry(options.benchmark)
    with tempfile.TemporaryDirectory() as scratch:
        data_dir = ensure_dataset(entry.workload.data, options.data or Path(scratch), num_threads=options.threads)
        kinds: dict[str, type[ReferenceWorkload]] = {
            "ours": OptimizedWorkload,
            "reference": ReferenceWorkload,
            "stock": StockWorkload,
        }
        if options.workers > 0:
            kinds["workers"] = type("Workers", (StockWorkload,), {"num_loaders": options.workers})
        outcomes: dict[str, list[Outcome]] = {name: [] for name in kinds}
        # Off the clock and once for all seeds, as before the first run of a set.
        choice = make(OptimizedWorkload, entry, data_dir, 0, options.threads).choose_matmul(None)
        for seed in range(options.pairs):
            for name, kind in kinds.items():
                matmul = choice if kind is OptimizedWorkload else None
                workload = make(kind, entry, data_dir, seed, options.threads, matmul)
                outcomes[name].append(train_to_target(workload, entry))
    print(f"{options.benchmark} to its target, {options.threads} threads; measured, medians of {options.pairs} seeds")
    for name, some in outcomes.items():
        samples = " ".join(
            f"{outcome.samples_count}{'' if outcome.reached else ' (not reached)'}" for outcome in some
        )
        median_s = statistics.median(outcome.duration_s for outcome in some)
        each_s = statistics.median(outcome.per_sample_s for outcome in some)
        print(f"  {name:10s} {median_s:7.2f} s, {each_s * 1e6:6.2f} µs per sample   samples to converge: {samples}")
    for name in list(kinds)[1:]:
        ratios = [
            other.per_sample_s / ours.per_sample_s
            for ours, other in zip(outcomes["ours"], outcomes[name], strict=True)
        ]
        print(
            f"  per sample, ours is {statistics.median(ratios):.2f} times as fast as {name} "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
