"""The store: what is written is read, and whatever is damaged is named."""

import errno
import itertools
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference_models.config.sections import DataConfig
from reference_models.data.prepared.spool import Spool, SpoolColumn
from reference_models.data.registry import parse_data
from reference_models.data.store.dataset import Batch
from reference_models.data.store.layout import CLICKS
from reference_models.data.store.manifest import MANIFEST, read_manifest, write_manifest
from reference_models.data.store.read_files import ReadFiles
from reference_models.data.store.store import Chunk, SplitWriter, open_store, unfinished, verify
from reference_models.process.errors import DatasetError

NUM_EMBEDDINGS, MULTI_HOT = (7, 5), (1, 2)
NUM_SAMPLES = {"train": 50, "eval": 20}
DATA = parse_data(
    {
        "kind": "criteo",
        "name": "small",
        "train_samples": NUM_SAMPLES["train"],
        "eval_samples": NUM_SAMPLES["eval"],
        "num_dense": 2,
    }
)
SIZES = replace(DATA, num_embeddings=NUM_EMBEDDINGS, multi_hot=MULTI_HOT)


def some_chunk(num_samples: int, seed: int = 0) -> Chunk:
    random = np.random.default_rng(seed)
    return Chunk(
        labels=random.integers(0, 2, num_samples, dtype=np.uint8),
        dense=random.random((num_samples, 2), dtype=np.float32),
        indices=random.integers(0, 5, (num_samples, 3), dtype=np.int32),
    )


def part(chunk: Chunk, start: int, stop: int) -> Chunk:
    return Chunk(chunk.labels[start:stop], chunk.dense[start:stop], chunk.indices[start:stop])


def write_dataset(folder: Path, chunks: dict[str, Chunk] | None = None) -> str:
    with unfinished(folder, CLICKS):
        for split, num_samples in NUM_SAMPLES.items():
            writer = SplitWriter(folder, split, num_samples, SIZES)
            writer.write(0, (chunks or {}).get(split) or some_chunk(num_samples))
            writer.close()
        return write_manifest(
            folder,
            CLICKS,
            {
                "kind": "criteo",
                "name": "small",
                "splits": NUM_SAMPLES,
                "num_dense": 2,
                "num_embeddings": list(NUM_EMBEDDINGS),
                "multi_hot": list(MULTI_HOT),
            },
        )


def definition(**changes: Any) -> DataConfig:
    return replace(DATA, **{"multi_hot": MULTI_HOT, "num_embeddings": NUM_EMBEDDINGS, **changes})


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads((folder / MANIFEST).read_text())
    change(content)
    (folder / MANIFEST).write_text(json.dumps(content))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    chunk = some_chunk(50, seed=3)
    digest = write_dataset(tmp_path, {"train": chunk})
    opened = open_store(tmp_path, definition())
    batch = opened.train.read(10, 30)
    assert opened.dataset_sha256 == digest
    assert (opened.train.num_samples, opened.eval.num_samples) == (50, 20)
    np.testing.assert_array_equal(batch.dense.numpy(), chunk.dense[10:30])
    np.testing.assert_array_equal(batch.indices.numpy(), chunk.indices[10:30])
    np.testing.assert_array_equal(batch.labels.numpy(), chunk.labels[10:30])
    assert set(opened.files) == {str(tmp_path / name) for name in CLICKS.files}
    assert all(Path(path).stat().st_size == size for path, size in opened.files.items())


@given(cuts=st.lists(st.integers(1, 49), unique=True), random=st.randoms(use_true_random=False))
def test_order_and_size_of_writes_do_not_matter(tmp_path_factory: Any, cuts: list[int], random: Any) -> None:
    folder = tmp_path_factory.mktemp("split")
    chunk, edges = some_chunk(50), [0, *sorted(cuts), 50]
    spans = list(itertools.pairwise(edges))
    random.shuffle(spans)
    writer = SplitWriter(folder, "train", 50, SIZES)
    for start, stop in spans:
        writer.write(start, part(chunk, start, stop))
    writer.close()
    np.testing.assert_array_equal(np.load(folder / "train_indices.npy"), chunk.indices)
    np.testing.assert_array_equal(np.load(folder / "train_dense.npy"), chunk.dense)
    np.testing.assert_array_equal(np.load(folder / "train_labels.npy"), chunk.labels)


@pytest.mark.parametrize(("start", "size"), [(-1, 3), (49, 2), (0, 51)])
def test_samples_outside_the_split_are_refused(tmp_path: Path, start: int, size: int) -> None:
    writer = SplitWriter(tmp_path, "train", 50, SIZES)
    with pytest.raises(ValueError, match="of a split of 50"):
        writer.write(start, some_chunk(size))
    writer.close()


def test_reading_into_a_batch_gives_what_reading_does_in_ids_of_32_bits(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    split = open_store(tmp_path, definition()).train
    read, batch = split.read(2, 7), Batch.empty(split, 5, has_int32_ids=True)
    split.read_into(2, 7, batch)
    assert batch.indices.dtype == torch.int32 and read.indices.dtype == torch.int64
    assert torch.equal(batch.dense, read.dense) and torch.equal(batch.labels, read.labels)
    assert torch.equal(batch.indices.long(), read.indices)


def test_other_types_are_refused(tmp_path: Path) -> None:
    writer = SplitWriter(tmp_path, "train", 50, SIZES)
    chunk = some_chunk(4)
    with pytest.raises(ValueError, match=r"train_indices.npy holds int32\[3\], got int64"):
        writer.write(0, Chunk(chunk.labels, chunk.dense, chunk.indices.astype(np.int64)))  # type: ignore[arg-type]
    writer.close()


def test_a_failed_preparation_leaves_nothing(tmp_path: Path) -> None:
    def prepare() -> None:
        with unfinished(tmp_path, CLICKS):
            SplitWriter(tmp_path, "train", 50, SIZES).close()
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        prepare()
    assert list(tmp_path.iterdir()) == []


def test_preparing_again_takes_the_finished_mark_away_first(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    with unfinished(tmp_path, CLICKS):
        assert not (tmp_path / MANIFEST).exists()


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SplitWriter(tmp_path, "train", 50, SIZES)

    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match=r"No space left on device: .*train_labels.npy") as caught:
        writer.write(0, some_chunk(50))
    assert caught.value.errno == errno.ENOSPC
    writer.close()


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, chunk = os.pwrite, some_chunk(50)
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: pwrite(file, data[:7], offset))
    writer = SplitWriter(tmp_path, "train", 50, SIZES)
    writer.write(0, chunk)
    writer.close()
    np.testing.assert_array_equal(np.load(tmp_path / "train_dense.npy"), chunk.dense)


# what is damaged


MANIFEST_DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "schema_version is 2": lambda m: m.update(schema_version=2),
    "schema_version is None": lambda m: m.pop("schema_version"),
    "kind is None": lambda m: m.pop("kind"),
    "dataset_sha256 is 5": lambda m: m.update(dataset_sha256=5),
    "num_dense is -1": lambda m: m.update(num_dense=-1),
    "num_dense is True": lambda m: m.update(num_dense=True),
    r"num_embeddings is \[7, 0\]": lambda m: m.update(num_embeddings=[7, 0]),
    "num_embeddings is '7'": lambda m: m.update(num_embeddings="7"),
    r"multi_hot is \[1\]": lambda m: m.update(multi_hot=[1]),
    "splits is None": lambda m: m.pop("splits"),
    "splits is {'train': 50}": lambda m: m["splits"].pop("eval"),
    "splits is {'train': 5.5": lambda m: m["splits"].update(train=5.5),
    "files is None": lambda m: m.pop("files"),
    r"files is \['train_labels": lambda m: m["files"].update({"../../etc/passwd": {"bytes": 1, "sha256": ""}}),
    r"files.train_labels.npy is \[\]": lambda m: m["files"].update({"train_labels.npy": []}),
    r"files.eval_dense.npy is {'bytes'": lambda m: m["files"]["eval_dense.npy"].pop("sha256"),
}


@pytest.mark.parametrize("message", MANIFEST_DAMAGE)
def test_every_damaged_field_is_named(tmp_path: Path, message: str) -> None:
    write_dataset(tmp_path)
    change_manifest(tmp_path, MANIFEST_DAMAGE[message])
    with pytest.raises(DatasetError, match=rf"manifest.json: {message}.*Make the dataset again"):
        open_store(tmp_path, definition())


@given(content=st.binary(max_size=200))
def test_no_bytes_crash_the_manifest_reader(tmp_path_factory: Any, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("manifest")
    (folder / MANIFEST).write_bytes(content)
    with pytest.raises(DatasetError, match=r"manifest\.json: "):
        read_manifest(folder)


@pytest.mark.parametrize("content", ["[" * 100_000, "{" * 10, "null", '"text"', "1e999", "\ufeff{}"])
def test_json_that_is_no_manifest(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(DatasetError, match=r"manifest\.json: "):
        read_manifest(tmp_path)


def test_missing_and_unfinished_datasets_say_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"the dataset is not finished \(no manifest.json\)\. Make the dataset"):
        open_store(tmp_path, definition())
    with pytest.raises(DatasetError, match=r"elsewhere: the dataset does not exist\. Make the dataset"):
        open_store(tmp_path / "elsewhere", definition())


@pytest.mark.parametrize("name", CLICKS.files)
def test_a_missing_or_truncated_file_is_named(tmp_path: Path, name: str) -> None:
    write_dataset(tmp_path)
    with (tmp_path / name).open("r+b") as file:
        file.truncate((tmp_path / name).stat().st_size - 1)
    with pytest.raises(DatasetError, match=rf"{name}: \d+ bytes, the manifest says \d+"):
        open_store(tmp_path, definition())
    (tmp_path / name).unlink()
    with pytest.raises(DatasetError, match=rf"{name}: missing"):
        open_store(tmp_path, definition())
    with pytest.raises(DatasetError, match=rf"{name}: missing"):
        verify(tmp_path)


@pytest.mark.parametrize("name", CLICKS.files)
def test_a_changed_byte_is_found(tmp_path: Path, name: str) -> None:
    write_dataset(tmp_path)
    path = tmp_path / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(1, 1))
    with pytest.raises(DatasetError, match=rf"{name}: changed since it was made"):
        open_store(tmp_path, definition())
    with pytest.raises(DatasetError, match=rf"{name}: sha256 is [0-9a-f]+, the manifest says"):
        verify(tmp_path)


def test_a_copied_dataset_with_new_times_is_the_same(tmp_path: Path) -> None:
    digest = write_dataset(tmp_path)
    for name in CLICKS.files:
        os.utime(tmp_path / name, ns=(1, 1))
    assert open_store(tmp_path, definition()).dataset_sha256 == digest
    assert verify(tmp_path)["dataset_sha256"] == digest


DEFINITIONS: dict[str, dict[str, Any]] = {
    "kind": {"kind": "click_log"},
    "multi_hot": {"multi_hot": (1, 1)},
    "num_dense": {"num_dense": 13},
    "num_embeddings": {"num_embeddings": (7, 6)},
    "sha256": {"sha256": "0" * 64},
    "train_samples": {"train_samples": 51},
    "eval_samples": {"eval_samples": 21},
}


@pytest.mark.parametrize("field", DEFINITIONS)
def test_another_dataset_than_the_definitions_is_refused(tmp_path: Path, field: str) -> None:
    write_dataset(tmp_path)
    with pytest.raises(DatasetError, match=rf"manifest.json: {field} is .*, the benchmark's definition says"):
        open_store(tmp_path, definition(**DEFINITIONS[field]))


def test_the_pinned_digest_must_come_out(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    with pytest.raises(DatasetError, match="the benchmark's definition pins 123"):
        write_manifest(tmp_path, CLICKS, {}, sha256="123")


def replace_array(folder: Path, name: str, array: np.ndarray[Any, Any]) -> None:
    """Exchange one array for another, and let the manifest agree with it."""
    from reference_models.data.store.manifest import compute_file_sha256

    np.save(folder / name, array)
    size, digest = (folder / name).stat().st_size, compute_file_sha256(folder / name)
    change_manifest(folder, lambda m: m["files"][name].update(bytes=size, sha256=digest))


@pytest.mark.parametrize(
    ("name", "array", "found"),
    [
        ("eval_dense.npy", np.zeros((20, 2), np.float64), r"float64\[20, 2\]"),
        ("eval_dense.npy", np.zeros((20, 3), np.float32), r"float32\[20, 3\]"),
        ("eval_indices.npy", np.zeros((19, 3), np.int32), r"int32\[19, 3\]"),
        ("eval_labels.npy", np.zeros((20, 1), np.uint8), r"uint8\[20, 1\]"),
    ],
)
def test_an_array_of_another_shape_or_type_is_refused(
    tmp_path: Path, name: str, array: np.ndarray[Any, Any], found: str
) -> None:
    write_dataset(tmp_path)
    replace_array(tmp_path, name, array)
    with pytest.raises(DatasetError, match=rf"{name}: holds {found}, the manifest says"):
        open_store(tmp_path, definition()).eval.read(0, 5)


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY", b"PK\x03\x04", b"\x80\x04K\x01.", b"\x93NUMPY\x01\x00\xff\xff{"]
)
def test_a_file_that_is_no_array_is_refused(tmp_path: Path, content: bytes) -> None:
    write_dataset(tmp_path)
    (tmp_path / "train_labels.npy").write_bytes(content)
    from reference_models.data.store.manifest import compute_file_sha256

    digest = compute_file_sha256(tmp_path / "train_labels.npy")
    change_manifest(tmp_path, lambda m: m["files"]["train_labels.npy"].update(bytes=len(content), sha256=digest))
    with pytest.raises(DatasetError, match=r"train_labels.npy: (cannot be mapped|holds)"):
        open_store(tmp_path, definition()).train.read(0, 1)


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("train_labels.npy", (33,), 2, r"sample 33 is 2, expected 0 or 1"),
        ("train_dense.npy", (4, 1), np.nan, r"sample 4, column 1 is nan, expected finite numbers"),
        ("train_dense.npy", (4, 0), np.inf, r"sample 4, column 0 is inf, expected finite numbers"),
        ("eval_indices.npy", (19, 0), 7, r"sample 19, column 0 is 7, expected ids inside their tables"),
        ("eval_indices.npy", (19, 2), 5, r"sample 19, column 2 is 5, expected ids inside their tables"),
        ("eval_indices.npy", (0, 1), -1, r"sample 0, column 1 is -1, expected ids inside their tables"),
    ],
)
def test_verify_names_the_value_that_no_reader_can_use(
    tmp_path: Path, name: str, index: tuple[int, ...], value: float, message: str
) -> None:
    write_dataset(tmp_path)
    array = np.load(tmp_path / name)
    array[index] = value
    replace_array(tmp_path, name, array)
    with pytest.raises(DatasetError, match=rf"{name}: {message}"):
        verify(tmp_path)


def test_too_many_open_files_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dataset(tmp_path, {"train": some_chunk(50, seed=3)})
    opened = open_store(tmp_path, definition())

    def refuse(self: ReadFiles, path: Path) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    monkeypatch.setattr(ReadFiles, "open", refuse)
    with pytest.raises(OSError, match="Too many open files") as refused:
        opened.train.read(0, 1)
    assert refused.value.errno == errno.EMFILE


def test_rows_that_cannot_all_be_opened_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Spool(tmp_path, {"labels": SpoolColumn("uint8"), "no/such": SpoolColumn("uint8")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_files_of_a_dataset_are_regular_and_not_waited_for(kind: str, tmp_path: Path) -> None:
    """What is put into a file's place after the manifest was checked, too."""
    write_dataset(tmp_path, {"train": some_chunk(50, seed=3)})
    opened, path = open_store(tmp_path, definition()), tmp_path / "train_labels.npy"
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(DatasetError, match=f"train_labels.npy: .*a {kind}, expected a regular file"):
        opened.train.read(0, 1)
    with pytest.raises(DatasetError, match=r"train_labels.npy: missing"):
        open_store(tmp_path, definition())


def test_a_manifest_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).touch()
    os.truncate(tmp_path / MANIFEST, 1 << 40)
    with pytest.raises(DatasetError, match=r"manifest.json: 1,099,511,627,776 bytes, expected .* Make the dataset"):
        read_manifest(tmp_path)
