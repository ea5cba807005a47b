"""Runs on a GPU are held against the memory of the GPU, and what their implementation takes there."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from emulated_cuda import emulate_cuda
from fake_step import trace

from harness.config.catalog import WorkloadConfig, load_entry
from harness.planning.memory import MemoryNeed, model_memory
from harness.system.resources import Resources, read_resources
from reference_models.dlrm.costs import graph_step_bytes
from rules.benchmarks.loader import load_benchmark

GIB = 1 << 30
HERE = read_resources()
LARGE_HOST, SMALL_HOST = (replace(HERE, physical_memory_bytes=n * GIB, memory_limit_bytes=None) for n in (512, 64))


def full_size(device: str, implementation: str = "optimized", opt_name: str = "rowwise_adagrad") -> WorkloadConfig:
    workload = load_entry("dlrm_dcnv2").workload
    return replace(
        workload,
        train=replace(workload.train, opt_name=opt_name, global_batch_size=65536),
        runtime=replace(workload.runtime, device=device, implementation=implementation),
    )


def needs(workload: WorkloadConfig, resources: Resources) -> tuple[MemoryNeed, ...]:
    return model_memory(workload, resources, 89_137_319, workload.data.num_embeddings or ())


@pytest.mark.parametrize(
    ("gib", "host", "fits"), [(141, SMALL_HOST, True), (80, SMALL_HOST, False), (80, LARGE_HOST, False)]
)
def test_a_run_on_a_gpu_is_held_against_the_gpu(
    gib: int, host: Resources, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with emulate_cuda(monkeypatch, num_gpus=1):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: ((gib - 1) * GIB, gib * GIB))
        gpu, here = needs(full_size("cuda"), host)
    assert (gpu.of, gpu.held_bytes, gpu.available_bytes) == ("GPU", gib * GIB, (gib - 1) * GIB)
    assert (gpu.problem is None) == fits
    assert here.problem is None and here.needed_bytes < 8 * GIB, "tables are not in the host's memory"
    if not fits:
        assert str(gpu.problem).endswith("GiB needed (modelled), 80.0 GiB on the GPUs here: out of memory.")


def test_on_a_cpu_all_is_the_hosts() -> None:
    (host,) = needs(full_size("cpu", "reference"), SMALL_HOST)
    assert host.of == "host" and "64.0 GiB here: out of memory." in str(host.problem)


def test_without_a_gpu_nothing_is_said_of_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    with emulate_cuda(monkeypatch, num_gpus=0):
        gpu, _ = needs(full_size("cuda:0"), SMALL_HOST)
    assert (gpu.held_bytes, gpu.available_bytes, gpu.problem) == (None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dlrm_dcnv2", "dlrm_small", "dlrm_dcnv2_small"])
@pytest.mark.parametrize(
    ("precision", "has_kernels"), [("fp32", True), ("bf16", True), ("fp32", False), ("bf16", False)]
)
@pytest.mark.parametrize(
    ("opt_name", "hot"), [("sgd", None), ("sgd", 1), ("adagrad", None), ("rowwise_adagrad", None)]
)
def test_what_a_step_takes_is_within_a_tenth_of_what_its_tensors_take(
    name: str, opt_name: str, hot: int | None, precision: str, has_kernels: bool
) -> None:
    sections: dict[str, Any] = dict(load_benchmark(name).sections)
    if hot is not None:
        sections["data"] = sections["data"] | {"multi_hot": [1] * len(sections["data"]["num_embeddings"])}
    workload = load_entry(name).workload
    data = workload.data if hot is None else replace(workload.data, multi_hot=(1,) * workload.data.num_sparse)
    train = replace(workload.train, opt_name=opt_name, global_batch_size=8192)
    dtype = torch.bfloat16 if precision == "bf16" else None
    traced = trace(sections, opt_name, 8192, has_kernels=has_kernels, dtype=dtype)
    counted = traced.device_bytes - traced.weights_bytes - traced.state_bytes
    found = graph_step_bytes(workload.model, data, train, precision=precision, has_kernels=has_kernels)
    assert 0.9 * counted < found < 1.1 * counted
