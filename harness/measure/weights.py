"""The weights that a run ended with: written after its clock, beside its attempts, and read back to be served.

The folder holds <tensor's name>.npy and manifest.json. It appears by one rename, after all of it is on the disk. What
reads it takes nothing on trust: neither the manifest nor any file is ours until sizes, headers and digests agree.
"""

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.foundation.errors import ExitCode, HarnessError, exit_code_of, message_of
from harness.foundation.files import read_record, write_record
from harness.system.resources import read_resources
from reference_models.process.errors import ConfigError, naming
from reference_models.process.whole import sync_folder
from rules.records.weights import (
    DRAFT_FOLDER,
    ITEM_BYTES,
    MANIFEST_FILE,
    WEIGHTS_FOLDER,
    KeptWeights,
    TensorName,
    TensorRecord,
    WeightsManifest,
    npy_header,
)

if TYPE_CHECKING:
    import torch

_BLOCK_BYTES = 1 << 22
_AGAIN = "Keep weights anew with 'dlrmbench run --keep-weights', or give another run's."


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadWeights:
    """Verified weights, by the names of the model's `state_dict`."""

    manifest: WeightsManifest
    tensors: Mapping[str, "torch.Tensor"]


def keep_weights(
    run_folder: Path, tensors: Mapping[str, "torch.Tensor"], about: Mapping[str, Any]
) -> KeptWeights:  # fmt: skip
    """Write weights to `run_folder`/weights, whole or not at all; an error is part of what is returned.

    `about` has the other members of the manifest. What another attempt left in that place gives way.
    """
    started_s = time.perf_counter()
    draft = run_folder / DRAFT_FOLDER
    try:
        discard_draft(run_folder)
        draft.mkdir()
        msgspec.convert(list(tensors), list[TensorName])  # they become names of files
        records = {name: _write_tensor(draft / f"{name}.npy", _as_array(tensor)) for name, tensor in tensors.items()}
        manifest = msgspec.convert({**about, "tensors": records}, WeightsManifest, from_attributes=True)
        write_record(draft / MANIFEST_FILE, manifest)
        sync_folder(draft)
        target = run_folder / WEIGHTS_FOLDER
        if target.exists():
            shutil.rmtree(target)
        draft.rename(target)
        sync_folder(run_folder)
    except (OSError, ConfigError, msgspec.ValidationError) as error:
        discard_draft(run_folder)
        return KeptWeights.failed(message_of(error), exit_code_of(error) or ExitCode.USAGE)
    return KeptWeights(
        num_bytes=manifest.num_bytes, duration_s=time.perf_counter() - started_s, error=None, exit_code=ExitCode.DONE
    )


def discard_draft(run_folder: Path) -> None:
    """Remove what a process that ended while it wrote has left."""
    shutil.rmtree(run_folder / DRAFT_FOLDER, ignore_errors=True)


def read_weights(folder: Path, definition_sha256: str) -> ReadWeights:
    """Read the weights in `folder`, every byte of them verified.

    Raises HarnessError: exit 2 where they are of another definition, 8 where anything is damaged or not as the
    manifest says, 9 where they do not fit into memory.
    """
    import torch

    manifest = read_record(folder / MANIFEST_FILE, WeightsManifest)
    if manifest.definition_sha256 != definition_sha256:
        raise HarnessError(
            f"{folder}: weights of another definition ({manifest.benchmark}, {manifest.definition_sha256[:12]}) than "
            f"the one that is served ({definition_sha256[:12]}). Serve the benchmark that was trained, as it was."
        )
    num_bytes, available = manifest.num_bytes, read_resources().available_memory_bytes
    for name, record in manifest.tensors.items():
        expected = len(npy_header(record.dtype, record.shape)) + record.data_bytes
        if record.num_bytes != expected:
            place = f"{folder / MANIFEST_FILE}: tensors.{name}.num_bytes"
            raise _damaged(place, f"{record.num_bytes:,}", f"{expected:,}, as its shape and type ask for")
        _check_size(folder / f"{name}.npy", record)
    if num_bytes > available:
        raise HarnessError(
            f"{folder}: {num_bytes:,} bytes of weights, {available:,} bytes of memory are free.", ExitCode.RESOURCES
        )
    arrays = {name: _read_tensor(folder / f"{name}.npy", record) for name, record in manifest.tensors.items()}
    return ReadWeights(
        manifest=manifest, tensors={name: torch.from_numpy(array) for name, array in arrays.items()}
    )  # fmt: skip


def _as_array(tensor: "torch.Tensor") -> NDArray[Any]:
    """Copy a tensor off its device, in C order and little-endian."""
    import torch

    values = tensor.detach().cpu()
    if values.dtype == torch.bfloat16:
        values = values.float()
    array = np.asarray(values.contiguous().numpy())
    if array.dtype.name not in ITEM_BYTES:
        raise ConfigError(f"--keep-weights: a weight of type {array.dtype.name} cannot be kept.")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _write_tensor(path: Path, array: NDArray[Any]) -> TensorRecord:
    digest, header = hashlib.sha256(), npy_header(array.dtype.name, array.shape)
    with naming(path), path.open("xb") as file:
        for block in (memoryview(header), *_blocks(array)):
            digest.update(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return TensorRecord(
        dtype=array.dtype.name,  # type: ignore[arg-type]
        shape=array.shape,
        num_bytes=len(header) + array.nbytes,
        sha256=digest.hexdigest(),
    )


def _blocks(array: NDArray[Any]) -> list[memoryview]:
    """Cut an array's memory into pieces; none where it holds nothing."""
    if array.size == 0:
        return []
    whole = memoryview(array.reshape(-1).view(np.uint8).data)
    return [whole[start : start + _BLOCK_BYTES] for start in range(0, len(whole), _BLOCK_BYTES)]


def _check_size(path: Path, record: TensorRecord) -> None:
    """Refuse what is no plain file of the right length, before anything is opened or allocated."""
    try:
        found = path.lstat()
    except OSError as error:
        raise _damaged(path, error.strerror or "nothing", "the tensor's file") from None
    if not stat.S_ISREG(found.st_mode):
        raise _damaged(path, "no regular file", "the tensor's file")
    if found.st_size != record.num_bytes:
        raise _damaged(path, f"{found.st_size:,} bytes", f"{record.num_bytes:,}, as the manifest says")


def _read_tensor(path: Path, record: TensorRecord) -> NDArray[Any]:
    header, digest = npy_header(record.dtype, record.shape), hashlib.sha256()
    array = np.empty(record.shape, np.dtype(record.dtype).newbyteorder("<"))
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            _check_header(file, header, path, record)
            digest.update(header)
            for block in _blocks(array):
                if file.readinto(block) != len(block):
                    raise _damaged(path, "an end too early", f"{record.num_bytes:,} bytes")
                digest.update(block)
    except OSError as error:
        raise _damaged(path, error.strerror or "an error of the disk", "a file that can be read") from None
    if digest.hexdigest() != record.sha256:
        raise _damaged(path, f"sha256 {digest.hexdigest()[:12]}…", f"{record.sha256[:12]}…, as the manifest says")
    return array


def _check_header(file: BinaryIO, header: bytes, path: Path, record: TensorRecord) -> None:
    if file.read(len(header)) != header:
        shape = " x ".join(map(str, record.shape)) or "one value"
        raise _damaged(path, "another header", f"that of {record.dtype}, {shape}, as the manifest says")


def _damaged(place: Path | str, found: str, expected: str) -> HarnessError:
    return HarnessError(f"{place}: found {found}, expected {expected}. {_AGAIN}", ExitCode.INPUT)
