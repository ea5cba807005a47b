"""Time to answer a batch, of the three RM models, as ratios to the same model in stock PyTorch: eager nn.Linear and
one nn.EmbeddingBag per table.

`python tests/performance/answer.py [THREADS]`. All are interleaved in one process and have the same weights and ids;
ratios are of medians and, in brackets, of minima. Above 1 is faster than stock.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from harness.config.catalog import load_entry
from reference_models.data.store.dataset import Batch
from reference_models.dlrm.model import DLRM
from reference_models.registry import build_servable
from reference_models.serving.servable import explain_emulation

MODELS = ("rm1_deeprecsys", "rm2_deeprecsys", "rm3_deeprecsys")
BATCHES = (1, 8, 32, 165)
PRECISIONS = (("fp32", "fp32"), ("bf16", "fp32"), ("fp32", "int8"), ("fp32", "int4"), ("int8", "int8"))
BUDGET_S = 1.5
Call = Callable[[], object]


def stock(name: str, seed: int, threads: int) -> nn.Module:
    """The model as a user writes it, with the weights of that seed."""
    torch.set_num_threads(threads)
    workload = load_entry(name).workload
    torch.manual_seed(seed)
    assert workload.data.num_embeddings is not None
    return DLRM(
        workload.model,
        num_dense=workload.data.num_dense,
        num_embeddings=workload.data.num_embeddings,
        multi_hot=workload.data.multi_hot,
    ).eval()


def interleave(calls: Sequence[Call]) -> list[list[float]]:
    """Seconds of each call, in turns until the budget is spent."""
    took: list[list[float]] = [[] for _ in calls]
    for call in calls * 3:
        call()
    until_s = time.perf_counter() + BUDGET_S
    while time.perf_counter() < until_s:
        for times, call in zip(took, calls, strict=True):
            start_s = time.perf_counter()
            call()
            times.append(time.perf_counter() - start_s)
    return took


def eager_call(model: nn.Module, batch: Batch) -> Call:
    def call() -> torch.Tensor:
        with torch.no_grad():
            logits: torch.Tensor = model(batch.dense, batch.indices)
        return logits

    return call


def main(threads: int) -> None:
    names = ["/".join(pair) for pair in PRECISIONS]
    print(
        f"{'model':16}{'batch':>6}{'stock us':>10}" + "".join(f"{name:>16}" for name in names) + "  int8/int8 to fp32"
    )
    for name in MODELS:
        workload = load_entry(name).workload
        spec = workload.spec(Path(), seed=1)
        runtimes = [replace(spec.runtime, threads=threads, precision=p, table_precision=t) for p, t in PRECISIONS]
        servables = [build_servable("dlrm", replace(spec, runtime=runtime)) for runtime in runtimes]
        model = stock(name, 1, threads)
        for batch in servables[0].queries(BATCHES):
            calls = [eager_call(model, batch), *((lambda s=s, b=batch: s.answer(b)) for s in servables)]
            base, *others = interleave(calls)
            assert torch.equal(calls[0](), calls[1]())
            ratios = [
                f"{statistics.median(base) / statistics.median(took):.2f} ({min(base) / min(took):.2f})"
                for took in others
            ]
            gain = statistics.median(others[0]) / statistics.median(others[-1])
            least = min(others[0]) / min(others[-1])
            print(
                f"{name:16}{len(batch.labels):6}{statistics.median(base) * 1e6:10.0f}"
                + "".join(f"{ratio:>16}" for ratio in ratios)
                + f"  {gain:.2f} ({least:.2f})",
                flush=True,
            )
        for runtime in runtimes:
            if warning := explain_emulation(runtime):
                print(f"note: {warning}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
