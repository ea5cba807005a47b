"""The memory-mapped store that generated and prepared data share.

A dataset is a folder: `manifest.json` and, per split, `<split>_labels.npy` uint8 [N], `<split>_dense.npy`
float32 [N, num_dense], `<split>_indices.npy` int32 [N, sum(multi_hot)]. The manifest is written last, by one
rename, so a folder without it is unfinished.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference_models.config import DataConfig
from reference_models.dataset import Batch, OpenedDataset
from reference_models.errors import DatasetError

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1
SPLITS = ("train", "eval")
_ARRAYS = ("labels", "dense", "indices")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of samples to append: labels uint8 [n], dense float32 [n, D], indices int32 [n, H]."""

    labels: NDArray[np.uint8]
    dense: NDArray[np.float32]
    indices: NDArray[np.int32]


class SplitWriter:
    """Writes one split of known length through memory maps; `write` may be called in any order of `start`."""

    def __init__(self, folder: Path, split: str, num_samples: int, num_dense: int, num_lookups: int) -> None:
        self.num_samples = num_samples
        shapes = {
            "labels": (num_samples,),
            "dense": (num_samples, num_dense),
            "indices": (num_samples, num_lookups),
        }
        dtypes = {"labels": np.uint8, "dense": np.float32, "indices": np.int32}
        self._arrays = {
            name: np.lib.format.open_memmap(
                folder / f"{split}_{name}.npy", mode="w+", dtype=dtypes[name], shape=shapes[name]
            )
            for name in _ARRAYS
        }

    def write(self, start: int, chunk: Chunk) -> None:
        stop = start + len(chunk.labels)
        for name in _ARRAYS:
            self._arrays[name][start:stop] = getattr(chunk, name)

    def close(self) -> None:
        for array in self._arrays.values():
            array.flush()
        self._arrays.clear()


@contextmanager
def unfinished(folder: Path) -> Iterator[Path]:
    """Give `folder` without a manifest, so that an interrupted preparation is recognised and redone."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    yield folder


def file_sha256(path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
            if on_bytes is not None:
                on_bytes(len(block))
    return digest.hexdigest()


def write_manifest(folder: Path, content: Mapping[str, Any]) -> str:
    """Complete the dataset: hash its files, write the manifest by one rename, return dataset_sha256.

    `content` must hold kind, name, splits {train: N, eval: N}, num_dense, num_embeddings, multi_hot and the
    parameters that made it. dataset_sha256 is taken over the files' names and digests.
    """
    files: dict[str, dict[str, Any]] = {}
    for split in SPLITS:
        for name in _ARRAYS:
            path = folder / f"{split}_{name}.npy"
            stat = path.stat()
            files[path.name] = {
                "bytes": stat.st_size,
                "mtime_ns": stat.st_mtime_ns,
                "sha256": file_sha256(path),
            }
    digest = hashlib.sha256(
        json.dumps(sorted((name, entry["sha256"]) for name, entry in files.items())).encode()
    ).hexdigest()
    manifest = {"schema_version": SCHEMA_VERSION, **content, "files": files, "dataset_sha256": digest}
    draft = folder / (MANIFEST + ".partial")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / MANIFEST)
    return digest


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished dataset; DatasetError says what is wrong and what to do."""
    path = folder / MANIFEST
    if not path.is_file():
        what = "is not finished (no manifest.json)" if folder.is_dir() else "does not exist"
        raise DatasetError(f"{folder}: the dataset {what}. Make it with 'dlrmbench data generate' or 'data prepare'.")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DatasetError(f"{path}: not a readable manifest ({error}). Prepare the dataset again.") from None
    if not isinstance(manifest, dict) or manifest.get("schema_version") != SCHEMA_VERSION:
        version = manifest.get("schema_version") if isinstance(manifest, dict) else None
        raise DatasetError(
            f"{path}: schema_version is {version!r}, this version reads {SCHEMA_VERSION}. Prepare the dataset again."
        )
    return manifest


def check_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Compare sizes and times with the manifest, before every run. Contents are compared by `verify`."""
    files = manifest.get("files")
    if not isinstance(files, dict) or not files:
        raise DatasetError(f"{folder / MANIFEST}: lists no files. Prepare the dataset again.")
    for name, entry in files.items():
        path = folder / Path(name).name
        if not path.is_file():
            raise DatasetError(f"{path}: missing, though the manifest lists it. Prepare the dataset again.")
        stat = path.stat()
        if stat.st_size != entry.get("bytes"):
            raise DatasetError(
                f"{path}: {stat.st_size} bytes, the manifest says {entry.get('bytes')}. Prepare the dataset again."
            )
        if stat.st_mtime_ns != entry.get("mtime_ns") and file_sha256(path) != entry.get("sha256"):
            raise DatasetError(f"{path}: changed since it was prepared (sha256 differs). Prepare the dataset again.")


def verify(folder: Path, on_bytes: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Compare every file's sha256 with the manifest; DatasetError names the first file that differs."""
    manifest = read_manifest(folder)
    for name, entry in manifest.get("files", {}).items():
        path = folder / Path(name).name
        if not path.is_file():
            raise DatasetError(f"{path}: missing, though the manifest lists it. Prepare the dataset again.")
        if (found := file_sha256(path, on_bytes)) != entry.get("sha256"):
            raise DatasetError(f"{path}: sha256 is {found}, the manifest says {entry.get('sha256')}.")
    return manifest


class StoreSplit:
    """One split of a store, read by slices of memory maps."""

    def __init__(self, folder: Path, split: str, manifest: Mapping[str, Any]) -> None:
        self._folder, self._split = folder, split
        self._arrays: dict[str, NDArray[Any]] | None = None
        self.num_samples = int(manifest["splits"][split])
        self.num_dense = int(manifest["num_dense"])
        self.num_embeddings: tuple[int, ...] = tuple(manifest["num_embeddings"])
        self.multi_hot: tuple[int, ...] = tuple(manifest["multi_hot"])

    def read(self, start: int, stop: int) -> Batch:
        import torch  # here, so that generating and verifying data need no torch

        if self._arrays is None:
            self._arrays = {name: self._open(name) for name in _ARRAYS}
        part = {name: array[start:stop] for name, array in self._arrays.items()}
        return Batch(
            torch.from_numpy(np.array(part["dense"])),
            torch.from_numpy(part["indices"].astype(np.int64)),
            torch.from_numpy(part["labels"].astype(np.float32)),
        )

    def _open(self, name: str) -> NDArray[Any]:
        path = self._folder / f"{self._split}_{name}.npy"
        widths = {"labels": (), "dense": (self.num_dense,), "indices": (sum(self.multi_hot),)}
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DatasetError(f"{path}: cannot be mapped ({error}). Prepare the dataset again.") from None
        expected = (self.num_samples, *widths[name])
        if array.shape != expected:
            raise DatasetError(f"{path}: shape {array.shape}, the manifest says {expected}.")
        return array


def open_store(folder: Path, data: DataConfig) -> OpenedDataset:
    """Open a prepared dataset and hold it against the definition. Reads metadata, no samples."""
    manifest = read_manifest(folder)
    check_files(folder, manifest)
    problems: Sequence[tuple[str, Any, Any]] = (
        ("kind", data.kind, manifest.get("kind")),
        ("multi_hot", list(data.multi_hot), manifest.get("multi_hot")),
        ("num_dense", data.num_dense, manifest.get("num_dense")),
        *(
            [("num_embeddings", list(data.num_embeddings), manifest.get("num_embeddings"))]
            if data.num_embeddings
            else []
        ),
        *([("sha256", data.sha256, manifest.get("dataset_sha256"))] if data.sha256 else []),
        *([("train_samples", data.train_samples, manifest["splits"]["train"])] if data.train_samples else []),
        *([("eval_samples", data.eval_samples, manifest["splits"]["eval"])] if data.eval_samples else []),
    )
    for field, wanted, found in problems:
        if wanted != found:
            raise DatasetError(
                f"{folder / MANIFEST}: {field} is {found}, the benchmark's definition says {wanted}. "
                "It is another dataset: give another --data folder or prepare it again."
            )
    files = {str(folder / Path(name).name): int(entry["bytes"]) for name, entry in manifest["files"].items()}
    return OpenedDataset(
        train=StoreSplit(folder, "train", manifest),
        eval=StoreSplit(folder, "eval", manifest),
        dataset_sha256=manifest["dataset_sha256"],
        files=files,
    )
