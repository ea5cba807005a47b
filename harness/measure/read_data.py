"""Hash the data files that a process has read, after the clock stopped, through the descriptors that its workload
opened."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any

from harness.measure.companions import Companion
from harness.measure.kinds import OnEvent
from reference_models.data.store.dataset import OpenedDataset
from reference_models.data.store.manifest import digest_of_files
from reference_models.data.store.read_files import FileState, ReadFile, ReadFiles
from reference_models.process.errors import DatasetError
from reference_models.process.world import World
from reference_models.training.workload import NamesDataset, Workload

_PROGRESS_EVERY_BYTES = 1 << 28


class ReadDataCompanion(Companion):
    """Companion (observer of a process that trains) that checks which data was read. In a run it records the hashes
    of the data, which the rules check later. In another measurement it raises an error if the data that was read is
    not the data of the dataset."""

    def before_build(self) -> None:
        self.process.dataset.read_files.look()  # for a workload that does not name its dataset

    def after(self) -> Mapping[str, Any]:
        process = self.process
        asked = (process.workload, process.dataset, process.world, process.on_event)
        if process.is_run:
            return {"read_data": hash_read_data(*asked) or ()}
        refuse_other_data(*asked)
        return {}


def hash_read_data(
    workload: Workload, opened: OpenedDataset, world: World, on_event: OnEvent
) -> tuple[Mapping[str, Any], ...] | None:
    """Return the hashes of the data files that the ranks opened, as fields of a ReadDatasetRecord. Files that several
    ranks opened on the same host are hashed once. An empty tuple if the data is not in files; None on other ranks
    than 0.

    `opened` is the dataset that this process opened before the run. Its files are hashed if the workload does not say
    which dataset it opened.
    """
    files = (workload.dataset() if isinstance(workload, NamesDataset) else opened).read_files
    host = socket.gethostname()
    copies = world.broadcast(_copies(world.gather((host, files.look()))))
    mine = next((ranks for ranks in copies if world.rank == ranks[0]), None)
    progress = on_event if world.rank == 0 else _ignore
    hashed = world.gather(None if mine is None else _hash(files, progress) | {"host": host, "ranks": list(mine)})
    return None if hashed is None else tuple(part for part in hashed if part is not None)


def _ignore(event: Mapping[str, Any]) -> None:
    """Do nothing with a progress event, on ranks other than 0: only rank 0 reports progress."""


def _copies(looked: Sequence[tuple[str, tuple[ReadFile, ...]]] | None) -> tuple[tuple[int, ...], ...]:
    """Return, on rank 0, groups of ranks that opened the same data files on the same host."""
    copies: dict[tuple[str, tuple[ReadFile, ...]], list[int]] = {}
    for rank, (host, files) in enumerate(looked or ()):
        if files:
            copies.setdefault((host, files), []).append(rank)
    return tuple(tuple(ranks) for ranks in copies.values())


def _hash(files: ReadFiles, on_event: OnEvent) -> dict[str, Any]:
    """Return the hashes and states of the data files that this process has open."""
    num_bytes, said = 0, 0

    def count(more: int) -> None:
        nonlocal num_bytes, said
        num_bytes += more
        if num_bytes - said >= _PROGRESS_EVERY_BYTES:
            said = num_bytes
            on_event({"event": "hash", "num_bytes": num_bytes})

    started_s = perf_counter()
    hashed = files.hash(count)
    return {
        "scope": "whole" if files.is_hashed_whole() else "blocks",
        "hashed_bytes": num_bytes,
        "duration_s": perf_counter() - started_s,
        "sha256": digest_of_files({file.name: file.sha256 or "" for file in hashed}),
        "files": [
            {"name": file.name, "opened": _state(file.opened), "hashed": _state(file.hashed), "sha256": file.sha256}
            for file in hashed
        ],
    }


def _state(state: FileState | None) -> dict[str, Any] | None:
    """Return a data file's state with device and inode in hexadecimal: not every reader of JSON keeps 64 bits."""
    return None if state is None else {**asdict(state), "device": f"{state.device:x}", "inode": f"{state.inode:x}"}


def refuse_other_data(workload: Workload, opened: OpenedDataset, world: World, on_event: OnEvent) -> None:
    """Raise DatasetError on every rank if a data file changed during the measurement, or if the hash of the data that
    was read does not match the dataset's manifest.

    This is for measurements other than runs, whose data no rule checks later. A measurement on data other than the
    dataset's is worthless.
    """
    read = hash_read_data(workload, opened, world, on_event)
    if (reason := world.broadcast(_why_other(read or (), opened.dataset_sha256))) is not None:
        raise DatasetError(reason)


def _why_other(read: Sequence[Mapping[str, Any]], dataset_sha256: str | None) -> str | None:
    for copy in read:
        for file in copy["files"]:
            if file["opened"] != file["hashed"]:
                return f"{file['name']}: the file changed during the measurement. Measure again."
        if copy["scope"] == "whole" and dataset_sha256 not in (None, copy["sha256"]):
            return (
                f"the data that was read has sha256 {copy['sha256']}, its manifest says {dataset_sha256}. Compare it "
                "with 'dlrmbench data verify', make it again with 'dlrmbench data generate' or 'data prepare', and "
                "measure again."
            )
    return None
