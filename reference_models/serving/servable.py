"""What a model that answers queries offers, whatever the model; `registry.build_servable` makes one. Torch-free."""

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
"""What a device can serve, of matrix products and of the rows of tables."""
FORWARD_PRECISIONS = {"cpu": ("fp32", "bf16"), "cuda": ("fp32", "tf32", "bf16")}
FORWARD_TABLE_PRECISIONS = ("fp32",)
"""Likewise, where training's forward pass answers: see `serving.forward`."""
_SYNTHETIC_SAMPLES = 2048
"""Samples of data that is made as it is read, where nobody says how many; queries go through them again and again."""
Weights: TypeAlias = Mapping[str, "torch.Tensor"]
"""By the names of the reference's `state_dict`: embedding_bags.0.weight, bottom_mlp.0.weight …"""


class Servable(Protocol):
    """One model, forward only; built and warm when it is made."""

    @property
    def served_bytes(self) -> ServedBytes: ...

    def answer(self, batch: Any) -> "torch.Tensor":
        """Compute logits float32 on the CPU, in memory of their own: [B], of classes [B, T, K].

        Several threads may ask at once.
        """

    def queries(self, sizes: Sequence[int]) -> list[Any]:
        """Read one batch of each size, in order, from the evaluation split, which begins again where it ends.

        Raises DatasetError where the data is damaged.
        """

    def quality(self) -> "QualityMetrics | ClassMetrics | None":
        """Evaluate the whole evaluation split, in its batches; None for data whose labels nobody can learn.

        Raises NotFiniteError when a score is not finite.
        """


@runtime_checkable
class ReportsForwardPhases(Protocol):
    """A servable whose forward pass can be timed part by part."""

    def answer_in_phases(self, batch: Any, enter: Enter) -> "torch.Tensor":
        """Do `answer`, and call `enter` with the name of each phase as it begins."""


def workload_weights(workload: Workload) -> Weights:
    """Return what a workload has learnt, on rank 0. Raises ConfigError where it does not hand it out."""
    weights = workload.weights() if isinstance(workload, HoldsWeights) else None
    if weights is None:
        raise ConfigError("the implementation does not hand out its weights (no method `weights`): serve others.")
    return weights


def refuse_other_weights(weights: Weights, expected: Weights) -> None:
    """Raise ConfigError for weights of other names or shapes than `expected`."""
    found = {name: tuple(weight.shape) for name, weight in weights.items()}
    for name, weight in expected.items():
        shape = found.pop(name, None)
        if shape != tuple(weight.shape):
            has = "are missing" if shape is None else f"have shape {shape}"
            raise ConfigError(f"weights {name!r} {has}, expected {tuple(weight.shape)}: they are of another model.")
    if found:
        raise ConfigError(f"weights {next(iter(found))!r} are of no part of this model.")


def with_samples(spec: WorkloadSpec) -> WorkloadSpec:
    """Say how many samples there are of data that is made as it is read, where nobody has."""
    if spec.data.kind not in SYNTHETIC_KINDS or spec.data.train_samples is not None:
        return spec
    num_samples = max(_SYNTHETIC_SAMPLES, spec.train.global_batch_size)
    return replace(spec, data=replace(spec.data, train_samples=num_samples))


def refuse_impossible_serving(runtime: RuntimeConfig, *, has_own: bool = True) -> None:
    """Raise ConfigError for what cannot be served on the device that is asked for, or in several processes.

    A model that `has_own` code to serve knows more precisions than the forward pass of training.
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
"""What CPUs that multiply in a precision say of themselves: x86's flags, Arm's features."""
_CPU_INFO = Path("/proc/cpuinfo")


def explain_emulation(runtime: RuntimeConfig, cpu_info: Path = _CPU_INFO) -> str | None:
    """Say that this CPU has no products of the precision that is served, so that it gains nothing; None where it has.

    None, too, where the system does not say what its CPU has.
    """
    flags = _FAST.get(runtime.precision)
    if flags is None or runtime.device != "cpu" or not cpu_info.is_file():
        return None
    words = set(cpu_info.read_text(encoding="utf-8", errors="replace").split())
    if words & set(flags) or not words & {"flags", "Features"}:
        return None
    return (
        f"this CPU has no products in {runtime.precision} (none of {', '.join(flags)}): they are emulated. What is "
        "measured is right and no faster; its quality holds everywhere."
    )
