"""What disturbs measurements on this system. Looks at everything, changes nothing.

Each check says what was found, why it matters for measured times, and what to do about it. A check that the
system gives no answer to is 'unknown', never 'ok'.
"""

import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from harness.system.accelerators import NOWHERE, Accelerators, read_accelerators
from harness.system.hardware import format_bytes, virtualization
from harness.system.page_cache import can_clear, clear_page_cache
from harness.system.requirements import unsupported_versions
from harness.system.resources import ROOT, cgroup_folders, filesystem_type, free_disk_bytes, read_resources, read_text
from harness.system.software import container

Status = Literal["ok", "warning", "unknown"]
GIB = 1 << 30
MIN_AVAILABLE_BYTES = 3 * GIB
"""What the default benchmark may take at its peak."""
MIN_FREE_DISK_BYTES = 5 * GIB
MAX_LOAD_PER_CPU = 0.1
MAX_STEAL = 0.01
_NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "9p", "lustre", "gpfs", "beegfs", "ceph", "fuse", "glusterfs", "afs")
_THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature",
    0x80: "power brake",
}
"""NVML clocks-throttle reasons that lower clocks under load; idle and requested clocks are not among them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One finding about the surroundings of a measurement."""

    name: str
    value: str
    status: Status
    why: str
    remedy: str
    """What to do; empty when nothing is to be done."""


def run_checks(data: Path | None = None, output: Path | None = None, root: Path = ROOT) -> tuple[Check, ...]:
    """All checks in a fixed order; well under a second. `data` and `output` are the folders that runs will use."""
    data, output = Path("data") if data is None else data, Path("results") if output is None else output
    checks: tuple[tuple[str, Callable[[], Check]], ...] = (
        ("cores", lambda: check_cores(root)),
        ("load", lambda: check_load(os.getloadavg()[0], os.cpu_count() or 1)),
        ("governor", lambda: check_governor(root)),
        ("boost", lambda: check_boost(root)),
        ("smt", lambda: check_smt(root)),
        ("memory", lambda: check_memory(root)),
        ("swap", check_swap),
        ("data_disk", lambda: check_disk("data_disk", data, root)),
        ("results_disk", lambda: check_disk("results_disk", output, root)),
        ("page_cache", lambda: check_page_cache(data)),
        ("container", lambda: check_container(root)),
        ("virtualization", lambda: check_virtualization(root)),
        ("huge_pages", lambda: check_huge_pages(root)),
        ("libraries", check_libraries),
        ("clock", lambda: check_clock(root)),
        ("accelerators", lambda: check_accelerators(read_accelerators(root))),
        ("power", check_power),
    )
    return tuple(_guarded(name, check) for name, check in checks)


def check_cores(root: Path = ROOT) -> Check:
    found = read_resources(root)
    quota = "none" if found.quota_cores is None else f"{found.quota_cores:g}"
    throttled = _throttled_periods(root)
    value = f"{found.num_cores} usable of {found.num_logical_cpus} CPUs, quota {quota}"
    limited = found.quota_cores is not None and found.quota_cores < found.num_affinity_cpus
    return Check(
        name="cores",
        value=value + (f", throttled {throttled} times" if throttled else ""),
        status="warning" if limited else "ok",
        why="A quota stops all threads for the rest of a period once it is used up, so step times jump.",
        remedy="Grant whole cores (docker --cpuset-cpus, Slurm --cpus-per-task) instead of a quota."
        if limited
        else "",
    )


def check_load(load_1min: float, num_cpus: int) -> Check:
    busy = load_1min > MAX_LOAD_PER_CPU * num_cpus
    return Check(
        name="load",
        value=f"{load_1min:.2f} over the last minute on {num_cpus} CPUs",
        status="warning" if busy else "ok",
        why="Other processes take cores, cache and memory bandwidth from the run.",
        remedy="Stop other work, wait a minute and look again." if busy else "",
    )


def check_governor(root: Path = ROOT) -> Check:
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    governors = sorted({text for file in files if (text := read_text(file))})
    slow = [name for name in governors if name != "performance"]
    return Check(
        name="governor",
        value=", ".join(governors) or "not shown",
        status="unknown" if not governors else "warning" if slow else "ok",
        why="Other governors than 'performance' raise the clock only after load has come.",
        remedy="cpupower frequency-set -g performance (as root)." if slow else "",
    )


def check_boost(root: Path = ROOT) -> Check:
    cpu = root / "sys/devices/system/cpu"
    no_turbo, boost = read_text(cpu / "intel_pstate/no_turbo"), read_text(cpu / "cpufreq/boost")
    is_on = no_turbo == "0" if no_turbo is not None else None if boost is None else boost == "1"
    return Check(
        name="boost",
        value="not shown" if is_on is None else "on" if is_on else "off",
        status="unknown" if is_on is None else "warning" if is_on else "ok",
        why="Boosted clocks depend on temperature and on how many cores work, so later runs can be slower.",
        remedy="For comparisons switch boost off, or let it warm up and interleave what is compared."
        if is_on
        else "",
    )


def check_smt(root: Path = ROOT) -> Check:
    active = read_text(root / "sys/devices/system/cpu/smt/active")
    return Check(
        name="smt",
        value={"1": "on, one thread per core is used", "0": "off"}.get(active or "", "not shown"),
        status="ok" if active in ("0", "1") else "unknown",
        why="Two threads of one core share its units; more threads than cores make training slower.",
        remedy="",
    )


def check_memory(root: Path = ROOT) -> Check:
    found = read_resources(root)
    limit = "" if found.memory_limit_bytes is None else f", limit {format_bytes(found.memory_limit_bytes)}"
    short = found.available_memory_bytes < MIN_AVAILABLE_BYTES
    return Check(
        name="memory",
        value=f"{format_bytes(found.available_memory_bytes)} free of {format_bytes(found.memory_bytes)}{limit}",
        status="warning" if short else "ok",
        why="Too little memory pushes the dataset out of the page cache, swaps, or ends the run.",
        remedy="Free memory, or take a smaller benchmark: dlrmbench plan says what it needs." if short else "",
    )


def check_swap() -> Check:
    with warnings.catch_warnings():
        # psutil warns where the kernel hides the swap counters, which are not asked for here
        warnings.simplefilter("ignore", RuntimeWarning)
        swap = psutil.swap_memory()
    used = swap.used > 0.01 * swap.total
    return Check(
        name="swap",
        value=f"{format_bytes(swap.used)} used of {format_bytes(swap.total)}" if swap.total else "none",
        status="warning" if used else "ok",
        why="A page that comes back from swap takes thousands of times as long as one in memory.",
        remedy="Free memory; then swapoff -a and swapon -a (as root) bring pages back." if used else "",
    )


def check_disk(name: str, folder: Path, root: Path = ROOT) -> Check:
    free, kind = free_disk_bytes(folder), filesystem_type(folder, root)
    problems = []
    if free < MIN_FREE_DISK_BYTES:
        problems.append("Free some space or choose another folder.")
    if kind is not None and kind.startswith(_NETWORK_FILESYSTEMS):
        problems.append("Put it on a local disk.")
    if kind in ("tmpfs", "ramfs"):
        problems.append("It lies in memory: what it holds is taken from the run, and no cache can be cleared.")
    return Check(
        name=name,
        value=f"{format_bytes(free)} free, {kind or 'file system not shown'}",
        status="warning" if problems else "unknown" if kind is None else "ok",
        why="A full disk ends a run; a network file system makes reading times depend on others.",
        remedy=" ".join(problems),
    )


def check_page_cache(data: Path) -> Check:
    """Tries on one small file: of the dataset where there is one, else of this program."""
    why = "A dataset that is still in memory from an earlier run is read faster, which no other system repeats."
    if not can_clear():
        return Check(name="page_cache", value="cannot be cleared", status="warning", why=why, remedy=_SAY_SO)
    done = clear_page_cache([_small_file(data) or Path(__file__)])
    proved = done.resident_bytes_after is not None
    return Check(
        name="page_cache",
        value=done.method,
        status="ok" if done.cleared else "warning" if proved else "unknown",
        why=why,
        remedy="" if done.cleared else _SAY_SO,
    )


def check_container(root: Path = ROOT) -> Check:
    kind = container(root)
    return Check(
        name="container",
        value=kind or "none seen",
        status="ok",
        why="A container costs nothing by itself, but its limits apply and others may share its host.",
        remedy="",
    )


def check_virtualization(root: Path = ROOT) -> Check:
    kind, steal = virtualization(root), _steal_share(root)
    stolen = steal is not None and steal > MAX_STEAL
    value = kind or "none seen"
    return Check(
        name="virtualization",
        value=value if steal is None or not kind else f"{value}, {steal:.1%} of CPU time stolen",
        status="warning" if stolen else "unknown" if kind else "ok",
        why="From inside a virtual machine its neighbours, who share clocks, cache and memory, cannot be seen.",
        remedy="Use a dedicated or bare-metal system; at least repeat at another time." if kind else "",
    )


def check_huge_pages(root: Path = ROOT) -> Check:
    text = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    mode = text.partition("[")[2].partition("]")[0]
    return Check(
        name="huge_pages",
        value=mode or "not shown",
        status="unknown" if not mode else "warning" if mode == "never" else "ok",
        why="Random rows of large embedding tables miss the TLB far less on huge pages.",
        remedy="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)." if mode == "never" else "",
    )


def check_libraries() -> Check:
    wrong = unsupported_versions()
    return Check(
        name="libraries",
        value="not installed as a package" if wrong is None else ", ".join(wrong) or "all in the supported range",
        status="unknown" if wrong is None else "warning" if wrong else "ok",
        why="Other versions are untested here, and scores depend on the pinned rules.",
        remedy="Install the versions named, for example in a fresh environment: pip install dlrmbench."
        if wrong
        else "",
    )


def check_clock(root: Path = ROOT) -> Check:
    source = read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    slow = source in ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")
    resolution_ns = time.get_clock_info("monotonic").resolution * 1e9
    return Check(
        name="clock",
        value=f"{source or 'source not shown'}, resolution {resolution_ns:g} ns",
        status="warning" if slow or resolution_ns > 1e6 else "ok" if source else "unknown",
        why="A slow clock source adds time to every stamp; a coarse one rounds it.",
        remedy="Boot with clocksource=tsc where the processor's is stable." if slow else "",
    )


def check_accelerators(found: Accelerators) -> Check:
    num_processes = sum(device.num_processes or 0 for device in found.devices)
    reasons = {
        name for device in found.devices for bit, name in _THROTTLES.items() if (device.throttle_reasons or 0) & bit
    }
    seen = all(device.num_processes is not None and device.throttle_reasons is not None for device in found.devices)
    disturbed = bool(num_processes or reasons)
    value = f"{len(found.devices)}, {num_processes} processes" if found.devices else "none"
    return Check(
        name="accelerators",
        value="not shown" if found.source == NOWHERE else ", ".join([value, *sorted(reasons)]),
        status="warning" if disturbed else "ok" if seen and found.source != NOWHERE else "unknown",
        why="Another process on the device, heat or a power cap slow it down without any message.",
        remedy="End the other processes (nvidia-smi lists them); check cooling and power limit." if disturbed else "",
    )


def check_power() -> Check:
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    unplugged = battery is not None and battery.power_plugged is False
    return Check(
        name="power",
        value="no battery" if battery is None else "on battery" if unplugged else "plugged in",
        status="warning" if unplugged else "ok",
        why="On battery a system lowers its clocks.",
        remedy="Plug it in." if unplugged else "",
    )


_SAY_SO = "Nothing to do: every run logs what was done. Compare only runs that started alike."


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (OSError, ValueError, psutil.Error) as error:
        return Check(
            name=name,
            value=f"cannot be read: {error}",
            status="unknown",
            why="This check found no answer.",
            remedy="",
        )


def _throttled_periods(root: Path) -> int:
    for folder in cgroup_folders("cpu", root)[:1]:
        for line in (read_text(folder / "cpu.stat") or "").splitlines():
            key, _, value = line.partition(" ")
            if key == "nr_throttled" and value.isdecimal():
                return int(value)
    return 0


def _steal_share(root: Path) -> float | None:
    """Share of CPU time since boot that the hypervisor gave to others (proc_stat(5))."""
    fields = (read_text(root / "proc/stat") or "").partition("\n")[0].split()[1:]
    if len(fields) < 8 or not all(field.isdecimal() for field in fields[:8]):
        return None
    numbers = [int(field) for field in fields[:8]]
    return numbers[7] / total if (total := sum(numbers)) else None


def _small_file(folder: Path) -> Path | None:
    """The smallest of the first files in `folder`, so that asking costs nothing."""
    sizes = {}
    with suppress(OSError):
        for path in [*sorted(folder.glob("*"))[:100], *sorted(folder.glob("*/*"))[:100]]:
            if path.is_file() and path.stat().st_size and os.access(path, os.R_OK):
                sizes[path] = path.stat().st_size
    return min(sizes, key=lambda path: sizes[path], default=None)
