"""What else the system does while something is measured: other work is told from the measurement's own."""

import multiprocessing
import os
from pathlib import Path

import pytest

from harness.run_sets.environment import Environment
from harness.system import load
from rules.records.run_set import PreflightCheck

CPU = "sys/devices/system/cpu"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return root


def test_busy_time_is_all_but_idle_and_waiting(tmp_path: Path) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    fields = [user, nice, system, _, _, irq, soft, steal] = [1, 2, 4, 8, 16, 32, 64, 128]
    root = tree(tmp_path, {"proc/stat": f"cpu  {' '.join(map(str, fields))} 5 5\ncpu0 1 1"})
    assert load.read_busy_s(root) == (user + nice + system + irq + soft + steal) / tick


@pytest.mark.parametrize("text", ["", "cpu  1 2 3", "cpu  a b c d e f g h", "cpu  0 0 0 0 0 0 0 0 0 0"])
def test_what_the_kernel_does_not_say_is_not_known(text: str, tmp_path: Path) -> None:
    assert load.read_busy_s(tree(tmp_path, {"proc/stat": text})) is None
    assert load.read_clock_mhz(tmp_path) is None and load.read_temperature_c(tmp_path) is None


def test_clock_and_temperature_are_of_cpus(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "2000000",
            f"{CPU}/cpu1/cpufreq/scaling_cur_freq": "3000000",
            "sys/class/hwmon/hwmon0/name": "nvme",
            "sys/class/hwmon/hwmon0/temp1_input": "90000",
            "sys/class/hwmon/hwmon1/name": "coretemp",
            "sys/class/hwmon/hwmon1/temp1_input": "61000",
            "sys/class/hwmon/hwmon1/temp2_input": "64000",
        },
    )
    assert load.read_clock_mhz(root) == 2500.0 and load.read_temperature_c(root) == 64.0
    seen = load.LoadWatch(root).end()
    assert (seen.cpu_clock_mhz, seen.max_temperature_c, seen.other_cpus) == (2500.0, 64.0, None)


@pytest.mark.parametrize(("busy_s", "own_s", "others"), [(20.0, 5.0, 1.5), (5.0, 5.1, 0.0), (None, 5.0, None)])
def test_other_work_is_what_all_did_less_the_measurements_own(
    busy_s: float | None, own_s: float, others: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = iter([load.LoadReading(100.0, 2, 0.5, 0.0, 0.0), load.LoadReading(110.0, 2, 3.0, busy_s, own_s)])
    monkeypatch.setattr(load, "read_load", lambda root: next(told))
    seen = load.LoadWatch().end()
    assert (seen.duration_s, seen.load_avg_before, seen.load_avg_after) == (10.0, 0.5, 3.0)
    assert seen.other_cpus == others and seen.num_cpus == 2


def spend(seconds: float) -> None:
    while sum(os.times()[:2]) < seconds:
        sum(range(1000))


@pytest.mark.once("processor time of a child that has ended")
def test_time_of_children_that_have_ended_is_the_measurements_own() -> None:
    before = load.read_load().own_s
    child = multiprocessing.get_context("fork").Process(target=spend, args=(0.2,))
    child.start()
    child.join()
    after = load.read_load().own_s
    assert before is not None and after is not None and after - before >= 0.19


def test_warnings_are_said_on_standard_error_and_the_load_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check = PreflightCheck(name="load", value="8.00 on 2", status="warning", why="Others work.", remedy="Wait.")
    quiet = PreflightCheck(name="smt", value="off", status="ok", why="It matters.", remedy="")
    monkeypatch.setattr("harness.run_sets.environment.run_checks", lambda *_: (check, quiet))
    environment = Environment.check()
    for _ in range(2):
        with environment.measuring():
            pass
    assert capsys.readouterr().err == "warning: load: 8.00 on 2. Others work. See 'dlrmbench doctor'.\n"
    assert environment.preflight == (check, quiet) and len(environment.loads) == 2
