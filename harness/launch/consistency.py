"""Check before the clock starts that all ranks have the same configuration, data and software."""

import hashlib
import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.config.catalog import WorkloadConfig
from harness.config.synthetic import hold_in_memory
from harness.foundation.errors import RefusedByAllError
from harness.measure.kinds import Job
from harness.system.code import code_sha256
from harness.system.software import version_of
from reference_models.data.registry import open_dataset
from reference_models.process.world import World

LIBRARIES = ("dlrmbench", "torch", "torchrec", "fbgemm-gpu-cpu", "fbgemm-gpu", "numpy", "mlperf-logging")
_OWN = ("data_dir", "definition_path", "folder", "attempt")
"""Fields of a job that may differ between ranks: paths on each rank's machine, and the number of the attempt."""


def agree(world: World, job: Job, config: WorkloadConfig) -> None:
    """Check that all ranks are about to do the same job, on the same data, with the same software.

    Raises RefusedByAllError where they differ.
    """
    refuse_difference(world, describe_rank(job, config))


def refuse_difference(world: World, described: dict[str, Any]) -> None:
    """Raise RefusedByAllError where a rank has another value than rank 0, naming that rank, what differs (such as a
    configuration key), and both values."""
    difference = world.broadcast(_first_difference(world.gather(described) or []))
    if difference is not None:
        raise RefusedByAllError(difference)


def describe_rank(job: Job, config: WorkloadConfig) -> dict[str, Any]:
    """Return the configuration, data and software of this rank that must be equal on all ranks, by name."""
    shared = {key: value for key, value in asdict(job).items() if key not in _OWN}
    return {
        "configuration": hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:12],
        "run_index": shared.get("run_index"),
        "seed": job.seed,
        "dataset_sha256": open_dataset(Path(job.data_dir), hold_in_memory(config, 1).data).dataset_sha256,
        "code": code_sha256()[:12],
        "python": platform.python_version(),
        **{name: version_of(name) for name in LIBRARIES},
    }


def _first_difference(ranks: list[dict[str, Any]]) -> str | None:
    for rank, here in enumerate(ranks[1:], start=1):
        for name in {**ranks[0], **here}:
            if here.get(name) != ranks[0].get(name):
                return (
                    f"rank {rank} differs from rank 0 in {name}: {here.get(name)} and {ranks[0].get(name)}. "
                    "Start all ranks with the same command, software and dataset."
                )
    return None
