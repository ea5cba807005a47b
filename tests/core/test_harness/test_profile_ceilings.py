"""Ceilings of a GPU are of its size: large products, its own memory, and no launch in the time of a small one."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from emulated_cuda import EmulatedCUDA, emulate_cuda

from harness.measure.profile import measure_ceilings as ceilings
from harness.measure.profile.worker import available_bytes
from harness.system.resources import read_resources
from reference_models.costs import Matmul
from rules.records.profile import CopyRate, GatherRate, Rate, SquareProduct, TransferRate

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")
RATE = Rate(best=1.0, median=1.0)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedCUDA]:
    with emulate_cuda(monkeypatch, num_gpus=1) as emulated:
        yield emulated


@pytest.mark.parametrize(("device", "largest"), [(GPU, 8192), (CPU, 1536)])
def test_square_products_are_as_large_as_the_device_needs_them(
    device: torch.device, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes: list[tuple[int, ...]] = []

    def measure_matmul(shape: Any, *args: Any, **options: Any) -> SquareProduct:
        shapes.append(shape)
        num, m, k, n = shape
        return SquareProduct(num=num, m=m, k=k, n=n, layout="row x row to row", flop_per_s=RATE)

    gather = GatherRate(ids="uniform", method="index_select", table_rows=1, row_bytes=4, rows_per_s=RATE)
    for name, answer in (
        ("measure_gathers", (gather, gather)),
        ("measure_copy", CopyRate(bytes=1, bytes_per_s=RATE)),
        ("measure_transfer", TransferRate(bytes=1, to_device_bytes_per_s=RATE, to_host_bytes_per_s=RATE)),
    ):
        monkeypatch.setattr(ceilings, name, lambda *args, answer=answer, **options: answer)
    monkeypatch.setattr(ceilings, "measure_matmul", measure_matmul)
    measured = ceilings.measure_ceilings(
        [Matmul("top_mlp_forward", "top_mlp.0", 8, 9, 10)],
        batches_ids=[],
        num_embeddings=[1],
        multi_hot=[1],
        embedding_dim=1,
        device=device,
        dtype=torch.float32,
        available_bytes=1 << 40,
    )
    assert (len(measured.matmul), max(product.n for product in measured.square)) == (1, largest)
    assert shapes[0] == (1, 8, 9, 10)


@pytest.mark.parametrize(("took_ms", "per_repetition"), [(0.01, 20), (0.1, 5), (20.0, 1)])
def test_short_calls_are_timed_many_at_once(
    gpu: EmulatedCUDA, took_ms: float, per_repetition: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch takes about 5 microseconds of the host, which the device waits for where it has nothing else to do."""
    made: list[int] = []
    begun: list[int] = []

    class Event:
        def __init__(self, **options: object) -> None: ...

        def record(self) -> None:
            self.calls = len(made)

        def elapsed_time(self, other: "Event") -> float:
            begun.append(other.calls - self.calls)
            return begun[-1] * took_ms

    monkeypatch.setattr(torch.cuda, "Event", Event)
    times = ceilings.repeat(lambda: made.append(1), GPU, budget_s=0.0, at_least=3)
    assert begun == [1, *[per_repetition] * 3]
    assert times == pytest.approx([took_ms / 1e3] * 3), "seconds per call"


def test_operands_and_results_of_all_layouts_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    alive = []
    rand = torch.rand
    monkeypatch.setattr(torch, "rand", lambda *args, **options: (alive.append(args), rand(*args, **options))[1])
    calls = dict(ceilings._layouts((1, 4, 5, 6), CPU, torch.float32))
    assert len(calls) == 8 and len(alive) == 6
    results = {name: call() for name, call in calls.items()}
    assert {tuple(result.shape) for result in results.values() if isinstance(result, torch.Tensor)} == {
        (4, 6),
        (6, 4),
    }


def test_tables_are_sized_by_the_memory_that_the_device_computes_in(gpu: EmulatedCUDA) -> None:
    assert available_bytes(GPU) == 79 << 30
    assert available_bytes(CPU) <= read_resources().physical_memory_bytes
