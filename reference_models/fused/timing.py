"""Choose the kernels (forms) of matrix products by timing them on random operands."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from platform import machine

import torch

from reference_models.fused.choice import ChosenProduct, Form, MatmulChoice, MatmulProduct, Precision
from reference_models.fused.cpu_kernels import CPUKernels
from reference_models.fused.matmul import Affine, WeightGradient, forms_at_hand

Call = Callable[[], object]
Timer = Callable[[Call, int], float]
"""Type of functions that make a number of calls of a function, and return the seconds that the calls take
together."""

MIN_GAIN = 0.05
"""Least relative gain for which a form (kernel of a matrix product) replaces the form chosen before; smaller gains
are noise."""
_LEFT_BEHIND = 1.5
"""Limit of a kernel's time, as a multiple of the fastest kernel's. Each kernel is called twice first; if the faster
of the two calls is above the limit, the kernel is timed no further."""
_TURNS = 5
_SLICE_S = 1e-3
"""Seconds of one timing of a form (kernel); the forms of a product are timed alternately."""
_CLOSE = 1.15
"""Limit of a kernel's time, as a multiple of the fastest kernel's. After _TURNS timings of each kernel, those above
the limit are timed no further."""
_CLOSE_CALLS = 15
_MOST_S = 0.5
"""Seconds of timing a product after which no further round (one timing of each kernel) begins. The limit holds once
for the first _TURNS rounds, and once for all later rounds."""
_MAX_FLOP = 4e9
"""Limit on the floating-point operations of a timed matrix product. A product above the limit is timed with fewer
samples (rows), but with at least `_MIN_SAMPLES`."""
_MIN_SAMPLES = 512


def choose(
    products: Iterable[MatmulProduct],
    precision: Precision,
    previous: MatmulChoice | None,
    timer: Timer | None = None,
    cpu_kernels: CPUKernels | None = None,
) -> MatmulChoice:
    """Time each matrix product by each available kernel (form), with torch's present number of threads; return the
    fastest kernel of each product.

    `previous` is an earlier choice. A product's kernel in it is kept, except if another kernel is faster by
    `MIN_GAIN`.
    """
    before = {} if previous is None else previous.forms()
    time_calls = _time_calls if timer is None else timer
    chosen = []
    for product in products:
        seconds = time_forms(make_calls(product, cpu_kernels), time_calls)
        chosen.append(ChosenProduct(product=product, form=pick(seconds, before.get(product)), seconds=seconds))
    return MatmulChoice(
        num_threads=torch.get_num_threads(),
        precision=precision,
        torch_version=str(torch.__version__),
        cpu=name_cpu(),
        products=tuple(chosen),
    )


def pick(seconds: Mapping[Form, float], previous: Form | None) -> Form:
    """Return the form (kernel) with the least `seconds`. The form of an earlier choice, `previous`, is returned
    instead if the fastest form is not faster by at least MIN_GAIN."""
    fastest = min(seconds, key=seconds.__getitem__)
    if previous is not None and previous in seconds and seconds[fastest] > (1 - MIN_GAIN) * seconds[previous]:
        return previous
    return fastest


def time_forms(calls: Mapping[Form, Call], time_calls: Timer) -> dict[Form, float]:
    """Return the seconds of a call of each form (kernel), the least of repeated timings: other work on the machine
    only makes timings longer."""
    least = {form: min(time_calls(call, 1) for _ in range(2)) for form, call in calls.items()}
    num_calls = max(1, int(_SLICE_S / max(min(least.values()), 1e-7)))
    for within, num_turns in ((_LEFT_BEHIND, _TURNS), (_CLOSE, _CLOSE_CALLS // num_calls)):
        fastest_s, spent_s = min(least.values()), 0.0
        close = [form for form in calls if least[form] <= within * fastest_s]
        for _ in range(num_turns if len(close) > 1 else 0):
            for form in close:
                took_s = time_calls(calls[form], num_calls)
                least[form], spent_s = min(least[form], took_s / num_calls), spent_s + took_s
            if spent_s > _MOST_S:
                break
    return least


@torch.no_grad()
def make_calls(product: MatmulProduct, cpu_kernels: CPUKernels | None = None) -> dict[Form, Call]:
    """Return, for each available form (kernel), a function that computes the matrix product and was called once
    already."""
    dtype = torch.float32 if product.precision == "fp32" else torch.bfloat16
    generator = torch.Generator().manual_seed(0)
    num_samples = num_samples_to_time(product)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator).sub_(0.5).to(dtype)

    x, weight = draw(num_samples, product.num_in), draw(product.num_out, product.num_in)
    if product.is_transposed:
        weight = weight.t().contiguous().t()
    bias = draw(product.num_out) if product.has_bias else None
    y = draw(num_samples, product.num_out)

    compiled = cpu_kernels if dtype == torch.float32 else None

    def make(form: Form) -> Call:
        if product.kind == "weight_gradient":
            gradient = WeightGradient(form, num_samples, weight, cpu_kernels=compiled)
            return lambda: gradient(y, x)
        affine = Affine(form, num_samples, weight, bias, has_relu=product.has_relu, cpu_kernels=compiled)
        return (lambda: affine.add_to(y, x)) if product.adds else (lambda: affine(x))

    calls: dict[Form, Call] = {}
    for form in forms_at_hand(product, compiled):
        call = make(form)
        try:
            call()
        except RuntimeError:  # this build of torch does not compute the form
            continue
        calls[form] = call
    return calls


def name_cpu() -> str:
    """Return the processor's model name, as the Linux kernel reports it; else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return (next(names, "") or machine() or "unknown")[:200]


def num_samples_to_time(product: MatmulProduct) -> int:
    """Return the number of samples with which to time a product: all, or as many as take tens of milliseconds at 100
    GFLOP/s."""
    affordable = int(_MAX_FLOP * product.num_samples / product.flop)
    return min(product.num_samples, max(affordable, _MIN_SAMPLES))


def _time_calls(call: Call, num_calls: int) -> float:
    """Return the seconds of `num_calls` calls; with one thread the thread's processor time, which leaves out waiting
    for a processor."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    start_s = clock()
    for _ in range(num_calls):
        call()
    return clock() - start_s
