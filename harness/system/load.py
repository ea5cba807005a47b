"""Record the load of other processes on the system during a measurement, and the CPUs' clock and temperature.

The load is read before and after a measurement; clock and temperature are read a few times in between. A reading
takes a few milliseconds.
"""

import os
import statistics
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from harness.system.resources import ROOT, read_text
from rules.records.load import LoadRecord

_LOOK_EVERY_S = 2.0
_CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Names of the Linux hwmon drivers that report CPU temperatures."""
_NUM_FIELDS = 8
"""Number of used fields in the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq and steal
(proc_stat(5))."""
_IDLE = (3, 4)


class LoadReading(NamedTuple):
    """Reading of the system's load at one time; values are None where the system does not report them."""

    at_s: float
    num_cpus: int
    load_avg: float | None
    busy_s: float | None
    """Processor time of all processes since boot in seconds, including time that a hypervisor took away."""
    own_s: float | None
    """Processor time in seconds of this process and all its descendants, ended ones included."""


class LoadWatch:
    """Observer of the system's load, from its creation to the call of `end`. In between, `look` may be called as
    often as desired, to sample the CPUs' clock and temperature."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root, self._clocks_mhz, self._temperatures_c = root, list[float](), list[float]()
        self._begun = read_load(root)
        self._looked_s = self._begun.at_s

    def look(self) -> None:
        """Sample the CPUs' clock and temperature, unless the last sample is recent."""
        if time.monotonic() - self._looked_s >= _LOOK_EVERY_S:
            self._look()
            self._looked_s = time.monotonic()

    def end(self) -> LoadRecord:
        """Return the system's load since this object's creation; where clock and temperature were never sampled,
        sample them now."""
        if not self._clocks_mhz and not self._temperatures_c:
            self._look()
        ended, begun = read_load(self._root), self._begun
        duration_s = max(0.0, ended.at_s - begun.at_s)
        return LoadRecord(
            num_cpus=ended.num_cpus,
            duration_s=duration_s,
            load_avg_before=begun.load_avg,
            load_avg_after=ended.load_avg,
            other_cpus=_others(begun, ended, duration_s),
            cpu_clock_mhz=statistics.fmean(self._clocks_mhz) if self._clocks_mhz else None,
            max_temperature_c=max(self._temperatures_c, default=None),
        )

    def _look(self) -> None:
        clock_mhz, temperature_c = read_clock_mhz(self._root), read_temperature_c(self._root)
        self._clocks_mhz += [] if clock_mhz is None else [clock_mhz]
        self._temperatures_c += [] if temperature_c is None else [temperature_c]


def _others(begun: LoadReading, ended: LoadReading, duration_s: float) -> float | None:
    if None in (begun.busy_s, begun.own_s, ended.busy_s, ended.own_s) or not duration_s:
        return None
    busy_s, own_s = (ended.busy_s or 0.0) - (begun.busy_s or 0.0), (ended.own_s or 0.0) - (begun.own_s or 0.0)
    # Both are counted in hundredths of a second, at different moments.
    return max(0.0, busy_s - own_s) / duration_s


def read_load(root: Path = ROOT) -> LoadReading:
    """Return a reading of the load average, the processor time of all processes, and that of this process with its
    descendants."""
    load_avg = None
    with suppress(OSError):
        load_avg = os.getloadavg()[0]
    return LoadReading(time.monotonic(), os.cpu_count() or 1, load_avg, read_busy_s(root), _read_own_s())


def read_busy_s(root: Path = ROOT) -> float | None:
    """Return the processor time of all processes since boot in seconds, stolen time included; None without /proc."""
    fields = (read_text(root / "proc/stat") or "").partition("\n")[0].split()[1 : 1 + _NUM_FIELDS]
    if len(fields) < _NUM_FIELDS or not all(field.isdecimal() for field in fields) or not any(map(int, fields)):
        return None
    ticks = sum(int(field) for place, field in enumerate(fields) if place not in _IDLE)
    return ticks / os.sysconf("SC_CLK_TCK")


def _read_own_s() -> float | None:
    try:
        own = psutil.Process()
        all_s, children = sum(own.cpu_times()[:4]), own.children(recursive=True)
    except (psutil.Error, OSError):
        return None
    for child in children:
        with suppress(psutil.Error, OSError):  # a process that has ended: its parent has its time
            all_s += sum(child.cpu_times()[:4])
    return float(all_s)


def read_clock_mhz(root: Path = ROOT) -> float | None:
    """Return the present mean clock of all CPUs from cpufreq; None without it, as in most virtual machines."""
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    found = [int(text) / 1e3 for file in files if (text := read_text(file)) is not None and text.isdecimal()]
    return statistics.fmean(found) if found else None


def read_temperature_c(root: Path = ROOT) -> float | None:
    """Return the present highest CPU temperature from hwmon; None without it."""
    drivers = (file.parent for file in (root / "sys/class/hwmon").glob("hwmon*/name") if _is_of_cpu(file))
    texts = (read_text(file) for driver in drivers for file in driver.glob("temp*_input"))
    return max((int(text) / 1e3 for text in texts if text is not None and text.isdecimal()), default=None)


def _is_of_cpu(name: Path) -> bool:
    return read_text(name) in _CPU_SENSORS
