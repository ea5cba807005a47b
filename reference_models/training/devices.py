"""Devices by name, the device of each rank, and the precision of a device's matrix products."""

import os
import socket
from collections.abc import Mapping

import torch

from reference_models.config.precisions import refuse_precision
from reference_models.process.errors import DeviceError


def find_device(name: str) -> torch.device:
    """Return the device that `name` names, with its index. Raises DeviceError if this machine or torch lacks it."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DeviceError(f"runtime.device is {name!r}, expected 'cpu', 'cuda' or 'cuda:N'.") from None
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type != "cuda":
        raise DeviceError(f"runtime.device is {name!r}, expected 'cpu', 'cuda' or 'cuda:N'.")
    if torch.version.hip:
        raise DeviceError(
            f"device {name!r}: torch {torch.__version__} is built for ROCm, where graphs and energy are not measured "
            "correctly yet. Use --device cpu."
        )
    if not torch.cuda.is_available():
        why = "finds no usable GPU" if torch.version.cuda else "was built without CUDA"
        raise DeviceError(
            f"device {name!r}: torch {torch.__version__} {why}. Use --device cpu, or install a CUDA build of "
            "torch on a machine with a GPU."
        )
    index = device.index if device.index is not None else torch.cuda.current_device()
    if index >= torch.cuda.device_count():
        raise DeviceError(f"device {name!r}: there are {torch.cuda.device_count()} GPUs, numbered from 0.")
    return torch.device("cuda", index)


def local_device(name: str, num_ranks: int = 1, environ: Mapping[str, str] = os.environ) -> torch.device:
    """Return the device of this rank, one of `num_ranks` ranks in all.

    Where a machine shows its ranks several GPUs, each rank takes the GPU numbered LOCAL_RANK. Where a launcher shows
    each rank one GPU (srun --gpus-per-task=1, CUDA_VISIBLE_DEVICES), the rank takes that GPU. Raises DeviceError if
    two ranks would share a GPU: NCCL refuses that, and measurements would be wrong. A rank that sees one GPU cannot
    tell whether another rank shares it; when the ranks meet, `rendezvous` compares the names from `describe_gpu`.
    """
    device = find_device(name)
    if num_ranks == 1 or device.type == "cpu":
        return device
    if torch.cuda.device_count() == 1:
        return device
    local_rank, num_here = _read_number(environ, "LOCAL_RANK", 0), count_local_ranks(1, environ)
    refuse_shared_gpus(name, max(num_here, local_rank + 1))
    return device if ":" in name else torch.device("cuda", local_rank)


def describe_gpu(device: torch.device) -> str | None:
    """Return a unique name of a GPU, from its host and UUID; None for a CPU."""
    if device.type != "cuda":
        return None
    return f"{socket.gethostname()} GPU-{torch.cuda.get_device_properties(device).uuid}"


def count_local_ranks(default: int, environ: Mapping[str, str] = os.environ) -> int:
    """Return the number of ranks on this machine, from LOCAL_WORLD_SIZE, else `default`.

    Raises DeviceError if the variable is no number.
    """
    return _read_number(environ, "LOCAL_WORLD_SIZE", default)


def _read_number(environ: Mapping[str, str], key: str, default: int) -> int:
    text = environ.get(key, str(default))
    if not text.isdecimal():
        raise DeviceError(f"{key} is {text!r} in the environment: expected a whole number.")
    return int(text)


def list_gpus(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the names of the visible GPUs. A child process sees one of the GPUs alone if its CUDA_VISIBLE_DEVICES is
    the GPU's name."""
    given, num = environ.get("CUDA_VISIBLE_DEVICES"), torch.cuda.device_count()
    names = map(str, range(num)) if given is None else (name.strip() for name in given.split(","))
    return tuple(names)[:num]


def refuse_shared_gpus(name: str, num_ranks: int) -> None:
    """Raise DeviceError if device `name` has fewer GPUs than this machine has ranks, `num_ranks`."""
    if find_device(name).type == "cpu":
        return
    is_named = ":" in name
    num_gpus = 1 if is_named else torch.cuda.device_count()
    if num_ranks > num_gpus:
        remedy = "Give --device cuda, which gives each rank its own" if is_named else "Use fewer ranks"
        raise DeviceError(
            f"device {name!r}: {num_ranks} ranks on this machine, but {num_gpus} GPU{'s' * (num_gpus != 1)} for "
            f"them. {remedy}, or --device cpu."
        )


def use_device(device: torch.device) -> None:
    """Make a GPU the current device of this thread, for events, captures and tensors that name no device."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def set_precision(device: torch.device, precision: str) -> bool:
    """Set the precision of torch's float32 matrix products. Return whether the forward pass runs under bf16 autocast,
    which is so for the precision "bf16".

    On GPUs, cuBLAS may split a sum of bf16 products into partial sums. They are kept in float32, where torch's
    default allows bf16.
    """
    refuse_precision(device.type, precision)
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    return precision == "bf16"
