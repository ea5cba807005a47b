"""What a process may use, read from made-up /proc and /sys trees and from this system."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.system.resources import (
    count_physical_cores,
    count_usable_cores,
    find_existing_parent,
    find_filesystem_type,
    free_disk_bytes,
    list_affinity_cpus,
    list_cgroup_folders,
    list_cores,
    quota_cores,
    read_resources,
)

V2 = "30 1 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = (
    "30 1 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "31 1 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def v2(root: Path, path: str, **files: str) -> Path:
    return tree(root, {"proc/self/cgroup": f"0::{path}\n", "proc/self/mountinfo": V2} | files)


def test_cgroup_v2_quota_is_read_in_cores(tmp_path: Path) -> None:
    root = v2(tmp_path, "/", **{"sys/fs/cgroup/cpu.max": "150000 100000\n"})
    assert quota_cores(root) == 1.5


def test_the_lowest_quota_up_the_tree_counts(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/a/cpu.max": "200000 100000", "sys/fs/cgroup/a/b/cpu.max": "max 100000"}
    assert quota_cores(v2(tmp_path, "/a/b", **files)) == 2.0


def test_cgroup_v1_quota_and_memory_limit(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n",
            "proc/self/mountinfo": V1,
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "400000\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1073741824\n",
            "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "573741824\n",
            "sys/fs/cgroup/memory/job/memory.stat": "cache 9\ntotal_inactive_file 73741824\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    found = read_resources(root)
    assert (found.quota_cores, found.memory_limit_bytes) == (4.0, 1 << 30)
    assert found.memory_bytes == min(psutil.virtual_memory().total, 1 << 30)
    assert found.available_memory_bytes == (1 << 30) - 500_000_000


def test_a_container_that_sees_its_hosts_path_still_finds_its_limit(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/../../host/only\n",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/cpu.max": "300000 100000",
        },
    )
    assert quota_cores(root) == 3.0


@pytest.mark.parametrize("text", ["", "max 100000", "nonsense", "1", "0 0", "100000 0", "-5 100000", "a b c", "\0\0"])
def test_no_quota_or_nonsense_means_no_quota(tmp_path: Path, text: str) -> None:
    assert quota_cores(v2(tmp_path, "/", **{"sys/fs/cgroup/cpu.max": text})) is None


def test_a_system_without_cgroups_has_no_limits(tmp_path: Path) -> None:
    found = read_resources(tmp_path)
    assert (found.quota_cores, found.memory_limit_bytes, list_cgroup_folders("cpu", tmp_path)) == (None, None, [])
    assert found.memory_bytes == psutil.virtual_memory().total


def test_smt_siblings_are_one_core(tmp_path: Path) -> None:
    cpu = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    root = tree(tmp_path, {cpu.format(i): f"{i % 4},{i % 4 + 4}\n" for i in range(8)})
    assert count_physical_cores(frozenset(range(8)), root) == 4
    assert count_physical_cores(frozenset({1, 5}), root) == 1
    assert count_physical_cores(frozenset({0, 1, 2}), tmp_path / "no such tree") == 3


@pytest.mark.parametrize(("quota", "cores"), [("50000 100000", 1), ("100000 100000", 1)])
def test_at_least_one_core_and_never_more_than_the_quota(tmp_path: Path, quota: str, cores: int) -> None:
    assert read_resources(v2(tmp_path, "/", **{"sys/fs/cgroup/cpu.max": quota})).num_cores == cores


def test_this_system() -> None:
    found = read_resources()
    assert 1 <= count_usable_cores() == found.num_cores <= found.num_affinity_cpus <= found.num_logical_cpus
    assert found.num_affinity_cpus == len(list_affinity_cpus())
    assert 0 < found.available_memory_bytes <= found.physical_memory_bytes


def test_threads_follow_the_affinity_mask() -> None:
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system has no affinity masks")
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert count_usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_free_disk_of_a_folder_that_does_not_exist_yet_is_its_parents(tmp_path: Path) -> None:
    assert find_existing_parent(tmp_path / "a" / "b") == tmp_path
    assert free_disk_bytes(tmp_path / "a" / "b") > 0


def test_the_deepest_mount_names_the_file_system(tmp_path: Path) -> None:
    deep = tmp_path / "with blank"
    deep.mkdir()
    escaped = str(deep).replace(" ", r"\040")
    mounts = f"1 0 8:1 / / rw - ext4 /dev/vda rw\n2 1 0:9 / {escaped} rw - tmpfs none rw\nbroken line\n"
    root = tree(tmp_path / "root", {"proc/self/mountinfo": mounts})
    assert find_filesystem_type(deep / "file", root) == "tmpfs"
    assert find_filesystem_type(tmp_path, root) == "ext4"
    assert find_filesystem_type(tmp_path, tmp_path / "no such tree") is None


@pytest.mark.slow
def test_the_memory_of_a_process_is_its_own_and_not_that_of_whoever_started_it() -> None:
    child = "from harness.system.resources import peak_rss_bytes; print(peak_rss_bytes())"
    parent = f"import subprocess, sys; held = b'1' * (1 << 28); subprocess.run([sys.executable, '-c', {child!r}])"
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=True)
    assert 1 << 20 < int(done.stdout) < 1 << 28


def test_cores_of_a_socket_follow_each_other_each_with_its_siblings(tmp_path: Path) -> None:
    cpu = "sys/devices/system/cpu/cpu{}/topology/"
    files = {f"{cpu.format(i)}thread_siblings_list": f"{i % 4},{i % 4 + 4}\n" for i in range(8)}
    files |= {f"{cpu.format(i)}physical_package_id": f"{i % 2}\n" for i in range(8)}
    assert list_cores(frozenset(range(8)), tree(tmp_path, files)) == [(0, 4), (2, 6), (1, 5), (3, 7)]
    assert list_cores(frozenset({3, 7, 0}), tmp_path) == [(0,), (3, 7)]
