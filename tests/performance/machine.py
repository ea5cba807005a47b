"""This machine's ceilings, by library: multiply-adds, matrix products, memory, random rows.

    python tests/performance/machine.py [--threads N...] [--megabytes N]

Clock and peak of multiply-adds (FMA) come from two loops of machine code, x86-64 alone: a chain of subtractions takes
a cycle each, and twelve independent multiply-adds on the widest registers keep all units busy. Products are those of
a square and of a wide layer, by MKL (torch's BLAS), oneDNN and torch's own code, in fp32 and bf16; what runs at a
hundredth of fp32 is emulated. Copies and triads run over arrays beyond the caches; rows are picked at random from
a table as large. Everything is measured: the best of all rounds, then the median.
"""

import argparse
import ctypes
import mmap
import os
import platform
import statistics
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from jobs import run_as_a_worker

ROUNDS, LEAST_S, SMALL = 7, 0.05, 256
SHAPES = {"square 2048": (2048, 2048, 2048), "layer 2048 x 512 x 512": (2048, 512, 512)}
DIMS = (16, 128)
# `dec rdi; jnz` until rdi is 0, then ret: one subtraction a cycle, since each waits for the one before.
_CYCLES = bytes.fromhex("48ffcf 75fb c3")
# Twelve accumulators set to zero; until rdi is 0, `vfmadd231ps` of registers 14 and 15 into each; vzeroupper, ret.
_FMA_512 = bytes.fromhex(
    "62f17d48efc0 62f17548efc9 62f16d48efd2 62f16548efdb 62f15d48efe4 62f15548efed 62f14d48eff6 62f14548efff"
    "62513d48efc0 62513548efc9 62512d48efd2 62512548efdb c4410c57f6 c4410457ff"
    "62d20548b8c6 62d20548b8ce 62d20548b8d6 62d20548b8de 62d20548b8e6 62d20548b8ee 62d20548b8f6 62d20548b8fe"
    "62520548b8c6 62520548b8ce 62520548b8d6 62520548b8de 48ffcf 75b3 c5f877 c3"
)
_FMA_256 = bytes.fromhex(
    "c5fc57c0 c5f457c9 c5ec57d2 c5e457db c5dc57e4 c5d457ed c5cc57f6 c5c457ff"
    "c4413c57c0 c4413457c9 c4412c57d2 c4412457db c4410c57f6 c4410457ff"
    "c4c205b8c6 c4c205b8ce c4c205b8d6 c4c205b8de c4c205b8e6 c4c205b8ee c4c205b8f6 c4c205b8fe"
    "c44205b8c6 c44205b8ce c44205b8d6 c44205b8de 48ffcf 75bf c5f877 c3"
)
_ACCUMULATORS = 12
Call = Callable[[], object]


class Times:
    """Seconds of one call, by round: of as many calls at once as take LEAST_S."""

    def __init__(self, call: Call) -> None:
        call()
        number, took_s = 1, timed_s(call)
        while took_s < LEAST_S:
            number = max(number + 1, min(10 * number, int(number * 1.2 * LEAST_S / max(took_s, 1e-9))))
            took_s = timed_s(call, number)
        self.seconds = [timed_s(call, number) / number for _ in range(ROUNDS)]

    def rates(self, amount: float) -> tuple[float, float]:
        """Return `amount` per second: the best, and the median."""
        return amount / min(self.seconds), amount / statistics.median(self.seconds)


def timed_s(call: Call, number: int = 1) -> float:
    start_s = time.perf_counter()
    for _ in range(number):
        call()
    return time.perf_counter() - start_s


def cpu_info(key: str) -> str:
    """Return a field of the first processor; empty where the system does not say."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key), "")


class MachineCode:
    """Bytes as a function of one whole number, on as many threads as asked: ctypes lets them run side by side."""

    def __init__(self, code: bytes) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._memory.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(address)

    def run(self, number: int, num_threads: int) -> None:
        others = [threading.Thread(target=self._function, args=(number,)) for _ in range(num_threads - 1)]
        for thread in others:
            thread.start()
        self._function(number)
        for thread in others:
            thread.join()


def multiply_adds(num_threads: int) -> Iterator[str]:
    """Describe the clock and the peak of fp32 multiply-adds, two operations each."""
    flags = cpu_info("flags").split()
    if platform.machine() != "x86_64" or "fma" not in flags:
        yield "clock and FMA peak: not measured on this processor"
        return
    cycles, number = MachineCode(_CYCLES), 50_000_000
    best, median = Times(lambda: cycles.run(number, num_threads)).rates(number / 1e9)
    yield f"clock: {best:.2f} GHz ({median:.2f})"
    code, lanes = (_FMA_512, 16) if "avx512f" in flags else (_FMA_256, 8)
    loop, number = MachineCode(code), 10_000_000
    flop = 2 * lanes * _ACCUMULATORS * number * num_threads
    best, median = Times(lambda: loop.run(number, num_threads)).rates(flop / 1e9)
    yield f"FMA peak, fp32, {32 * lanes} bits: {best:.0f} GFLOP/s ({median:.0f})"


def products() -> Iterator[str]:
    """Describe the rate of each library and precision at each shape; of torch's own bf16 code at a small one."""
    has_mkldnn = torch.backends.mkldnn.is_available()
    linear = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if has_mkldnn else None
    blas = "MKL" if torch.backends.mkl.is_available() else "BLAS"
    for words, (m, k, n) in SHAPES.items():
        for precision in (torch.float32, torch.bfloat16):
            a, b, c = (torch.randn(shape).to(precision) for shape in ((m, k), (k, n), (m, n)))
            calls: dict[str, Call] = {}
            if precision == torch.float32 or has_mkldnn:
                library = blas if precision == torch.float32 else "oneDNN"
                calls[f"{library}, torch.mm"] = partial(torch.mm, a, b, out=c)
            if linear is not None:
                calls["oneDNN, linear"] = partial(linear, a, b.t().contiguous(), None, "none", [], "")
            for library, call in calls.items():
                yield f"{words}, {name_of(precision)}, {library}: {product_rate(call, 2 * m * k * n)}"
    a, b, c = (torch.ones(SMALL, SMALL, dtype=torch.bfloat16) for _ in range(3))
    rate = product_rate(partial(multiply_without_onednn, a, b, c), 2 * SMALL**3)
    yield f"square {SMALL}, bfloat16, without oneDNN: {rate}"


def name_of(precision: torch.dtype) -> str:
    return str(precision).removeprefix("torch.")


def multiply_without_onednn(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about GPUs of a kind that is not there
        with torch.backends.mkldnn.flags(enabled=False):
            torch.mm(a, b, out=out)


def product_rate(call: Call, flop: float) -> str:
    try:
        call()
    except RuntimeError as error:
        return f"not there ({str(error).splitlines()[0][:80]})"
    best, median = Times(call).rates(flop / 1e9)
    return f"{best:.4g} GFLOP/s ({median:.4g})"


def memory(num_bytes: int) -> Iterator[str]:
    """Describe copies, triads and random rows; what is read and what is written both count."""
    a, b, c = (torch.ones(num_bytes // 4) for _ in range(3))
    for words, call, parts in (
        ("copy", lambda: a.copy_(b), 2),
        ("triad", lambda: torch.add(b, c, alpha=3.0, out=a), 3),
    ):
        best, median = Times(call).rates(parts * num_bytes / 1e9)
        yield f"{words}: {best:.1f} GB/s ({median:.1f})"
    for dim in DIMS:
        table, number = a.view(-1, dim), 200_000
        rows, out = torch.randint(len(table), (number,)), torch.empty(number, dim)
        best, median = Times(lambda t=table, r=rows, o=out: torch.index_select(t, 0, r, out=o)).rates(number / 1e6)
        yield f"random rows of {dim} fp32: {best:.1f} M/s ({median:.1f}), {best * dim * 4 / 1e3:.1f} GB/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, everything}))
    parser.add_argument("--megabytes", type=int, default=512, help="of each array; three are held")
    options = parser.parse_args()
    run_as_a_worker()
    family, model = cpu_info("cpu family"), cpu_info("model")
    print(
        f"{cpu_info('model name') or platform.processor()}, family {family}, model {model}, {everything} processors"
    )
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8")
    present = set(cpu_info("flags").split()).intersection(wanted)
    print(f"{' '.join(sorted(present))}; torch {torch.__version__}; measured, best (median) of {ROUNDS} rounds")
    for num_threads in options.threads:
        torch.set_num_threads(num_threads)
        print(f"{num_threads} thread{'s' if num_threads > 1 else ''}")
        for lines in (multiply_adds(num_threads), products(), memory(options.megabytes << 20)):
            for line in lines:
                print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
