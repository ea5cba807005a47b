"""The digest of what a run read is that of bytes: data that is swapped, changed or forged makes a set INVALID."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, TypeVar

import numpy as np
import pytest
from small_set import SmallSet, begin_small_set, keeping_times, map_array

from harness.experiment.executors import job_members
from harness.experiment.finish import exit_code_of_set, finish_set
from harness.measure.quality import QualityJob, train_and_evaluate
from harness.measure.read_data import hash_read_data, refuse_other_data
from harness.measure.throughput import ThroughputJob, measure_throughput
from harness.run_sets.folder import record_interrupted
from reference_models.data.store import read_files
from reference_models.data.store.dataset import OpenedDataset
from reference_models.data.store.layout import CLICKS
from reference_models.data.store.manifest import compute_file_sha256, digest_of_files, read_manifest
from reference_models.data.store.read_files import BLOCK_BYTES, ReadFiles, blocks
from reference_models.process.errors import DatasetError
from reference_models.process.world import SingleProcess
from rules.checks.verdict import Verdict
from rules.judge.checker import check_paths
from rules.records.codec import decode
from rules.records.run import RunRecord

T = TypeVar("T")
Change = Callable[[Path], object]


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallSet:
    return begin_small_set(tmp_path, monkeypatch)


def judged(folder: Path) -> Verdict:
    (verdict,) = check_paths([folder], second_opinion=False)
    return verdict


def found(verdict: Verdict, code: str = "RS118") -> list[str]:
    return [finding.message for finding in verdict.findings if finding.code == code]


@pytest.mark.slow
def test_an_honest_set_has_the_digest_of_its_dataset_in_every_record(small: SmallSet) -> None:
    for index in range(3):
        small.train(index)
    digest = read_manifest(small.data_dir)["dataset_sha256"]
    for path in small.folder.glob("extra/run_*/attempt_0/run.json"):
        record = decode(path, RunRecord)
        assert isinstance(record, RunRecord)
        (copy,) = record.read_data
        assert (copy.sha256, copy.scope, copy.ranks) == (digest, "whole", (0,))
        assert copy.hashed_bytes == sum(file.stat().st_size for file in small.data_dir.glob("*.npy"))
        assert all(file.opened == file.hashed for file in copy.files)
    verdict = judged(small.folder)
    assert verdict.outcome == "valid" and not found(verdict)


def eval_rows_as_training(data_dir: Path) -> None:
    for name in (array.file for array in CLICKS.arrays):
        train, evaluation = (map_array(data_dir, split, name) for split in ("train", "eval"))
        train[:] = np.concatenate([evaluation] * (len(train) // len(evaluation)))


def training_rows_as_eval(data_dir: Path) -> None:
    for name in (array.file for array in CLICKS.arrays):
        evaluation = map_array(data_dir, "eval", name)
        evaluation[:] = map_array(data_dir, "train", name)[: len(evaluation)]


def labels_in_a_dense_feature(data_dir: Path) -> None:
    for split in ("train", "eval"):
        map_array(data_dir, split, "dense")[:, 0] = map_array(data_dir, split, "labels")


def easier_eval(data_dir: Path) -> None:
    """Clicks of one feature's first ids alone."""
    map_array(data_dir, "eval", "labels")[:] = map_array(data_dir, "eval", "indices")[:, 0] < 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [eval_rows_as_training, training_rows_as_eval, labels_in_a_dense_feature, easier_eval]
)
def test_other_data_of_equal_sizes_and_times_makes_a_set_invalid(change: Change, small: SmallSet) -> None:
    """Of one run of three, between its neighbours; the data is as it was before the set is judged."""
    small.train(0)
    kept = small.data_dir.with_name("kept")
    shutil.copytree(small.data_dir, kept)
    keeping_times(small.data_dir, change)
    small.train(1)
    keeping_times(
        small.data_dir, lambda folder: [shutil.copyfile(path, folder / path.name) for path in kept.glob("*.npy")]
    )
    small.train(2)
    verdict = judged(small.folder)
    assert verdict.outcome == "invalid"
    other, differs = found(verdict)
    assert other == "the run read other data than the definition pins"
    assert differs == "the runs did not read the same data"
    pinned = read_manifest(small.data_dir)["dataset_sha256"]
    finding = next(finding for finding in verdict.findings if finding.message == other)
    assert finding.expected == f"{pinned[:12]}…" and f"'dlrmbench data verify {small.data_dir}'" in finding.remedy
    assert "run_1" in finding.path


def test_a_forged_manifest_is_refused_before_any_run(small: SmallSet) -> None:
    """It may say the digests of other data; the definition pins those of its own."""
    eval_rows_as_training(small.data_dir)
    path = small.data_dir / "manifest.json"
    content = read_manifest(small.data_dir)
    for name, entry in content["files"].items():
        entry["sha256"] = compute_file_sha256(small.data_dir / name)
    content["dataset_sha256"] = digest_of_files({name: file["sha256"] for name, file in content["files"].items()})
    path.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match="the benchmark's definition says"):
        small.train(0)


def test_without_a_pin_the_digest_is_held_against_that_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = begin_small_set(tmp_path, monkeypatch, is_pinned=False)
    keeping_times(small.data_dir, easier_eval)
    small.train(0)
    result, page = finish_set(small.folder)
    assert exit_code_of_set(result) == 3
    assert found(result.verdict) == ["the run read other data than the log names"]
    assert "the run read other data than the log names" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_run_that_was_killed_before_it_had_hashed_is_said_to_be_unproven(small: SmallSet) -> None:
    """Its log was complete, so it is no run that may be made again; what it read is not known."""

    class KilledError(Exception):
        """As if by kill -9."""

    def kill(*arguments: object) -> None:
        raise KilledError

    small.train(0)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KilledError):
        patch.setattr("harness.measure.read_data.hash_read_data", kill)
        small.train(1)
    assert small.run_set.recover(1)
    small.train(2)
    verdict = judged(small.folder)
    (finding,) = [finding for finding in verdict.findings if finding.code == "RS118"]
    assert (verdict.outcome, finding.severity) == ("valid", "warning")
    assert finding.found == "1 run of 3 without read_data"


@pytest.mark.slow
def test_a_set_that_is_completed_on_other_data_is_invalid(small: SmallSet) -> None:
    """After an interrupted attempt, which is kept, as `resume` and growth go on."""
    small.train(0)
    record_interrupted(small.run_set.new_attempt(1), index=1, reason="killed", exit_code=-9)
    keeping_times(small.data_dir, easier_eval)
    small.train(1)
    assert "the run read other data than the definition pins" in found(judged(small.folder))


def swapped_in_place(data_dir: Path) -> Callable[[], None]:
    """Other bytes in the same file, and the first ones again while the run goes on."""
    path = data_dir / "train_labels.npy"
    content = path.read_bytes()
    keeping_times(data_dir, lambda folder: map_array(folder, "train", "labels").fill(1))
    return lambda: keeping_times(data_dir, lambda folder: path.write_bytes(content))


def swapped_by_name(data_dir: Path) -> Callable[[], None]:
    """Another file of the same name, and the first one in its place while the run goes on."""
    path, kept = data_dir / "train_labels.npy", data_dir / "kept"
    os.link(path, kept)
    other = data_dir / "other"
    shutil.copy2(path, other)
    np.lib.format.open_memmap(other, mode="r+").fill(1)
    shutil.copystat(path, other)
    other.replace(path)
    return lambda: kept.replace(path)


def swapped_by_link(data_dir: Path) -> Callable[[], None]:
    """The whole folder by a link that leads elsewhere while the run goes on."""
    kept, other = data_dir.with_name("kept"), data_dir.with_name("other")
    data_dir.rename(kept)
    shutil.copytree(kept, other)
    keeping_times(other, eval_rows_as_training)
    data_dir.symlink_to(other)

    def restore() -> None:
        data_dir.unlink()
        data_dir.symlink_to(kept)

    return restore


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["train", "eval"])
@pytest.mark.parametrize("swap", [swapped_in_place, swapped_by_name, swapped_by_link])
def test_data_that_is_put_back_during_the_run_makes_a_set_invalid(
    swap: Callable[[Path], Callable[[], None]], moment: str, small: SmallSet
) -> None:
    restore = swap(small.data_dir)
    left = [restore]

    def put_back(event: Mapping[str, Any]) -> None:
        if event["event"] == moment and left:
            left.pop()()

    small.train(0, put_back)
    assert not left
    verdict = judged(small.folder)
    assert verdict.outcome == "invalid"
    wanted = "was changed while the run was under way" if swap is swapped_in_place else "other data than"
    assert any(wanted in message for message in found(verdict))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["throughput", "quality"])
def test_what_is_not_judged_is_not_measured_on_other_data(kind: str, small: SmallSet) -> None:
    attempt = small.run_set.new_attempt(0)
    members = job_members(small.run_set, small.record, 0, attempt)

    def measure() -> object:
        if kind == "quality":
            return train_and_evaluate(QualityJob(**members, num_samples=512), SingleProcess(), lambda event: None)
        return measure_throughput(ThroughputJob(**members, num_steps=2), SingleProcess(), lambda event: None)

    assert measure() is not None
    keeping_times(small.data_dir, easier_eval)
    with pytest.raises(DatasetError, match="its manifest says"):
        measure()


class TwoRanks:
    """One of two ranks in threads of this process, each with a copy of the data where `folders` differ."""

    size = 2

    def __init__(self, rank: int, slots: list[Any], barrier: Barrier) -> None:
        self.rank, self._slots, self._barrier = rank, slots, barrier

    def gather(self, value: T) -> list[T] | None:
        self._slots[self.rank] = value
        self.barrier()
        gathered = list(self._slots)
        self.barrier()
        return gathered if self.rank == 0 else None

    def broadcast(self, value: T) -> T:
        gathered = self.gather(value)
        if gathered is not None:
            self._slots[0] = gathered[0]
        self.barrier()
        first: T = self._slots[0]
        self.barrier()
        return first

    def barrier(self) -> None:
        self._barrier.wait(60)


@pytest.mark.parametrize("is_shared", [True, False])
def test_ranks_hash_each_copy_once_and_refuse_together(is_shared: bool, tmp_path: Path) -> None:
    folders = [tmp_path / "0", tmp_path / ("0" if is_shared else "1")]
    for rank, folder in enumerate(folders):
        folder.mkdir(exist_ok=True)
        (folder / "a.npy").write_bytes(b"copy" if is_shared else f"copy of {rank}".encode())
    world, results, errors = ([None, None], Barrier(2)), [None, None], [None, None]

    def work(rank: int) -> None:
        ranks, files = TwoRanks(rank, *world), ReadFiles([folders[rank] / "a.npy"])
        split: Any = None
        opened = OpenedDataset(train=split, eval=split, dataset_sha256="a" * 64, files={}, read_files=files)
        results[rank] = hash_read_data(split, opened, ranks, lambda event: None)
        try:
            refuse_other_data(split, opened, ranks, lambda event: None)
        except DatasetError as error:
            errors[rank] = error

    threads = [Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    copies = results[0]
    assert copies is not None and results[1] is None
    assert [copy["ranks"] for copy in copies] == ([[0, 1]] if is_shared else [[0], [1]])
    assert len({copy["sha256"] for copy in copies}) == len(copies)
    assert all("its manifest says" in str(error) for error in errors)


def test_a_large_dataset_is_hashed_in_blocks_that_are_the_same_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(bytes(20 * BLOCK_BYTES))
    monkeypatch.setattr(read_files, "MAX_WHOLE_BYTES", 19 * BLOCK_BYTES)
    files, counted = ReadFiles([path]), list[int]()
    (first,) = files.hash(counted.append)
    assert not files.is_hashed_whole() and sum(counted) == 16 * BLOCK_BYTES
    places = list(blocks(20 * BLOCK_BYTES))
    assert places[0] == (0, BLOCK_BYTES) and places[-1] == (19 * BLOCK_BYTES, BLOCK_BYTES)
    with path.open("r+b") as file:
        file.seek(places[3][0])
        file.write(b"x")
    (second,) = files.hash()
    assert first.sha256 != second.sha256 and second.hashed != second.opened


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 7])
def test_blocks_are_inside_their_file(size: int) -> None:
    places = list(blocks(size))
    assert places[0][0] == 0 and places[-1][0] + places[-1][1] == size
    assert all(offset + length <= size for offset, length in places)
