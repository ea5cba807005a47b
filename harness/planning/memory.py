"""Compare memory sizes: model how many bytes runs would need, of the host and of the GPUs in use, and read how many
there are."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.config.catalog import WorkloadConfig
from harness.system.resources import Resources
from reference_models.costs import AUC_BYTES_PER_SAMPLE, FLOAT_BYTES
from reference_models.data.registry import find_data
from reference_models.process.errors import DeviceError

PROCESS_BYTES = 300 << 20
"""Bytes of one Python process with torch loaded, measured on Linux with the CPU build, without tables and batches."""
CONTEXT_BYTES = 600 << 20
"""Bytes of CUDA's context, its libraries' code and workspaces, for each process that uses a GPU; assumed, not
measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryNeed:
    """Modelled bytes that all ranks together need of one memory (host's or GPUs'), with its capacity and free bytes;
    None where unknown."""

    of: str
    """Name of the memory: "host" or "GPU"."""
    needed_bytes: int
    held_bytes: int | None
    available_bytes: int | None

    @property
    def problem(self) -> str | None:
        """Sentence that says how much memory is needed (modelled) and how much there is, where the need exceeds the
        capacity; None where it does not, or the capacity is unknown."""
        if self.held_bytes is None or self.needed_bytes <= self.held_bytes:
            return None
        where = "here" if self.of == "host" else "on the GPUs here"
        needed, held = (f"{number / 2**30:.1f} GiB" for number in (self.needed_bytes, self.held_bytes))
        return f"{needed} needed (modelled), {held} {where}: out of memory."


def model_memory(
    workload: WorkloadConfig,
    resources: Resources,
    eval_samples: int,
    num_embeddings: Sequence[int],
    *,
    has_kernels: bool = True,
) -> tuple[MemoryNeed, ...]:
    """Return the bytes that runs need of each memory that they use, modelled; the memory that holds the model comes
    first.

    `has_kernels`: whether Triton's kernels can be used where runs do not switch them off.
    """
    estimate = workload.estimate_memory(eval_samples=eval_samples, num_embeddings=num_embeddings)
    ranks, implementation = workload.runtime.ranks, workload.implementation
    process_bytes = ranks * (PROCESS_BYTES + implementation.process_bytes)
    on_host = process_bytes + estimate.total_bytes
    # Scores are sorted on the GPU by `optimized`, on the host by other implementations: counted for both.
    if workload.runtime.device != "cpu":
        on_host = process_bytes + eval_samples * AUC_BYTES_PER_SAMPLE
    host = MemoryNeed(
        of="host",
        needed_bytes=on_host,
        held_bytes=resources.memory_bytes,
        available_bytes=resources.available_memory_bytes,
    )
    if workload.runtime.device == "cpu":
        return (host,)
    step_bytes = estimate.gradients_bytes + estimate.activations_bytes
    if implementation.gpu_step_bytes is not None:
        step_bytes = implementation.gpu_step_bytes(
            workload.model,
            workload.data.mapped,
            workload.train,
            precision=workload.runtime.precision,
            has_kernels=has_kernels and workload.runtime.kernels == "auto",
        )
    held = _read_gpus(workload.runtime.device, ranks)
    needed = estimate.weights_bytes + estimate.optimizer_bytes + ranks * CONTEXT_BYTES
    if "graph" in implementation.switches:
        # A graph's temporaries stay while scores are sorted; and data that is read again is held where it fits.
        is_captured = workload.runtime.graph == "auto"
        both = step_bytes + estimate.evaluation_bytes
        needed += both if is_captured else max(step_bytes, estimate.evaluation_bytes)
        needed += _held_splits(workload, eval_samples, 0 if held is None else held[1] - needed)
    else:
        needed += max(step_bytes, estimate.evaluation_bytes)
    gpu = MemoryNeed(
        of="GPU",
        needed_bytes=needed,
        held_bytes=None if held is None else held[0],
        available_bytes=None if held is None else held[1],
    )
    return gpu, host


def _held_splits(workload: WorkloadConfig, eval_samples: int, free_bytes: int) -> int:
    """Return the bytes of data that a GPU with `free_bytes` holds: the evaluation split, and synthetic training data,
    each where it fits."""
    from reference_models.training.device_data import FREE_MEMORY_DIVISOR  # imports torch

    data, held_bytes = workload.data, 0
    sample_bytes = FLOAT_BYTES * (data.num_dense + data.num_lookups + 1)
    training = (data.train_samples or 0) if find_data(data.kind).is_in_memory else 0
    for num_samples in (training, eval_samples):
        if FREE_MEMORY_DIVISOR * sample_bytes * num_samples <= free_bytes - held_bytes:
            held_bytes += sample_bytes * num_samples
    return held_bytes


def _read_gpus(device: str, ranks: int) -> tuple[int, int] | None:
    """Return the capacity and the free bytes of the GPUs of all ranks together, as if they were all like this rank's
    GPU; None without a GPU."""
    import torch

    from reference_models.training.devices import find_device

    try:
        free, total = torch.cuda.mem_get_info(find_device(device))
    except (DeviceError, RuntimeError):
        return None
    return ranks * total, ranks * free
