"""Sizes of Triton's kernels: which are fastest at each batch size, and the product's constants that come nearest.

What was timed becomes figures; the constants are "constant NAME", which `make gpu` also prints as lines of
`reference_models/fused/kernel_sizes.py`. Without a GPU Triton's interpreter runs a few sizes on batches of a few
samples: its times mean nothing.
"""

import importlib.util
import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from typing import Any
from unittest import mock

import torch
from findings import Findings
from jobs_on_gpu import CAPPED, SMALL, Shape, build, make_spec, open_once
from setting import Setting

from harness.measure.profile.measure_ceilings import repeat
from reference_models.fused import kernel_sizes
from reference_models.fused.dense_kernels import cross_gradients, plain_cross_gradients, read_bags
from reference_models.fused.kernel_check import ChangedValues, ComputedValues
from reference_models.fused.merged_embedding import MergedEmbedding
from reference_models.fused.sorted_update import update_sorted
from steps.throughput import free, measure

CROSSED = Shape(name="dlrm_dcnv2_small", benchmark="dlrm_dcnv2_small", opt_name="adagrad", batch_size=512)
SHAPES = (CROSSED, replace(SMALL, batch_size=1024), SMALL, CAPPED)
TINY_SHAPES = tuple(Shape(name="dlrm_tiny", benchmark="dlrm_tiny", opt_name="adagrad", batch_size=b) for b in (4, 8))
POWERS = tuple(1 << power for power in range(10))
GRID: dict[str, dict[str, Sequence[int]]] = {
    "update": {"block": POWERS[4:], "pieces": (4, 8, 16, 32)},
    "read": {"tile": (2, 4, 8, 16, 32)},
    "cross": {"samples": POWERS[:7], "columns": (128, 256, 512, 1024), "warps": POWERS[:4]},
}
CONSTANTS: dict[str, dict[str, Sequence[int]]] = {
    "update": {
        "LEAST_BLOCK": POWERS[4:],
        "MOST_BLOCK": POWERS[4:],
        "UPDATE_PROGRAMS": POWERS[2:],
        "PIECES": GRID["update"]["pieces"],
    },
    "read": {"TILE": GRID["read"]["tile"]},
    "cross": {
        "MOST_SAMPLES": POWERS[:7],
        "CROSS_PROGRAMS": POWERS[:6],
        "COLUMNS": GRID["cross"]["columns"],
        "WARPS": GRID["cross"]["warps"],
    },
}
"""Constants of the product that may be set, by kernel."""
MARGIN = 0.02
"""Other constants than the product's must be faster by more."""
Call = Callable[[], Sequence[Any]]
Sizes = tuple[int, ...]
Counts = tuple[int, int, int]
"""A batch's lookups, samples, and columns of its cross layers."""
Times = dict[str, dict[Counts, dict[Sizes, float]]]
"""Seconds by kernel, batch, and sizes in the order of GRID."""


def run(setting: Setting, findings: Findings) -> None:
    if not setting.is_gpu:
        os.environ["TRITON_INTERPRET"] = "1"
    if importlib.util.find_spec("triton") is None:
        findings.note(problem="Triton is not installed: there is nothing to tune")
        return
    device = torch.device(setting.device)
    times: Times = {kernel: {} for kernel in GRID}
    for shape in SHAPES if setting.is_full else TINY_SHAPES:
        time_kernels(shape, device, setting, findings, times)
        free(setting)
        found = choose_constants(times, kernel_sizes.count_multiprocessors(device))
        findings.note(**{f"constant {name}": value for name, value in found.items()})
    for shape in SHAPES if setting.is_gpu else ():
        time_steps(shape, setting, findings)


def time_kernels(shape: Shape, device: torch.device, setting: Setting, findings: Findings, times: Times) -> None:
    """Time each kernel in all of its sizes on a batch, and the plain form; sizes of wrong numbers do not count."""
    budget = {"budget_s": 0.04, "at_least": 5} if setting.is_full else {"budget_s": 0.0, "at_least": 1}
    counts, computations = prepare(shape, device)
    for kernel, compute in computations.items():
        right = compute(None)()
        plain_s = statistics.median(repeat(compute(None, checks=False), device, **budget))
        findings.note(**{f"{kernel} B {shape.batch_size} plain ms": plain_s * 1e3})
        axes = [values if setting.is_full else (values[0], values[-1]) for values in GRID[kernel].values()]
        took = times[kernel][counts] = {}
        for chosen in product(*axes):
            sizes = replace(kernel_sizes.choose_sizes(), **dict(zip(GRID[kernel], chosen, strict=True)))
            said: float | str
            try:
                distance = max(float(a.distance(b)) for a, b in zip(compute(sizes)(), right, strict=True))
                said = f"wrong: {distance:.2g}"
                if distance <= 1:
                    took[chosen] = statistics.median(repeat(compute(sizes, checks=False), device, **budget))
                    said = took[chosen] * 1e3
            except RuntimeError as error:  # more registers or shared memory than there are
                said = (str(error).splitlines() or [""])[0]
            findings.note(**{f"{kernel} B {shape.batch_size} {' '.join(map(str, chosen))} ms": said})


def prepare(shape: Shape, device: torch.device) -> tuple[Counts, dict[str, Any]]:
    """Return a batch's counts, and by kernel what makes a call of it in some sizes, or (None) of the plain form.

    A call that `checks` begins with the same numbers each time, and returns what can be compared.
    """
    opened, dim = open_once(shape), make_spec(shape).model.embedding_dim
    split, size = opened.train, shape.batch_size
    rows, num_features = sum(split.num_embeddings), 1 + len(split.multi_hot)
    kept = [torch.randn(rows, dim, device=device), torch.rand(rows, 1, device=device)]
    ours, plain = (
        MergedEmbedding(*kept, split.num_embeddings, split.multi_hot, has_kernels=has) for has in (True, False)
    )
    ids, plan = ours.merge_ids(split.read(0, size).indices.to(device)), plain.plan(size)
    ordered, order = torch.sort(ids, stable=True)
    named = ordered.unique().long()
    gradients = torch.randn(size, num_features, dim, device=device).bfloat16()
    crossed = torch.randn(4, size, num_features * dim, device=device).bfloat16()
    rate, begun, begun_crossed = torch.tensor(0.01, device=device), [each[named] for each in kept], crossed.clone()

    def update(sizes: Any, *, checks: bool = True) -> Call:
        def call() -> list[ChangedValues]:
            for tensor, old in zip(kept, begun, strict=True) if checks else ():
                tensor.index_copy_(0, named, old)
            if sizes is None:
                plain.update_static(ids, plan, gradients, rate, 1e-8)
            else:
                update_sorted(ordered, order, ours._bag_of_lookup, gradients, *kept, rate, 1e-8, sizes)
            return [ChangedValues(each[named], old) for each, old in zip(kept, begun, strict=True)] if checks else []

        return call

    def read(sizes: Any, *, checks: bool = True) -> Call:
        if sizes is None:
            return lambda: [ComputedValues(plain.read(ids, plan, torch.bfloat16))]
        return lambda: [ComputedValues(read_bags(ids, ours._bag_limits, kept[0], size, torch.bfloat16, sizes))]

    def cross(sizes: Any, *, checks: bool = True) -> Call:
        def call() -> list[ComputedValues]:
            if checks:
                crossed.copy_(begun_crossed)
            if sizes is None:
                plain_cross_gradients(*crossed, adds=True)
            else:
                cross_gradients(*crossed, adds=True, sizes=sizes)
            return [ComputedValues(crossed[2:].clone())] if checks else []

        return call

    return (len(ids), size, num_features * dim), {"read": read, "cross": cross, "update": update}


def choose_constants(times: Times, num_multiprocessors: int) -> dict[str, int]:
    """Return the constants by which `choose_sizes` comes nearest to each batch's fastest sizes.

    Nearest is the least product of times; those of the product stay where others gain less than MARGIN a batch.
    """
    found: dict[str, int] = {}
    for kernel, axes in CONSTANTS.items():
        today = {name: int(getattr(kernel_sizes, name)) for name in axes}
        costs = [(cost_of(times[kernel], kernel, each, num_multiprocessors), each) for each in candidates(axes)]
        best_cost, best = min(costs, key=lambda pair: pair[0])
        cost = cost_of(times[kernel], kernel, today, num_multiprocessors)
        found |= best if best_cost < cost - MARGIN * len(times[kernel]) else today
    return found


def candidates(axes: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    for values in product(*axes.values()):
        constants = dict(zip(axes, values, strict=True))
        if constants.get("LEAST_BLOCK", 0) <= constants.get("MOST_BLOCK", 0):
            yield constants


def cost_of(
    took: Mapping[Counts, Mapping[Sizes, float]], kernel: str, constants: Mapping[str, int], num_multiprocessors: int
) -> float:
    """Return the sum of logarithms of a kernel's times under these constants; infinite where one was not timed."""
    cost = 0.0
    with mock.patch.multiple(kernel_sizes, **constants):
        for (num_lookups, num_samples, num_columns), by_sizes in took.items():
            sizes = asdict(
                kernel_sizes.choose_sizes(
                    num_lookups=num_lookups,
                    num_samples=num_samples,
                    num_columns=num_columns,
                    num_multiprocessors=num_multiprocessors,
                )
            )
            chosen = tuple(sizes[name] for name in GRID[kernel])
            cost += math.log(by_sizes[chosen]) if chosen in by_sizes else math.inf
    return cost


def time_steps(shape: Shape, setting: Setting, findings: Findings) -> None:
    """Time whole steps in bf16: captured, eager, and captured without kernels."""
    opened = open_once(shape)
    for name, runtime in {"captured": {}, "eager": {"graph": "off"}, "by torch": {"kernels": "off"}}.items():
        workload = build(shape, opened, "optimized", device=setting.device, precision="bf16", **runtime)
        step_ms = measure(workload, setting)["step_ms"]
        findings.note(**{f"step {shape.name} B {shape.batch_size} {name} ms": step_ms})
        del workload
        free(setting)
