"""Keep the weights (final parameters) of a run: written after the clock stopped, in the run's folder, and read back
later."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.foundation.errors import ExitCode, HarnessError, compose_message, exit_code_of
from harness.foundation.files import read_record
from harness.foundation.kept_arrays import read_kept, write_kept
from harness.measure.companions import Companion
from harness.system.resources import read_resources
from reference_models.process.errors import ConfigError
from reference_models.training.workload import HoldsWeights
from rules.records.kept.arrays import MANIFEST_FILE
from rules.records.kept.checkpoint import CheckpointManifest
from rules.records.kept.id_maps import ID_MAPS_FOLDER
from rules.records.kept.weights import WEIGHTS_FOLDER, WeightsManifest
from rules.records.run import KeptWeights

if TYPE_CHECKING:
    import torch

_AGAIN = "Keep weights anew with 'dlrmbench run --keep-weights', or give another run's."


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadWeights:
    """Weights (parameters) with every byte verified, by the names of the model's `state_dict`."""

    manifest: WeightsManifest
    tensors: Mapping[str, "torch.Tensor"]


class WeightsCompanion(Companion):
    """Companion (observer of a process that trains) that keeps the final weights of a run with --keep-weights. It is
    called before companions that train further steps."""

    @property
    def _is_asked(self) -> bool:
        return bool(getattr(self.process.job, "keep_weights", False))

    def before_build(self) -> None:
        if self._is_asked and not isinstance(self.process.workload, HoldsWeights):
            raise ConfigError(
                f"implementation {self.process.config.code_label!r} does not hand out its weights (it has no method "
                "`weights`), so --keep-weights cannot keep them. Leave --keep-weights out."
            )

    def after(self) -> Mapping[str, Any]:
        process, workload = self.process, self.process.workload
        if not self._is_asked or not isinstance(workload, HoldsWeights) or (weights := workload.weights()) is None:
            return {}
        process.on_event({"event": "weights"})
        return {"weights": msgspec.structs.asdict(keep_weights(process.folder.parent, weights, process.trained))}


def keep_weights(run_folder: Path, tensors: Mapping[str, "torch.Tensor"], about: Mapping[str, Any]) -> KeptWeights:
    """Write the final weights of a run to `run_folder`/weights, completely or not at all. Weights of an earlier
    attempt are replaced. Return the size of the weights and the seconds that writing took. If writing fails, the
    error is returned, not raised.

    `about` has the other fields of the weights' manifest.
    """
    started_s = time.perf_counter()
    try:
        arrays = {name: as_array(tensor) for name, tensor in tensors.items()}
        written = write_kept(run_folder / WEIGHTS_FOLDER, arrays, WeightsManifest, about, "tensors")
    except (OSError, ConfigError, msgspec.ValidationError) as error:
        return KeptWeights.failed(compose_message(error), exit_code_of(error) or ExitCode.USAGE)
    duration_s = time.perf_counter() - started_s
    num_bytes = sum(array.num_bytes for array in written.values())
    return KeptWeights(num_bytes=num_bytes, duration_s=duration_s, error=None, exit_code=ExitCode.DONE)


def read_weights(folder: Path, definition_sha256: str, id_map_sha256: str | None = None) -> ReadWeights:
    """Return the kept weights in `folder`, read with every byte verified.

    Raises HarnessError with exit 2 if the weights are of another benchmark definition. Raises it with exit 8 if
    anything is damaged or not as the manifest says, or if training used a map of ids to rows whose digest is not
    `id_map_sha256`. Raises it with exit 9 if the weights do not fit into memory.
    """
    import torch

    manifest = read_record(folder / MANIFEST_FILE, WeightsManifest)
    refuse_foreign(folder, manifest, definition_sha256, id_map_sha256)
    available = read_resources().available_memory_bytes
    arrays = read_kept(folder, manifest.tensors, available_bytes=available, remedy=_AGAIN)
    return ReadWeights(manifest=manifest, tensors={name: torch.from_numpy(each) for name, each in arrays.items()})


def refuse_foreign(
    folder: Path, kept: WeightsManifest | CheckpointManifest, definition_sha256: str, id_map_sha256: str | None
) -> None:
    """Raise HarnessError if weights or a checkpoint were trained with another benchmark definition (exit 2) or
    another map of ids to rows (exit 8)."""
    if kept.definition_sha256 != definition_sha256:
        raise HarnessError(
            f"{folder}: weights of another definition ({kept.benchmark}, {kept.definition_sha256[:12]}) than "
            f"the one that is served ({definition_sha256[:12]}). Serve the benchmark that was trained, as it was."
        )
    if kept.id_map_sha256 != id_map_sha256:
        trained, here = (digest and digest[:12] for digest in (kept.id_map_sha256, id_map_sha256))
        raise HarnessError(
            f"{folder}: trained with the id map {trained}, but the id map beside the data is {here}. Put the folder "
            f"{ID_MAPS_FOLDER} of the run beside the data.",
            ExitCode.INPUT,
        )


def as_array(tensor: "torch.Tensor") -> NDArray[Any]:
    """Return a tensor's values as an array on the CPU; bfloat16, which NumPy lacks, becomes float32."""
    import torch

    values = tensor.detach().cpu()
    if values.dtype == torch.bfloat16:
        values = values.float()
    return np.asarray(values.contiguous().numpy())
