"""What is to be chosen for a configuration before its first run, and among which ways."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from harness.config.matmul import GivenMatmul, can_choose
from harness.config.run_config import RunConfig
from harness.config.serving import SERVE, read_serve
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
"""Values of GOMP_SPINCOUNT: what a busy system needs, and GNU's own default, which is faster on a quiet one."""
_SURROUNDINGS = ("OMP_", "KMP_", "GOMP_", "MKL_", "DNNL_", "ONEDNN_", "MALLOC_", "LD_PRELOAD")
_NOT_OF_A_CALL = (
    "weights", "train_samples", "duration_s", "colocate", "target_qps", "min_duration_s", "min_queries", "library",
    "mlperf", "user_conf",
)  # fmt: skip
"""Keys of [serve] that change no call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidates:
    """What is to be chosen, among which ways, and what for."""

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
    service_ways: tuple[tuple[int, int], ...] = ()
    """Workers and threads of what answers queries, whose steps need no choice."""

    @property
    def chosen_for(self) -> dict[str, Any]:
        """What decides it, apart from torch's version: shape, batch, precision, code that trains, this system."""
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
            **(self._service if self.service_ways else {}),
        }

    @property
    def compares_fp32(self) -> bool:
        """Whether a step in fp32 is timed, too: a CPU that has products in bf16 need not be faster in them."""
        return self.config.workload.runtime.precision == "bf16" and not self.service_ways

    @property
    def _service(self) -> dict[str, Any]:
        asked = {
            key: value for key, value in asdict(read_serve(self.config.tables)).items() if key not in _NOT_OF_A_CALL
        }
        ways = [list(way) for way in self.service_ways]
        return {"serve": asked, "ways": ways, "table_precision": self.config.workload.runtime.table_precision}

    @property
    def key(self) -> str:
        return canonical_sha256({**self.chosen_for, "torch": self.torch_version})

    @property
    def path(self) -> Path:
        """The file that keeps the answer."""
        version = "".join(char if char.isalnum() or char in ".-" else "-" for char in str(self.torch_version))
        return self.data_dir / FOLDER / f"{canonical_sha256(self.chosen_for)[:16]}-torch-{version}.json"

    @property
    def fits(self) -> Callable[[ChoiceRecord], bool]:
        """Whether a choice of any origin is one of the answers."""
        return lambda choice: (
            choice.key == self.key
            and bool(choice.service) == bool(self.service_ways)
            and choice.num_threads in self.thread_counts
            and choice.spin_count in self.spin_counts
            and (self.given is None or choice.matmul is not None)
        )


def find_candidates(
    config: RunConfig, data_dir: Path, given: GivenMatmul | None = None, installation: Installation | None = None
) -> Candidates | None:
    """Say what is to be chosen for a configuration; None where there is one way only.

    On several ranks and on GPUs all is as given, or as the cores allow.
    """
    runtime, implementation = config.workload.runtime, config.workload.implementation
    if runtime.device != "cpu" or runtime.ranks != 1:
        return None
    num_cores = read_resources().num_cores
    if SERVE in config.tables:
        return _find_service(config, data_dir, num_cores, installation)
    if not can_choose(config.workload):
        given = None
    of_given = given.record.num_threads if given is not None and given.record.num_threads <= num_cores else None
    given_threads = runtime.threads or of_given
    counts = (given_threads,) if given_threads else _powers(num_cores)
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


def _find_service(
    config: RunConfig, data_dir: Path, num_cores: int, installation: Installation | None
) -> Candidates | None:
    serve, given = read_serve(config.tables), config.workload.runtime.threads
    counts = (given,) if given else _powers(max(1, num_cores // serve.colocate))
    ways = tuple(
        (workers, threads)
        for threads in counts
        for workers in ((serve.threads,) if serve.threads else _powers(threads))
        if threads % workers == 0 or serve.threads
    )
    if len(ways) <= 1 and not serve.is_batch_searched:
        return None
    return Candidates(
        config=config,
        data_dir=data_dir,
        thread_counts=tuple({threads for _, threads in ways}),
        spin_counts=(None,),
        chooses_matmul=False,
        given=None,
        torch_version=_find_torch(installation),
        surroundings=_read_surroundings(),
        num_cores=num_cores,
        cpu=read_processors().model_name,
        service_ways=ways,
    )


def _find_torch(installation: Installation | None) -> str | None:
    if installation is None:
        return version_of("torch")
    packages: Any = installation.about.environment.get("packages")
    return str(dict(packages or {}).get("torch"))


def _read_surroundings() -> dict[str, str]:
    """Read the variables that change what is timed."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_SURROUNDINGS) and not name.endswith("_NUM_THREADS")
    }


def _powers(num_cores: int) -> tuple[int, ...]:
    """1, 2, 4 … up to the cores, and all of them."""
    return (*(1 << power for power in range(num_cores.bit_length()) if 1 << power < num_cores), num_cores)
