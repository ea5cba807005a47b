"""Energy: read from counters that wrap (a fake powercap tree, a fake NVML), else the reason; never an estimate."""

import json
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from records_builder import run_content
from waiting import wait_until

from harness.system.energy import EnergyMeter, NvmlPower, find_nvml, find_rapl, join_ranks
from reference_models.process.world import SingleProcess
from reports.facts.energy import explain_clocks, explain_ranks
from rules.records.codec import convert
from rules.records.run import EnergyRecord, RunRecord

RANGE_UJ = 262_143_328_850


class FakeNvml:
    """Answers like pynvml; `energies_mj` None means that the device has no energy counter."""

    class NVMLError(Exception):
        pass

    def __init__(self, energies_mj: list[int] | None = None, powers_mw: list[int] | None = None) -> None:
        self.energies_mj, self.powers_mw = energies_mj, powers_mw
        self.clocks_mhz: dict[int, list[int] | None] = {1: [1980, 1980, 1200, 1965], 2: [2619]}

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid != "GPU-1":
            raise self.NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:  # noqa: N802
        return self._next(self.energies_mj)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:  # noqa: N802
        return self._next(self.powers_mw)

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:  # noqa: N802
        return self._next(self.clocks_mhz[kind])

    def nvmlDeviceGetMaxClockInfo(self, handle: str, kind: int) -> int:  # noqa: N802
        return {1: 1980, 2: 2619}[kind]

    def nvmlDeviceGetTemperature(self, handle: str, kind: int) -> int:  # noqa: N802
        return self._next([61])

    def nvmlDeviceGetPowerManagementLimit(self, handle: str) -> int:  # noqa: N802
        return 700_000

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:  # noqa: N802
        return [0, 1]

    def nvmlDeviceGetEccMode(self, handle: str) -> list[int]:  # noqa: N802
        return [1, 1]

    def _next(self, values: list[int] | None) -> int:
        if values is None:
            raise self.NVMLError("Not Supported")
        return values.pop(0) if len(values) > 1 else values[0]


def powercap(root: Path, zones: dict[str, tuple[str, int]]) -> Path:
    """A powercap tree: zone -> (name, microjoules)."""
    for zone, (name, energy_uj) in zones.items():
        folder = root / "sys/class/powercap" / zone
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "energy_uj").write_text(f"{energy_uj}\n")
        (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
    return root


def burn(root: Path, zone: str, energy_uj: int) -> None:
    """Let a zone's counter go on, over its end where it comes to that."""
    path = root / "sys/class/powercap" / zone / "energy_uj"
    draft = path.with_name("draft")
    draft.write_text(str((int(path.read_text()) + energy_uj) % RANGE_UJ))
    draft.replace(path)  # the kernel never shows half a number


def test_packages_and_their_memory_are_summed_and_parts_of_a_package_are_not(tmp_path: Path) -> None:
    root = powercap(
        tmp_path,
        {
            "intel-rapl:0": ("package-0", 5),
            "intel-rapl:0:0": ("core", 5),
            "intel-rapl:0:1": ("dram", 5),
            "intel-rapl:1": ("package-1", 5),
            "intel-rapl:2": ("psys", 5),
        },
    )
    meter = EnergyMeter(root=root, interval_s=60)
    meter.start()
    for zone in ("intel-rapl:0", "intel-rapl:0:0", "intel-rapl:0:1", "intel-rapl:1", "intel-rapl:2"):
        burn(root, zone, 2_000_000)
    record = meter.stop()
    assert record is not None
    assert [(part["name"], part["energy_j"]) for part in record["parts"]] == [
        ("package-0", 2.0),
        ("package-0 dram", 2.0),
        ("package-1", 2.0),
    ]
    assert record["energy_j"] == 6.0
    assert record["not_measured"] == []
    assert {part["source"] for part in record["parts"]} == {"RAPL (powercap)"}


def test_a_counter_that_wraps_goes_on_counting(tmp_path: Path) -> None:
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", RANGE_UJ - 1_000_000)})
    ((domain,), _) = find_rapl(root)
    for _ in range(7):
        burn(root, "intel-rapl:0", RANGE_UJ // 2)
        domain.update()
    assert domain.energy_j == pytest.approx(7 * (RANGE_UJ // 2) * 1e-6)


def test_what_was_burnt_before_the_start_is_not_in_it(tmp_path: Path) -> None:
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 0)})
    meter = EnergyMeter(root=root, interval_s=60)
    burn(root, "intel-rapl:0", 50_000_000)
    meter.start()
    burn(root, "intel-rapl:0", 3_000_000)
    record = meter.stop()
    assert record is not None
    assert record["energy_j"] == pytest.approx(3.0)


def test_a_thread_reads_in_between_so_that_no_wrap_is_lost(tmp_path: Path) -> None:
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 0)})
    meter = EnergyMeter(root=root, interval_s=0.001)
    (counter,) = meter._counters
    reads: list[None] = []
    update = counter.update
    counter.update = lambda: reads.append(update())  # type: ignore[method-assign, func-returns-value]
    meter.start()
    for _ in range(4):
        burn(root, "intel-rapl:0", RANGE_UJ // 2)
        enough = len(reads) + 2  # one may already have been under way
        wait_until(lambda enough=enough: len(reads) >= enough, "two reads")  # type: ignore[misc]
    record = meter.stop()
    assert record is not None
    assert record["energy_j"] == pytest.approx(2 * RANGE_UJ * 1e-6, rel=1e-6)


def test_without_a_driver_nothing_is_measured_and_the_reason_is_given(tmp_path: Path) -> None:
    meter = EnergyMeter(root=tmp_path)
    meter.start()
    record = meter.stop()
    assert record is not None
    assert record["energy_j"] is None
    assert record["parts"] == []
    assert record["not_measured"][0]["what"] == "CPU packages"
    assert "absent" in record["not_measured"][0]["reason"]


def test_a_counter_for_root_only_is_not_measured_for_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 0)})
    read_text = Path.read_text

    def refuse(path: Path, *arguments: Any, **options: Any) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    domains, missing = find_rapl(root)
    assert domains == []
    assert "root only" in missing[0].reason
    assert "energy_uj" in missing[0].reason


@pytest.mark.parametrize("content", ["", "garbage", "-"])
def test_a_counter_that_holds_no_number_is_not_measured(content: str, tmp_path: Path) -> None:
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 0)})
    (root / "sys/class/powercap/intel-rapl:0/energy_uj").write_text(content)
    domains, missing = find_rapl(root)
    assert domains == []
    assert len(missing) == 1


def test_a_counter_that_fails_during_the_run_is_not_measured(tmp_path: Path) -> None:
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 0), "intel-rapl:1": ("package-1", 0)})
    meter = EnergyMeter(root=root, interval_s=60)
    meter.start()
    burn(root, "intel-rapl:0", 4_000_000)
    (root / "sys/class/powercap/intel-rapl:1/energy_uj").unlink()
    record = meter.stop()
    assert record is not None
    assert record["energy_j"] == 4.0
    assert record["not_measured"][0]["what"] == "package-1"


def test_an_accelerators_energy_counter_is_preferred() -> None:
    nvml = FakeNvml(energies_mj=[1000, 4500], powers_mw=[99])
    ((counter,), missing) = find_nvml("cuda:0", nvml, lambda device: "GPU-1")
    counter.update()
    assert (counter.energy_j, counter.source, missing) == (3.5, "NVML energy counter", [])


def test_without_a_counter_power_is_integrated_by_trapezoids() -> None:
    times = iter([10.0, 11.0, 13.0])
    counter = NvmlPower(FakeNvml(powers_mw=[100_000, 200_000, 300_000]), "GPU-1", "cuda", lambda: next(times))
    counter.update()
    counter.update()
    assert counter.energy_j == pytest.approx(1.0 * 150 + 2.0 * 250)


@pytest.mark.parametrize("nvml", [FakeNvml(), FakeNvml(energies_mj=[1])])
def test_an_accelerator_that_says_nothing_is_not_measured(nvml: FakeNvml) -> None:
    uuid = "GPU-1" if nvml.energies_mj is None else "GPU-2"
    counters, missing = find_nvml("cuda:0", nvml, lambda device: uuid)
    assert counters == []
    assert missing[0].what == "accelerator cuda:0"
    assert missing[0].reason.startswith("NVML: ")


def test_a_meter_that_was_never_started_has_no_record(tmp_path: Path) -> None:
    assert EnergyMeter(root=tmp_path).stop() is None


@pytest.mark.parametrize("zones", [{}, {"intel-rapl:0": ("package-0", 0)}])
def test_the_record_is_what_run_and_throughput_json_hold(zones: dict[str, tuple[str, int]], tmp_path: Path) -> None:
    meter = EnergyMeter(root=powercap(tmp_path, zones), interval_s=60)
    meter.start()
    content = meter.stop()
    assert content is not None
    record = convert(json.loads(json.dumps(content)), EnergyRecord)
    assert len(record.parts) == len(zones) and (record.energy_j is None) == (not zones)


@pytest.mark.parametrize(
    "error",
    [AssertionError("Torch not compiled with CUDA enabled"), AssertionError(), RuntimeError("CUDA error: no")],
)
def test_a_gpu_that_torch_cannot_name_is_not_measured(error: Exception) -> None:
    def uuid_of(device: str) -> str:
        raise error

    counters, (gap,) = find_nvml("cuda:7", FakeNvml(), uuid_of)
    assert counters == [] and gap.what == "accelerator cuda:7"
    assert gap.reason.startswith("torch does not say which it is: ") and str(error) in gap.reason


def test_cuda_numbers_devices_otherwise_than_nvml_so_the_uuid_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=f"u{index}"))
    nvml = FakeNvml(energies_mj=[1])
    asked = []
    nvml.nvmlDeviceGetHandleByUUID = lambda uuid: asked.append(uuid) or "GPU-1"  # type: ignore[method-assign, func-returns-value]
    find_nvml("cuda:3", nvml)
    assert asked == ["GPU-u3"]


class SeveralRanks:
    """Rank 0 of a world whose other ranks have read what is given."""

    rank = 0

    def __init__(self, others: list[tuple[str, dict[str, Any] | None]]) -> None:
        self.others, self.size = others, len(others) + 1

    def gather(self, value: Any) -> list[Any]:
        return [value, *self.others]

    def broadcast(self, value: Any) -> Any:
        return value

    def barrier(self) -> None: ...


def reading(*parts: tuple[str, str | None, float], gap: str | None = None) -> dict[str, Any]:
    """What a meter returns: (name, device, joules) of each part."""
    return {
        "energy_j": sum(energy_j for _, _, energy_j in parts) if parts else None,
        "duration_s": 2.0,
        "sampling_interval_s": 1.0 if parts else None,
        "parts": [
            {"name": name, "source": "s", "energy_j": energy_j, "device": device} for name, device, energy_j in parts
        ],
        "not_measured": [] if gap is None else [{"what": gap, "reason": "no driver"}],
        "num_ranks": 1,
    }


def test_every_package_and_accelerator_of_all_ranks_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "a")
    package = ("package-0", None)
    world = SeveralRanks(
        [
            ("a", reading((*package, 5.0), ("accelerator cuda", "u1", 20.0))),
            ("b", reading((*package, 7.0), ("accelerator cuda", "u2", 30.0))),
            ("b", reading((*package, 7.0), gap="accelerator cuda")),
        ]
    )
    joined = join_ranks(world, reading((*package, 5.0), ("accelerator cuda", "u0", 10.0)))
    record = convert(json.loads(json.dumps(joined)), EnergyRecord)
    assert record.energy_j == 5 + 10 + 20 + 7 + 30 and record.num_ranks == 4
    assert [(part.device, part.rank) for part in record.parts] == [
        (None, 0),
        ("u0", 0),
        ("u1", 1),
        (None, 2),
        ("u2", 2),
    ]
    assert [gap.what for gap in record.not_measured] == ["accelerator cuda (1 of 4 ranks)"]


def test_two_ranks_on_one_accelerator_are_one_part() -> None:
    seen = reading(("accelerator cuda", "u0", 10.0))
    joined = join_ranks(SeveralRanks([(socket.gethostname(), seen)]), seen)
    assert joined is not None and joined["energy_j"] == 10.0 and len(joined["parts"]) == 1


def test_one_rank_without_a_meter_leaves_no_energy_and_one_process_its_own() -> None:
    own = reading(("package-0", None, 5.0))
    assert join_ranks(SeveralRanks([("a", None)]), own) is None
    assert join_ranks(SingleProcess(), own) is own


def test_what_an_earlier_version_measured_is_said_to_be_rank_0s() -> None:
    before = {
        "energy_j": 5.0,
        "duration_s": 1.0,
        "sampling_interval_s": 1.0,
        "not_measured": [],
        "parts": [{"name": "package-0", "source": "s", "energy_j": 5.0}],
    }
    rank = {"host": "a", "peak_rss_bytes": 1, "peak_device_bytes": None}
    ranks = [{"rank": number, **rank} for number in range(2)]
    old, new = (
        convert(run_content(energy=energy, ranks=ranks), RunRecord) for energy in (before, {**before, "num_ranks": 2})
    )
    assert "rank 0" in explain_ranks([old, None]) and explain_ranks([new]) == ""


def run_on_gpu(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, num_samples: int) -> EnergyRecord:
    """What a meter records of a GPU that it looks at so many times."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr("harness.system.energy._device_uuid", lambda device: "GPU-1")
    meter = EnergyMeter("cuda", root=tmp_path, interval_s=60)
    meter.start()
    for _ in range(num_samples - 2):
        meter._update()
    return convert(json.loads(json.dumps(meter.stop())), EnergyRecord)


def test_the_clocks_of_a_gpu_during_the_run_are_on_record_beside_their_limits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("harness.system.gpu_state.version_of", lambda name: "13.1" if name.endswith("cu13") else None)
    monkeypatch.setattr("torch.cuda.nccl.version", lambda: (2, 28, 9))
    record = run_on_gpu(FakeNvml(energies_mj=[1]), monkeypatch, tmp_path, num_samples=4)
    (gpu,) = record.gpus
    assert msgspec.to_builtins(gpu) == {
        "device": "GPU-1", "num_samples": 4, "max_temperature_c": 61, "power_limit_w": 700.0, "is_mig": False,
        "is_ecc": True, "nccl_version": "2.28.9", "cublas_version": "13.1",
        "sm_clock_mhz": {"lowest": 1200.0, "median": 1972.5, "highest": 1980.0}, "max_sm_clock_mhz": 1980,
        "memory_clock_mhz": {"lowest": 2619.0, "median": 2619.0, "highest": 2619.0}, "max_memory_clock_mhz": 2619,
    }  # fmt: skip
    assert explain_clocks([record, None]) == (
        "GPU clock: moved between 1200 and 1980 MHz while it was measured, of 1980 at most; "
        "nvidia-smi --lock-gpu-clocks=MHZ,MHZ holds it."
    )


def test_what_a_driver_does_not_say_of_a_gpu_is_null_and_steady_clocks_are_no_news(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*arguments: object) -> None:
        raise FakeNvml.NVMLError("Not Supported")

    nvml = FakeNvml(energies_mj=[1])

    nvml.clocks_mhz = {1: [1980], 2: [2619]}
    assert explain_clocks([run_on_gpu(nvml, monkeypatch, tmp_path, num_samples=3)]) == ""
    monkeypatch.setattr("harness.system.gpu_state.version_of", lambda name: None)
    monkeypatch.delattr("torch.cuda.nccl.version")
    for name in vars(FakeNvml):
        if name.startswith("nvmlDeviceGet") and not name.endswith(("UUID", "Consumption")):
            monkeypatch.setattr(FakeNvml, name, refuse)
    record = run_on_gpu(FakeNvml(energies_mj=[1]), monkeypatch, tmp_path, num_samples=3)
    (gpu,) = record.gpus
    told = msgspec.to_builtins(gpu)
    assert {told.pop("device"), told.pop("num_samples"), *told.values()} == {"GPU-1", 3, None}
    assert explain_clocks([record]) == ""


def test_the_stand_in_asks_nvml_what_the_real_library_knows() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    names = [name for name in vars(FakeNvml) if name.lower().startswith("nvml")]
    assert len(names) > 10 and [name for name in names if not hasattr(pynvml, name)] == []


def test_the_gpus_of_all_ranks_are_on_record_once() -> None:
    own, *seen = [{**reading(("accelerator", uuid, 1.0)), "gpus": [{"device": uuid}]} for uuid in ("u0", "u1", "u1")]
    joined = join_ranks(SeveralRanks([("b", each) for each in seen]), own)
    assert joined is not None and joined["gpus"] == [{"device": "u0"}, {"device": "u1"}]
