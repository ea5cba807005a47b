"""Which implementation answers to which name. Nothing optional is imported before it is asked for."""

from collections.abc import Callable
from importlib.util import find_spec

from reference_models.process.errors import ConfigError, did_you_mean
from reference_models.process.world import World
from reference_models.training.workload import Workload, WorkloadSpec

Loader = Callable[[WorkloadSpec, World], Workload]


def _reference(spec: WorkloadSpec, world: World) -> Workload:
    from reference_models.dlrm.reference import ReferenceWorkload

    return ReferenceWorkload(spec, world)


def _optimized(spec: WorkloadSpec, world: World) -> Workload:
    if spec.runtime.device.startswith("cuda"):
        from reference_models.dlrm.cuda_graph import CUDAGraphWorkload

        return CUDAGraphWorkload(spec, world)
    from reference_models.dlrm.optimized import OptimizedWorkload

    return OptimizedWorkload(spec, world)


def _torchrec(spec: WorkloadSpec, world: World) -> Workload:
    try:
        from reference_models.dlrm.torchrec import TorchRecWorkload
    except (ImportError, OSError) as error:
        raise explain_missing_torchrec(error) from error

    return TorchRecWorkload(spec, world)


def explain_missing_torchrec(error: Exception) -> ConfigError:
    return ConfigError(
        f"torchrec cannot be imported: {error}. Install it beside torch with: pip install --no-deps -r "
        "requirements/torchrec-cpu.txt (torchrec-gpu.txt on a machine with a GPU; both are in dlrmbench's source)."
    )


IMPLEMENTATIONS: dict[str, Loader] = {"reference": _reference, "optimized": _optimized, "torchrec": _torchrec}
WITHOUT_PHASES = ("torchrec",)
"""Implementations whose step cannot be told apart into phases, and so cannot be profiled."""
_NEEDS = {"torchrec": ("torchrec", "fbgemm_gpu")}


def find_implementation(name: str) -> Loader:
    """The loader of an implementation. Nothing is imported.

    Raises ConfigError, with a suggestion when there is none of that name, with the install line when what it needs
    is not installed.
    """
    if name not in IMPLEMENTATIONS:
        raise ConfigError(f"unknown implementation {name!r}.{did_you_mean(name, list(IMPLEMENTATIONS))}")
    for module in _NEEDS.get(name, ()):
        if find_spec(module) is None:
            raise explain_missing_torchrec(ModuleNotFoundError(f"No module named {module!r}"))
    return IMPLEMENTATIONS[name]
