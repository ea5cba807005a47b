"""--power-command: watts times time, or the reason why not; what it starts is ended, and nothing waits for it."""

from pathlib import Path
from typing import Any

import pytest
from waiting import has_ended, wait_until

from harness.system import power_command
from harness.system.energy import EnergyMeter
from harness.system.power_command import NAME, PowerCommand, end_power_commands


def meter_of(command: str, tmp_path: Path, interval_s: float = 0.01) -> EnergyMeter:
    meter = EnergyMeter(root=tmp_path, interval_s=interval_s, power_command=command)
    meter.start()
    return meter


def stopped(meter: EnergyMeter) -> dict[str, Any]:
    record = meter.stop()
    assert record is not None
    return record


def test_watts_are_integrated_by_trapezoids_and_hold_to_both_ends() -> None:
    power = PowerCommand("exec sleep 60", 1.0, 10.0)  # one that has answered nothing by the end
    power._readings = [(11.0, 100.0), (13.0, 200.0), (14.0, 100.0)]
    power.start()
    assert power.take_energy(16.0) == pytest.approx(100 + 300 + 150 + 200)


def test_a_steady_power_takes_the_place_of_other_counters(tmp_path: Path) -> None:
    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    for name, value in (("name", "package-0"), ("energy_uj", "1"), ("max_energy_range_uj", "1000")):
        (zone / name).write_text(value)
    meter = meter_of("echo once >> asked; echo 250.5".replace("asked", str(tmp_path / "asked")), tmp_path)
    wait_until(lambda: (tmp_path / "asked").exists() and (tmp_path / "asked").read_text().count("once") > 2, "asked")
    record = stopped(meter)
    (part,) = record["parts"]
    assert record["energy_j"] == part["energy_j"] == pytest.approx(250.5 * record["duration_s"])
    assert (part["name"], record["not_measured"]) == (NAME, [])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 3", "exit code 3"), ("echo 100; exit 1", "exit code 1"), ("true", "printed ''"), ("echo hot", "'hot'"),
        ("echo 100 W", "'100 W'"), ("echo nan", "'nan'"), ("echo inf", "'inf'"), ("echo -5", "'-5'"),
        ("printf '\\033[2Jx'", "printed"), ("no-such-command-here", "exit code 127"), ("yes 1", "expected watts"),
        ("kill -9 $$", "exit code -9"),
    ],
)  # fmt: skip
def test_a_command_that_gives_no_watts_is_the_reason_for_no_energy(command: str, said: str, tmp_path: Path) -> None:
    meter = meter_of(command, tmp_path)
    assert meter._power is not None
    wait_until(lambda: not meter._power.is_alive(), "the end of asking")  # type: ignore[union-attr]
    record = stopped(meter)
    assert (record["energy_j"], record["parts"], record["sampling_interval_s"]) == (None, [], None)
    (gap,) = record["not_measured"]
    assert gap["what"] == NAME and said in gap["reason"] and "\x1b" not in gap["reason"]


def test_one_that_fails_later_leaves_no_energy(tmp_path: Path) -> None:
    meter = meter_of(f"echo 5; test -e {tmp_path}/gone && exit 4", tmp_path)
    assert meter._power is not None
    (tmp_path / "gone").touch()
    wait_until(lambda: not meter._power.is_alive(), "the end of asking")  # type: ignore[union-attr]
    assert stopped(meter)["energy_j"] is None


def test_nothing_waits_for_a_command_that_hangs_and_it_is_ended(tmp_path: Path) -> None:
    hangs = "sleep 1000; touch waited_for"
    meter = meter_of(f"cd {tmp_path}; echo $$ > draft; mv draft pid; {hangs}", tmp_path)
    wait_until((tmp_path / "pid").exists, "the command's start")
    record = stopped(meter)
    assert not (tmp_path / "waited_for").exists()
    assert record["energy_j"] is None and "no reading" in record["not_measured"][0]["reason"]
    wait_until(lambda: has_ended(int((tmp_path / "pid").read_text())), "the command's end")


def test_patience_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_command, "PATIENCE_S", 0.05)
    meter = meter_of("sleep 1000", tmp_path)
    assert meter._power is not None
    wait_until(lambda: not meter._power.is_alive(), "the end of asking")  # type: ignore[union-attr]
    assert "took longer than 0.05 s" in stopped(meter)["not_measured"][0]["reason"]


def test_what_is_asked_is_ended_where_the_work_failed(tmp_path: Path) -> None:
    meter_of(f"echo $$ > {tmp_path}/draft; mv {tmp_path}/draft {tmp_path}/pid; sleep 1000", tmp_path)
    wait_until((tmp_path / "pid").exists, "the command's start")
    end_power_commands()
    wait_until(lambda: has_ended(int((tmp_path / "pid").read_text())), "the command's end")


def test_one_rank_of_a_machine_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    record = stopped(meter_of(f"touch {tmp_path}/asked; echo 1", tmp_path))
    assert (record["parts"], record["not_measured"]) == ([], []) and not (tmp_path / "asked").exists()


def test_it_is_not_started_before_the_timed_part(tmp_path: Path) -> None:
    meter = EnergyMeter(root=tmp_path, power_command=f"touch {tmp_path}/asked; echo 1")
    assert meter.stop() is None and not (tmp_path / "asked").exists()
