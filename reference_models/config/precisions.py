"""Which precisions of matrix products a device trains in; torch-free."""

from reference_models.process.errors import ConfigError

CPU_PRECISIONS = ("fp32", "bf16")
CUDA_PRECISIONS = ("fp32", "tf32", "bf16")


def refuse_precision(device_type: str, precision: str) -> None:
    """Raise ConfigError for a precision of training's matrix products that is unknown on a device.

    A CPU without products in bf16 emulates them: how slow that is, is timed before a run.
    """
    allowed = CUDA_PRECISIONS if device_type == "cuda" else CPU_PRECISIONS
    if precision not in allowed:
        raise ConfigError(
            f"runtime.precision is {precision!r}, expected {' or '.join(map(repr, allowed))} on {device_type}."
        )
