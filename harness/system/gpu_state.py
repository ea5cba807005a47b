"""Sample a GPU's state during a measurement by NVML: clocks, power limit, temperature and configuration."""

import statistics
from typing import Any

from harness.system.software import version_of

_LIBRARIES = {"nccl": "nvidia-nccl-cu", "cublas": "nvidia-cublas-cu"}
_CUDA_MAJORS = ("13", "12")


class GpuState:
    """Sampler of one GPU's clocks and temperature; other values are read once. Values that the driver lacks are
    None."""

    def __init__(self, nvml: Any, handle: Any, device: str) -> None:
        self._nvml, self._handle, self._device = nvml, handle, device
        self._samples: list[tuple[Any, Any, Any]] = []

    def sample(self) -> None:
        nvml = self._nvml
        sm, memory = (self._ask("nvmlDeviceGetClockInfo", kind) for kind in (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM))
        self._samples.append((sm, memory, self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)))

    def describe(self) -> dict[str, Any]:
        """Return the fields of `rules.records.run.GpuRecord`: the GPU's clocks, temperature and configuration."""
        nvml = self._nvml
        limit_mw = self._ask("nvmlDeviceGetPowerManagementLimit")
        sm, memory, temperature = (
            [each for each in column if each is not None]
            for column in (zip(*self._samples, strict=True) if self._samples else ((), (), ()))
        )
        return {
            "device": self._device,
            "num_samples": len(self._samples),
            "sm_clock_mhz": _spread(sm),
            "max_sm_clock_mhz": self._ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": _spread(memory),
            "max_memory_clock_mhz": self._ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
            "max_temperature_c": max(temperature, default=None),
            "power_limit_w": None if limit_mw is None else limit_mw / 1e3,
            "is_mig": _first_as_bool(self._ask("nvmlDeviceGetMigMode")),
            "is_ecc": _first_as_bool(self._ask("nvmlDeviceGetEccMode")),
            "nccl_version": _nccl_version(),
            "cublas_version": _find_version("cublas"),
        }

    def _ask(self, question: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, question)(self._handle, *arguments)
        except (self._nvml.NVMLError, AttributeError):  # of the device, the driver, or an older library
            return None


def _spread(values: list[Any]) -> dict[str, Any] | None:
    if not values:
        return None
    return {"lowest": min(values), "median": statistics.median(values), "highest": max(values)}


def _first_as_bool(modes: Any) -> bool | None:
    """Return whether a GPU mode is on now, from (current mode, mode after the next reset); None where it is
    unknown."""
    return None if modes is None else bool(modes[0])


def _nccl_version() -> str | None:
    """Return the version of the NCCL that torch was built with; if torch does not know it, the version in NCCL's
    package metadata."""
    import torch

    try:
        return ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
    except (AttributeError, RuntimeError, TypeError):  # a build without NCCL
        return _find_version("nccl")


def _find_version(library: str) -> str | None:
    found = (version_of(f"{_LIBRARIES[library]}{major}") for major in _CUDA_MAJORS)
    return next((version for version in found if version is not None), version_of(f"nvidia-{library}"))
