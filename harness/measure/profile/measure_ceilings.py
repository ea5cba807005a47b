"""Measure this system's ceilings: matrix products, copies, gathers and transfers, warmed up and repeated."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, pairwise

import torch
from msgspec.structs import asdict

from reference_models.costs import Matmul
from rules.records.profile import (
    CopyRate,
    GatherRate,
    LayerProduct,
    MeasuredCeilings,
    Rate,
    SquareProduct,
    TransferRate,
)

Call = Callable[[], object]
Shape = tuple[int, int, int, int]

SQUARE_SIZES = {"cpu": (512, 1024, 1536), "cuda": (1024, 2048, 4096, 8192)}
"""Sizes n of the measured n × n × n matrix products, by device. An H100 reaches its full rate only at 8192."""
COPY_BYTES = tuple(1 << power for power in (18, 20, 22, 24, 26, 29))
"""Total bytes of the two buffers of each measured memory copy, from sizes that fit into a core's cache to sizes
beyond the largest cache."""
MAX_TABLE_BYTES = 1 << 30
_LEAST_REPETITIONS = 5
_NUM_FINALISTS = 3
_SHAPE_BUDGET_S = 0.15
_BUDGET_S = 0.5
_MOST_CALLS = 20
"""Maximum number of calls in a series that is timed as a whole, between two events on a GPU. Calls are not timed
singly, since one launch takes microseconds, which is longer than a small product."""
_LEAST_STRETCH_S = 5e-4
"""Seconds that a series of calls, timed as a whole, should take at least."""


def repeat(call: Call, device: torch.device, *, budget_s: float, at_least: int = _LEAST_REPETITIONS) -> list[float]:
    """Return the seconds of each repetition of a call. Repetitions go on until `budget_s` seconds are spent, and
    there are at least `at_least`. A first call warms up and is not counted.

    On a CPU a repetition is one call. On a GPU it is the mean of a series of calls between two events; the series is
    long enough that launching takes no extra time.
    """
    call()
    took_s: list[float] = []
    num_calls = 1
    if device.type == "cuda":
        (once_s,) = _time_events(call, device, 1, 1)
        num_calls = max(1, min(_MOST_CALLS, math.ceil(_LEAST_STRETCH_S / max(once_s, 1e-9))))
    until_s = time.monotonic() + budget_s
    while len(took_s) < at_least or time.monotonic() < until_s:
        if device.type == "cuda":
            took_s += _time_events(call, device, at_least, num_calls)
            continue
        started_ns = time.monotonic_ns()
        call()
        took_s.append((time.monotonic_ns() - started_ns) / 1e9)
    return took_s


def _time_events(call: Call, device: torch.device, num_stretches: int, num_calls: int) -> list[float]:
    """Time `num_stretches` series of `num_calls` calls by GPU events; return the seconds per call of each series."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(num_stretches + 1)]  # type: ignore[no-untyped-call]
    events[0].record()
    for event in events[1:]:
        for _ in range(num_calls):
            call()
        event.record()
    torch.cuda.synchronize(device)
    return [start.elapsed_time(stop) / 1e3 / num_calls for start, stop in pairwise(events)]


def rate(amount: float, took_s: Sequence[float]) -> Rate:
    """Return the amount of work per second of the fastest and of the median repetition, with the spread of
    repetitions."""
    median_s = max(statistics.median(took_s), 1e-9)
    return Rate(best=amount / max(min(took_s), 1e-9), median=amount / median_s, spread=spread_of(took_s))


def spread_of(took_s: Sequence[float]) -> float:
    """Return the interquartile range of the times of repetitions as a fraction of their median; 0 for a single
    one."""
    if len(took_s) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(took_s, n=4, method="inclusive")
    return (high - low) / max(middle, 1e-9)


def measure_ceilings(
    products: Sequence[Matmul],
    *,
    batches_ids: Sequence[torch.Tensor],
    num_embeddings: Sequence[int],
    multi_hot: Sequence[int],
    embedding_dim: int,
    device: torch.device,
    dtype: torch.dtype,
    available_bytes: int,
) -> MeasuredCeilings:
    """Measure all ceilings (best rates) of a device that matter for one model: its matrix products, copies, gathers
    and transfers. `batches_ids` are the ids [B, sum(multi_hot)] of real batches."""
    used_by: dict[Shape, list[str]] = {}
    for product in products:
        used_by.setdefault(product.shape, []).append(f"{product.layer} {str(product.phase).rpartition('_')[2]}")
    table_bytes = min(MAX_TABLE_BYTES, available_bytes // 4)
    random_rows, batch_rows = measure_gathers(
        batches_ids, num_embeddings, multi_hot, embedding_dim, device, table_bytes=table_bytes
    )
    return MeasuredCeilings(
        matmul=tuple(
            LayerProduct(**asdict(measure_matmul(shape, device, dtype)), used_by=tuple(used_by[shape]))
            for shape in sorted(used_by)
        ),
        square=measure_squares(device, dtype),
        copies=measure_copies(device, available_bytes),
        random_rows=random_rows,
        batch_rows=batch_rows,
        transfer=measure_transfer(device) if device.type == "cuda" else None,
    )


def measure_squares(device: torch.device, dtype: torch.dtype) -> tuple[SquareProduct, ...]:
    """Return the measured rates of square matrix products of each size of `SQUARE_SIZES`."""
    return tuple(measure_matmul((1, n, n, n), device, dtype, budget_s=_BUDGET_S) for n in SQUARE_SIZES[device.type])


def find_best_flop_per_s(device: torch.device, precision: str) -> float:
    """Return the best measured rate, in FLOP/s, of square matrix products in a precision in which models are
    served."""
    if precision == "int8":
        return max(_measure_int8(size, device).best for size in SQUARE_SIZES[device.type])
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    return max(square.flop_per_s.best for square in measure_squares(device, dtype))


def _measure_int8(size: int, device: torch.device) -> Rate:
    left, right = (torch.ones(size, size, dtype=torch.int8, device=device) for _ in range(2))
    return rate(2 * size**3, repeat(lambda: torch._int_mm(left, right.t()), device, budget_s=_SHAPE_BUDGET_S))


def measure_matmul(
    shape: Shape, device: torch.device, dtype: torch.dtype = torch.float32, *, budget_s: float = _SHAPE_BUDGET_S
) -> SquareProduct:
    """Return the measured rate of matrix products of one shape, in the fastest layout. Every layout of operands and
    result is tried once, then the fastest few are repeated.

    On a CPU every layout is tried with one thread and with all threads: for small products, waking the other threads
    takes longer than they save.
    """
    num, m, k, n = shape
    calls = dict(_layouts(shape, device, dtype))
    if device.type == "cpu" and torch.get_num_threads() > 1:
        calls |= {f"{name}, 1 thread": _on_one_thread(call) for name, call in calls.items()}
    first = {name: repeat(call, device, budget_s=0, at_least=1) for name, call in calls.items()}
    fastest = sorted(first, key=lambda name: min(first[name]))[:_NUM_FINALISTS]
    took_s = {
        name: first[name] + repeat(calls[name], device, budget_s=budget_s / _NUM_FINALISTS, at_least=3)
        for name in fastest
    }
    layout = min(fastest, key=lambda name: min(took_s[name]))
    flop = 2 * num * m * k * n
    return SquareProduct(num=num, m=m, k=k, n=n, layout=layout, flop_per_s=rate(flop, took_s[layout]))


def _on_one_thread(call: Call) -> Call:
    """Return a function that calls `call` on one CPU thread and then sets the number of threads back. Setting it back
    takes less than a microsecond."""

    def run() -> None:
        num_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            call()
        finally:
            torch.set_num_threads(num_threads)

    return run


def _layouts(shape: Shape, device: torch.device, dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    """Yield a name and a call for each layout of a matrix product: operands row- or column-major, the result or its
    transpose written."""
    num, m, k, n = shape
    majors = ("row", "column")
    rights = {major: _matrix(num, k, n, major, device, dtype) for major in majors}
    row, column = (_matrix(num, *size, "row", device, dtype) for size in ((m, n), (n, m)))
    for left_major in majors:
        left = _matrix(num, m, k, left_major, device, dtype)
        for right_major, right in rights.items():
            layout = f"{left_major} x {right_major}"
            yield f"{layout} to row", _product(left, right, row)
            yield f"{layout} to column", _product(right.transpose(-1, -2), left.transpose(-1, -2), column)


def _matrix(num: int, rows: int, columns: int, major: str, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    size = (rows, columns) if major == "row" else (columns, rows)
    made = torch.rand((num, *size) if num > 1 else size, device=device).to(dtype)
    return made if major == "row" else made.transpose(-1, -2)


def _product(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> Call:
    multiply = torch.mm if left.dim() == 2 else torch.bmm
    return lambda: multiply(left, right, out=out)


def measure_copies(device: torch.device, available_bytes: int) -> tuple[CopyRate, ...]:
    """Return the measured rate of copies for each size in `COPY_BYTES`. Sizes above a quarter of the memory are left
    out, except the smallest."""
    sizes = [size for size in COPY_BYTES if size <= available_bytes // 4] or COPY_BYTES[:1]
    return tuple(measure_copy(size, device) for size in sizes)


def measure_copy(num_bytes: int, device: torch.device) -> CopyRate:
    """Return the measured rate, in bytes per second, of a copy from one buffer to another; `num_bytes` counts bytes
    read and bytes written, half each."""
    source = torch.ones(num_bytes // 8, device=device)
    target = torch.empty_like(source)
    took_s = repeat(lambda: target.copy_(source), device, budget_s=_BUDGET_S / 2)
    return CopyRate(bytes=num_bytes, bytes_per_s=rate(num_bytes, took_s))


def measure_gathers(
    batches_ids: Sequence[torch.Tensor],
    num_embeddings: Sequence[int],
    multi_hot: Sequence[int],
    embedding_dim: int,
    device: torch.device,
    *,
    table_bytes: int,
) -> tuple[GatherRate, GatherRate]:
    """Return two measured rates of fetching embedding rows, in rows per second: for uniform ids and for the ids of
    real batches. The rows are fetched from one table. It has as many rows as all of the model's tables together, or
    fewer if these do not fit into `table_bytes`."""
    row_bytes = 4 * embedding_dim
    table_rows = max(1, min(sum(num_embeddings), table_bytes // row_bytes))
    table = torch.ones(table_rows, embedding_dim, device=device)
    starts = torch.tensor([0, *num_embeddings[:-1]]).cumsum(0)
    offsets = starts.repeat_interleave(torch.tensor(multi_hot))
    real = [((ids + offsets) % table_rows).to(device) for ids in batches_ids]
    generator = torch.Generator().manual_seed(0)
    uniform = [torch.randint(0, table_rows, ids.shape, generator=generator).to(device) for ids in batches_ids]
    named = (("uniform", uniform), ("batches", real))
    random_rows, batch_rows = (_measure_gather(name, table, ids, multi_hot) for name, ids in named)
    return random_rows, batch_rows


def _measure_gather(
    name: str, table: torch.Tensor, batches_ids: Sequence[torch.Tensor], multi_hot: Sequence[int]
) -> GatherRate:
    """Measure the fetching of embedding rows in two ways, one by one and summed by bag, batch after batch; return the
    rate of the faster way, in rows per second."""
    device, num_rows = table.device, batches_ids[0].numel()
    fetched = torch.empty(num_rows, table.shape[1], device=device)
    turn = cycle([ids.flatten() for ids in batches_ids])
    bag_starts = torch.tensor([0, *multi_hot[:-1]]).cumsum(0)
    samples = torch.arange(batches_ids[0].shape[0]).unsqueeze(1) * batches_ids[0].shape[1]
    bags = (samples + bag_starts).flatten().to(device)
    calls: dict[str, Call] = {
        "index_select": lambda: torch.index_select(table, 0, next(turn), out=fetched),
        "embedding_bag": lambda: torch.nn.functional.embedding_bag(next(turn), table, bags, mode="sum"),
    }
    rates = {method: rate(num_rows, repeat(call, device, budget_s=_BUDGET_S / 2)) for method, call in calls.items()}
    method = max(rates, key=lambda name: rates[name].best)
    return GatherRate(
        ids=name,
        method=method,
        table_rows=table.shape[0],
        row_bytes=4 * table.shape[1],
        rows_per_s=rates[method],
    )


def measure_transfer(device: torch.device) -> TransferRate:
    """Return the measured rates of copies of 64 MiB of pinned host memory to the device and back."""
    num_bytes = 1 << 26
    host = torch.ones(num_bytes // 4).pin_memory()
    there = torch.empty_like(host, device=device)
    to_device = repeat(lambda: there.copy_(host, non_blocking=True), device, budget_s=_BUDGET_S)
    to_host = repeat(lambda: host.copy_(there, non_blocking=True), device, budget_s=_BUDGET_S)
    return TransferRate(
        bytes=num_bytes,
        to_device_bytes_per_s=rate(num_bytes, to_device),
        to_host_bytes_per_s=rate(num_bytes, to_host),
    )
