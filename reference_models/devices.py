"""From a device's name to the device, and how many cores this process may use."""

import os
from pathlib import Path

import torch

from reference_models.errors import ConfigError, DeviceError

CPU_PRECISIONS = ("fp32",)
CUDA_PRECISIONS = ("fp32", "tf32", "bf16")


def find_device(name: str) -> torch.device:
    """The device of that name, with its index; DeviceError when it is unknown here, with what to do."""
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
    """Set float32 matrix products to `precision`; whether the forward pass runs under bf16 autocast."""
    allowed = CUDA_PRECISIONS if device.type == "cuda" else CPU_PRECISIONS
    if precision not in allowed:
        raise ConfigError(
            f"runtime.precision is {precision!r}, expected {' or '.join(map(repr, allowed))} on {device.type}."
        )
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    return precision == "bf16"


def num_usable_cores() -> int:
    """Cores that this process may use: its affinity, and its control group's quota where there is one."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _control_group_quota()
    return affinity if quota is None else max(1, min(affinity, int(quota)))


def _control_group_quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """CPU time per time of this container's control group (v2, then v1), None where there is no limit."""
    try:
        limit, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            limit = (root / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if limit in ("max", "-1"):
        return None
    return int(limit) / int(period)
