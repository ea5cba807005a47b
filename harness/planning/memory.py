"""How much memory runs would need, and how much there is: the host's, and the GPUs' where they compute on those."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.config.catalog import WorkloadConfig
from harness.system.resources import Resources
from reference_models.costs import AUC_BYTES_PER_SAMPLE, FLOAT_BYTES
from reference_models.data.registry import find_data
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
    workload: WorkloadConfig,
    resources: Resources,
    eval_samples: int,
    num_embeddings: Sequence[int],
    *,
    has_kernels: bool = True,
) -> tuple[MemoryNeed, ...]:
    """Model what runs need of each memory that they use, that of the model itself first.

    `has_kernels`: Triton's can be used where they are not switched off.
    """
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
        # A graph's temporaries stay while scores are sorted; and what is read again is held, where it fits.
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
    """Count what a GPU with so much left holds of the evaluation split, and of training data that are in no file."""
    from reference_models.training.device_data import SHARE  # imports torch

    data, held_bytes = workload.data, 0
    sample_bytes = FLOAT_BYTES * (data.num_dense + data.num_lookups + 1)
    training = (data.train_samples or 0) if find_data(data.kind).is_in_memory else 0
    for num_samples in (training, eval_samples):
        if SHARE * sample_bytes * num_samples <= free_bytes - held_bytes:
            held_bytes += sample_bytes * num_samples
    return held_bytes


def _read_gpus(device: str, ranks: int) -> tuple[int, int] | None:
    """Return what the GPUs of so many ranks hold at all and now; None without them. They are taken to be alike."""
    import torch

    from reference_models.training.devices import find_device

    try:
        free, total = torch.cuda.mem_get_info(find_device(device))
    except (DeviceError, RuntimeError):
        return None
    return ranks * total, ranks * free
