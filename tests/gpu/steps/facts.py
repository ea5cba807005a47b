"""GPU, driver, torch, clocks; whether energy is counted, and whether a parent process takes memory of the GPU."""

import subprocess
import time
from importlib.util import find_spec
from typing import Any

import torch
from findings import Findings
from setting import Setting

from harness.system.energy import EnergyMeter
from reference_models.training.devices import find_device

ASKED = "clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw,power.limit,utilization.gpu"
BUSY_S, SIZE = 2.0, {True: 8192, False: 64}


def run(setting: Setting, findings: Findings) -> None:
    findings.note(torch=str(torch.__version__), cuda=str(torch.version.cuda), triton=str(bool(find_spec("triton"))))
    findings.note(torchrec=str(bool(find_spec("torchrec") and find_spec("fbgemm_gpu"))))
    before = processes_on_gpu()
    device = find_device(setting.device)
    findings.note(contexts_of_find_device=None if before is None else (processes_on_gpu() or 0) - before)
    for name, value in ask_smi().items():
        findings.note(**{f"idle {name}": value})
    energy = measure_energy(device, SIZE[setting.is_full], BUSY_S if setting.is_full else 0.1)
    findings.note(
        energy_j=energy["energy_j"],
        energy_duration_s=energy["duration_s"],
        energy_parts=", ".join(
            f"{part['name']} ({part['source']}) {part['energy_j']:.1f} J" for part in energy["parts"]
        ),
        energy_not_measured="; ".join(f"{gap['what']}: {gap['reason']}" for gap in energy["not_measured"]),
    )
    for name, value in ask_smi().items():
        findings.note(**{f"busy {name}": value})


def measure_energy(device: torch.device, size: int, for_s: float) -> dict[str, Any]:
    """Measure the energy of matrix products for that long."""
    meter = EnergyMeter(str(device))
    left = torch.rand(size, size, device=device)
    meter.start()
    until_s = time.monotonic() + for_s
    while time.monotonic() < until_s:
        left @ left
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    found = meter.stop()
    assert found is not None
    return found


def processes_on_gpu() -> int | None:
    """Count the processes with a context on the first GPU, as NVML sees them; None where it is not there."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return len(pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0)))
    except Exception as error:  # NVML's own errors have no common base without it
        print(f"NVML: {type(error).__name__}: {error}")
        return None


def ask_smi() -> dict[str, str]:
    """Return the facts that nvidia-smi gives of the first GPU; none without it."""
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={ASKED}", "--format=csv,noheader", "--id=0"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"nvidia-smi: {error}")
        return {}
    return dict(zip(ASKED.split(","), (value.strip() for value in done.stdout.split(",")), strict=False))
