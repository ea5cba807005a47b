"""Seeds: one base seed per set, run i's derived from it, none that a calibration used."""

import hashlib
import json
import secrets
from importlib import resources
from typing import Any


def draw_base_seed() -> int:
    """Draw a base seed from the system's entropy (training_rules.adoc: seeds may come from another generator)."""
    return secrets.randbits(31)


def reserved_seeds(benchmark: str) -> frozenset[int]:
    """Return the seeds of the benchmark's reference convergence points and of the runs that confirmed its target."""
    return frozenset(
        seed for point in _read_shipped(f"{benchmark}.rcps.json").values() for seed in point.get("Seeds", ())
    ) | frozenset(
        seed
        for summary in _read_shipped(f"{benchmark}.calibration.json").get("batch_sizes", ())
        for seed in summary["seeds"]
    )


def _read_shipped(name: str) -> dict[str, Any]:
    path = resources.files("rules.benchmarks") / name
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return content


def derive_seeds(base_seed: int, num_runs: int, reserved: frozenset[int] = frozenset()) -> list[int]:
    """Derive distinct 31-bit seeds; run i's does not depend on how many runs follow."""
    seeds: list[int] = []
    counter = 0
    while len(seeds) < num_runs:
        digest = hashlib.sha256(f"{base_seed}:{counter}".encode()).digest()
        counter += 1
        seed = int.from_bytes(digest[:4], "big") & 0x7FFFFFFF
        if seed not in seeds and seed not in reserved:
            seeds.append(seed)
    return seeds
