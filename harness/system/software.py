"""Describe this system's software: framework, stack, operating system, and the environment that a run set records.

Versions come from package metadata, so that nothing is imported. Nothing secret is recorded: only variables of known
families, and none whose name or value looks like a credential.
"""

import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.system.accelerators import Accelerators
from harness.system.code import describe_commit
from harness.system.hardware import DetectedValue, cpuinfo, read_processor_numbers, virtualization
from harness.system.resources import ROOT, read_resources, read_text

PACKAGES = (
    "dlrmbench", "torch", "numpy", "scipy", "pandas", "mlperf-logging", "pyarrow", "psutil", "click", "jinja2",
    "nvidia-ml-py", "torchrec", "fbgemm-gpu", "triton",
)  # fmt: skip
_VARIABLES = (
    "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "DNNL_", "ONEDNN_", "CUDA_", "CUBLAS_", "NCCL_",
    "GLOO_", "NVIDIA_", "HIP_", "ROCR_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "ATEN_", "FBGEMM_", "MALLOC_",
    "DLRMBENCH_",
)  # fmt: skip
_SINGLE_VARIABLES = (
    "LD_PRELOAD", "LD_AUDIT", "PYTHONHASHSEED", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE",
    "WORLD_SIZE", "LOCAL_WORLD_SIZE",
)  # fmt: skip
_SECRET = re.compile(r"key|token|secret|passw|credential|auth|cookie", re.IGNORECASE)
_URL_LOGIN = re.compile(r"://[^/\s@]+@")
_VALUE_LIMIT = 400
SPIN = "GOMP_SPINCOUNT"
SPIN_VARIABLES = (SPIN, "OMP_WAIT_POLICY", "KMP_BLOCKTIME")
"""Environment variables with which a user sets how long OpenMP threads spin."""
WORKER_VARIABLES = {SPIN: "1000", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
"""Environment variables that a worker process has by default; values that the user sets have precedence. Only GNU's
libraries read these variables.

- The spin count limits how long OpenMP's threads spin at a barrier before they sleep; a value chosen by autotuning
  replaces it. With GNU's default (300,000) one busy neighbour slows small layers tenfold and more, since a spinning
  thread keeps the core from the thread that it waits for. On a quiet system GNU's default saves 5 to 27 % of small
  steps.
- The MALLOC variables keep freed memory for the next step. Without them every tensor above 32 MiB, and often a
  smaller one, is given back to the system, and its pages are cleared again at each use. That takes a tenth of a step
  at batch size 65,536, and a fifth of a step of the reference implementation.
"""
_INSTRUCTION_SETS = (
    "avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_bf16", "amx_int8", "asimd", "sve", "bf16",
)  # fmt: skip


def make_spin_variables(spin_count: int | None) -> dict[str, str]:
    """Return the environment variable that sets an autotuned spin count of OpenMP threads, as a dict from its name to
    its value; an empty dict if `spin_count` is None."""
    return {} if spin_count is None else {SPIN: str(spin_count)}


def describe_software(accelerators: Accelerators, root: Path = ROOT) -> dict[str, DetectedValue]:
    """Return the fields framework, other_software_stack and operating_system of MLPerf's system description."""
    found: dict[str, DetectedValue] = {}
    if torch_version := version_of("torch"):
        found["framework"] = DetectedValue(f"PyTorch {torch_version}", "package metadata")
    stack = [f"Python {platform.python_version()}"]
    stack += [f"{name} {version}" for name in PACKAGES[2:] if name != "click" and (version := version_of(name))]
    stack.append(f"{platform.system()} {platform.release()}")
    if accelerators.driver_version:
        stack.append(f"NVIDIA driver {accelerators.driver_version}")
    found["other_software_stack"] = DetectedValue(", ".join(stack), "package metadata, uname")
    if operating_system := _operating_system(root):
        found["operating_system"] = DetectedValue(operating_system, "os-release, platform")
    return found


def version_of(package: str) -> str | None:
    """Return a package's installed version from its metadata; None when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def environment(environ: Mapping[str, str] | None = None, root: Path = ROOT) -> dict[str, Any]:
    """Return the software environment that a run set records: plain JSON values, None where unknown."""
    resources = read_resources(root)
    return {
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "packages": {name: version_of(name) for name in PACKAGES},
        **describe_commit(),
        "operating_system": _operating_system(root),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": read_processor_numbers(root),
        "instruction_sets": _instruction_sets(root),
        "container": container(root, environ),
        "virtualization": virtualization(root),
        **{name: value for name, value in asdict(resources).items() if name != "available_memory_bytes"},
        "variables": select_environment_variables(
            {**WORKER_VARIABLES, **(os.environ if environ is None else environ)}
        ),
    }


def select_environment_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that change speed or results, sorted; none that might hold a credential."""
    return {
        name: value if len(value) <= _VALUE_LIMIT else value[:_VALUE_LIMIT] + "…"
        for name, value in sorted(environ.items())
        if (name in _SINGLE_VARIABLES or name.startswith(_VARIABLES))
        and not _SECRET.search(name)
        and not _URL_LOGIN.search(value)
    }


def container(root: Path = ROOT, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the kind of container in which this process seems to run, as recognised by files or variables of the
    container's runtime; None where there is no sign of a container."""
    environ = os.environ if environ is None else environ
    for path, name in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if (root / path).exists():
            return name
    for variable, name in (
        ("APPTAINER_CONTAINER", "apptainer"),
        ("SINGULARITY_CONTAINER", "singularity"),
        ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ):
        if environ.get(variable):
            return name
    text = read_text(root / "proc/1/cgroup") or ""
    match = re.search(r"(docker|kubepods|containerd|libpod|lxc)", text)
    return match[1] if match else None


def _operating_system(root: Path) -> str | None:
    match = re.search(r'^PRETTY_NAME=["\']?(.*?)["\']?$', read_text(root / "etc/os-release") or "", re.MULTILINE)
    if match and match[1]:
        return match[1]
    if root == ROOT and sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    return None


def _instruction_sets(root: Path) -> list[str]:
    flags = (cpuinfo(root, "flags") or cpuinfo(root, "Features") or "").split()
    return [name for name in _INSTRUCTION_SETS if name in flags]
