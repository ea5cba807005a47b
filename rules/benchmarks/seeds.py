"""Derive the seeds of a set's runs from one base seed, avoiding seeds that a calibration (reference runs) used."""

import hashlib
import json
from pathlib import Path
from secrets import randbits
from typing import Any

from rules.benchmarks.loader import shipped_versions


def draw_base_seed() -> int:
    """Draw a base seed, such as a run set's, from the system's entropy (training_rules.adoc: seeds may come from
    another generator)."""
    return randbits(31)


def reserved_seeds(name: str) -> frozenset[int]:
    """Return the seeds that the runs of a new set must not get. They are those of the reference runs behind a
    benchmark's reference convergence points, and of the runs that confirmed its quality target, in all versions of
    the benchmark."""
    reserved: set[int] = set()
    for benchmark in shipped_versions(name):
        for point in _read(benchmark.path.with_suffix(".rcps.json")).values():
            reserved.update(point.get("Seeds", ()))
        for summary in _read(benchmark.path.with_suffix(".calibration.json")).get("batch_sizes", ()):
            reserved.update(summary["seeds"])
    return frozenset(reserved)


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return content


def derive_seed(base_seed: int, counter: int) -> int:
    """Return number `counter` in the sequence of 31-bit seeds derived from a base seed, from which the seeds of runs
    are taken."""
    digest = hashlib.sha256(f"{base_seed}:{counter}".encode()).digest()
    return int.from_bytes(digest[:4], "big") & 0x7FFFFFFF


def derive_seeds(base_seed: int, num_runs: int, reserved: frozenset[int] = frozenset()) -> list[int]:
    """Return `num_runs` distinct 31-bit seeds derived from a base seed, none of them in `reserved`; the seed of run i
    does not depend on the number of runs."""
    seeds: list[int] = []
    counter = 0
    while len(seeds) < num_runs:
        seed = derive_seed(base_seed, counter)
        counter += 1
        if seed not in seeds and seed not in reserved:
            seeds.append(seed)
    return seeds
