"""What disturbs measurements: each check on made-up systems, and all of them on this one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness.system import preflight
from harness.system.accelerators import Accelerator, Accelerators
from harness.system.preflight import Check, run_checks

GPU = Accelerator(
    model_name="X", memory_bytes=None, max_frequency_mhz=None, pcie_generation=None, pcie_width=None, num_links=None,
    num_processes=0, throttle_reasons=0,
)  # fmt: skip


def tree(root: Path, entries: dict[str, str]) -> Path:
    for name, text in entries.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_every_check_says_why_it_matters_and_a_warning_what_to_do() -> None:
    checks = run_checks()
    assert len({check.name for check in checks}) == len(checks) >= 17
    assert all(check.value and check.why for check in checks)
    assert all(check.remedy for check in checks if check.status == "warning")


def test_a_system_that_says_nothing_is_unknown_not_ok(tmp_path: Path) -> None:
    status = {check.name: check.status for check in run_checks(tmp_path, tmp_path, root=tmp_path / "none")}
    for name in ("governor", "boost", "smt", "huge_pages", "clock", "accelerators", "data_disk"):
        assert status[name] == "unknown", name


def test_nothing_is_changed_and_nothing_is_created(tmp_path: Path) -> None:
    data = tree(tmp_path, {"data/set/manifest.json": "{}"}) / "data"
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    run_checks(data, tmp_path / "results")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_check_that_fails_is_unknown_and_the_others_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Check:
        raise PermissionError(13, "Permission denied", "/proc/swaps")

    monkeypatch.setattr(preflight, "check_swap", refuse)
    found = {check.name: check for check in run_checks()}
    assert found["swap"].status == "unknown"
    assert "/proc/swaps" in found["swap"].value
    assert found["power"].value


CPU = "sys/devices/system/cpu"
CASES: list[tuple[Callable[[Path], Check], dict[str, str], str]] = [
    (preflight.check_governor, {f"{CPU}/cpu0/cpufreq/scaling_governor": "performance"}, "ok"),
    (preflight.check_governor, {f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave"}, "warning"),
    (preflight.check_boost, {f"{CPU}/intel_pstate/no_turbo": "0"}, "warning"),
    (preflight.check_boost, {f"{CPU}/intel_pstate/no_turbo": "1"}, "ok"),
    (preflight.check_boost, {f"{CPU}/cpufreq/boost": "1"}, "warning"),
    (preflight.check_boost, {f"{CPU}/cpufreq/boost": "0"}, "ok"),
    (preflight.check_smt, {f"{CPU}/smt/active": "1"}, "ok"),
    (preflight.check_huge_pages, {"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never"}, "ok"),
    (preflight.check_huge_pages, {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}, "warning"),
    (preflight.check_clock, {"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc"}, "ok"),
    (preflight.check_clock, {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"}, "warning"),
    (preflight.check_virtualization, {"proc/cpuinfo": "flags : fpu"}, "ok"),
    (preflight.check_virtualization, {"proc/cpuinfo": "flags : hypervisor"}, "unknown"),
    (
        preflight.check_virtualization,
        {"proc/cpuinfo": "flags : hypervisor", "proc/stat": "cpu  50 0 10 900 0 0 0 40 0 0"},
        "warning",
    ),
    (
        preflight.check_cores,
        {
            "proc/self/cgroup": "0::/",
            "proc/self/mountinfo": "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 c rw",
            "sys/fs/cgroup/cpu.max": "50000 100000",
            "sys/fs/cgroup/cpu.stat": "nr_periods 9\nnr_throttled 4",
        },
        "warning",
    ),
]


@pytest.mark.parametrize(("check", "entries", "status"), CASES)
def test_what_the_system_shows_decides(
    tmp_path: Path, check: Callable[[Path], Check], entries: dict[str, str], status: str
) -> None:
    assert check(tree(tmp_path, entries)).status == status


def test_a_quota_and_its_throttling_are_named(tmp_path: Path) -> None:
    value = preflight.check_cores(tree(tmp_path, CASES[-1][1])).value
    assert "quota 0.5" in value
    assert "throttled 4 times" in value


@pytest.mark.parametrize(("load", "num_cpus", "status"), [(0.1, 2, "ok"), (1.0, 2, "warning"), (1.0, 64, "ok")])
def test_load_is_judged_by_the_number_of_cpus(load: float, num_cpus: int, status: str) -> None:
    assert preflight.check_load(load, num_cpus).status == status


@pytest.mark.parametrize(
    ("kind", "free_bytes", "status"),
    [
        ("ext4", 1 << 40, "ok"), ("ext4", 1 << 20, "warning"), ("nfs4", 1 << 40, "warning"),
        ("fuse.sshfs", 1 << 40, "warning"), ("tmpfs", 1 << 40, "warning"), (None, 1 << 40, "unknown"),
    ],
)  # fmt: skip
def test_disks_must_be_local_and_have_room(
    monkeypatch: pytest.MonkeyPatch, kind: str | None, free_bytes: int, status: str
) -> None:
    monkeypatch.setattr(preflight, "filesystem_type", lambda folder, root: kind)
    monkeypatch.setattr(preflight, "free_disk_bytes", lambda folder: free_bytes)
    assert preflight.check_disk("data_disk", Path("data")).status == status


@pytest.mark.parametrize(
    ("devices", "status"),
    [
        ((), "ok"), ((GPU,), "ok"), ((replace(GPU, num_processes=1),), "warning"),
        ((replace(GPU, throttle_reasons=0x1),), "ok"), ((replace(GPU, throttle_reasons=0x40),), "warning"),
        ((replace(GPU, num_processes=None),), "unknown"),
    ],
)  # fmt: skip
def test_busy_and_throttled_accelerators_warn(devices: tuple[Accelerator, ...], status: str) -> None:
    found = Accelerators(devices=devices, driver_version=None, source="NVML")
    assert preflight.check_accelerators(found).status == status


@pytest.mark.parametrize(("plugged", "status"), [(True, "ok"), (False, "warning"), (None, "ok")])
def test_a_system_on_battery_warns(monkeypatch: pytest.MonkeyPatch, plugged: bool | None, status: str) -> None:
    battery = SimpleNamespace(percent=50, power_plugged=plugged)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    assert preflight.check_power().status == status


def test_memory_that_does_not_hold_the_default_benchmark_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "MIN_AVAILABLE_BYTES", 1 << 60)
    assert preflight.check_memory().status == "warning"


@pytest.mark.parametrize(
    ("version", "specifier", "expected"),
    [
        ("2.13.0+cpu", ">=2.11,<2.14", True), ("2.14.0", ">=2.11,<2.14", False), ("2.10.9", "<2.14,>=2.11", False),
        ("4.1.68", "==4.1.68", True), ("4.1.6", "==4.1.68", False), ("2", ">=2.0", True), ("3.11.7", "", True),
        ("2.14.0a0", "!=2.14", False), ("1.5.2", "~=1.4", True), ("2.0", "~=1.4", False),
    ],
)  # fmt: skip
def test_versions_are_compared_as_numbers(version: str, specifier: str, expected: bool) -> None:
    assert preflight.is_within(version, specifier) is expected


def test_libraries_outside_the_declared_range_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert preflight.unsupported_versions() == []
    versions: dict[str, str | None] = {"torch": "3.0", "numpy": None}
    monkeypatch.setattr(preflight, "version_of", lambda name: versions.get(name, "1000"))
    wrong = " ".join(preflight.unsupported_versions() or [])
    assert "torch 3.0 (supported: " in wrong
    assert "numpy is missing" in wrong
    assert "pytest" not in wrong
    assert preflight.check_libraries().status == "warning"
