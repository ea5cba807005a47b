"""Measure the rates of the CPU at hand, with the ceilings that `profile` measures: `dlrmbench system --measure`."""

import os
import statistics
from collections.abc import Callable
from datetime import UTC, datetime

from harness.planning.hardware.system import System, SystemNumber
from harness.system.hardware import read_processors
from harness.system.resources import read_resources
from harness.system.software import WORKER_VARIABLES
from reference_models.d2nn.costs import fft_flop

_WIDTHS, _DEPTH, _BATCH = (1, 4, 16, 64, 256, 1024), 256, 1024
_TABLE_BYTES, _ROW_FLOATS, _NUM_LOOKUPS = tuple(1 << power for power in (16, 20, 24, 28)), 16, 1 << 15
_GRID, _NUM_LAYERS, _BUDGET_S = 64, 8, 0.5


def measure_system(say: Callable[[str], None]) -> System:
    """Measure this system's CPU on all of its cores, in about 20 s. Each rate is the median of its repetitions."""
    os.environ.update({**WORKER_VARIABLES, **os.environ})  # as in a run, and before torch is imported
    import torch

    from harness.measure.profile import measure_ceilings as ceilings
    from reference_models.training.devices import has_bf16_products

    resources, device = read_resources(), torch.device("cpu")
    torch.set_num_threads(resources.num_cores)
    how = f"measured {datetime.now(UTC):%Y-%m-%d}, median, threads: {resources.num_cores}, torch {torch.__version__}"
    numbers = [
        SystemNumber(of="cores", value=resources.num_cores, source="what this process may use"),
        SystemNumber(of="memory", value=resources.memory_bytes, source="what this process may use"),
    ]

    def add(of: str, size: float, value: float, what: str) -> None:
        numbers.append(SystemNumber(of=of, size=size, value=value, source=f"{how}; {what}"))  # type: ignore[arg-type]

    say("measuring matrix products")
    for name, dtype in {"fp32": torch.float32, **({"bf16": torch.bfloat16} if has_bf16_products() else {})}.items():
        for width in _WIDTHS:
            depth = max(width, _DEPTH)
            product = ceilings.measure_matmul((1, width, depth, _BATCH), device, dtype)
            add(name, width, product.flop_per_s.median, f"[{width}, {depth}] x [{depth}, {_BATCH}]")
    say("measuring copies and rows")
    for copy in ceilings.measure_copies(device, resources.available_memory_bytes):
        add("copy", copy.bytes, copy.bytes_per_s.median, "read and written")
    for size in _TABLE_BYTES:
        num_rows = size // (4 * _ROW_FLOATS)
        ids = [torch.randint(num_rows, (_NUM_LOOKUPS, 1), generator=torch.Generator().manual_seed(0))]
        found, _ = ceilings.measure_gathers(ids, [num_rows], [1], _ROW_FLOATS, device, table_bytes=size)
        add("rows", size, found.rows_per_s.median * found.row_bytes, f"uniform ids, rows of {found.row_bytes} B")
    say("measuring transforms and operators")
    points = torch.ones(_GRID, _GRID, _GRID, dtype=torch.complex64)
    took_s = ceilings.repeat(lambda: torch.fft.fft2(points), device, budget_s=_BUDGET_S)
    add("other", 1, _GRID * fft_flop(_GRID) / statistics.median(took_s), f"Fourier transforms of {_GRID} x {_GRID}")
    step, num_operators = _make_step()
    took_s = ceilings.repeat(step, device, budget_s=_BUDGET_S)
    what = f"training step of an MLP of width 1, by its {num_operators} operators"
    add("operator", 1, statistics.median(took_s) / num_operators, what)
    model = read_processors().model_name or "unknown processor"
    return System(title=f"{model}, cores: {resources.num_cores}", numbers=tuple(numbers))


def _make_step() -> tuple[Callable[[], None], int]:
    """Return a training step by modules, autograd and optimizer that has next to nothing to do; and its operators."""
    import torch

    from reference_models.count_step import OperatorCounter
    from reference_models.training.eager import Adagrad

    net = torch.nn.Sequential(
        *(part for _ in range(_NUM_LAYERS) for part in (torch.nn.Linear(1, 1), torch.nn.ReLU()))
    )
    optimizer, x, counter = Adagrad(net.parameters(), lr=0.0), torch.ones(1, 1), OperatorCounter()

    def step() -> None:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    with counter:
        step()
    return step, counter.counts.total()
