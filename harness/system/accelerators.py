"""Detect NVIDIA accelerators through NVML or nvidia-smi, and others by their PCI class. Imports no framework."""

import csv
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.system.hardware import GIB, MIB, DetectedValue
from harness.system.resources import ROOT, read_text, run_for_output

_NVIDIA = "0x10de"
_DISPLAY = "0x0300"
"""PCI device class of VGA controllers, which may be accelerators."""
_COMPUTE = ("0x0302", "0x12")
"""PCI device classes of 3D controllers and of processing accelerators."""
NOWHERE = "no driver, no PCI bus"
_SMI_FIELDS = ("name", "memory.total", "clocks.max.sm", "pcie.link.gen.max", "pcie.link.width.max", "driver_version")


_FIELDS = (
    "accelerator_model_name",
    "accelerator_host_interconnect",
    "accelerator_frequency",
    "accelerator_on-chip_memories",
    "accelerator_memory_configuration",
    "accelerator_memory_capacity",
    "accelerator_interconnect",
    "accelerator_interconnect_topology",
)


NOT_APPLICABLE = "N/A"
"""Value that published system descriptions have in accelerator fields of systems without accelerators."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Accelerator:
    """One accelerator; fields are None where the device does not report them. `num_links` counts active NVLink
    links."""

    model_name: str | None = None
    memory_bytes: int | None = None
    max_frequency_mhz: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    num_links: int | None = None
    num_processes: int | None = None
    throttle_reasons: int | None = None
    """NVML's bit mask of the present reasons for lowered clocks of the accelerator; None where it is not reported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Accelerators:
    """Accelerators of this system that the driver or the PCI bus lists, with the source of the list."""

    devices: tuple[Accelerator, ...]
    driver_version: str | None
    source: str


def read_accelerators(root: Path = ROOT) -> Accelerators:
    """Return the accelerators that NVML lists if it is installed, else nvidia-smi, else the PCI bus."""
    if root == ROOT:
        for read in (_read_nvml, _read_nvidia_smi):
            found = read()
            if found is not None and found.devices:
                return found
    return _read_pci(root)


def describe_accelerators(found: Accelerators) -> dict[str, DetectedValue]:
    """Return the accelerator_* fields of MLPerf's system description. The number of accelerators is '0' only where a
    driver or a PCI bus could have listed one; where neither exists, there are no fields."""
    source = found.source
    if source == NOWHERE:
        return {}
    fields = {"accelerators_per_node": DetectedValue(str(len(found.devices)), source)}
    if not found.devices:
        return fields | dict.fromkeys(_FIELDS, DetectedValue(NOT_APPLICABLE, f"{source}: no accelerator"))
    first = found.devices[0]
    names = sorted({str(device.model_name) for device in found.devices})
    shown = (
        ("model_name", first.model_name, ", ".join(names)),
        ("memory_capacity", first.memory_bytes, f"{(first.memory_bytes or 0) / GIB:.1f} GiB"),
        ("frequency", first.max_frequency_mhz, f"{first.max_frequency_mhz} MHz maximum"),
        (
            "host_interconnect",
            first.pcie_generation and first.pcie_width,
            f"PCIe Gen{first.pcie_generation} x{first.pcie_width}",
        ),
        ("interconnect", first.num_links, f"{first.num_links} NVLink links per device"),
    )
    return fields | {f"accelerator_{name}": DetectedValue(text, source) for name, is_known, text in shown if is_known}


def _read_nvml() -> Accelerators | None:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return Accelerators(
            devices=tuple(_read_nvml_device(pynvml, handle) for handle in handles),
            driver_version=_text(_ask(pynvml, pynvml.nvmlSystemGetDriverVersion)),
            source="NVML",
        )
    except pynvml.NVMLError:
        return None
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _read_nvml_device(pynvml: Any, handle: Any) -> Accelerator:
    memory = _ask(pynvml, pynvml.nvmlDeviceGetMemoryInfo, handle)
    processes = _ask(pynvml, pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    links = [_ask(pynvml, pynvml.nvmlDeviceGetNvLinkState, handle, i) for i in range(pynvml.NVML_NVLINK_MAX_LINKS)]
    return Accelerator(
        model_name=_text(_ask(pynvml, pynvml.nvmlDeviceGetName, handle)),
        memory_bytes=None if memory is None else int(memory.total),
        max_frequency_mhz=_ask(pynvml, pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        pcie_generation=_ask(pynvml, pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        pcie_width=_ask(pynvml, pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        num_links=sum(1 for link in links if link == 1),
        num_processes=None if processes is None else len(processes),
        throttle_reasons=_ask(pynvml, pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle),
    )


def _ask(pynvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of an NVML function; None where device or driver does not support it."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _read_nvidia_smi() -> Accelerators | None:
    query = f"--query-gpu={','.join(_SMI_FIELDS)}"
    text = run_for_output("nvidia-smi", query, "--format=csv,noheader,nounits", timeout_s=20)
    return None if text is None else parse_nvidia_smi(text)


def parse_nvidia_smi(text: str) -> Accelerators:
    """Return the accelerators in rows of _SMI_FIELDS that nvidia-smi printed as csv without header and units; '[N/A]'
    and the like become None."""
    rows = [row for row in csv.reader(text.splitlines(), skipinitialspace=True) if len(row) == len(_SMI_FIELDS)]
    return Accelerators(
        devices=tuple(_parse_smi_row(row) for row in rows),
        driver_version=rows[0][5].strip() or None if rows else None,
        source="nvidia-smi",
    )


def _parse_smi_row(row: list[str]) -> Accelerator:
    memory_mib, frequency, generation, width = (int(t) if t.strip().isdecimal() else None for t in row[1:5])
    return Accelerator(
        model_name=row[0].strip() or None,
        memory_bytes=None if memory_mib is None else memory_mib * MIB,
        max_frequency_mhz=frequency,
        pcie_generation=generation,
        pcie_width=width,
    )


def _read_pci(root: Path) -> Accelerators:
    devices = []
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        kind, vendor = read_text(folder / "class") or "", read_text(folder / "vendor")
        if kind.startswith(_COMPUTE) or (kind.startswith(_DISPLAY) and vendor == _NVIDIA):
            devices.append(Accelerator())
    source = "PCI bus" if (root / "sys/bus/pci/devices").is_dir() else NOWHERE
    return Accelerators(devices=tuple(devices), driver_version=None, source=source)
