"""How much memory runs would need, and how much there is: the host's, and the GPUs' where they compute on those."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.config.catalog import WorkloadConfig
from harness.system.resources import Resources
from reference_models.costs import AUC_BYTES_PER_SAMPLE
from reference_models.process.errors import DeviceError

PROCESS_BYTES = 300 << 20
"""Python with torch loaded, measured on Linux with the CPU build; tables and batches come on top."""
CONTEXT_BYTES = 600 << 20
"""CUDA's context, its libraries' code and workspaces, per process; assumed, not measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryNeed:
    """What all ranks together need of one memory, modelled; what it holds at all and now, None where unknown."""

    of: str
    """"host", or "GPU"."""
    needed_bytes: int
    held_bytes: int | None
    available_bytes: int | None

    @property
    def problem(self) -> str | None:
        """Say that it cannot hold what is needed; None where it can, or is unknown."""
        if self.held_bytes is None or self.needed_bytes <= self.held_bytes:
            return None
        where = "here" if self.of == "host" else "on the GPUs here"
        needed, held = (f"{number / 2**30:.1f} GiB" for number in (self.needed_bytes, self.held_bytes))
        return f"{needed} needed (modelled), {held} {where}: out of memory."


def model_memory(
    workload: WorkloadConfig, resources: Resources, eval_samples: int, num_embeddings: Sequence[int]
) -> tuple[MemoryNeed, ...]:
    """Model what runs need of each memory that they use, that of the model itself first."""
    estimate = workload.estimate_memory(eval_samples=eval_samples, num_embeddings=num_embeddings)
    ranks, implementation = workload.runtime.ranks, workload.implementation
    process_bytes = ranks * (PROCESS_BYTES + implementation.process_bytes)
    on_host = process_bytes + estimate.total_bytes
    # Scores are sorted on the GPU or, by all but `optimized`, on the host: counted for both.
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
        step_bytes = implementation.gpu_step_bytes(workload.model, workload.data.mapped, workload.train)
    held = _read_gpus(workload.runtime.device, ranks)
    gpu = MemoryNeed(
        of="GPU",
        needed_bytes=estimate.weights_bytes
        + estimate.optimizer_bytes
        + max(step_bytes, estimate.evaluation_bytes)
        + ranks * CONTEXT_BYTES,
        held_bytes=None if held is None else held[0],
        available_bytes=None if held is None else held[1],
    )
    return gpu, host


def _read_gpus(device: str, ranks: int) -> tuple[int, int] | None:
    """Return what the GPUs of so many ranks hold at all and now; None without them. They are taken to be alike."""
    import torch

    from reference_models.training.devices import find_device

    try:
        free, total = torch.cuda.mem_get_info(find_device(device))
    except (DeviceError, RuntimeError):
        return None
    return ranks * total, ranks * free
