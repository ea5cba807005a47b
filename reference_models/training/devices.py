"""From a device's name to the device, and the precision of its matrix products."""

import torch

from reference_models.process.errors import ConfigError, DeviceError

CPU_PRECISIONS = ("fp32",)
CUDA_PRECISIONS = ("fp32", "tf32", "bf16")


def find_device(name: str) -> torch.device:
    """Find the device of that name, with its index; DeviceError when it is unknown here, with what to do."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DeviceError(f"runtime.device is {name!r}, expected 'cpu', 'cuda' or 'cuda:N'.") from None
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type != "cuda":
        raise DeviceError(f"runtime.device is {name!r}, expected 'cpu', 'cuda' or 'cuda:N'.")
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


def set_precision(device: torch.device, precision: str) -> bool:
    """Set float32 matrix products to `precision`; return whether the forward pass runs under bf16 autocast."""
    allowed = CUDA_PRECISIONS if device.type == "cuda" else CPU_PRECISIONS
    if precision not in allowed:
        raise ConfigError(
            f"runtime.precision is {precision!r}, expected {' or '.join(map(repr, allowed))} on {device.type}."
        )
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    return precision == "bf16"
