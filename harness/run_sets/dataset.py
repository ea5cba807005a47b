"""Make a benchmark's dataset ready before any clock starts; used by run, sweep, profile, calibrate and data."""

import fcntl
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import open_lock, read_json
from reference_models.config.sections import DataConfig
from reference_models.data.registry import find_data, generate_dataset, locate_dataset, open_dataset
from reference_models.process.errors import DatasetError
from rules.records.run_set import DataLookRecord, DatasetRecord

_LOCK = ".lock"


def ensure_dataset(
    data: DataConfig,
    root: Path | None,
    *,
    num_threads: int,
    on_progress: Callable[[int], None] | None = None,
    benchmark: str = "BENCHMARK",
) -> Path:
    """Return the folder of a benchmark's dataset, generated here if that is possible, else checked.

    Raises DatasetError with the command that makes the dataset; `benchmark` is the definition's name in that command.
    """
    folder, spec = locate_dataset(data, root), find_data(data.kind)
    if spec.is_in_memory:
        return folder  # its reader generates it
    if spec.generate is not None:
        if is_generated(data, folder):  # checked before the lock, since an existing dataset may be read-only
            with making_lock(folder, root):
                if is_generated(data, folder):
                    generate_dataset(folder, data, num_threads=num_threads, on_progress=on_progress)
    elif not is_begun(folder):
        raise DatasetError(f"{folder}: the dataset is not here. {how_to_get(data, benchmark, root)}")
    open_dataset(folder, data)
    return folder


_MOST_LOOKS = 500
"""Largest number of a dataset's columns whose statistics a run set's record keeps; the dataset's manifest has those
of all columns."""
_MOST_REMARKS = 50


def dataset_record(data_dir: Path) -> dict[str, Any]:
    """Return the dataset's folder, digest and statistics, as the run set's record run_set.json has them."""
    look = msgspec.to_builtins(_read_look(data_dir / "manifest.json"))
    return {"dir": str(data_dir.resolve()), "dataset_sha256": _read_digest(data_dir), "look": look}


def _read_look(manifest: Path) -> DataLookRecord | None:
    """Return the statistics that the preparation of a dataset wrote into its manifest; None where there are none
    (data that was generated, or MLPerf's files read in place) or the manifest was edited."""
    found = read_json(manifest) if manifest.is_file() else {}
    columns, remarks = found.get("columns"), found.get("remarks", [])
    if not isinstance(columns, list) or not isinstance(remarks, list):
        return None
    look = {
        "positives": found.get("positives"),
        "columns": columns[:_MOST_LOOKS],
        "num_columns": len(columns),
        "remarks": remarks[:_MOST_REMARKS],
        "soft_labels": found.get("soft_labels"),
    }
    try:
        return msgspec.convert(look, DataLookRecord)
    except msgspec.ValidationError:
        return None


def _read_digest(folder: Path) -> Any:
    manifest = folder / "manifest.json"
    return read_json(manifest).get("dataset_sha256") if manifest.is_file() else None


def find_recorded(data: DataConfig, recorded: DatasetRecord, owner: Path) -> Path | None:
    """Return the folder of the dataset on which a run set was measured, as the record of the run set names it.
    `owner` is the run set's folder. None if the dataset's folder is missing or incomplete, or if the data is not in a
    folder.

    Nothing is created in the dataset's folder, since a stranger may have made the record that names it. Raises
    HarnessError (exit 8) if the folder now holds other data or a damaged manifest.
    """
    folder, spec = Path(recorded.dir), find_data(data.kind)
    if spec.is_in_memory or not folder.is_dir():
        return None
    if spec.has_store:
        found = _read_digest(folder)
        refuse_other_data(folder, found, recorded, owner)
        return None if None in (found, recorded.dataset_sha256) else folder
    try:
        open_dataset(folder, data)
    except DatasetError:
        return None
    return folder


def refuse_other_data(folder: Path, found: object, recorded: DatasetRecord, owner: Path) -> None:
    """Raise HarnessError (exit 8) where the digest `found` of the dataset in `folder` differs from the one that the
    run set in the folder `owner` recorded; unknown digests pass."""
    if None not in (found, recorded.dataset_sha256) and found != recorded.dataset_sha256:
        raise HarnessError(
            f"{folder}: holds other data (digest {str(found)[:12]}) than {owner} was measured on "
            f"({str(recorded.dataset_sha256)[:12]}, in {recorded.dir}). Give its folder with --data; to resume, put "
            "it there again.",
            ExitCode.INPUT,
        )


def is_begun(folder: Path) -> bool:
    """Return whether a dataset's folder holds any file besides its lock file, which alone remains where a preparation
    failed early."""
    return folder.is_dir() and any(path.name != _LOCK for path in folder.iterdir())


def is_generated(data: DataConfig, folder: Path) -> bool:
    """Return whether the dataset must still be generated in `folder`: it is of a generated kind and not complete."""
    return find_data(data.kind).generate is not None and not (folder / "manifest.json").exists()


def how_to_get(data: DataConfig, benchmark: str, root: Path | None) -> str:
    """Return advice on how to get a missing dataset. `benchmark` (the definition's name) and `root` (the folder given
    with --data) go into the command that the advice names."""
    where = "" if root is None else f" --data {shlex.quote(str(root))}"
    spec = find_data(data.kind)
    if spec.generate is not None:
        return f"'run' generates it first, as does: dlrmbench data generate {benchmark}{where}"
    if spec.is_prepared:
        evaluation = " --eval FILE…" if data.parameters.get("split") == "files" else ""
        return f"Make it from your files with: dlrmbench data prepare {benchmark}{where} --train FILE…{evaluation}"
    if spec.is_in_memory:
        return "It is generated in memory when it is read."
    return (
        "Give the folder of the preprocessed files with --data DIR; "
        "reference_models/data/criteo/README.md describes its layout."
    )


def making_lock(folder: Path, root: Path | None) -> AbstractContextManager[None]:
    """Lock `folder` while a dataset is made in it; a second process waits and then finds the dataset complete.

    Raises HarnessError (exit 8) for a link in the folder's place, unless it is `root`, which the user named.
    """
    return _folder_lock(folder) if folder == root else kept_lock(folder)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = open_lock(folder / _LOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def kept_lock(folder: Path, dataset: Path | None = None) -> Iterator[None]:
    """Lock a folder of data while this process makes its contents; a second process waits. The folder is a dataset's
    own folder, or a folder inside a dataset.

    A stranger may have made the dataset, so the folder is checked first. Raises HarnessError (exit 8) if the folder
    is a file, a pipe or a link, since a link may lead to a folder of the user's. Raises it also if `dataset`, the
    folder that contains it, is a link.
    """
    if dataset is not None and dataset.is_symlink():
        raise HarnessError(
            f"{dataset} is a link, and nothing is written beside data through a link. Give the link's target "
            "with --data.",
            ExitCode.INPUT,
        )
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        found = "a link" if folder.is_symlink() else "no folder"
        raise HarnessError(
            f"{folder} is {found}, expected a folder of its own, or nothing. Remove it.", ExitCode.INPUT
        )
    with _folder_lock(folder):
        yield
