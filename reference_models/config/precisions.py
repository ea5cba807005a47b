"""Precisions of matrix products that a CPU, and a GPU, can train in; torch-free."""

from reference_models.process.errors import ConfigError

CPU_PRECISIONS = ("fp32", "bf16")
CUDA_PRECISIONS = ("fp32", "tf32", "bf16")


def refuse_precision(device_type: str, precision: str) -> None:
    """Raise ConfigError if a type of device (cpu, cuda) cannot train with matrix products in `precision`.

    bf16 is allowed even on a CPU that has no bf16 instructions and emulates them; whether bf16 is faster is timed
    before a run.
    """
    allowed = CUDA_PRECISIONS if device_type == "cuda" else CPU_PRECISIONS
    if precision not in allowed:
        raise ConfigError(
            f"runtime.precision is {precision!r}, expected {' or '.join(map(repr, allowed))} on {device_type}."
        )
