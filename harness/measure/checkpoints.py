"""Make checkpoints in a process that trains: their folder, their record, and reading one back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from harness.foundation.errors import ExitCode, HarnessError, compose_message, exit_code_of
from harness.foundation.files import read_record
from harness.foundation.kept_arrays import read_kept, write_kept
from harness.measure.companions import Companion
from harness.measure.refusals import refuse_restores
from harness.measure.weights import as_array, refuse_foreign
from harness.system.resources import read_resources
from reference_models.config.checkpoint import CheckpointConfig
from reference_models.process.artifact import make_npy_header
from reference_models.process.atomic_write import draft_of, remove, sync_folder
from reference_models.process.errors import ArtifactError, ConfigError
from rules.records.kept.arrays import MANIFEST_FILE
from rules.records.kept.checkpoint import CHECKPOINTS_FOLDER, CheckpointManifest
from rules.records.run import CheckpointRecord, CheckpointsRecord

if TYPE_CHECKING:
    import torch

    from reference_models.training.checkpoints import Checkpoints

_AGAIN = "Take checkpoints anew with --set checkpoint.every=5%, or give another one."


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointFolder:
    """Folder in which a training process writes its checkpoints, each in a subfolder of its own; implements
    `CheckpointStore`."""

    root: Path
    about: Mapping[str, Any]
    """Manifest fields that are equal in all checkpoints of the process."""

    def write(
        self, chain: Sequence[int], samples_count: int, tensors: Mapping[str, "torch.Tensor"]
    ) -> tuple[Mapping[str, int], int]:
        about = {**self.about, "chain": tuple(chain), "samples_count": samples_count}
        arrays = {name: as_array(tensor) for name, tensor in tensors.items()}
        folder = self.root / str(chain[-1])
        written = write_kept(folder, arrays, CheckpointManifest, about, "tensors")
        sizes = {name: array.num_bytes for name, array in written.items()}
        return sizes, (folder / MANIFEST_FILE).stat().st_size

    def remove(self, index: int) -> None:
        folder = self.root / str(index)
        draft = draft_of(folder)
        folder.rename(draft)
        sync_folder(self.root)
        remove(draft)

    def read(self, index: int) -> Mapping[str, "torch.Tensor"]:
        return read_checkpoint(self.root / str(index), self.about["definition_sha256"], self.about["id_map_sha256"])

    def count_bytes(self, tensor: "torch.Tensor") -> int:
        array = as_array(tensor)
        return len(make_npy_header(array.dtype.name, array.shape)) + array.nbytes


def read_checkpoint(
    folder: Path, definition_sha256: str, id_map_sha256: str | None = None
) -> Mapping[str, "torch.Tensor"]:
    """Return the training state that the checkpoint in `folder` restores. A checkpoint may build on earlier
    checkpoints, which are then read, too.

    Every byte is verified. Raises HarnessError with exit 2 if the checkpoint is of another benchmark definition.
    Raises it with exit 8 if anything is damaged or not as the manifests say, or if training used a map of ids to rows
    whose digest is not `id_map_sha256`. Raises it with exit 9 if the state does not fit into memory.
    """
    import torch

    from reference_models.training.checkpoints import join

    last = read_record(folder / MANIFEST_FILE, CheckpointManifest)
    refuse_foreign(folder, last, definition_sha256, id_map_sha256)

    def read(place: Path, chain: tuple[int, ...]) -> Mapping[str, "torch.Tensor"]:
        found = read_record(place / MANIFEST_FILE, CheckpointManifest)
        whose, expected = (
            (each.bits, each.seed, each.definition_sha256, each.id_map_sha256) for each in (found, last)
        )
        if (found.chain, whose) != (chain, expected) or place.name != str(chain[-1]):
            raise HarnessError(
                f"{place}: a checkpoint of another run, not the one that {folder} builds on. {_AGAIN}", ExitCode.INPUT
            )
        available = read_resources().available_memory_bytes
        arrays = read_kept(place, found.tensors, available_bytes=available, remedy=_AGAIN)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    places = [folder.parent / str(index) for index in last.chain[:-1]] + [folder]
    try:
        return join((read(place, last.chain[: at + 1]) for at, place in enumerate(places)), last.bits)
    except ArtifactError as error:
        raise HarnessError(f"{folder}: {error} {_AGAIN}", ExitCode.INPUT) from None


class CheckpointsCompanion(Companion):
    """Companion (observer of a process that trains) that lets training make the checkpoints which the table
    [checkpoint] of the configuration asks for, and restore some of them. A run keeps the folder of checkpoints; after
    any other measurement the folder is removed.

    Restores are spread evenly over the process's `num_samples`. After each restore, training continues from the
    restored checkpoint.
    """

    _made: "Checkpoints | None" = None

    def before_build(self) -> None:
        """Prepare to make checkpoints: remove earlier files from their folder.

        Raises ConfigError for a workload that cannot make checkpoints, or makes fewer than are to be restored.
        """
        workload, config = self.process.workload, self.process.config
        checkpoint = config.checkpoint
        if checkpoint is None:
            return
        from reference_models.training.checkpoints import Checkpoints
        from reference_models.training.loop import TrainingLoop

        if not isinstance(workload, TrainingLoop):
            raise ConfigError(
                f"checkpoint: implementation {config.code_label!r} trains by another loop than TrainingLoop."
            )
        num_samples, restores = self.process.num_samples, checkpoint.restores
        train_samples = self.process.dataset.train.num_samples
        refuse_restores(checkpoint, num_samples, train_samples)
        num_taken = num_samples // checkpoint.interval(train_samples)
        remove(self._root)
        self._root.mkdir()
        store = CheckpointFolder(root=self._root, about=self._describe(checkpoint))
        restore_after = {(place + 1) * num_taken // (restores + 1) for place in range(restores)}
        self._made = workload.checkpoints = Checkpoints(workload, checkpoint, store, restore_after)

    def after(self) -> Mapping[str, Any]:
        made = self._made
        if made is None:
            return {}
        made.finish()
        code = None if made.error is None else exit_code_of(made.error)
        if made.error is not None and (not self.process.is_run or code is None):
            raise made.error
        if not self.process.is_run:
            remove(self._root)
        record = CheckpointsRecord(
            full_embedding_bytes=made.full_embedding_bytes,
            full_bytes=made.full_bytes,
            taken=tuple(CheckpointRecord(**each) for each in made.taken),
            restore_s=made.restore_s,
            num_restores=made.num_restores,
            error=None if made.error is None else compose_message(made.error),
            exit_code=code or ExitCode.DONE,
        )
        return {"checkpoints": to_builtins(record)}

    @property
    def _root(self) -> Path:
        folder = self.process.folder
        return (folder.parent if self.process.is_run else folder) / CHECKPOINTS_FOLDER

    def _describe(self, checkpoint: CheckpointConfig) -> Mapping[str, Any]:
        """Return the manifest fields that are equal in all checkpoints of this process: its definition, data, code
        and seed, and the [checkpoint] policy."""
        process = self.process
        return {
            "benchmark": process.benchmark.name,
            "benchmark_version": process.benchmark.version,
            "definition_sha256": process.benchmark.definition_sha256,
            "dataset_sha256": process.dataset.dataset_sha256,
            "id_map_sha256": process.job.id_map_sha256,
            "implementation": process.config.code_label,
            "seed": process.job.seed,
            "policy": checkpoint.policy,
            "bits": checkpoint.bits,
            "rounding": checkpoint.rounding,
        }
