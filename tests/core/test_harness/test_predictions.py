"""Logits of kept weights: those that the run's last evaluation had, in a file that is whole or not there."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from command import Command
from inside import run_inside, use_workers_inside
from made_sets import made_in
from pyarrow import parquet
from small_set import EVAL_SAMPLES, TRAIN_SAMPLES, SmallBenchmark

from harness.config.catalog import Entry, load_entry
from harness.foundation.errors import exit_code_of
from harness.foundation.files import read_json
from harness.measure import predictions
from harness.measure.predictions import write_file_predictions
from reference_models.data.columns import encode
from reference_models.data.columns.encode import EncodedRows
from reference_models.data.registry import locate_dataset, open_dataset
from reference_models.process.errors import ConfigError, DatasetError
from reference_models.training.metrics import measure_quality

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module")
def results(small: SmallBenchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set whose run kept its weights."""
    output = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        use_workers_inside(patch)
        done = run_inside(output, "run", *small.options, "-n", 1, "--keep-weights", "-o", output, "-q")
    assert done.returncode in (0, 3), done.stderr
    (folder,) = made_in(output)
    return folder


@pytest.mark.parametrize(("split", "num_samples"), [("eval", EVAL_SAMPLES), ("train", TRAIN_SAMPLES)])
def test_logits_are_those_of_the_kept_weights(
    results: Path, small: SmallBenchmark, tmp_path: Path, inside: Command, split: str, num_samples: int
) -> None:
    output = tmp_path / "logits.parquet"
    words = ("data", "predict", small.definition, results, "--data", small.data_root, "-o", output, "--split", split)
    done = inside(*map(str, words))
    assert done.returncode == 0, done.stderr
    assert f"{num_samples:,} logits of the {split} split" in " ".join(done.stdout.split())
    found = parquet.read_table(output)
    assert {name: str(kind) for name, kind in zip(found.schema.names, found.schema.types, strict=True)} == {
        "row": "int64", "label": "uint8", "logit": "float"
    }  # fmt: skip
    rows, labels, logits = (found.column(name).to_numpy() for name in ("row", "label", "logit"))
    assert np.array_equal(rows, np.arange(num_samples))
    data = load_entry(small.definition).workload.data
    held = getattr(open_dataset(locate_dataset(data, small.data_root), data), split).read(0, num_samples)
    assert np.array_equal(labels, held.labels.numpy())
    if split == "eval":
        quality = read_json(results / "extra" / "run_0" / "weights" / "manifest.json")["quality"]
        assert measure_quality(labels, logits).auc == pytest.approx(quality, abs=1e-6)


def damaged(folder: Path) -> None:
    path = next(folder.rglob("weights/*.npy"))
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")


@pytest.mark.parametrize(
    ("benchmark", "change", "code", "words"),
    [
        (None, lambda folder: None, 0, ""),
        (None, damaged, 8, "sha256"),
        (None, lambda folder: shutil.rmtree(folder / "extra" / "run_0" / "weights"), 8, "--keep-weights"),
        ("dlrm_small", lambda folder: None, 2, "another definition"),
    ],
)
def test_what_cannot_be_predicted_leaves_the_file_that_was_there(
    results: Path,
    small: SmallBenchmark,
    tmp_path: Path,
    inside: Command,
    benchmark: str | None,
    change: Callable[[Path], object],
    code: int,
    words: str,
) -> None:
    folder = shutil.copytree(results, tmp_path / "set", symlinks=True)
    change(folder)
    output = tmp_path / "logits.parquet"
    output.write_bytes(b"old")
    given = ("data", "predict", benchmark or small.definition, folder, "--data", small.data_root, "-o", output, "-q")
    done = inside(*map(str, given))
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert (output.read_bytes() == b"old") == (code != 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logits.parquet", "set"]


@pytest.mark.parametrize(("read", "written"), [("new.csv", "new.csv"), ("link", "new.csv"), ("new.csv", "link")])
def test_the_file_that_is_predicted_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str, written: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text("user,item\n1,2\n")
    Path("link").symlink_to("new.csv")
    with pytest.raises(ConfigError, match="is the file whose rows are predicted") as refused:
        write_file_predictions(load_entry("dlrm_tiny"), tmp_path, tmp_path, Path(read), tmp_path / written)
    assert exit_code_of(refused.value) == 2
    assert Path("new.csv").read_text() == "user,item\n1,2\n" and Path("link").is_symlink()


def test_an_id_outside_its_table_is_of_the_row_that_has_it_below_rows_that_were_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, entry = (
        tmp_path / "new.csv",
        SimpleNamespace(workload=SimpleNamespace(data=SimpleNamespace(kind="columns"))),
    )
    path.write_text("user\n")
    split = SimpleNamespace(num_embeddings=(5,), multi_hot=(1,))
    spec = SimpleNamespace(data=None, train=SimpleNamespace(eval_batch_size=4))
    rows = EncodedRows(np.array([1, 4, 9]), np.zeros((3, 1), np.float32), np.array([[0], [4], [5]], np.int32))
    monkeypatch.setattr(predictions, "_open_model", lambda *given: (None, spec))
    monkeypatch.setattr(predictions, "open_dataset", lambda *given: SimpleNamespace(eval=split))
    monkeypatch.setattr(predictions, "_answer", lambda *given: np.zeros(3, np.float32))
    monkeypatch.setattr(encode, "encode_file", lambda *given: iter([rows]))
    with pytest.raises(DatasetError, match=r"new.csv: row 9, sparse feature 0: id 5 is outside"):
        write_file_predictions(cast(Entry, entry), tmp_path, tmp_path, path, tmp_path / "logits.parquet")
