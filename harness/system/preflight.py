"""Check the environment: find sources of noise for measurements on this system, without changing anything.

Each check says what was found, why it matters for measured times, and what to do. A check without an answer from the
system is 'unknown', never 'ok'.
"""

import os
import platform
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Literal

import psutil
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness.system.accelerators import NOWHERE, Accelerators, read_accelerators
from harness.system.hardware import format_bytes, read_processors, virtualization
from harness.system.page_cache import can_clear, clear_page_cache
from harness.system.resources import (
    ROOT,
    find_filesystem_type,
    free_disk_bytes,
    list_cgroup_folders,
    read_resources,
    read_text,
)
from harness.system.software import container, version_of
from reference_models.fused.private_folder import folder_problem
from rules.records.load import BUSY_SHARE
from rules.records.run_set import PreflightCheck as Check

Status = Literal["ok", "warning", "unknown"]
GIB = 1 << 30
MIN_AVAILABLE_BYTES = 3 * GIB
"""Bytes of available memory below which the environment check warns: the peak memory of the default benchmark,
rounded up."""
MIN_FREE_DISK_BYTES = 5 * GIB
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


def run_checks(data: Path | None = None, output: Path | None = None, root: Path = ROOT) -> tuple[Check, ...]:
    """Return the results of all environment checks in a fixed order, well within a second.

    `data` and `output` are the folders that runs will use.
    """
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
    found = tuple(_guarded(name, check) for name, check in checks)
    return found if (problem := folder_problem()) is None else (*found, check_kernels_folder(problem))


def check_cores(root: Path = ROOT) -> Check:
    """Check the environment for a quota of CPU time below the CPUs that may be used."""
    found = read_resources(root)
    quota = "none" if found.quota_cores is None else f"{found.quota_cores:g}"
    throttled = _throttled_periods(root)
    value = f"{found.num_cores} usable of {found.num_logical_cpus} CPUs, quota {quota}"
    return _judge(
        "cores",
        value + (f", throttled {throttled} times" if throttled else ""),
        warns=found.quota_cores is not None and found.quota_cores < found.num_affinity_cpus,
        why="A quota stops all threads for the rest of a period once it is used up, so step times jump.",
        remedy="Grant whole cores (docker --cpuset-cpus, Slurm --cpus-per-task) instead of a quota.",
    )


def check_load(load_1min: float, num_cpus: int) -> Check:
    """Check the environment for other processes at work on the CPUs."""
    return _judge(
        "load",
        f"{load_1min:.2f} over the last minute on {num_cpus} CPUs",
        warns=load_1min > BUSY_SHARE * num_cpus,
        why="Other processes (unless your last command made the load) take cores, cache and memory bandwidth.",
        remedy="Stop other work, wait a minute and look again.",
    )


def _not_visible(root: Path) -> str:
    return "not visible in this virtual machine" if read_processors(root).is_virtual else "not visible"


def check_governor(root: Path = ROOT) -> Check:
    """Check which policy (cpufreq governor) the kernel uses for the CPUs' clocks."""
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    governors = sorted({text for file in files if (text := read_text(file))})
    return _judge(
        "governor",
        ", ".join(governors) or _not_visible(root),
        warns=any(name != "performance" for name in governors),
        is_known=bool(governors),
        why="Other governors than 'performance' raise the clock only after load has come.",
        remedy="cpupower frequency-set -g performance (as root).",
    )


def check_boost(root: Path = ROOT) -> Check:
    """Check whether CPU clocks may rise above the base frequency."""
    cpu = root / "sys/devices/system/cpu"
    no_turbo, boost = read_text(cpu / "intel_pstate/no_turbo"), read_text(cpu / "cpufreq/boost")
    is_on = no_turbo == "0" if no_turbo is not None else None if boost is None else boost == "1"
    return _judge(
        "boost",
        _not_visible(root) if is_on is None else "on" if is_on else "off",
        warns=is_on is True,
        is_known=is_on is not None,
        why="Boosted clocks depend on temperature and on how many cores work, so later runs can be slower.",
        remedy="For comparisons switch boost off, or let it warm up and measure alternately, with 'versus'.",
    )


def check_smt(root: Path = ROOT) -> Check:
    """Check whether CPU cores run two hardware threads each."""
    active = read_text(root / "sys/devices/system/cpu/smt/active")
    return _judge(
        "smt",
        {"1": "on, one thread per core is used", "0": "off"}.get(active or "", _not_visible(root)),
        is_known=active in ("0", "1"),
        why="Two threads of one core share its execution units; more threads than cores slow training down.",
    )


def check_memory(root: Path = ROOT) -> Check:
    """Check whether enough memory is available for the default benchmark."""
    found = read_resources(root)
    limit = "" if found.memory_limit_bytes is None else f", limit {format_bytes(found.memory_limit_bytes)}"
    return _judge(
        "memory",
        f"{format_bytes(found.available_memory_bytes)} free of {format_bytes(found.memory_bytes)}{limit}",
        warns=found.available_memory_bytes < MIN_AVAILABLE_BYTES,
        why="Too little memory pushes the dataset out of the page cache, swaps, or ends the run.",
        remedy="Free memory, or take a smaller benchmark: 'dlrmbench plan' estimates what a run needs.",
    )


def check_swap() -> Check:
    """Check whether memory was swapped out."""
    with warnings.catch_warnings():
        # psutil warns where the kernel hides the swap counters, which are not asked for here
        warnings.simplefilter("ignore", RuntimeWarning)
        swap = psutil.swap_memory()
    return _judge(
        "swap",
        f"{format_bytes(swap.used)} used of {format_bytes(swap.total)}" if swap.total else "none",
        warns=swap.used > 0.01 * swap.total,
        why="A page that comes back from swap takes thousands of times as long as one in memory.",
        remedy="Free memory; then swapoff -a and swapon -a (as root) bring pages back.",
    )


def check_disk(name: str, folder: Path, root: Path = ROOT) -> Check:
    """Check for free space on a folder's disk, and whether the disk is local."""
    free, kind = free_disk_bytes(folder), find_filesystem_type(folder, root)
    problems = []
    if free < MIN_FREE_DISK_BYTES:
        problems.append("Free some space or choose another folder.")
    if kind is not None and kind.startswith(_NETWORK_FILESYSTEMS):
        problems.append("Put it on a local disk.")
    if kind in ("tmpfs", "ramfs"):
        problems.append("It is in memory: its files take memory from the run, and their cache cannot be cleared.")
    return _judge(
        name,
        f"{format_bytes(free)} free, {kind or 'file system not shown'}",
        warns=bool(problems),
        is_known=kind is not None,
        why="A full disk ends a run; a network file system makes reading times depend on its other users.",
        remedy=" ".join(problems),
    )


def check_page_cache(data: Path) -> Check:
    """Check whether the page cache can be cleared, tried on one small file of the dataset, or else of this
    program."""
    done = clear_page_cache([_small_file(data) or Path(__file__)]) if can_clear() else None
    return _judge(
        "page_cache",
        "cannot be cleared" if done is None else done.method,
        warns=done is None or (not done.cleared and done.resident_bytes_after is not None),
        is_known=done is None or done.cleared,
        why="A dataset that is still in memory from an earlier run is read faster than from disk.",
        remedy="Nothing to do: every run logs what was done. Compare only runs that started alike.",
        unknown_remedy=True,
    )


def check_container(root: Path = ROOT) -> Check:
    """Check for signs that this process runs in a container."""
    why = "A container costs nothing by itself, but its limits apply and others may share its host."
    return _judge("container", container(root) or "none seen", why=why)


def check_virtualization(root: Path = ROOT) -> Check:
    """Check for a hypervisor, and for CPU time that it gave to other guests."""
    kind, steal = virtualization(root), _steal_share(root)
    value = kind or "none seen"
    return _judge(
        "virtualization",
        value if steal is None or not kind else f"{value}, {100 * steal:.1f} % of CPU time stolen",
        warns=steal is not None and steal > MAX_STEAL,
        is_known=kind is None,
        why="Other virtual machines on the host share clocks, cache and memory, and cannot be seen from this one.",
        remedy="Use a dedicated or bare-metal system; at least repeat at another time.",
        unknown_remedy=True,
    )


def check_huge_pages(root: Path = ROOT) -> Check:
    """Check whether embedding tables may use huge pages of memory."""
    text = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    mode = text.partition("[")[2].partition("]")[0]
    return _judge(
        "huge_pages",
        mode or _not_visible(root),
        warns=mode == "never",
        is_known=bool(mode),
        why="Random rows of large embedding tables miss the TLB far less on huge pages.",
        remedy="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root).",
    )


def check_libraries() -> Check:
    """Check whether the installed libraries have versions that this release supports."""
    wrong = unsupported_versions()
    return _judge(
        "libraries",
        "not installed as a package" if wrong is None else ", ".join(wrong) or "all in the supported range",
        warns=bool(wrong),
        is_known=wrong is not None,
        why="Other versions are untested here, and scores depend on the pinned rules.",
        remedy="Install the versions named, for example in a fresh environment: pip install dlrmbench.",
    )


def unsupported_versions() -> list[str] | None:
    """Return descriptions of what this release does not support on this system: the Python version, if unsupported,
    and each required package that is missing or has an unsupported version. Return None if the package metadata of
    dlrmbench is missing."""
    try:
        distribution = metadata.distribution("dlrmbench")
    except metadata.PackageNotFoundError:
        return None
    python = (distribution.metadata.get_all("Requires-Python") or [""])[0]
    is_right = is_within(platform.python_version(), python)
    wrong = [] if is_right else [f"Python {platform.python_version()} (supported: {python})"]
    for requirement in unsupported_requirements():
        installed = version_of(requirement.name)
        if installed is None:
            wrong.append(f"{requirement.name} is missing ({requirement.specifier or 'any version'})")
        else:
            wrong.append(f"{requirement.name} {installed} (supported: {requirement.specifier})")
    return wrong


def unsupported_requirements() -> list[Requirement]:
    """Return the requirements in dlrmbench's package metadata whose installed version is missing or unsupported.
    Requirements of pip extras are optional and not checked.

    Raises importlib.metadata.PackageNotFoundError if the metadata is not installed.
    """
    required = [Requirement(text) for text in metadata.distribution("dlrmbench").requires or []]
    return [
        requirement
        for requirement in required
        if requirement.marker is None
        and (
            (installed := version_of(requirement.name)) is None
            or not is_within(installed, str(requirement.specifier))
        )
    ]


def is_within(version: str, specifier: str) -> bool:
    """Return whether a package's version lies within a specifier such as '>=2.1,<3'. Only the release number counts:
    suffixes for builds, pre- and post-releases are dropped."""
    return SpecifierSet(specifier).contains(Version(version).base_version)


def check_clock(root: Path = ROOT) -> Check:
    """Check for a system clock that is slow to read or coarse."""
    source = read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    resolution_ns = time.get_clock_info("monotonic").resolution * 1e9
    return _judge(
        "clock",
        f"{source or 'source not shown'}, resolution {resolution_ns:g} ns",
        warns=source in ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit") or resolution_ns > 1e6,
        is_known=bool(source),
        why="A slow clock source adds time to every stamp; a coarse one rounds it.",
        remedy="Boot with clocksource=tsc where the processor's is stable.",
    )


def check_accelerators(found: Accelerators) -> Check:
    """Check for other processes on the accelerators, and for lowered accelerator clocks."""
    num_processes = sum(device.num_processes or 0 for device in found.devices)
    reasons = {
        name for device in found.devices for bit, name in _THROTTLES.items() if (device.throttle_reasons or 0) & bit
    }
    seen = all(device.num_processes is not None and device.throttle_reasons is not None for device in found.devices)
    value = f"{len(found.devices)}, {num_processes} processes" if found.devices else "none"
    return _judge(
        "accelerators",
        "not shown" if found.source == NOWHERE else ", ".join([value, *sorted(reasons)]),
        warns=bool(num_processes or reasons),
        is_known=seen and found.source != NOWHERE,
        why="Another process on the device, heat or a power cap slow it down without any message.",
        remedy="End the other processes (nvidia-smi lists them); check cooling and power limit.",
    )


def check_kernels_folder(problem: str) -> Check:
    """Return the environment check's warning that the folder for compiled kernels cannot be used; `problem` says why.
    Not called if the folder can be used."""
    return _judge(
        "kernels_folder",
        problem,
        warns=True,
        why="Compiled code is run, so it is kept only in a folder that is this user's alone; else every process "
        "compiles it anew.",
        remedy="Have the folder's owner remove it, or choose another temporary folder (TMPDIR).",
    )


def check_power() -> Check:
    """Check whether the system runs on battery."""
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    unplugged = battery is not None and battery.power_plugged is False
    value = "no battery" if battery is None else "on battery" if unplugged else "plugged in"
    return _judge("power", value, warns=unplugged, why="On battery a system lowers its clocks.", remedy="Plug it in.")


def _judge(
    name: str,
    value: str,
    *,
    why: str,
    remedy: str = "",
    warns: bool = False,
    is_known: bool = True,
    unknown_remedy: bool = False,
) -> Check:
    """Return the result of one environment check. A remedy is included where the result is a warning and, with
    `unknown_remedy`, also where the system did not give the information."""
    status: Status = "warning" if warns else "ok" if is_known else "unknown"
    is_said = warns or (unknown_remedy and not is_known)
    return Check(name=name, value=value, status=status, why=why, remedy=remedy if is_said else "")


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (OSError, ValueError, psutil.Error) as error:
        return _judge(name, f"cannot be read: {error}", is_known=False, why="This check found no answer.")


def _throttled_periods(root: Path) -> int:
    for folder in list_cgroup_folders("cpu", root)[:1]:
        for line in (read_text(folder / "cpu.stat") or "").splitlines():
            key, _, value = line.partition(" ")
            if key == "nr_throttled" and value.isdecimal():
                return int(value)
    return 0


def _steal_share(root: Path) -> float | None:
    """Return the share of CPU time since boot that the hypervisor gave to other guests (proc_stat(5))."""
    fields = (read_text(root / "proc/stat") or "").partition("\n")[0].split()[1:]
    if len(fields) < 8 or not all(field.isdecimal() for field in fields[:8]):
        return None
    numbers = [int(field) for field in fields[:8]]
    return numbers[7] / total if (total := sum(numbers)) else None


def _small_file(folder: Path) -> Path | None:
    """Return a small file in `folder` and its subfolders, the smallest of the first ones found; None if there is no
    readable file. To drop it from the page cache costs the next reader next to nothing."""
    sizes = {}
    with suppress(OSError):
        for path in [*sorted(folder.glob("*"))[:100], *sorted(folder.glob("*/*"))[:100]]:
            if path.is_file() and path.stat().st_size and os.access(path, os.R_OK):
                sizes[path] = path.stat().st_size
    return min(sizes, key=lambda path: sizes[path], default=None)
