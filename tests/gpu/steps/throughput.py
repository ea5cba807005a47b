"""Samples per second: two shapes, both implementations, each precision; batches on the GPU; captured and eager."""

import gc
import statistics
import time
from typing import Any

import torch
from findings import Findings
from jobs_on_gpu import CAPPED, SMALL, TINY, Shape, build, open_once, read_from_device
from setting import Setting

from harness.system.energy import EnergyMeter
from reference_models.config.precisions import CPU_PRECISIONS, CUDA_PRECISIONS

WARM_UP_STEPS, STEPS_PER_BLOCK, MOST_BLOCKS, BUDGET_S = 5, 10, 10, 3.0
SLOW_S, SLOW_STEPS = 0.1, 3
"""Seconds of a step from which on a block has fewer steps, and how many."""
MILLION, READING = 1.2e6, 1.10
EAGER = "optimized, eager"
WAYS: dict[str, dict[str, str]] = {"optimized": {}, EAGER: {"graph": "off"}, "reference": {}}
Rates = dict[tuple[str, str, str], float]
"""Samples per second by shape, way and precision."""


def run(setting: Setting, findings: Findings) -> None:
    precisions = CPU_PRECISIONS if setting.device == "cpu" else CUDA_PRECISIONS
    rates: Rates = {}
    for shape in (CAPPED, SMALL) if setting.is_full else TINY[::-1]:
        opened = open_once(shape)
        # What decides comes first, should time end.
        for precision in reversed(precisions):
            for way, runtime in WAYS.items():
                if way == EAGER and (setting.device == "cpu" or precision != precisions[-1]):
                    continue
                workload = build(
                    shape, opened, way.split(",")[0], device=setting.device, precision=precision, **runtime
                )
                rate = measure(workload, setting)
                rates[shape.name, way, precision] = rate["samples_per_s"]
                findings.note(**{f"{shape.name} {way} {precision} {name}": value for name, value in rate.items()})
                if shape.name == CAPPED.name and way == "optimized" and precision == precisions[-1]:
                    judge_million(findings, rate["samples_per_s"])
                    ratio = measure_reading(workload, shape, setting, rate["samples_per_s"], findings)
                    judge_reading(findings, ratio)
                del workload
                free(setting)
        judge_faster(findings, rates)


def measure(workload: Any, setting: Setting) -> dict[str, float | None]:
    """Train in blocks and take their median; energy is that of all blocks."""
    budget_s = BUDGET_S if setting.is_full else 0.0
    timed_block(workload, WARM_UP_STEPS)
    num_steps = STEPS_PER_BLOCK if timed_block(workload, 1) < SLOW_S else SLOW_STEPS
    meter = EnergyMeter(setting.device)
    workload.synchronize()
    meter.start()
    started_s, took_s = time.monotonic(), []
    while len(took_s) < 2 or (time.monotonic() - started_s < budget_s and len(took_s) < MOST_BLOCKS):
        took_s.append(timed_block(workload, num_steps))
    energy = meter.stop() or {}
    num_samples = len(took_s) * num_steps * workload.global_batch_size
    joules = [part["energy_j"] for part in energy.get("parts", ()) if part["name"].startswith("accelerator")]
    peak = workload.peak_device_bytes()
    return {
        "samples_per_s": num_steps * workload.global_batch_size / statistics.median(took_s),
        "step_ms": statistics.median(took_s) / num_steps * 1e3,
        "slowest_step_ms": max(took_s) / num_steps * 1e3,
        "peak_gb": None if peak is None else peak / 1e9,
        "gpu_j_per_1000_samples": sum(joules) / num_samples * 1e3 if joules else None,
    }


def timed_block(workload: Any, num_steps: int) -> float:
    started_s = time.perf_counter()
    train_exactly(workload, num_steps)
    workload.synchronize()
    return time.perf_counter() - started_s


def train_exactly(workload: Any, num_steps: int) -> None:
    """Train so many steps, over the end of an epoch where need be."""
    while num_steps > 0:
        num_steps -= workload.train(num_steps).num_steps


def measure_reading(
    workload: Any, shape: Shape, setting: Setting, samples_per_s: float, findings: Findings
) -> float | None:
    """Return how much longer a step takes that reads its batch; None where batches on the GPU cannot be given."""
    try:
        read_from_device(workload, shape.num_batches)
        rate = measure(workload, setting)["samples_per_s"]
    except (AttributeError, TypeError, RuntimeError) as error:
        findings.leave_out("reading", f"batches on the GPU were refused: {type(error).__name__}: {error}")
        return None
    assert rate is not None
    findings.note(samples_per_s_of_batches_on_the_gpu=rate)
    return rate / samples_per_s


def judge_million(findings: Findings, samples_per_s: float) -> None:
    figure = f"{samples_per_s / 1e6:.3g} M samples/s"
    findings.judge("million", samples_per_s >= MILLION, figure, "batch 65,536, rows x 0.1, row-wise Adagrad, bf16")


def judge_reading(findings: Findings, ratio: float | None) -> None:
    if ratio is not None:
        findings.judge(
            "reading", ratio <= READING, f"{ratio:.2f} times", "the step over one whose batches are on the GPU"
        )


def judge_faster(findings: Findings, rates: Rates) -> None:
    """Judge by the worst of all pairs so far; with one shape only, that is said.

    Of eager steps, those of `dlrm_small` decide, which launching takes longer than computing: the large one's do not.
    Nothing is proved before these are measured.
    """
    ratios = {
        (shape, precision, way): rates[shape, "optimized", precision] / rate
        for (shape, way, precision), rate in rates.items()
        if way != "optimized"
    }
    judged = {pair: ratio for pair, ratio in ratios.items() if (pair[0], pair[2]) != (CAPPED.name, EAGER)}
    worst = min(judged, key=lambda pair: judged[pair])
    figure = f"{min(judged.values()):.2f} to {max(judged.values()):.2f} times as fast"
    figure += "".join(
        f"; {ratio:.2f} times the eager {shape}" for (shape, _, way), ratio in ratios.items() if way == EAGER
    )
    shapes = " and ".join(sorted({shape for shape, *_ in ratios}))
    has_eager = {shape for shape, _, way in ratios if way == EAGER}
    if has_eager == {CAPPED.name} and judged[worst] > 1.0:
        findings.leave_out("faster", f"{figure}, but {SMALL.name}, whose eager steps decide, was not measured")
        return
    findings.judge("faster", judged[worst] > 1.0, figure, f"least: {' '.join(worst)}; shapes: {shapes}")


def free(setting: Setting) -> None:
    gc.collect()
    if setting.device != "cpu":
        torch.cuda.empty_cache()
