"""MLPerf's preprocessed layouts: read in place, batches across files, damage named."""

import zipfile
from dataclasses import replace
from pathlib import Path

import mlperf_layout_builder as builder
import numpy as np
import pytest
import torch
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reference_models.config.sections import DataConfig
from reference_models.data.criteo.mlperf_binary import open_mlperf_binary
from reference_models.data.registry import open_dataset, parse_data
from reference_models.data.store.dataset import Batch
from reference_models.process.errors import DatasetError
from rules.benchmarks.loader import load_benchmark

ROWS = [3, 1, 7, 2] + [4] * 19 + [9]
NUM_TRAIN, NUM_EVAL = sum(ROWS[:-1]), 5
CAP = 50


def official(name: str) -> DataConfig:
    return parse_data(load_benchmark(name).sections["data"])


def multi_hot_data(max_rows: int = CAP) -> DataConfig:
    return builder.cap_tables(official("dlrm_dcnv2"), max_rows, train_samples=NUM_TRAIN, eval_samples=NUM_EVAL)


def one_hot_data(max_rows: int = CAP) -> DataConfig:
    return builder.cap_tables(official("dlrm"), max_rows, train_samples=21, eval_samples=8)


class Layout:
    """A written set; a plain class, since hypothesis prints every array of a tuple or dataclass."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.days = builder.write_multi_hot_layout(folder, multi_hot_data(), ROWS)


@pytest.fixture(scope="module")
def multi_hot(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return Layout(tmp_path_factory.mktemp("multi_hot"))


@pytest.fixture
def own_multi_hot(tmp_path: Path) -> Path:
    builder.write_multi_hot_layout(tmp_path, multi_hot_data(), ROWS)
    return tmp_path


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(bounds=st.tuples(st.integers(0, NUM_TRAIN), st.integers(0, NUM_TRAIN)).map(sorted))
def test_a_multi_hot_batch_is_the_same_rows_whichever_files_hold_them(multi_hot: Layout, bounds: list[int]) -> None:
    folder, days = multi_hot.folder, multi_hot.days
    start, stop = bounds
    batch = open_mlperf_binary(folder, multi_hot_data()).train.read(start, stop)
    for found, wanted in (
        (batch.dense, [day.dense for day in days[:-1]]),
        (batch.indices, [day.ids for day in days[:-1]]),
        (batch.labels, [day.labels for day in days[:-1]]),
    ):
        assert np.array_equal(found.numpy(), np.concatenate(wanted)[start:stop])
    assert (batch.dense.dtype, batch.indices.dtype, batch.labels.dtype) == (
        torch.float32,
        torch.int64,
        torch.float32,
    )


def test_evaluation_reads_the_first_half_of_day_23_rounded_up(multi_hot: Layout) -> None:
    folder, days = multi_hot.folder, multi_hot.days
    evaluation = open_mlperf_binary(folder, multi_hot_data()).eval
    assert evaluation.num_samples == 5 == (ROWS[-1] + 1) // 2
    batch = evaluation.read(0, 100)
    assert np.array_equal(batch.indices.numpy(), days[-1].ids[:5])
    assert np.array_equal(batch.labels.numpy(), days[-1].labels[:5])


def test_ids_are_taken_modulo_capped_tables(multi_hot: Layout) -> None:
    folder, days = multi_hot.folder, multi_hot.days
    data = multi_hot_data(max_rows=7)
    assert data.num_embeddings is not None
    rows = np.repeat(data.num_embeddings, data.multi_hot)
    split = open_mlperf_binary(folder, data).train
    batch = split.read(0, 10)
    wanted = np.concatenate([day.ids for day in days])[:10]
    assert (wanted >= rows).any()
    assert np.array_equal(batch.indices.numpy(), wanted % rows)
    narrow = Batch.empty(split, 10, has_int32_ids=True)
    split.read_into(0, 10, narrow)
    assert narrow.indices.dtype == torch.int32 and torch.equal(narrow.indices.long(), batch.indices)


def test_files_lists_every_file_with_its_size(multi_hot: Layout) -> None:
    folder = multi_hot.folder
    opened = open_dataset(folder, multi_hot_data())
    assert opened.files == {str(path): path.stat().st_size for path in folder.iterdir()}
    assert opened.dataset_sha256 is None


def test_one_hot_rows_become_log_dense_wrapped_ids_and_labels(tmp_path: Path) -> None:
    train, evaluation = builder.write_one_hot_layout(tmp_path, one_hot_data(), 21, 8)
    data = one_hot_data(max_rows=6)
    opened = open_dataset(tmp_path, data)
    assert (opened.train.num_samples, opened.eval.num_samples) == (21, 8)
    for split, written in ((opened.train, train), (opened.eval, evaluation)):
        batch = split.read(2, 7)
        assert torch.equal(batch.dense, torch.log(torch.tensor(written.dense[2:7], dtype=torch.float32) + 1))
        assert data.num_embeddings is not None
        assert np.array_equal(batch.indices.numpy(), written.ids[2:7] % np.array(data.num_embeddings))
        assert np.array_equal(batch.labels.numpy(), written.labels[2:7])


def test_the_loader_commands_own_file_names_serve_too(tmp_path: Path) -> None:
    builder.write_one_hot_layout(tmp_path, one_hot_data(), 21, 8)
    (tmp_path / "terabyte_processed_train.bin").rename(tmp_path / "train_data.bin")
    (tmp_path / "terabyte_processed_test.bin").rename(tmp_path / "test_data.bin")
    assert open_mlperf_binary(tmp_path, one_hot_data()).train.num_samples == 21


def test_a_count_that_differs_from_the_definition_is_refused(multi_hot: Layout) -> None:
    folder = multi_hot.folder
    with pytest.raises(DatasetError, match=f"{NUM_TRAIN} train samples, .* says 4195197692"):
        open_mlperf_binary(folder, replace(multi_hot_data(), train_samples=4195197692))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["day_0_labels.npy", "day_11_dense.npy", "day_23_sparse_multi_hot.npz"])
@pytest.mark.parametrize("keep", ["none", "empty", "half", "all but one byte", "noise"])
def test_a_damaged_file_is_named(own_multi_hot: Path, name: str, keep: str) -> None:
    path = own_multi_hot / name
    content = path.read_bytes()
    path.unlink()
    if keep != "none":
        damaged = {"empty": b"", "half": content[: len(content) // 2], "all but one byte": content[:-1]}
        path.write_bytes(damaged.get(keep, b"\x00noise" * 40))
    with pytest.raises(DatasetError, match=name):
        open_mlperf_binary(own_multi_hot, multi_hot_data())


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(
    name=st.sampled_from(["day_5_labels.npy", "day_5_dense.npy", "day_5_sparse_multi_hot.npz"]),
    position=st.integers(-200, 140),
    value=st.integers(0, 255),
)
@example(name="day_5_sparse_multi_hot.npz", position=-3, value=1)  # the zip directory then starts before the file
def test_any_damage_to_headers_is_an_error_with_a_name_or_harmless(
    multi_hot: Layout,
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    position: int,
    value: int,
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    for path in multi_hot.folder.iterdir():
        (folder / path.name).symlink_to(path)
    content = bytearray((folder / name).read_bytes())
    content[position % len(content)] = value
    (folder / name).unlink()
    (folder / name).write_bytes(content)
    try:
        open_mlperf_binary(folder, multi_hot_data()).train.read(0, NUM_TRAIN)
    except DatasetError as error:
        assert name in str(error)


def test_a_compressed_archive_says_what_to_write_instead(own_multi_hot: Path) -> None:
    path = own_multi_hot / "day_4_sparse_multi_hot.npz"
    with np.load(path) as arrays:
        content = dict(arrays)
    np.savez_compressed(path, **content)
    with pytest.raises(DatasetError, match=r"day_4_sparse.*savez, not savez_compressed"):
        open_mlperf_binary(own_multi_hot, multi_hot_data())


def test_a_missing_feature_and_a_wrong_width_are_named(own_multi_hot: Path) -> None:
    path = own_multi_hot / "day_2_sparse_multi_hot.npz"
    with np.load(path) as arrays:
        content = dict(arrays)
    np.savez(path, **{key: value for key, value in content.items() if key != "20"})
    with pytest.raises(DatasetError, match=r"day_2_sparse.*no array '20'"):
        open_mlperf_binary(own_multi_hot, multi_hot_data())
    np.savez(path, **{**content, "20": content["20"][:, :99]})
    with pytest.raises(DatasetError, match=r"20\.npy\]: int32 \(7, 99\), expected int32 \(7, 100\)"):
        open_mlperf_binary(own_multi_hot, multi_hot_data())


def test_int64_ids_are_refused(own_multi_hot: Path) -> None:
    path = own_multi_hot / "day_2_sparse_multi_hot.npz"
    with np.load(path) as arrays:
        content = {key: value.astype(np.int64) for key, value in arrays.items()}
    np.savez(path, **content)
    with pytest.raises(DatasetError, match="int64"):
        open_mlperf_binary(own_multi_hot, multi_hot_data())


def test_a_member_behind_other_bytes_is_found(own_multi_hot: Path) -> None:
    """The offset is the local header's, whose extra field may differ from the directory's."""
    path = own_multi_hot / "day_0_sparse_multi_hot.npz"
    with np.load(path) as arrays:
        content = dict(arrays)
    with zipfile.ZipFile(path, "w") as archive:
        for key in sorted(content, reverse=True):
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, content[key])
    batch = open_mlperf_binary(own_multi_hot, multi_hot_data()).train.read(0, 3)
    assert np.array_equal(batch.indices.numpy()[:, :3], content["0"])
    assert np.array_equal(batch.indices.numpy()[:, -1:], content["25"])


@pytest.mark.parametrize("cut", [1, 80, 159])
def test_a_binary_file_cut_inside_a_sample_is_named(tmp_path: Path, cut: int) -> None:
    builder.write_one_hot_layout(tmp_path, one_hot_data(), 21, 8)
    path = tmp_path / "terabyte_processed_test.bin"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DatasetError, match=r"terabyte_processed_test\.bin.*160 bytes"):
        open_mlperf_binary(tmp_path, one_hot_data())


def test_labels_that_are_no_labels_are_refused_when_read(tmp_path: Path) -> None:
    builder.write_one_hot_layout(tmp_path, one_hot_data(), 21, 8)
    (tmp_path / "terabyte_processed_train.bin").write_bytes(np.full((21, 40), 7, "<i4").tobytes())
    opened = open_mlperf_binary(tmp_path, one_hot_data())
    with pytest.raises(DatasetError, match=r"terabyte_processed_train\.bin.*labels"):
        opened.train.read(0, 5)


def test_no_folder_and_an_empty_folder_say_what_to_give(tmp_path: Path) -> None:
    for data in (one_hot_data(), multi_hot_data()):
        with pytest.raises(DatasetError, match="--data"):
            open_mlperf_binary(tmp_path / "nowhere", data)
        with pytest.raises(DatasetError, match="--data"):
            open_mlperf_binary(tmp_path, data)


def test_opening_maps_nothing(multi_hot: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a memory map was made on opening")

    monkeypatch.setattr(np, "memmap", refuse)
    open_mlperf_binary(multi_hot.folder, multi_hot_data())
