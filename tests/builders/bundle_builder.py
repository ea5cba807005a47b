"""Reference sets as a harness leaves them, and bundles of them, damaged and hostile ones too."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from log_builder import make_records, usual_evals
from measured_builder import write_measured
from records_builder import system_part
from report_builder import write_run_set

from reports.results.bundles import RATES_FILE, SET_FILES, pack
from rules.benchmarks.loader import load_benchmark

LOAD = {
    "num_cpus": 2, "duration_s": 10.0, "load_avg_before": 0.1, "load_avg_after": 1.0, "other_cpus": 0.0,
    "cpu_clock_mhz": None, "max_temperature_c": None,
}  # fmt: skip
_KINDS = ("cores", "memory", "fp32", "copy", "rows", "other", "operator")


def rates_text(value: float = 1e9) -> str:
    """A system's file whose rates are all the same, and an operator's overhead one over them."""
    values = {of: 1 / value if of == "operator" else value for of in _KINDS}
    numbers = ", ".join(f'{{ of = "{of}", value = {each}, source = "a test" }}' for of, each in values.items())
    return f'title = "its"\nnumbers = [{numbers}]\n'


def write_runs(
    root: Path,
    speed: float,
    *,
    seed: int = 0,
    spread: float = 0.002,
    processor: str | None = None,
    load: Mapping[str, Any] | None = LOAD,
    **changes: Any,
) -> Path:
    """Five runs to dlrm_tiny's target at about so many samples a second, each `spread` faster than the one before."""
    tiny = load_benchmark("dlrm_tiny")
    runs = [
        make_records(
            tiny,
            num_evals=usual_evals(tiny) + index % 2,
            seed=1000 + seed * 100 + index,
            start_ms=1_790_000_000_000 + (seed * 50 + index) * 600_000,
            throughput=speed * (1 + spread * (index % 3)),
        )
        for index in range(5)
    ]
    about = {"environment": {"processor": processor}} | changes
    write_run_set(root, runs=runs, interrupted=False, changes=about)
    for path in root.glob("extra/run_*/attempt_*/run.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"loads": [] if load is None else [load]}))
    return root


def write_speed(root: Path, speed: float, *, spread: float = 0.002, **about: Any) -> Path:
    """The throughput of dlrm_tiny in five processes."""
    write_measured(root, "throughput", [speed * (1 + spread * index) for index in range(5)], **about)
    path = root / "extra" / "throughput.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data_kind": "click_log", "loads": [LOAD] * 5}))
    return root


def about_box(model: int = 1) -> dict[str, Any]:
    """Members of run_set.json that describe a system."""
    fields = {"host_processor_model_name": "AMD EPYC", "host_processor_core_count": "2"}
    return {
        "system": system_part("box", **fields),
        "environment": {"processor": f"AuthenticAMD family 25 model {model}"},
    }


def write_bundle(path: Path, *folders: Path, rates: str | None = rates_text()) -> Path:
    """Pack sets as a bundle of the file's name."""
    files = {} if rates is None else {RATES_FILE: rates.encode()}
    for folder in folders:
        found = (file for pattern in SET_FILES for file in folder.glob(pattern))
        files |= {f"{folder.name}/{file.relative_to(folder).as_posix()}": file.read_bytes() for file in found}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pack(path.stem, files, created_utc="2026-11-21T03:00:00+00:00", harness_version="0.1.0"))
    return path


def write_box(path: Path, work: Path, speed: float = 10_000.0, **options: Any) -> Path:
    """A bundle with runs to dlrm_tiny's target and its throughput."""
    name, about = path.stem, about_box()
    sets = (
        write_runs(work / f"dlrm_tiny-{name}-20261121T030000Z", speed, **about, **options),
        write_speed(work / f"dlrm_tiny-{name}-speed-20261121T030000Z", speed / 5, **about),
    )
    return write_bundle(path, *sets)


def rewrite(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Change the members of an archive, by name, and leave everything else, digests included."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    path.write_bytes(packed.getvalue())
    return path
