"""Full-size DLRM-DCNv2 with row-wise Adagrad on one GPU: seconds to build, peak memory, samples per second."""

import time

import torch
from findings import Findings
from jobs_on_gpu import FULL, TINY, build, open_once
from setting import Setting

LIMIT_GB, NUM_STEPS = 115.0, 20


def run(setting: Setting, findings: Findings) -> None:
    shape = FULL if setting.is_full else TINY[1]
    opened = open_once(shape)
    started_s = time.monotonic()
    precision = "bf16" if setting.device != "cpu" else "fp32"
    workload = build(shape, opened, "optimized", device=setting.device, precision=precision)
    workload.synchronize()
    built_s = time.monotonic() - started_s
    findings.note(build_s=built_s)
    workload.train(3)
    workload.synchronize()
    started_s = time.monotonic()
    num_samples = workload.train(NUM_STEPS if setting.is_full else 2).num_samples
    workload.synchronize()
    rate = num_samples / (time.monotonic() - started_s)
    allocated = workload.peak_device_bytes()
    reserved = None if allocated is None else torch.cuda.max_memory_reserved(workload.device)
    findings.note(
        samples_per_s=rate,
        peak_allocated_gb=None if allocated is None else allocated / 1e9,
        peak_reserved_gb=None if reserved is None else reserved / 1e9,
    )
    figure = f"{rate:.0f} samples/s"
    if allocated is not None and reserved is not None:
        figure = f"{reserved / 1e9:.1f} GB reserved, {allocated / 1e9:.1f} allocated, {rate / 1e6:.2f} M samples/s"
    # What the card must have beside its context: what is allocated leaves out what fragmentation wastes.
    holds = reserved is not None and reserved / 1e9 <= LIMIT_GB
    findings.judge(
        "fits",
        holds,
        figure,
        f"peak reserved by torch's allocator, {NUM_STEPS} steps, bf16, built in {built_s:.0f} s",
    )
