"""The time that a step's matrix products need at the best layout found for each shape."""

import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import torch
from jobs import Product

from reference_models.fused.cpu_kernels import find_cpu_kernels

Call = Callable[[], object]
FINALISTS = 3


_clock = time.perf_counter


def count_processor_time() -> None:
    """From now on `timed_s` leaves out what waiting for the processor takes; for one thread."""
    global _clock
    _clock = time.process_time


def now_s() -> float:
    """Read the clock that everything here is timed by."""
    return _clock()


def timed_s(call: Call) -> float:
    start_s = now_s()
    call()
    return now_s() - start_s


def layouts(product: Product) -> dict[str, Call]:
    """Operands by rows or by columns, as they are and padded to multiples of 16; torch's BLAS, and oneDNN and numpy's
    OpenBLAS where they are there."""
    if product.batch > 1:
        return batched_layouts(product)
    calls: dict[str, Call] = {}
    linear, kernels = getattr(torch.ops.mkldnn, "_linear_pointwise", None), find_cpu_kernels()
    given = (product.m, product.k, product.n)
    filled = tuple(size if size == 1 else -(-size // 16) * 16 for size in given)
    for (m, k, n), note in {filled: " padded", given: ""}.items():
        a = {"r": torch.randn(m, k), "c": torch.randn(k, m).t()}
        b = {"r": torch.randn(k, n), "c": torch.randn(n, k).t()}
        c = {"r": torch.empty(m, n), "c": torch.empty(n, m).t()}
        for x, y, z in itertools.product("rc", repeat=3):
            calls[f"blas {x}{y}{z}{note}"] = partial(torch.mm, a[x], b[y], out=c[z])
        if linear is not None:
            for x, y in itertools.product("rc", repeat=2):
                calls[f"onednn {x}{y}{note}"] = partial(linear, a[x], b[y].t(), None, "none", [], "")
        if not isinstance(kernels, str) and kernels.has_openblas:
            for x, y in itertools.product("rc", repeat=2):
                calls[f"openblas {x}{y}{note}"] = partial(kernels.multiply, a[x], b[y], c["r"])
    return calls


def batched_layouts(product: Product) -> dict[str, Call]:
    size, m, k, n = product.batch, product.m, product.k, product.n
    a = {"r": torch.randn(size, m, k), "c": torch.randn(size, k, m).transpose(1, 2)}
    b = {"r": torch.randn(size, k, n), "c": torch.randn(size, n, k).transpose(1, 2)}
    c = torch.empty(size, m, n)
    return {f"bmm {x}{y}": partial(torch.bmm, a[x], b[y], out=c) for x, y in itertools.product("rc", repeat=2)}


class Limit:
    """The best layout of every shape is found once; `measure_s` then times all of them, warm."""

    def __init__(self, products: Iterable[Product]) -> None:
        self._counts = Counter(products)
        self.best = {product: find_best(product) for product in self._counts}

    def measure_s(self) -> float:
        total_s = 0.0
        for product, count in self._counts.items():
            _, call = self.best[product]
            call()
            total_s += count * timed_s(call)
        return total_s

    def by_phase(self, products: Iterable[tuple[str, Product]]) -> dict[str, float]:
        """Return the seconds of the products of each phase."""
        took_s = {
            product: statistics.median(timed_s(call) for _ in range(5)) for product, (_, call) in self.best.items()
        }
        total_s: dict[str, float] = {}
        for phase, product in products:
            total_s[phase] = total_s.get(phase, 0.0) + took_s[product]
        return total_s

    def by_library(self) -> dict[str, tuple[int, float]]:
        """Return for each library how many of the step's products it is best at, and their share of the limit."""
        times: dict[str, list[float]] = {}
        for product, count in self._counts.items():
            name, call = self.best[product]
            took_s = statistics.median(timed_s(call) for _ in range(3))
            times.setdefault(name.partition(" ")[0], []).extend([took_s] * count)
        total_s = sum(map(sum, times.values()))
        return {library: (len(some), sum(some) / total_s) for library, some in times.items()}

    def describe(self) -> list[str]:
        return [
            f"  {count} x [{p.m}, {p.k}] @ [{p.k}, {p.n}]"
            + (f" x {p.batch}" if p.batch > 1 else "")
            + f": {self.best[p][0]}, {p.flop / min(timed_s(self.best[p][1]) for _ in range(3)) / 1e9:.0f} GFLOP/s"
            for p, count in self._counts.items()
        ]

    @property
    def flop(self) -> int:
        return sum(product.flop * count for product, count in self._counts.items())


def find_best(product: Product) -> tuple[str, Call]:
    """Screen all layouts by their best of two, then take the lowest median of the finalists, measured in turn."""
    calls = layouts(product)
    screened = {name: min(timed_s(call) for _ in range(2)) for name, call in calls.items()}
    finalists = sorted(screened, key=screened.__getitem__)[:FINALISTS]
    times: dict[str, list[float]] = {name: [] for name in finalists}
    for _ in range(5):
        for name in finalists:
            times[name].append(timed_s(calls[name]))
    best = min(finalists, key=lambda name: statistics.median(times[name]))
    return best, calls[best]


def best_shape_flops() -> float:
    """FLOP/s of a large square product, the best of ten."""
    a, c = torch.randn(2048, 2048), torch.empty(2048, 2048)
    return 2 * 2048**3 / min(timed_s(lambda: torch.mm(a, a, out=c)) for _ in range(10))
