"""Write, read and check `manifest.json`, which describes a dataset, with the sha256 of each of its files."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reference_models.data.store.layout import SPLITS, Layout
from reference_models.process.atomic_write import write_atomically
from reference_models.process.errors import DatasetError
from reference_models.process.open_file import open_regular, read_regular

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1
SOFT_LABELS = "soft_labels"
"""Key in a dataset's manifest whose value is the statistics of soft labels (shares from 0 to 1); absent for other
labels."""
KEPT = "dictionaries"
"""Name of a dataset's folder of dictionaries, with which other files can be encoded. The key of the same name in the
dataset's manifest has the sha256 of each file in that folder."""
AGAIN = "Make the dataset again with 'dlrmbench data generate' or 'data prepare'."
_MAX_MANIFEST_BYTES = 1 << 26
_KEPT_FILE = re.compile(r"[a-z0-9]{1,16}\.npy")
_FILE = re.compile(r"(train|eval)_[a-z][a-z0-9_]*\.npy")


def compute_file_sha256(path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """Return the sha256 of a file; `on_bytes` gets the number of bytes just read."""
    return _hash_file(path, hashlib.sha256(), on_bytes)


def compute_file_md5(path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """Return the MD5 of a file, to compare with published ones; `on_bytes` gets the number of bytes just read."""
    return _hash_file(path, hashlib.md5(usedforsecurity=False), on_bytes)


def _hash_file(path: Path, digest: "hashlib._Hash", on_bytes: Callable[[int], None] | None) -> str:
    with open_regular(path, follows=True) as file:
        while block := file.read(1 << 22):
            digest.update(block)
            if on_bytes is not None:
                on_bytes(len(block))
    return digest.hexdigest()


def digest_of_files(files: Mapping[str, str]) -> str:
    """Return the sha256 of a dataset; `files` is a dict from the name of each of its files to the file's sha256."""
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()


def write_manifest(folder: Path, layout: Layout, content: Mapping[str, Any], *, sha256: str | None = None) -> str:
    """Hash the dataset's files, write the manifest by one rename, and return dataset_sha256.

    `content` must hold kind, name, splits {train: N, eval: N}, num_dense, num_embeddings, multi_hot and the
    parameters that made the dataset. dataset_sha256 is a digest over the files' names and digests. If it differs from
    the expected `sha256`, DatasetError is raised and no manifest is written, so the dataset stays unfinished.
    """
    files: dict[str, dict[str, Any]] = {}
    for name in layout.files:
        stat, found = (folder / name).stat(), compute_file_sha256(folder / name)
        files[name] = {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": found}
    dataset_sha256 = digest_of_files({name: file["sha256"] for name, file in files.items()})
    if sha256 is not None and dataset_sha256 != sha256:
        raise DatasetError(
            f"{folder}: the data made here has sha256 {dataset_sha256}, the benchmark's definition pins {sha256}. "
            "Nothing was kept. A definition that was edited needs a new data.sha256, or none; otherwise report this."
        )
    manifest = {"schema_version": SCHEMA_VERSION, **content, "files": files, "dataset_sha256": dataset_sha256}
    write_atomically(folder / MANIFEST, json.dumps(manifest, indent=1))
    return dataset_sha256


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a finished dataset, with checked fields. Raises DatasetError, whose message says what to
    do."""
    path = folder / MANIFEST
    if not path.is_file():
        what = "is not finished (no manifest.json)" if folder.is_dir() else "does not exist"
        raise DatasetError(f"{folder}: the dataset {what}. {AGAIN.replace(' again', '')}")
    try:
        manifest = json.loads(read_regular(path, _MAX_MANIFEST_BYTES, follows=True).decode("utf-8"))
    except DatasetError as error:
        raise DatasetError(f"{error} {AGAIN}") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: not valid JSON ({error}). {AGAIN}") from None
    if not isinstance(manifest, dict):
        raise DatasetError(f"{path}: expected a JSON object. {AGAIN}")
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise DatasetError(
            f"{path}: schema_version is {manifest.get('schema_version')!r}, this version reads {SCHEMA_VERSION}. "
            f"{AGAIN}"
        )
    _check_fields(path, manifest)
    return manifest


def _check_fields(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raise DatasetError if a field of a manifest that readers rely on has a wrong type or is out of range."""

    def fail(field: str, value: object, expected: str) -> DatasetError:
        return DatasetError(f"{path}: {field} is {value!r:.80}, expected {expected}. {AGAIN}")

    for field in ("kind", "name", "dataset_sha256"):
        if not isinstance(manifest.get(field), str):
            raise fail(field, manifest.get(field), "a string")
    if not _is_whole(manifest.get("num_dense"), low=0):
        raise fail("num_dense", manifest.get("num_dense"), "a whole number")
    for field in ("num_embeddings", "multi_hot"):
        value = manifest.get(field)
        if not isinstance(value, list) or not all(_is_whole(item, low=1) for item in value):
            raise fail(field, value, "a list of whole numbers of at least 1")
    if len(manifest["num_embeddings"]) != len(manifest["multi_hot"]):
        raise fail("multi_hot", manifest["multi_hot"], f"{len(manifest['num_embeddings'])} numbers")
    if SOFT_LABELS in manifest and not isinstance(manifest[SOFT_LABELS], dict):
        raise fail(SOFT_LABELS, manifest[SOFT_LABELS], "what was seen of soft labels, or no such key")
    splits, files = manifest.get("splits"), manifest.get("files")
    for split in SPLITS:
        if not isinstance(splits, dict) or not _is_whole(splits.get(split), low=0):
            raise fail("splits", splits, "a whole number of samples for each of train and eval")
    if not isinstance(files, dict) or not all(_FILE.fullmatch(name) for name in files):
        raise fail("files", list(files) if isinstance(files, dict) else files, "files such as train_labels.npy")
    for name, entry in files.items():
        known = entry if isinstance(entry, dict) else {}
        if not _is_whole(known.get("bytes"), low=0) or not isinstance(known.get("sha256"), str):
            raise fail(f"files.{name}", entry, "its size in bytes and its sha256")


def list_kept_files(folder: Path, manifest: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield each dictionary file of a dataset, and its sha256. Raises DatasetError for a damaged manifest."""
    known = manifest.get(KEPT, {})
    if not isinstance(known, dict) or not all(
        _KEPT_FILE.fullmatch(name) and isinstance(found, str) for name, found in known.items()
    ):
        raise DatasetError(f"{folder / MANIFEST}: {KEPT} is {known!r:.80}, expected the sha256 of each file. {AGAIN}")
    for name, found in known.items():
        yield folder / KEPT / name, found


def _is_whole(value: object, *, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def check_layout(folder: Path, manifest: Mapping[str, Any], layout: Layout) -> None:
    """Raise DatasetError if a manifest lists other files than its kind of data has."""
    if sorted(manifest["files"]) != sorted(layout.files):
        raise DatasetError(
            f"{folder / MANIFEST}: files is {list(manifest['files'])!r:.80}, expected the files "
            f"{', '.join(layout.files)}. {AGAIN}"
        )


def list_manifest_files(folder: Path, manifest: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield each data file in a manifest, and its entry (bytes, sha256). Raises DatasetError for a missing file."""
    for name, entry in manifest["files"].items():
        if not (folder / name).is_file():
            raise DatasetError(f"{folder / name}: missing, though the manifest lists it. {AGAIN}")
        yield folder / name, entry


def check_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Raise DatasetError if a data file's size differs from the manifest, or if the file was changed after the
    manifest was written and its sha256 differs.

    Only files whose modification time differs from the manifest's are hashed, so the check is quick enough for every
    run. `verify` hashes all files.
    """
    for path, entry in list_manifest_files(folder, manifest):
        stat = path.stat()
        if stat.st_size != entry["bytes"]:
            raise DatasetError(f"{path}: {stat.st_size} bytes, the manifest says {entry['bytes']}. {AGAIN}")
        # A copied dataset has new times but the same bytes.
        if stat.st_mtime_ns != entry.get("mtime_ns") and compute_file_sha256(path) != entry["sha256"]:
            raise DatasetError(f"{path}: changed since it was made (sha256 differs). {AGAIN}")
