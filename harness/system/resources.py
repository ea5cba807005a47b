"""Find the cores, memory and disk that this process may use, from its cgroup, affinity and file systems.

The host's core count is misleading: a container may show 64 cores and grant 2, and 64 threads on 2 cores are many
times slower than 2. Sources: cgroups(7), cpuset(7), proc(5), sysfs CPU topology.
"""

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
_UNLIMITED_BYTES = 1 << 60
"""Number of bytes above which a memory limit counts as none: cgroup v1 writes 'no limit' as a number near 2^63."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """Cores and memory that this process may use; None where no limit is set, or the system does not report it."""

    num_cores: int
    """Number of useful threads of this process: physical cores in the affinity mask, at most the CPU quota, at least
    1."""
    num_logical_cpus: int
    """Number of the host's logical CPUs that are online."""
    num_affinity_cpus: int
    """Number of logical CPUs on which this process may be scheduled."""
    quota_cores: float | None
    """CPU time per wall time that the process's cgroup grants, in cores; None without a quota."""
    physical_memory_bytes: int
    memory_limit_bytes: int | None
    """Lowest memory limit of this process's cgroup and of the cgroups above it, in bytes; None without a limit."""
    available_memory_bytes: int
    """Memory available to this process now without swapping and without exceeding the limit, in bytes."""

    @property
    def memory_bytes(self) -> int:
        """Most memory that this process could ever have, in bytes."""
        if self.memory_limit_bytes is None:
            return self.physical_memory_bytes
        return min(self.physical_memory_bytes, self.memory_limit_bytes)


def peak_rss_bytes() -> int:
    """Return this process's peak resident memory in bytes: VmHWM of proc(5).

    Without /proc, return ru_maxrss instead. It is at least the resident memory that the parent process had when it
    started this process.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read_resources(root: Path = ROOT) -> Resources:
    """Return the cores and memory that this process may use, read within a few milliseconds. `root` is the folder of
    /proc and /sys."""
    import psutil  # imported late: every command imports this module, few read resources

    cpus = list_affinity_cpus()
    quota = quota_cores(root)
    memory = psutil.virtual_memory()
    limit, headroom = _memory_limit_and_headroom(root)
    granted = count_physical_cores(cpus, root)
    if quota is not None:
        granted = min(granted, int(quota))
    return Resources(
        num_cores=max(1, granted),
        num_logical_cpus=os.cpu_count() or len(cpus),
        num_affinity_cpus=len(cpus),
        quota_cores=quota,
        physical_memory_bytes=memory.total,
        memory_limit_bytes=limit,
        available_memory_bytes=memory.available if headroom is None else max(0, min(memory.available, headroom)),
    )


def count_usable_cores() -> int:
    """Return the number of threads that are useful in this process: the physical cores that it may use, at most its
    CPU quota, at least 1."""
    return read_resources().num_cores


def list_affinity_cpus() -> frozenset[int]:
    """Return the logical CPUs that this process may run on; all of them where the system has no affinity (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def count_physical_cores(cpus: frozenset[int], root: Path = ROOT) -> int:
    """Return the number of physical cores of the logical CPUs `cpus`: SMT siblings count once. If the CPU topology is
    unknown, every logical CPU counts."""
    return len(list_cores(cpus, root))


def list_cores(cpus: frozenset[int] | None = None, root: Path = ROOT) -> list[tuple[int, ...]]:
    """Return the physical cores of the logical CPUs `cpus` (by default of the affinity mask), each as a tuple of
    logical CPUs.

    Cores of one socket follow each other. If the CPU topology is unknown, every logical CPU is a core.
    """
    cores: dict[tuple[int, str], list[int]] = {}
    for cpu in sorted(list_affinity_cpus() if cpus is None else cpus):
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        siblings = read_text(folder / "core_cpus_list") or read_text(folder / "thread_siblings_list")
        socket = _whole(read_text(folder / "physical_package_id") or "") or 0
        cores.setdefault((socket, siblings or str(cpu)), []).append(cpu)
    return [tuple(core) for _, core in sorted((socket, core) for (socket, _), core in cores.items())]


def quota_cores(root: Path = ROOT) -> float | None:
    """Return the lowest CPU quota of this process's cgroup and of the cgroups above it, in cores; None without a
    quota."""
    quotas = []
    for folder in list_cgroup_folders("cpu", root):
        fields = (read_text(folder / "cpu.max") or "").split()
        if not fields:
            quota, period = read_text(folder / "cpu.cfs_quota_us"), read_text(folder / "cpu.cfs_period_us")
            fields = [quota, period] if quota and period else []
        numbers = [_whole(field) for field in fields]
        if len(numbers) == 2 and numbers[0] and numbers[1] and numbers[0] > 0 and numbers[1] > 0:
            quotas.append(numbers[0] / numbers[1])
    return min(quotas, default=None)


def free_disk_bytes(path: Path) -> int:
    """Return the bytes that this user may still write to the disk at `path`, or at its nearest existing parent."""
    return shutil.disk_usage(find_existing_parent(path)).free


def find_existing_parent(path: Path) -> Path:
    """Return `path` itself or the nearest existing folder above it."""
    path = path.absolute()
    return next((parent for parent in (path, *path.parents) if parent.exists()), path)


def find_filesystem_type(path: Path, root: Path = ROOT) -> str | None:
    """Return the type of `path`'s file system, such as 'ext4', 'tmpfs' or 'overlay'; None where unknown."""
    target = find_existing_parent(path).resolve()
    deepest, found = -1, None
    for mount, _, kind, _ in _mounts(root):
        if target.is_relative_to(mount) and len(mount.parts) >= deepest:
            deepest, found = len(mount.parts), kind
    return found


def list_cgroup_folders(controller: str, root: Path = ROOT) -> list[Path]:
    """Return the folders of this process's cgroup and of the cgroups above it, up to the mount point, for one
    controller (such as memory), with cgroup v1 and v2 alike."""
    paths = _cgroup_paths(root)
    folders: list[Path] = []
    for mount, mount_root, kind, options in _mounts(root):
        if kind == "cgroup2" or (kind == "cgroup" and controller in options):
            path = paths.get("" if kind == "cgroup2" else controller)
            folders.extend(_with_parents(root / mount.relative_to("/"), mount_root, path or "/"))
    return folders


def read_text(path: Path) -> str | None:
    """Return the stripped text of a small system file; None when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(1 << 20).decode("utf-8", "replace").strip("\0 \t\r\n")
    except OSError:
        return None


def run_for_output(*command: str, timeout_s: float = 10.0, **environ: str) -> str | None:
    """Run a command and return its stripped output; None where it is missing, fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=True,
            env={**os.environ, **environ},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _memory_limit_and_headroom(root: Path) -> tuple[int | None, int | None]:
    """Return two numbers of bytes. The first is the lowest of the memory limits of this process's cgroup and the
    cgroups above it. The second is the memory that this process can still use before it reaches one of these limits.

    The first is None if there is no limit. The second is None also if the memory in use is unknown. Clean file pages
    do not count as used.
    """
    limits, headrooms = [], []
    for folder in list_cgroup_folders("memory", root):
        limit = _whole(read_text(folder / "memory.max") or read_text(folder / "memory.limit_in_bytes") or "")
        if limit is None or not 0 < limit < _UNLIMITED_BYTES:
            continue
        limits.append(limit)
        used = _whole(read_text(folder / "memory.current") or read_text(folder / "memory.usage_in_bytes") or "")
        if used is not None:
            headrooms.append(limit - (used - _reclaimable_bytes(folder)))
    return min(limits, default=None), min(headrooms, default=None)


def _reclaimable_bytes(folder: Path) -> int:
    """Return the bytes of a cgroup's inactive file pages, children included: cgroup v1's `total_inactive_file`, v2's
    `inactive_file`."""
    stat = dict(
        line.split(maxsplit=1) for line in (read_text(folder / "memory.stat") or "").splitlines() if " " in line
    )
    return _whole(stat.get("total_inactive_file") or stat.get("inactive_file") or "") or 0


def _cgroup_paths(root: Path) -> dict[str, str]:
    """Return a dict from controller (such as memory) to the path of this process's cgroup. The key '' has the path in
    cgroup v2, which names no controllers."""
    paths = {}
    for _, controllers, path in re.findall(
        r"^([^:]*):([^:]*):(.*)$", read_text(root / "proc/self/cgroup") or "", re.M
    ):
        paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _mounts(root: Path) -> Iterator[tuple[Path, str, str, list[str]]]:
    """Yield (mount point, root of the mount in its file system, type, options of the file system) of each mount
    that this process sees."""
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if len(left) >= 5 and left[4].startswith("/") and right:
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), left[4])
            yield Path(point), left[3], right[0], right[2].split(",") if len(right) > 2 else []


def _with_parents(mount: Path, mount_root: str, path: str) -> list[Path]:
    """Return the process's cgroup folder and the folders above it up to the mount point; or only the mount point, if
    the cgroup's path is not below it."""
    inside = os.path.relpath(path, mount_root)
    folder = mount if inside.startswith("..") else Path(os.path.normpath(mount / inside))
    return [parent for parent in (folder, *folder.parents) if parent.is_relative_to(mount) and parent.is_dir()]


def _whole(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
