"""Measure energy, with RAPL's and NVML's counters or from the watts that a user's command prints.

RAPL (Linux powercap) counts whole CPU packages and their memory, and NVML whole accelerators, so the work of other
processes on them is included. A thread reads the counters once a second, because counters wrap and some devices
report only power. With several ranks, each rank reads its own counters, and `join_ranks` counts every package and
accelerator once. With --power-command, only the energy that the command reports is recorded, since its wall meter
includes all parts of the system. Nothing is estimated.
"""

import collections
import os
import socket
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from harness.foundation.errors import HarnessError
from harness.system.gpu_state import GpuState
from harness.system.power_command import NAME, SOURCE, PowerCommand
from harness.system.resources import ROOT
from reference_models.process.world import World
from rules.records.run import EnergyGap

T = TypeVar("T")
SAMPLING_INTERVAL_S = 1.0
_POWERCAP = Path("sys/class/powercap")


class EnergyCounter:
    """Energy counter that sums how far a hardware counter has advanced since this object was made. `read` returns the
    hardware counter's value in units of `unit_j` joules. The value wraps to 0 after `range_units` units."""

    def __init__(self, name: str, source: str, read: Callable[[], int], unit_j: float, range_units: int = 0) -> None:
        self.name, self.source, self.energy_j = name, source, 0.0
        self.device: str | None = None
        self.state: GpuState | None = None
        self._read, self._unit_j, self._range = read, unit_j, range_units
        self._last, self._total = read(), 0

    def update(self) -> None:
        """Read the hardware's energy counter and add the energy since the last reading. Must be called often enough
        that the hardware counter wraps at most once between two calls. Raises OSError if reading fails."""
        now = self._read()
        self._total += now - self._last + (self._range if now < self._last else 0)
        self._last, self.energy_j = now, self._total * self._unit_j


class NvmlPower:
    """Energy counter that integrates one accelerator's power (nvmlDeviceGetPowerUsage) over time by the trapezoidal
    rule."""

    def __init__(self, nvml: Any, handle: Any, name: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self.name, self.source, self.energy_j = name, "NVML power, integrated", 0.0
        self.device: str | None = None
        self.state: GpuState | None = None
        self._read = _asking(nvml, lambda: float(nvml.nvmlDeviceGetPowerUsage(handle)) * 1e-3)
        self._now_s = now_s
        self._last_s, self._last_w = now_s(), self._read()

    def update(self) -> None:
        """Read the accelerator's power in watts once; OSError where reading fails."""
        now_s, now_w = self._now_s(), self._read()
        self.energy_j += (now_s - self._last_s) * (now_w + self._last_w) / 2
        self._last_s, self._last_w = now_s, now_w


Counter = EnergyCounter | NvmlPower


def make_rapl_counter(folder: Path, name: str) -> EnergyCounter:
    """Return the energy counter of one powercap domain (CPU package or memory), which wraps
    (Documentation/power/powercap)."""
    range_uj = int((folder / "max_energy_range_uj").read_text())
    return EnergyCounter(name, "RAPL (powercap)", lambda: int((folder / "energy_uj").read_text()), 1e-6, range_uj)


def make_nvml_counter(nvml: Any, handle: Any, name: str) -> EnergyCounter:
    """Return the energy counter of an accelerator (nvmlDeviceGetTotalEnergyConsumption: millijoules, Volta and
    later)."""
    read = _asking(nvml, lambda: int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)))
    return EnergyCounter(name, "NVML energy counter", read, 1e-3)


def _asking(nvml: Any, question: Callable[[], T]) -> Callable[[], T]:
    def ask() -> T:
        try:
            return question()
        except nvml.NVMLError as error:
            raise OSError(f"NVML: {error}") from None

    return ask


def find_rapl(root: Path = ROOT) -> tuple[list[EnergyCounter], list[EnergyGap]]:
    """Return two lists: the RAPL energy counters of this system, and what cannot be measured, with reasons. There is
    a counter for each CPU package and, if it is counted separately, for its memory.

    RAPL's domains `core` and `uncore` are left out, since they are parts of a package. `psys` is left out, since it
    counts the whole platform, packages included. AMD's processors have the same domain names (Linux 5.8 and later).
    """
    folder = root / _POWERCAP
    zones = sorted(folder.glob("intel-rapl:*")) if folder.is_dir() else []
    domains: list[EnergyCounter] = []
    for zone in zones:
        try:
            name = (zone / "name").read_text().strip()
            if zone.name.count(":") == 2 and name == "dram":
                name = f"{(folder / zone.name.rpartition(':')[0] / 'name').read_text().strip()} {name}"
            elif not name.startswith("package"):
                continue
            domains.append(make_rapl_counter(zone, name))
        except PermissionError as error:
            reason = f"{error.filename}: readable by root only on this system (Linux 5.10 and later)."
            return [], [EnergyGap(what="CPU packages", reason=reason)]
        except (OSError, ValueError) as error:
            return [], [EnergyGap(what="CPU packages", reason=f"{zone}: {error}")]
    if domains:
        return domains, []
    why = "holds no RAPL package" if folder.is_dir() else "is absent: no RAPL driver, or a virtual machine"
    return [], [EnergyGap(what="CPU packages", reason=f"/{_POWERCAP} {why}.")]


def find_nvml(
    device: str, nvml: Any = None, uuid_of: Callable[[str], str] | None = None
) -> tuple[list[Counter], list[EnergyGap]]:
    """Return the energy counter of the accelerator that `device` names (cuda or cuda:N); where there is none, an
    empty list and the reason why its energy cannot be measured."""
    what = f"accelerator {device}"
    if nvml is None:
        try:
            nvml = import_module("pynvml")
        except ImportError:
            return [], [EnergyGap(what=what, reason="NVML is not installed (pip install '.[gpu]' in a checkout).")]
    try:
        uuid = (uuid_of or _device_uuid)(device)
    except (AssertionError, RuntimeError) as error:  # a CPU build of torch beside a driver, or no such device
        reason = f"torch does not say which it is: {str(error).splitlines()[0] if str(error) else 'no such device'}."
        return [], [EnergyGap(what=what, reason=reason)]
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError as error:
        return [], [EnergyGap(what=what, reason=f"NVML: {error}")]
    reason = ""
    for make in (make_nvml_counter, NvmlPower):
        try:
            counter = make(nvml, handle, what)
        except OSError as error:  # older devices have power only
            reason = str(error)
            continue
        counter.device = uuid
        counter.state = GpuState(nvml, handle, uuid)
        return [counter], []
    return [], [EnergyGap(what=what, reason=reason)]


def _device_uuid(device: str) -> str:
    """Return the UUID of a CUDA device; CUDA's and NVML's indices may differ (CUDA_VISIBLE_DEVICES), the UUID does
    not."""
    import torch

    number = device.partition(":")[2]
    index = int(number) if number else torch.cuda.current_device()
    return f"GPU-{torch.cuda.get_device_properties(index).uuid}"


class EnergyMeter:
    """Meter of the energy used between `start` and `stop`. Creating a meter finds its counters, which may take a
    while."""

    def __init__(
        self,
        device: str = "cpu",
        root: Path = ROOT,
        *,
        interval_s: float = SAMPLING_INTERVAL_S,
        power_command: str | None = None,
    ) -> None:
        counters, missing = find_rapl(root)
        self._counters: list[Counter] = [*counters]
        self._not_measured = [*missing]
        if device != "cpu":
            more, missing = find_nvml(device)
            self._counters += more
            self._not_measured += missing
        self._interval_s, self._power_command = interval_s, power_command
        self._power: PowerCommand | None = None
        self._before_j: dict[int, float] = {}
        self._started_s: float | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def require_counter(self) -> None:
        """Raise HarnessError (exit 2) where this system has no energy counter."""
        if not self._counters:
            why = " ".join(f"{gap.what}: {gap.reason}" for gap in self._not_measured)
            raise HarnessError(f"nothing counts energy here. {why} Give --power-command CMD, which prints watts.")

    def start(self) -> None:
        self._update()
        self._before_j = {id(counter): counter.energy_j for counter in self._counters}
        self._started_s = time.monotonic()
        if self._counters:
            self._thread = threading.Thread(target=self._sample, name="energy-meter", daemon=True)
            self._thread.start()
        if self._power_command is not None and os.environ.get("LOCAL_RANK", "0") == "0":
            self._power = PowerCommand(self._power_command, self._interval_s, self._started_s)
            self._power.start()

    def _sample(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._update()

    def _update(self) -> None:
        for counter in list(self._counters):
            try:
                counter.update()
                if counter.state is not None:
                    counter.state.sample()
            except (OSError, ValueError) as error:
                self._counters.remove(counter)
                self._not_measured.append(EnergyGap(what=counter.name, reason=f"reading failed: {error}"))

    def stop(self) -> dict[str, Any] | None:
        """Return the energy since `start` as run.json and throughput.json have it; None when `start` was never
        called.

        Its `energy_j` is the sum of the measured parts in joules, None where there is none.
        """
        if self._started_s is None:
            return None
        stopped_s = time.monotonic()
        duration_s = stopped_s - self._started_s
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._update()
        parts = [
            {
                "name": part.name,
                "source": part.source,
                "energy_j": part.energy_j - self._before_j[id(part)],
                "device": part.device,
            }
            for part in self._counters
        ]
        gaps = self._not_measured
        if self._power_command is not None:
            parts, gaps = [], []
        if self._power is not None:
            energy_j = self._power.take_energy(stopped_s)
            if energy_j is None:
                gaps = [EnergyGap(what=NAME, reason=self._power.problem)]
            else:
                parts = [{"name": NAME, "source": SOURCE, "energy_j": energy_j, "device": None}]
        return {
            "energy_j": sum(part["energy_j"] for part in parts) if parts else None,
            "duration_s": duration_s,
            "sampling_interval_s": self._interval_s if parts else None,
            "parts": parts,
            "not_measured": [structs.asdict(gap) for gap in gaps],
            "num_ranks": 1,
            "gpus": [counter.state.describe() for counter in self._counters if counter.state is not None],
        }


def join_ranks(world: World, energy: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return on rank 0 the energy of all ranks together, and on other ranks their own energy. Every rank must call
    this function.

    Each CPU package of a host and each accelerator counts once, however many ranks read it. Ranks without a counter
    are counted in `not_measured`. Rank 0 returns None if the meter of any rank was never started.
    """
    if world.size == 1:
        return energy
    gathered = world.gather((socket.gethostname(), energy))
    if gathered is None:
        return energy
    ranks = [(rank, host, read) for rank, (host, read) in enumerate(gathered) if read is not None]
    if len(ranks) < world.size:
        return None
    parts: dict[tuple[str, str], dict[str, Any]] = {}
    gpus: dict[str, dict[str, Any]] = {}
    gaps: collections.Counter[tuple[str, str]] = collections.Counter()
    for rank, host, read in ranks:
        for part in read["parts"]:
            parts.setdefault((host, part["device"] or part["name"]), {**part, "rank": rank})
        gpus |= {gpu["device"]: gpu for gpu in read.get("gpus", ())}
        gaps.update((gap["what"], gap["reason"]) for gap in read["not_measured"])
    return {
        "energy_j": sum(part["energy_j"] for part in parts.values()) if parts else None,
        "duration_s": max(read["duration_s"] for _, _, read in ranks),
        "sampling_interval_s": next((read["sampling_interval_s"] for _, _, read in ranks if read["parts"]), None),
        "parts": list(parts.values()),
        "not_measured": [
            {"what": f"{what} ({number} of {world.size} ranks)", "reason": reason}
            for (what, reason), number in gaps.items()
        ],
        "num_ranks": world.size,
        "gpus": list(gpus.values()),
    }
