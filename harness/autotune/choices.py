"""List the candidates that autotuning times: the thread counts, spin counts and kernels that a configuration may run
with."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from harness.config.matmul import GivenMatmul, can_choose
from harness.config.run_config import RunConfig
from harness.config.sections import find_sections
from harness.launch.process import Interpreter
from harness.run_sets.installation import Installation
from harness.system.hardware import read_processors
from harness.system.resources import read_resources
from harness.system.software import SPIN_VARIABLES, version_of
from reference_models.fused.choice import Form
from reference_models.fused.private_folder import find_compiler
from rules.benchmarks.loader import canonical_sha256
from rules.records.run_set import ChoiceRecord

FOLDER = "choices"
SPIN_COUNTS = (1_000, 300_000)
"""Values of GOMP_SPINCOUNT (spinning of OpenMP's threads) to time: a short one for busy systems, and GNU's default,
which is faster on quiet systems."""
_SURROUNDINGS = ("OMP_", "KMP_", "GOMP_", "MKL_", "DNNL_", "ONEDNN_", "MALLOC_", "LD_PRELOAD")


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnWays:
    """Autotuning that a section of a benchmark definition, such as [serve], requires. It replaces the autotuning of a
    training step."""

    thread_counts: tuple[int, ...]
    """Numbers of threads, one for each candidate that is timed."""
    chosen_for: Mapping[str, Any]
    """Settings, as JSON values, for which a choice of this section is valid, in addition to those for which a choice
    for training steps is valid (shape, precision, system)."""
    words: str
    """Words by which messages name what timing chooses, such as 'workers, threads and calls'."""
    done: str
    """Participle with which a message announces the chosen settings, such as 'answered' in 'answered with 2 workers'.
    """
    time: "Callable[[Candidates, Interpreter | None], ChoiceRecord | str]"
    """Function that chooses settings by timing in fresh processes; returns the choice, or the reason why timing
    failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidates:
    """Alternatives among which timing chooses for one configuration: thread counts, spin counts and kernels, or those
    that a section of the definition, such as [serve], lists. Also has the settings for which the choice is valid."""

    config: RunConfig
    data_dir: Path
    thread_counts: tuple[int, ...]
    spin_counts: tuple[int | None, ...]
    chooses_matmul: bool
    given: GivenMatmul | None
    torch_version: str | None
    surroundings: Mapping[str, str]
    num_cores: int
    cpu: str | None
    own: OwnWays | None = None
    """Alternatives that a section of the definition, such as [serve], has to time. They are timed in place of the
    threads and kernels of a training step. None if no section has any."""

    @property
    def chosen_for(self) -> dict[str, Any]:
        """Settings for which a timed choice of threads and kernels is valid: shape, batch sizes, precision, training
        code and this system. torch's version is not listed, since it is part of `key` and of the file's name."""
        workload, runtime = self.config.workload, self.config.workload.runtime
        data = asdict(workload.data.mapped)
        for key in ("name", "sha256", "id_map", "id_maps"):
            del data[key]
        train = workload.train
        return {
            "cpu": self.cpu,
            "cores": self.num_cores,
            "threads": list(self.thread_counts),
            "environment": dict(self.surroundings),
            "implementation": runtime.implementation,
            "precision": runtime.precision,
            "batch_sizes": [train.global_batch_size, train.eval_batch_size],
            "optimizer": train.opt_name,
            "matmul": None if self.given is None else self.given.record.digest,
            "model_name": workload.model_name,
            "model": self.config.tables["model"],
            "data": data,
            **({} if runtime.kernels == "auto" else {"kernels": runtime.kernels}),
            **({"forms": list(get_args(Form)), "compiler": find_compiler()} if self.chooses_matmul else {}),
            **({"id_budget": workload.data.id_map.budget} if workload.data.id_map.is_active else {}),
            **({} if self.own is None else self.own.chosen_for),
        }

    def on_threads(self, num_threads: int) -> "Candidates":
        """Return only the candidates that have `num_threads` threads. Return all candidates where none has that
        number, or where a section of the definition, such as [serve], lists them."""
        if self.own is not None or num_threads not in self.thread_counts or len(self.thread_counts) == 1:
            return self
        spin_counts = self.spin_counts if num_threads > 1 else self.spin_counts[:1]
        return replace(self, thread_counts=(num_threads,), spin_counts=spin_counts)

    @property
    def compares_fp32(self) -> bool:
        """Whether autotuning times a step in fp32 besides bf16: bf16 products may be slower even on a CPU that has
        instructions for them."""
        return self.config.workload.runtime.precision == "bf16" and self.own is None

    @property
    def key(self) -> str:
        return canonical_sha256({**self.chosen_for, "torch": self.torch_version})

    @property
    def path(self) -> Path:
        """Path of the file in the dataset's folder that keeps the settings chosen by timing for later runs."""
        version = "".join(char if char.isalnum() or char in ".-" else "-" for char in str(self.torch_version))
        return self.data_dir / FOLDER / f"{canonical_sha256(self.chosen_for)[:16]}-torch-{version}.json"

    @property
    def fits(self) -> Callable[[ChoiceRecord], bool]:
        """Function that returns whether a recorded choice by timing can be used: whether it was made for the same
        settings as this configuration's, and chose one of these candidates."""
        return lambda choice: (
            choice.key == self.key
            and (choice.service is None) == (self.own is None)
            and choice.num_threads in self.thread_counts
            and choice.spin_count in self.spin_counts
            and (self.given is None or choice.matmul is not None)
        )


def find_candidates(
    config: RunConfig, data_dir: Path, given: GivenMatmul | None = None, installation: Installation | None = None
) -> Candidates | None:
    """Return the candidates that autotuning compares for a configuration. Return None if there is nothing to choose.

    There is nothing to choose on GPUs and on several ranks: there the number of threads is the given one, or follows
    from the number of cores. There is nothing to choose either if only one candidate is possible, the user gives no
    kernels, and the precision is not bf16 (bf16 is always compared with fp32).
    """
    runtime, implementation = config.workload.runtime, config.workload.implementation
    if runtime.device != "cpu" or runtime.ranks != 1:
        return None
    num_cores = read_resources().num_cores
    if (find_ways := _find_own(config)) is not None:
        own = find_ways(config)
        return None if own is None else _own_candidates(config, data_dir, own, num_cores, installation)
    if not can_choose(config.workload):
        given = None
    of_given = given.record.num_threads if given is not None and given.record.num_threads <= num_cores else None
    given_threads = runtime.threads or of_given
    counts = (given_threads,) if given_threads else powers(num_cores)
    surroundings = _read_surroundings()
    is_spin_given = any(name in surroundings for name in SPIN_VARIABLES)
    spins: tuple[int | None, ...] = (None,) if is_spin_given else SPIN_COUNTS if max(counts) > 1 else SPIN_COUNTS[:1]
    chooses = implementation.chooses_matmul and given is None
    if len(counts) == len(spins) == 1 and not chooses and given is None and runtime.precision != "bf16":
        return None
    return Candidates(
        config=config,
        data_dir=data_dir,
        thread_counts=counts,
        spin_counts=spins,
        chooses_matmul=chooses,
        given=given,
        torch_version=_find_torch(installation),
        surroundings=surroundings,
        num_cores=num_cores,
        cpu=read_processors().model_name,
    )


def has_own_ways(config: RunConfig) -> bool:
    """Return whether a section of the configuration's definition, such as [serve], has autotuning of its own, which
    replaces that of a training step."""
    return _find_own(config) is not None


def _find_own(config: RunConfig) -> Callable[[RunConfig], OwnWays | None] | None:
    sections = find_sections().values()
    return next((each.find_ways for each in sections if each.find_ways and each.name in config.tables), None)


def _own_candidates(
    config: RunConfig, data_dir: Path, own: OwnWays, num_cores: int, installation: Installation | None
) -> Candidates:
    return Candidates(
        config=config,
        data_dir=data_dir,
        thread_counts=own.thread_counts,
        spin_counts=(None,),
        chooses_matmul=False,
        given=None,
        torch_version=_find_torch(installation),
        surroundings=_read_surroundings(),
        num_cores=num_cores,
        cpu=read_processors().model_name,
        own=own,
    )


def _find_torch(installation: Installation | None) -> str | None:
    if installation is None:
        return version_of("torch")
    packages: Any = installation.about.environment.get("packages")
    return str(dict(packages or {}).get("torch"))


def _read_surroundings() -> dict[str, str]:
    """Return the environment variables that change the speed of a training step: those of OpenMP, MKL, oneDNN and
    malloc."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_SURROUNDINGS) and not name.endswith("_NUM_THREADS")
    }


def powers(num_cores: int) -> tuple[int, ...]:
    """Return the thread counts to time: the powers of two below the number of cores, and the number of cores itself,
    so 1, 2, 4, 6 for 6 cores."""
    return (*(1 << power for power in range(num_cores.bit_length()) if 1 << power < num_cores), num_cores)
