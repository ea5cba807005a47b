"""Protocol of models that answer queries (batches of items to score), built by `registry.build_servable`.
Torch-free."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from reference_models.config.sections import RuntimeConfig
from reference_models.data.synthetic.config import SYNTHETIC_KINDS
from reference_models.process.errors import ConfigError
from reference_models.serving.weight_bytes import ServedBytes
from reference_models.training.phases import Enter
from reference_models.training.workload import HoldsWeights, Workload, WorkloadSpec

if TYPE_CHECKING:
    import torch

    from reference_models.training.metrics import ClassMetrics, QualityMetrics

PRECISIONS = {"cpu": ("fp32", "bf16", "int8"), "cuda": ("fp32", "tf32", "bf16")}
TABLE_PRECISIONS = {"cpu": ("fp32", "fp16", "int8", "int4"), "cuda": ("fp32", "fp16")}
"""Precisions of embedding rows in which a CPU or a GPU can answer queries; PRECISIONS has those of matrix
products."""
FORWARD_PRECISIONS = {"cpu": ("fp32", "bf16"), "cuda": ("fp32", "tf32", "bf16")}
FORWARD_TABLE_PRECISIONS = ("fp32",)
"""Possible precisions of embedding rows for models without serving code of their own. These answer queries by the
forward pass of training: see `serving.forward`."""
_SYNTHETIC_SAMPLES = 2048
"""Default number of samples of a synthetic dataset, which is generated while it is read; queries read these samples
again and again."""
Weights: TypeAlias = Mapping[str, "torch.Tensor"]
"""Weights of a model, by their names in the `state_dict` of its reference implementation: embedding_bags.0.weight,
bottom_mlp.0.weight …"""


class Servable(Protocol):
    """Model that answers queries (batches to score) by its forward pass; the constructor builds it and warms it
    up."""

    @property
    def served_bytes(self) -> ServedBytes: ...

    def answer(self, batch: Any) -> "torch.Tensor":
        """Return a query's logits, float32 on the CPU, in memory that later calls do not overwrite.

        They are [B], or [B, T, K] for T tasks of K classes. Several threads may call this at once.
        """

    def queries(self, sizes: Sequence[int]) -> list[Any]:
        """Return a query (a batch) of each size, in order, from the evaluation split, which begins again at its end.

        Raises DatasetError if the data is damaged.
        """

    def quality(self) -> "QualityMetrics | ClassMetrics | None":
        """Return the metrics of the whole evaluation split, computed over its batches; None for data with random
        labels, which a model cannot learn.

        Raises NotFiniteError when a score is not finite.
        """


@runtime_checkable
class ReportsForwardPhases(Protocol):
    """Model that answers queries, and reports the phases of its forward pass so that they can be timed."""

    def answer_in_phases(self, batch: Any, enter: Enter) -> "torch.Tensor":
        """Return the logits of a query as `answer` does, and call `enter` with the name of each phase as it
        begins."""


def workload_weights(workload: Workload) -> Weights:
    """Return a workload's trained weights, as rank 0 returns them. Raises ConfigError for a workload without
    `weights`."""
    weights = workload.weights() if isinstance(workload, HoldsWeights) else None
    if weights is None:
        raise ConfigError("the implementation does not hand out its weights (no method `weights`): serve others.")
    return weights


def refuse_other_weights(weights: Weights, expected: Weights) -> None:
    """Raise ConfigError for weights whose names or shapes differ from `expected`."""
    found = {name: tuple(weight.shape) for name, weight in weights.items()}
    for name, weight in expected.items():
        shape = found.pop(name, None)
        if shape != tuple(weight.shape):
            has = "are missing" if shape is None else f"have shape {shape}"
            raise ConfigError(f"weights {name!r} {has}, expected {tuple(weight.shape)}: they are of another model.")
    if found:
        raise ConfigError(f"weights {next(iter(found))!r} are of no part of this model.")


def with_samples(spec: WorkloadSpec) -> WorkloadSpec:
    """Return the specification with a default number of samples where it states none and its dataset is generated
    while it is read; any other specification unchanged."""
    if spec.data.kind not in SYNTHETIC_KINDS or spec.data.train_samples is not None:
        return spec
    num_samples = max(_SYNTHETIC_SAMPLES, spec.train.global_batch_size)
    return replace(spec, data=replace(spec.data, train_samples=num_samples))


def refuse_impossible_serving(runtime: RuntimeConfig, *, has_own: bool = True) -> None:
    """Raise ConfigError if a model cannot answer queries with this runtime's device, precisions or number of
    processes.

    `has_own` says whether the model has serving code of its own. If not, the forward pass of training serves it,
    which offers fewer precisions.
    """
    device = runtime.device.partition(":")[0]
    if device not in PRECISIONS:
        raise ConfigError(f"runtime.device is {runtime.device!r}, expected 'cpu', 'cuda' or 'cuda:N'.")
    if runtime.ranks != 1:
        raise ConfigError(f"runtime.ranks is {runtime.ranks}: a model is served by one process. Leave it out.")
    forward = (("precision", FORWARD_PRECISIONS[device]), ("table_precision", FORWARD_TABLE_PRECISIONS))
    own = (("precision", PRECISIONS[device]), ("table_precision", TABLE_PRECISIONS[device]))
    for key, known in own if has_own else forward:
        if (value := getattr(runtime, key)) not in known:
            by = "" if has_own else " by the forward pass of training"
            raise ConfigError(
                f"runtime.{key} is {value!r}, expected {' or '.join(map(repr, known))} of a model that is served on "
                f"{device}{by}."
            )


_FAST = {
    "bf16": ("avx512_bf16", "amx_bf16", "bf16"),
    "int8": ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"),
}
"""Names of the CPU instructions that multiply matrices in each precision, as /proc/cpuinfo lists them: flags (x86)
and Features (Arm)."""
_CPU_INFO = Path("/proc/cpuinfo")


def explain_emulation(runtime: RuntimeConfig, cpu_info: Path = _CPU_INFO) -> str | None:
    """Return a warning if this CPU has no instructions for matrix products in the served precision, and so emulates
    them; else None.

    Returns None, too, for fp32, for devices other than the CPU, and if the system does not report the CPU's flags.
    """
    flags = _FAST.get(runtime.precision)
    if flags is None or runtime.device != "cpu" or not cpu_info.is_file():
        return None
    words = set(cpu_info.read_text(encoding="utf-8", errors="replace").split())
    if words & set(flags) or not words & {"flags", "Features"}:
        return None
    return (
        f"this CPU has no products in {runtime.precision} (none of {', '.join(flags)}): they are emulated. Times "
        "measured here are correct but no faster; the measured quality holds on every machine."
    )
