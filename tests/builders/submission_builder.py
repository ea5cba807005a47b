"""A submission as submission_rules.adoc lays it out, with power measurements where asked for, on disk.

`write_submission` writes one that breaks no rule; a test then changes a file. Several below one folder are a round.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from log_builder import BEYOND_33, Record, make_runs, make_system_desc, write_log

from rules.benchmarks.loader import Benchmark, load_benchmark

DCNV2 = load_benchmark("dlrm_dcnv2")
SYSTEM = "example"
PERIOD_MS = 1000


def write_submission(
    root: Path,
    *,
    organization: str = "Example",
    systems: Sequence[str] = (SYSTEM,),
    runs: Sequence[Sequence[Record]] | None = None,
    benchmark: Benchmark = DCNV2,
    **fields: str,
) -> Path:
    """One organisation's directory below `root`. Each system has runs of its own; `fields` are of its description."""
    top = root / organization
    start_ms = 1_790_000_000_000
    for number, system in enumerate(systems):
        own = runs
        if own is None:
            own = make_runs(benchmark, ours=False, organization=organization, start_ms=start_ms)
            for index, records in enumerate(own):
                for record in records:
                    record["value"] = 1000 * number + index if record["key"] == "seed" else record["value"]
            start_ms = own[-1][-1]["time_ms"] + 60_000
        for index, records in enumerate(own):
            write_log(top / "results" / system / benchmark.name / f"result_{index}.txt", records)
        description = make_system_desc(**BEYOND_33 | {"submitter": organization, "system_name": system} | fields)
        write(top / "systems" / f"{system}.json", json.dumps(description))
        place = top / "benchmarks" / benchmark.name
        write(place / "implementations" / "reference" / "train.py", "print('training')\n")
        for name in (f"{system}_reference.json", "README.md", "setup.sh", "init_datasets.sh", "run_and_time.sh"):
            write(place / system / name, "{}\n")
    return top


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def set_folder(top: Path, benchmark: Benchmark = DCNV2) -> Path:
    return top / "results" / SYSTEM / benchmark.name


def short_runs(num_runs: int = 10) -> list[list[Record]]:
    """Runs of about three minutes, so that their power fits into small files."""
    return make_runs(DCNV2, num_runs, ours=False, throughput=2.2e7)


def power_records(start_ms: float, stop_ms: float, watts: float = 500.0, period_ms: int = PERIOD_MS) -> list[Record]:
    """One node's readings from before the run to after it."""
    first = start_ms - period_ms / 2
    num = int((stop_ms - first) // period_ms) + 1
    readings = [_record("power_reading", watts, first + period_ms * (index + 1)) for index in range(num)]
    last_ms = readings[-1]["time_ms"]
    return [
        _record("power_measurement_start", None, first),
        *readings,
        _record("power_measurement_stop", None, last_ms),
    ]


def _record(key: str, value: object, time_ms: float) -> Record:
    return {
        "namespace": "",
        "time_ms": int(time_ms),
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
        "metadata": {},
    }


def write_power(
    folder: Path,
    runs: Sequence[Sequence[Record]],
    *,
    change: Callable[[list[Record]], list[Record]] = lambda records: records,
    num_nodes: int = 1,
) -> Path:
    """power/result_<i>/node_<j>.txt beside the logs of `runs`; `change` alters the first file."""
    for index, records in enumerate(runs):
        start_ms = next(one["time_ms"] for one in records if one["key"] == "run_start")
        stop_ms = next(one["time_ms"] for one in records if one["key"] == "run_stop")
        for node in range(num_nodes):
            measured = power_records(start_ms, stop_ms, watts=500.0 + node)
            if index == node == 0:
                measured = change(measured)
            write_log(folder / "power" / f"result_{index}" / f"node_{node}.txt", measured)
    return folder / "power"
