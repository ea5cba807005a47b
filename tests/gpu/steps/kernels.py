"""Triton's kernels against torch's operators, by their numbers, then milliseconds of each operator of the step.

Alone by events, and in the replayed step by torch's profiler.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from findings import Findings
from jobs_on_gpu import CAPPED, TINY, build, open_once
from setting import Setting
from torch.profiler import ProfilerActivity, profile

from harness.measure.profile.measure_ceilings import repeat
from reference_models.fused.kernel_check import ChangedValues, ComputedValues, kernel_problem
from reference_models.fused.merged_embedding import MergedEmbedding
from reference_models.training.devices import set_precision
from steps.throughput import free

NUM_KERNELS, PROFILED_STEPS, WIDTH = 30, 10, 128
ROWS_AT_ONCE = 1 << 20
Call = Callable[[], object]


def run(setting: Setting, findings: Findings) -> None:
    shape = CAPPED if setting.is_full else TINY[1]
    opened = open_once(shape)
    precision = "bf16" if setting.device != "cpu" else "fp32"
    workload = build(shape, opened, "optimized", device=setting.device, precision=precision)
    device = workload.device
    workload.train(2)
    profile_step(workload, setting, findings)
    del workload  # what is timed alone has tables of its own
    free(setting)
    batch = opened.train.read(0, shape.batch_size)
    has_kernels = judge_kernels(batch, opened.train, device, findings)
    free(setting)
    for name, call in {**embedding_calls(batch, opened.train, device), **transfers(batch, device)}.items():
        note(findings, name, call, device, setting)
    if has_kernels:
        for name, call in update_calls(batch, opened.train, device, has_kernels=True).items():
            note(findings, f"{name} by kernels", call, device, setting)
    for precision in ("fp32", "tf32", "bf16") if setting.device != "cpu" else ("fp32",):
        for name, call in products(precision, 65536 if setting.is_full else 64, device).items():
            note(findings, name, call, device, setting)
    set_precision(device, "fp32")


def note(findings: Findings, name: str, call: Call, device: torch.device, setting: Setting) -> None:
    """Time one operator; one that fails is noted with its error, and the next is timed."""
    try:
        took_s = repeat(call, device, budget_s=0.2 if setting.is_full else 0.0)
    except RuntimeError as error:
        findings.note(**{f"alone: {name} failed": str(error).splitlines()[0]})
        return
    findings.note(**{f"alone: {name} ms": statistics.median(took_s) * 1e3})


def judge_kernels(batch: Any, split: Any, device: torch.device, findings: Findings) -> bool:
    """Compile Triton's kernels for the widths and numbers of DLRM-DCNv2 and hold them to the plain form.

    By the example that the product accepts them by, then by what a whole batch reads and leaves in every row.
    """
    problems = {
        f"{dtype}, {state_size}".removeprefix("torch."): kernel_problem(device, WIDTH, state_size, dtype)
        for dtype in (torch.bfloat16, torch.float32)
        for state_size in (0, 1, WIDTH)
    }
    found = {name: problem for name, problem in problems.items() if problem is not None}
    findings.note(**{f"kernels of {name}": problem or "used" for name, problem in problems.items()})
    figure = f"{len(problems) - len(found)} of {len(problems)} forms" + "".join(
        f"; {why}" for why in [*found.values()][:1]
    )
    how = "bf16 and fp32 gradients; no, one and 128 sums of squares per row"
    distance = 0.0
    if not found:
        distance = batch_distance(batch, split, device)
        findings.note(distance_on_a_batch=distance)
        figure += f"; a batch of {len(batch.labels)}: {distance:.2g} times what rounding explains"
        how += "; weights and sums of all rows after a batch, row-wise Adagrad"
    findings.judge("kernels", not found and distance <= 1, figure, how)
    return not found


def batch_distance(batch: Any, split: Any, device: torch.device) -> float:
    """Read and update merged tables of all rows by both forms; 1 is what rounding explains of their distance."""
    rows, size = sum(split.num_embeddings), len(batch.labels)
    before, sums_before = torch.randn(rows, WIDTH, device=device), torch.rand(rows, 1, device=device)
    gradients = torch.randn(size, 1 + len(split.multi_hot), WIDTH, device=device).bfloat16()
    indices, rate, ends = batch.indices.to(device), torch.tensor(0.01, device=device), []
    for has_kernels in (True, False):
        weight, sums = before.clone(), sums_before.clone()
        embedding = MergedEmbedding(weight, sums, split.num_embeddings, split.multi_hot, has_kernels=has_kernels)
        ids, plan = embedding.merge_ids(indices), embedding.plan(size)
        read = embedding.read(ids, plan, torch.bfloat16)
        embedding.update_static(ids, plan, gradients, rate, 1e-8)
        ends.append((read, weight, sums))
    (read, weight, sums), (plain_read, plain_weight, plain_sums) = ends
    distances = [
        ComputedValues(ours).distance(ComputedValues(plain))
        for ours, plain in zip(read.split(1024), plain_read.split(1024), strict=True)
    ]
    for start in range(0, rows, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        for ours, plain, old in ((weight, plain_weight, before), (sums, plain_sums, sums_before)):
            distances.append(ChangedValues(ours[part], old[part]).distance(ChangedValues(plain[part], old[part])))
    return float(torch.stack([distance.double() for distance in distances]).max())


def embedding_calls(batch: Any, split: Any, device: torch.device) -> dict[str, Call]:
    """Time what finds, reads and updates the rows of merged tables by torch's operators."""
    ids, order = sorted_ids(batch, split, device)
    bags = torch.arange(len(ids), device=device)
    return {
        f"sort of {str(ids.dtype).removeprefix('torch.')}": lambda: torch.sort(ids, stable=True),
        "sort of int64": lambda: torch.sort(ids.long(), stable=True),
        "search": lambda: torch.searchsorted(ids, ids),
        "permute bags": lambda: bags[order],
        **update_calls(batch, split, device, has_kernels=False),
    }


def sorted_ids(batch: Any, split: Any, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge the ids of a batch into one range and sort them; a table of one column is enough for that."""
    embedding = MergedEmbedding(
        torch.zeros(sum(split.num_embeddings), 1, device=device), None, split.num_embeddings, split.multi_hot
    )
    return torch.sort(embedding.merge_ids(batch.indices.to(device)), stable=True)


def update_calls(batch: Any, split: Any, device: torch.device, *, has_kernels: bool) -> dict[str, Call]:
    """Code that reads and updates merged tables of all rows, with row-wise Adagrad."""
    rows, size = sum(split.num_embeddings), len(batch.labels)
    weight, sums = torch.zeros(rows, WIDTH, device=device), torch.zeros(rows, 1, device=device)
    embedding = MergedEmbedding(weight, sums, split.num_embeddings, split.multi_hot, has_kernels=has_kernels)
    plan, indices = embedding.plan(size), batch.indices.to(device)
    ids = embedding.merge_ids(indices)
    gradients = torch.randn(size, 1 + len(split.multi_hot), WIDTH, device=device)
    rate = torch.tensor(0.01, device=device)
    return {
        "merge ids": lambda: embedding.merge_ids(indices),
        "read": lambda: embedding.read(ids, plan),
        "update_static": lambda: embedding.update_static(ids, plan, gradients, rate, 1e-8),
    }


def transfers(batch: Any, device: torch.device) -> dict[str, Call]:
    """A batch to the device from page-locked memory, as int64 and int32; a copy on the device."""
    wide = batch.indices.pin_memory() if device.type == "cuda" else batch.indices
    narrow = batch.indices.int().pin_memory() if device.type == "cuda" else batch.indices.int()
    there, there_narrow = torch.empty_like(wide, device=device), torch.empty_like(narrow, device=device)
    source = torch.zeros(wide.numel() * 8, device=device)
    target = torch.empty_like(source)
    return {
        f"ids int64 to device ({wide.nbytes / 1e6:.0f} MB)": lambda: there.copy_(wide, non_blocking=True),
        f"ids int32 to device ({narrow.nbytes / 1e6:.0f} MB)": lambda: there_narrow.copy_(narrow, non_blocking=True),
        f"copy on device ({source.nbytes / 1e6:.0f} MB)": lambda: target.copy_(source),
    }


def products(precision: str, size: int, device: torch.device) -> dict[str, Call]:
    """DCNv2's widest product and a square one, in one precision."""
    set_precision(device, precision)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    wide = torch.randn(size, 3456, device=device, dtype=dtype), torch.randn(3456, 512, device=device, dtype=dtype)
    num = 8192 if size > 1000 else 64
    square = torch.randn(num, num, device=device, dtype=dtype)
    return {
        f"{precision} [{size}, 3456] x [3456, 512]": lambda: wide[0] @ wide[1],
        f"{precision} square {num}": lambda: square @ square,
    }


def profile_step(workload: Any, setting: Setting, findings: Findings) -> None:
    """Note the kernels of a replayed step that take longest, and the share of the time in which the GPU was busy."""
    num_steps = PROFILED_STEPS if setting.is_full else 2
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if setting.is_gpu else [])]
    workload.synchronize()
    with profile(activities=activities) as profiled:
        started_s = time.perf_counter()
        done = workload.train(num_steps).num_steps
        workload.synchronize()
        took_s = time.perf_counter() - started_s
    kernels = [event for event in profiled.key_averages() if event.device_type == torch.autograd.DeviceType.CUDA]
    kernels.sort(key=lambda event: -event.self_device_time_total)
    for event in kernels[:NUM_KERNELS]:
        findings.note(**{f"kernel {event.key[:60]} ms": event.self_device_time_total / 1e3 / done})
    busy_s = sum(event.self_device_time_total for event in kernels) / 1e6
    findings.note(
        num_kernels_per_step=sum(event.count for event in kernels) / done,
        profiled_step_ms=took_s / done * 1e3,
        gpu_busy_share=busy_s / took_s if kernels else None,
    )
