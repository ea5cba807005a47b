"""Measure the rates of this system's CPU as training steps reach them, for `dlrmbench measure-system`.

Rates of copies and of row lookups are measured as the ceilings of the command `profile` are. Rates of matrix products
are measured differently. For a ceiling, `profile` times products in the fastest layout, with operands that stay in a
cache. A training step does not reach this ceiling, so here products are timed in the layout of a linear layer, with
operands that do not stay in a cache.
"""

import os
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import cycle
from typing import Any

import msgspec

from harness.config.catalog import load_entry
from harness.planning.hardware.system import ModelledSystem, SystemNumber
from harness.run_sets.environment import Environment, describe_warnings
from harness.system.hardware import read_processors
from harness.system.resources import read_resources
from harness.system.software import WORKER_VARIABLES
from reference_models.costs import fft_flop

_WIDTHS = (1, 4, 16, 64, 256, 1024)
"""Widths of the linear layers that are timed."""
_DEPTH = 256
"""Least number of inputs of the linear layers that are timed."""
_BATCH = 1024
"""Batch size at which linear layers are timed."""
_LAYERS_BYTES = 1 << 24
"""Bytes of all timed layers of one width together. They are used in turn, so that no core's cache holds their
weights."""
_TABLE_BYTES, _ROW_FLOATS, _NUM_LOOKUPS = tuple(1 << power for power in (16, 20, 24, 28)), 16, 1 << 15
_GRID, _BUDGET_S = 64, 0.5
_IDLE = "dlrm_tiny"
"""Benchmark whose training step on two samples consists almost only of launching operators, so that it shows an
operator's overhead."""


def measure_here(say: Callable[[str], None], environment: Environment) -> ModelledSystem:
    """Measure this system's rates (FLOP/s, bytes/s, fixed times); return them with the warnings of the environment
    check and the machine's load during the measurement."""
    with environment.measuring():
        system = measure_rates(say)
    warned = tuple(describe_warnings(environment.preflight))
    return msgspec.structs.replace(system, warnings=warned, loads=tuple(environment.loads))


def measure_rates(say: Callable[[str], None]) -> ModelledSystem:
    """Measure the rates of this system's CPU on all of its cores, in about 20 s. Each rate is the median of its
    repetitions."""
    os.environ.update({**WORKER_VARIABLES, **os.environ})  # as in a run, and before torch is imported
    import torch

    from harness.measure.profile import measure_ceilings as ceilings
    from reference_models.config.sections import RuntimeConfig
    from reference_models.count_step import count_operators, prepare_step
    from reference_models.serving.servable import explain_emulation

    resources, device = read_resources(), torch.device("cpu")
    torch.set_num_threads(resources.num_cores)
    how = f"measured {datetime.now(UTC):%Y-%m-%d}, median, threads: {resources.num_cores}, torch {torch.__version__}"
    numbers = [
        SystemNumber(of="cores", value=resources.num_cores, source="what this process may use"),
        SystemNumber(of="memory", value=resources.memory_bytes, source="what this process may use"),
    ]

    def add(of: str, size: float, value: float, what: str, spread: float | None) -> None:
        source = f"{how}; {what}"
        numbers.append(SystemNumber(of=of, size=size, value=value, source=source, spread=spread))  # type: ignore[arg-type]

    say("measuring matrix products")
    is_emulated = explain_emulation(RuntimeConfig(precision="bf16")) is not None
    for name, dtype in {"fp32": torch.float32, **({} if is_emulated else {"bf16": torch.bfloat16})}.items():
        for width in _WIDTHS:
            depth = max(width, _DEPTH)
            took_s = ceilings.repeat(_make_layers(width, depth, dtype), device, budget_s=_BUDGET_S)
            what = f"a layer of {depth} to {width} on a batch of {_BATCH}: forward, and both gradients"
            add(name, width, 6 * _BATCH * depth * width / statistics.median(took_s), what, ceilings.spread_of(took_s))
    say("measuring copies and rows")
    for copy in ceilings.measure_copies(device, resources.available_memory_bytes):
        add("copy", copy.bytes, copy.bytes_per_s.median, "read and written", copy.bytes_per_s.spread)
    for size in _TABLE_BYTES:
        num_rows = size // (4 * _ROW_FLOATS)
        ids = [torch.randint(num_rows, (_NUM_LOOKUPS, 1), generator=torch.Generator().manual_seed(0))]
        found, _ = ceilings.measure_gathers(ids, [num_rows], [1], _ROW_FLOATS, device, table_bytes=size)
        what = f"uniform ids, rows of {found.row_bytes} B"
        add("rows", size, found.rows_per_s.median * found.row_bytes, what, found.rows_per_s.spread)
    say("measuring transforms and operators")
    points = torch.ones(_GRID, _GRID, _GRID, dtype=torch.complex64)
    took_s = ceilings.repeat(lambda: torch.fft.fft2(points), device, budget_s=_BUDGET_S)
    what = f"Fourier transforms of {_GRID} x {_GRID}"
    add("other", 1, _GRID * fft_flop(_GRID) / statistics.median(took_s), what, ceilings.spread_of(took_s))
    idle = load_entry(_IDLE).workload
    given = (idle.implementation.load, idle.model, idle.data, idle.train, 2)
    num_operators = sum(count_operators(*given).values())
    took_s = ceilings.repeat(prepare_step(*given)[1], device, budget_s=_BUDGET_S)
    what = f"a step of {_IDLE}'s reference on 2 samples, by its {num_operators} operators"
    add("operator", 1, statistics.median(took_s) / num_operators, what, ceilings.spread_of(took_s))
    model = read_processors().model_name or "unknown processor"
    return ModelledSystem(title=f"{model}, cores: {resources.num_cores}", numbers=tuple(numbers))


def _make_layers(width: int, depth: int, dtype: Any) -> Callable[[], object]:
    """Return a function that computes the three matrix products (forward and two backward) of one linear layer.
    Successive calls use different layers of the same size."""
    import torch

    num_layers = max(2, _LAYERS_BYTES // (4 * (_BATCH * depth + depth * width + _BATCH * width)))
    shapes = ((_BATCH, depth), (width, depth), (_BATCH, width))
    turn = cycle([[torch.rand(shape, dtype=dtype) for shape in shapes] for _ in range(num_layers)])

    def multiply() -> object:
        x, weight, gradient = next(turn)
        return x @ weight.t(), gradient.t() @ x, gradient @ weight

    return multiply
