"""Energy, measured or not known: RAPL's and NVML's counters, read around the timed part. Nothing is estimated.

RAPL (Linux powercap) counts whole CPU packages and their memory, NVML whole accelerators: other processes' work
on them is in it. A thread looks once a second, because counters wrap and some devices tell power only.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

from harness.system.resources import ROOT

T = TypeVar("T")
SAMPLING_INTERVAL_S = 1.0
_POWERCAP = Path("sys/class/powercap")
_JOULES_PER_MICROJOULE = 1e-6


class Counter(Protocol):
    """Something whose energy since the first look can be asked for. Raises OSError where that fails."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str: ...

    def update(self) -> None:
        """Look once; between two looks less than one wrap of the counter may pass."""

    @property
    def energy_j(self) -> float: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class NotMeasured:
    """What could not be measured, and why."""

    what: str
    reason: str


class RaplDomain:
    """One powercap domain. Its counter wraps at max_energy_range_uj (Documentation/power/powercap)."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path, self.name, self.source = folder / "energy_uj", name, "RAPL (powercap)"
        self._range_uj = int((folder / "max_energy_range_uj").read_text())
        self._last_uj = self._read()
        self._total_uj = 0

    def _read(self) -> int:
        return int(self._path.read_text())

    def update(self) -> None:
        now_uj = self._read()
        self._total_uj += now_uj - self._last_uj + (self._range_uj if now_uj < self._last_uj else 0)
        self._last_uj = now_uj

    @property
    def energy_j(self) -> float:
        return self._total_uj * _JOULES_PER_MICROJOULE


class NvmlEnergy:
    """One accelerator's own energy counter (nvmlDeviceGetTotalEnergyConsumption: millijoules, Volta and later)."""

    def __init__(self, nvml: Any, handle: Any, name: str) -> None:
        self._nvml, self._handle, self.name, self.source = nvml, handle, name, "NVML energy counter"
        self._first_mj = self._last_mj = self._read()

    def _read(self) -> int:
        return _ask(self._nvml, lambda: int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)))

    def update(self) -> None:
        self._last_mj = self._read()

    @property
    def energy_j(self) -> float:
        return (self._last_mj - self._first_mj) * 1e-3


class NvmlPower:
    """One accelerator without an energy counter: its power (nvmlDeviceGetPowerUsage) times time, by trapezoids."""

    def __init__(self, nvml: Any, handle: Any, name: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._nvml, self._handle, self.name, self._now_s = nvml, handle, name, now_s
        self.source = "NVML power, integrated"
        self._last_s, self._last_w = now_s(), self._read()
        self._total_j = 0.0

    def _read(self) -> float:
        return _ask(self._nvml, lambda: float(self._nvml.nvmlDeviceGetPowerUsage(self._handle)) * 1e-3)

    def update(self) -> None:
        now_s, now_w = self._now_s(), self._read()
        self._total_j += (now_s - self._last_s) * (now_w + self._last_w) / 2
        self._last_s, self._last_w = now_s, now_w

    @property
    def energy_j(self) -> float:
        return self._total_j


def _ask(nvml: Any, question: Callable[[], T]) -> T:
    try:
        return question()
    except nvml.NVMLError as error:
        raise OSError(f"NVML: {error}") from None


def find_rapl(root: Path = ROOT) -> tuple[list[RaplDomain], list[NotMeasured]]:
    """Packages and, where they have their own counter, their memory; `core` and `uncore` lie inside a package.

    AMD's processors answer under the same names (Linux 5.8 and later). `psys` counts the platform, package
    included, and is left out.
    """
    folder = root / _POWERCAP
    zones = sorted(folder.glob("intel-rapl:*")) if folder.is_dir() else []
    domains: list[RaplDomain] = []
    for zone in zones:
        try:
            name = (zone / "name").read_text().strip()
            if zone.name.count(":") == 2 and name == "dram":
                name = f"{(folder / zone.name.rpartition(':')[0] / 'name').read_text().strip()} {name}"
            elif not name.startswith("package"):
                continue
            domains.append(RaplDomain(zone, name))
        except PermissionError as error:
            reason = f"{error.filename}: readable by root only on this system (Linux 5.10 and later)."
            return [], [NotMeasured(what="CPU packages", reason=reason)]
        except (OSError, ValueError) as error:
            return [], [NotMeasured(what="CPU packages", reason=f"{zone}: {error}")]
    if domains:
        return domains, []
    why = "holds no RAPL package" if folder.is_dir() else "is absent: no RAPL driver, or a virtual machine"
    return [], [NotMeasured(what="CPU packages", reason=f"/{_POWERCAP} {why}.")]


def find_nvml(
    device: str, nvml: Any = None, uuid_of: Callable[[str], str] | None = None
) -> tuple[list[Counter], list[NotMeasured]]:
    """The accelerator that `device` names (cuda or cuda:N)."""
    what = f"accelerator {device}"
    if nvml is None:
        try:
            nvml = import_module("pynvml")
        except ImportError:
            return [], [NotMeasured(what=what, reason="NVML is not installed (pip install 'dlrmbench[gpu]').")]
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID((uuid_of or _device_uuid)(device))
    except nvml.NVMLError as error:
        return [], [NotMeasured(what=what, reason=f"NVML: {error}")]
    reason = ""
    for kind in (NvmlEnergy, NvmlPower):
        try:
            return [kind(nvml, handle, what)], []
        except OSError as error:  # older devices have power only
            reason = str(error)
    return [], [NotMeasured(what=what, reason=reason)]


def _device_uuid(device: str) -> str:
    """CUDA's and NVML's numbers may differ (CUDA_VISIBLE_DEVICES); the UUID is the same in both."""
    import torch

    number = device.partition(":")[2]
    index = int(number) if number else torch.cuda.current_device()
    return f"GPU-{torch.cuda.get_device_properties(index).uuid}"


class EnergyMeter:
    """Energy between `start` and `stop`. Counters are found when it is made, which may take a while."""

    def __init__(self, device: str = "cpu", root: Path = ROOT, *, interval_s: float = SAMPLING_INTERVAL_S) -> None:
        counters, missing = find_rapl(root)
        self._counters: list[Counter] = [*counters]
        self._not_measured = [*missing]
        if device != "cpu":
            more, missing = find_nvml(device)
            self._counters += more
            self._not_measured += missing
        self._interval_s = interval_s
        self._before_j: dict[int, float] = {}
        self._started_s: float | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._update()
        self._before_j = {id(counter): counter.energy_j for counter in self._counters}
        self._started_s = time.monotonic()
        if self._counters:
            self._thread = threading.Thread(target=self._sample, name="energy-meter", daemon=True)
            self._thread.start()

    def _sample(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._update()

    def _update(self) -> None:
        for counter in list(self._counters):
            try:
                counter.update()
            except (OSError, ValueError) as error:
                self._counters.remove(counter)
                self._not_measured.append(NotMeasured(what=counter.name, reason=f"reading failed: {error}"))

    def stop(self) -> dict[str, Any] | None:
        """What run.json and throughput.json say of the time since `start`; None when that was never called.

        `energy_j` is the sum of the parts that were measured, null where there is none.
        """
        if self._started_s is None:
            return None
        duration_s = time.monotonic() - self._started_s
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._update()
        parts = [
            {"name": one.name, "source": one.source, "energy_j": one.energy_j - self._before_j[id(one)]}
            for one in self._counters
        ]
        return {
            "energy_j": sum(part["energy_j"] for part in parts) if parts else None,
            "duration_s": duration_s,
            "sampling_interval_s": self._interval_s if parts else None,
            "parts": parts,
            "not_measured": [{"what": one.what, "reason": one.reason} for one in self._not_measured],
        }
