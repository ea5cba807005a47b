"""What disturbs measurements: each check on made-up systems, and all of them on this one."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import msgspec
import psutil
import pytest
from packaging.requirements import Requirement

from harness.system import preflight
from harness.system.accelerators import Accelerator, Accelerators
from harness.system.preflight import Check, run_checks
from harness.system.remedies import find_commands, write_script

GPU = Accelerator(
    model_name="X",
    memory_bytes=None,
    max_frequency_mhz=None,
    pcie_generation=None,
    pcie_width=None,
    num_links=None,
    num_processes=0,
    throttle_reasons=0,
)


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


HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
CLOCK = "sys/devices/system/clocksource/clocksource0"


@pytest.mark.parametrize(
    ("check", "before", "place", "after"),
    [
        (preflight.check_governor, "powersave", f"{CPU}/cpu0/cpufreq/scaling_governor", "performance"),
        (preflight.check_boost, "0", f"{CPU}/intel_pstate/no_turbo", "1"),
        (preflight.check_boost, "1", f"{CPU}/cpufreq/boost", "0"),
        (preflight.check_huge_pages, "always madvise [never]", HUGE_PAGES, "madvise"),
        (preflight.check_clock, "hpet", f"{CLOCK}/current_clocksource", "tsc"),
    ],
)
def test_the_printed_command_puts_right_what_the_check_warns_of(
    check: Callable[[Path], Check], before: str, place: str, after: str, tmp_path: Path
) -> None:
    root = tree(tmp_path, {place: before, f"{CLOCK}/available_clocksource": "tsc hpet"})
    found = check(root)
    (command,) = find_commands(found.name, root, is_root=True)
    assert found.status == "warning" and (root / place).read_text() == f"{before}\n"
    subprocess.run(["sh", "-c", command.replace("/sys/", f"{root}/sys/")], check=True, capture_output=True)
    assert (root / place).read_text() == f"{after}\n"
    assert find_commands(found.name, root, is_root=False) == (command.replace("tee", "sudo tee"),)


def test_commands_are_printed_for_warnings_alone_and_may_be_given_to_a_shell(tmp_path: Path) -> None:
    root = tree(tmp_path, {f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave", f"{CPU}/smt/active": "1"})
    checks = [preflight.check_governor(root), preflight.check_smt(root), preflight.check_load(9, 2)]
    odd = msgspec.structs.replace(checks[0], value="x\nrm -rf \x1b[2J")
    script = write_script([*checks, odd, msgspec.structs.replace(odd, name="power")], root, is_root=False)
    commands = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert commands == [
        f"echo performance | sudo tee /{CPU}/cpu[0-9]*/cpufreq/scaling_governor",
        "ps -eo pid,user,pcpu,etime,args --sort=-pcpu | head -n 11",
        f"echo performance | sudo tee /{CPU}/cpu[0-9]*/cpufreq/scaling_governor",
    ]
    assert "\x1b" not in script and "# No command does this." in script
    assert write_script([checks[1]], root).endswith("there is nothing to do.")


def test_libraries_are_put_right_by_one_command_for_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "version_of", lambda name: "0.1" if name == "numpy" else version(name))
    (command,) = find_commands("libraries")
    words = shlex.split(command)
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    (requirement,) = (Requirement(word) for word in words[4:])
    assert requirement.name == "numpy" and version("numpy") in requirement.specifier


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
        ("ext4", 1 << 40, "ok"),
        ("ext4", 1 << 20, "warning"),
        ("nfs4", 1 << 40, "warning"),
        ("fuse.sshfs", 1 << 40, "warning"),
        ("tmpfs", 1 << 40, "warning"),
        (None, 1 << 40, "unknown"),
    ],
)
def test_disks_must_be_local_and_have_room(
    monkeypatch: pytest.MonkeyPatch, kind: str | None, free_bytes: int, status: str
) -> None:
    monkeypatch.setattr(preflight, "find_filesystem_type", lambda folder, root: kind)
    monkeypatch.setattr(preflight, "free_disk_bytes", lambda folder: free_bytes)
    assert preflight.check_disk("data_disk", Path("data")).status == status


@pytest.mark.parametrize(
    ("devices", "status"),
    [
        ((), "ok"),
        ((GPU,), "ok"),
        ((replace(GPU, num_processes=1),), "warning"),
        ((replace(GPU, throttle_reasons=0x1),), "ok"),
        ((replace(GPU, throttle_reasons=0x40),), "warning"),
        ((replace(GPU, num_processes=None),), "unknown"),
    ],
)
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
