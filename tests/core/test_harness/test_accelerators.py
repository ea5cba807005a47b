"""Accelerators through NVML, with the library's own names and made-up devices behind them."""

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from harness.system.accelerators import describe_accelerators, read_accelerators
from harness.system.preflight import check_accelerators

ANSWERS: dict[str, Callable[..., Any]] = {
    "nvmlInit": lambda: None,
    "nvmlShutdown": lambda: None,
    "nvmlDeviceGetCount": lambda: 2,
    "nvmlDeviceGetHandleByIndex": lambda i: i,
    "nvmlSystemGetDriverVersion": lambda: b"580.82.07",
    "nvmlDeviceGetName": lambda h: "NVIDIA H200",
    "nvmlDeviceGetMemoryInfo": lambda h: SimpleNamespace(total=150754820096),
    "nvmlDeviceGetComputeRunningProcesses": lambda h: [SimpleNamespace(pid=1)] * h,
    "nvmlDeviceGetNvLinkState": lambda h, i: int(i < 18),
    "nvmlDeviceGetMaxClockInfo": lambda h, kind: 1980,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda h: 5,
    "nvmlDeviceGetMaxPcieLinkWidth": lambda h: 16,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda h: 0x4 if h else 0x1,
}


class NVMLError(Exception):
    pass


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for pynvml with the answers above."""
    module = ModuleType("pynvml")
    vars(module).update(ANSWERS, NVMLError=NVMLError, NVML_NVLINK_MAX_LINKS=36, NVML_CLOCK_SM=1)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def refuse(*arguments: object) -> None:
    raise NVMLError("Not Supported")


def test_nvml_fills_the_accelerator_fields(nvml: ModuleType) -> None:
    found = read_accelerators()
    assert found.driver_version == "580.82.07"
    assert {name: entry.value for name, entry in describe_accelerators(found).items()} == {
        "accelerators_per_node": "2",
        "accelerator_model_name": "NVIDIA H200",
        "accelerator_memory_capacity": "140.4 GiB",
        "accelerator_frequency": "1980 MHz maximum",
        "accelerator_host_interconnect": "PCIe Gen5 x16",
        "accelerator_interconnect": "18 NVLink links per device",
    }


def test_processes_and_a_power_cap_are_seen(nvml: ModuleType) -> None:
    check = check_accelerators(read_accelerators())
    assert (check.status, check.value) == ("warning", "2, 1 processes, power cap")


@pytest.mark.parametrize(
    "name", sorted(set(ANSWERS) - {"nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"})
)
def test_a_question_that_the_driver_does_not_answer_leaves_its_field_out(
    nvml: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(nvml, name, refuse)
    assert len(read_accelerators().devices) == 2


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"])
def test_without_a_working_driver_others_are_asked(
    nvml: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(nvml, name, refuse)
    assert read_accelerators().source != "NVML"


def test_the_stand_in_has_the_names_of_the_real_library() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    names = {*ANSWERS, "NVMLError", "NVML_NVLINK_MAX_LINKS", "NVML_CLOCK_SM"}
    assert {name for name in names if not hasattr(pynvml, name)} == set()
