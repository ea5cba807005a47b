"""Preparing datasets from Criteo text: content, splits, bad input, interruption."""

import errno
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from criteo_builder import make_text, parse_line
from places import ROOT, TESTS

from reference_models.config.sections import DataConfig
from reference_models.data.criteo.tsv import prepare_tsv
from reference_models.data.prepared import pipeline
from reference_models.data.prepared.pipeline import PreparedDataset
from reference_models.data.prepared.spool import Spool
from reference_models.data.registry import open_dataset, parse_data
from reference_models.data.store.store import verify
from reference_models.process.errors import ConfigError, DatasetError

SHARED = ROOT.parent / "shared" / "data"


def make_data(**parameters: Any) -> DataConfig:
    return parse_data({"kind": "criteo", "name": "sample", "parameters": {"split": "files", **parameters}})


def write(path: Path, text: bytes) -> Path:
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


def prepare(folder: Path, train: Sequence[Path], evaluation: Sequence[Path] = (), **options: Any) -> PreparedDataset:
    data = options.pop("data", None) or make_data(**options.pop("parameters", {}))
    return prepare_tsv(train, evaluation, data, folder, **options)


def read_split(folder: Path, data: DataConfig, split: str) -> tuple[list[float], list[list[int]], np.ndarray]:
    dataset = getattr(open_dataset(folder, data), split)
    batch = dataset.read(0, dataset.num_samples)
    return batch.labels.tolist(), batch.indices.tolist(), batch.dense.numpy()


def good_lines(text: bytes) -> list[Any]:
    return [line for line in map(parse_line, text[:-1].split(b"\n")) if line is not None]


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{}, {"min_frequency": 3}, {"max_ind_range": 1000, "min_frequency": 2}])
@pytest.mark.parametrize("suffix", ["txt", "gz"])
def test_the_store_holds_what_the_text_says(
    tmp_path: Path, suffix: str, parameters: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_COLUMN_ROWS", 700)
    monkeypatch.setattr(pipeline, "_STORE_ROWS", 900)
    texts = [make_text(1500, seed=1, exponent=30), make_text(800, seed=2, exponent=30)]
    evaluation = make_text(500, seed=3, exponent=30)
    train = [write(tmp_path / f"day_{n}.{suffix}", text) for n, text in enumerate(texts)]
    data = make_data(**parameters)
    prepared = prepare(tmp_path / "d", train, [write(tmp_path / f"e.{suffix}", evaluation)], data=data)
    lines = {"train": good_lines(texts[0]) + good_lines(texts[1]), "eval": good_lines(evaluation)}
    cap = parameters.get("max_ind_range", 2**32)
    ids: list[dict[int, int]] = [{} for _ in range(26)]
    for feature in range(26):
        values = [line.categories[feature] % cap for line in lines["train"]]
        frequent = {value for value in set(values) if values.count(value) >= parameters.get("min_frequency", 1)}
        for value in values:
            if value in frequent:
                ids[feature].setdefault(value, len(ids[feature]) + 1)
    assert prepared.num_embeddings == tuple(len(known) + 1 for known in ids)
    assert prepared.num_samples == {"train": 2300, "eval": 500}
    for split, wanted in lines.items():
        labels, indices, dense = read_split(tmp_path / "d", data, split)
        assert labels == [line.label for line in wanted]
        np.testing.assert_array_equal(dense, np.array([line.dense for line in wanted], np.float32))
        assert indices == [[ids[f].get(value % cap, 0) for f, value in enumerate(line.categories)] for line in wanted]
    verify(tmp_path / "d")
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == sorted(
        ["manifest.json", *(f"{s}_{a}.npy" for s in ("train", "eval") for a in ("labels", "dense", "indices"))]
    )


def test_the_manifest_names_the_sources_the_parameters_and_the_losses(tmp_path: Path) -> None:
    text = make_text(2000) + b"broken\n"
    source = write(tmp_path / "train.txt", text)
    prepared = prepare(tmp_path / "d", [source], [source], parameters={"min_frequency": 2})
    manifest = json.loads((tmp_path / "d" / "manifest.json").read_text())
    assert manifest["parameters"] == {"split": "files", "min_frequency": 2}
    assert [entry["name"] for entry in manifest["sources"]] == ["train.txt", "train.txt"]
    assert manifest["sources"][0]["bytes"] == len(text)
    assert manifest["num_malformed"] == prepared.num_malformed == 2
    assert manifest["malformed"][0].endswith("train.txt:2001: 1 columns, expected 40")
    assert manifest["num_embeddings"] == list(prepared.num_embeddings)


def test_the_same_text_gives_the_same_digest_compressed_or_cut_into_files(tmp_path: Path) -> None:
    first, second, last = (make_text(300, seed=seed) for seed in range(3))
    evaluation = write(tmp_path / "e", last)
    one = prepare(tmp_path / "a", [write(tmp_path / "t.gz", first + second)], [evaluation])
    two = prepare(tmp_path / "b", [write(tmp_path / "t1", first), write(tmp_path / "t2", second)], [evaluation])
    assert one.dataset_sha256 == two.dataset_sha256


@pytest.mark.parametrize(("num_rows", "num_train", "num_eval"), [(700, 600, 50), (705, 605, 50), (708, 607, 51)])
def test_seven_days_are_cut_as_the_reference_cuts_them(
    tmp_path: Path, num_rows: int, num_train: int, num_eval: int
) -> None:
    """divmod over the days, the remainder to the first ones; the last day's first half, rounded up, evaluates."""
    source = write(tmp_path / "train.txt", make_text(num_rows))
    data = parse_data({"kind": "criteo", "name": "k", "parameters": {"split": "days", "num_days": 7}})
    prepared = prepare(tmp_path / "d", [source], data=data)
    assert prepared.num_samples == {"train": num_train, "eval": num_eval}
    assert prepared.num_unused == num_rows - num_train - num_eval
    lines = good_lines(source.read_bytes())
    assert read_split(tmp_path / "d", data, "eval")[0] == [
        line.label for line in lines[num_train : num_train + num_eval]
    ]


def test_the_last_file_is_the_evaluation_day(tmp_path: Path) -> None:
    files = [write(tmp_path / f"day_{n}", make_text(100 + n, seed=n)) for n in range(4)]
    prepared = prepare(tmp_path / "d", files, parameters={"split": "last_file"})
    assert prepared.num_samples == {"train": 303, "eval": 52}
    assert prepared.num_unused == 51


def test_files_without_a_last_line_feed_and_with_carriage_returns_lose_nothing(tmp_path: Path) -> None:
    text = make_text(200, seed=5)
    unix = prepare(tmp_path / "a", [write(tmp_path / "u", text)], [tmp_path / "u"])
    dos = prepare(tmp_path / "b", [write(tmp_path / "d", text.replace(b"\n", b"\r\n")[:-2])], [tmp_path / "u"])
    assert unix.dataset_sha256 == dos.dataset_sha256


def damaged_gzip(text: bytes) -> bytes:
    packed = bytearray(gzip.compress(text, mtime=0))
    packed[len(packed) // 2] ^= 0xFF
    return bytes(packed)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", r"t: is empty", id="empty"),
        pytest.param(gzip.compress(b"", mtime=0), r"t: is empty", id="gzip-empty"),
        pytest.param(
            gzip.compress(make_text(3000), mtime=0)[:-1000], r"t: the gzip file is cut short", id="gzip-cut"
        ),
        pytest.param(damaged_gzip(make_text(3000)), r"t: the gzip file is cut short or damaged", id="gzip-damaged"),
        pytest.param(b"\x1f\x8b", r"t: the gzip file is cut short", id="gzip-header"),
        pytest.param(bytes(3_000_000), r"t: no line ends within", id="no-line-feed"),
        pytest.param(
            b"PK\x03\x04" + bytes(range(256)) * 50, r"t: the compressed file is cut short or damaged", id="zip"
        ),
        pytest.param(
            b"a,b,c\n1,2,3\n",
            r"t:1: 1 columns, expected 40, with a tab between them; so is every line",
            id="three-columns",
        ),
        pytest.param(make_text(100).replace(b"\t", b"\t\t"), r"t:1: \d+ columns, expected 40", id="doubled-tabs"),
        pytest.param(b"\t".join([b"1"] * 14 + [b"zz"] * 26) + b"\n", r"t:1: column 15 is 'zz'", id="not-hexadecimal"),
        pytest.param(
            b"\t".join([b"1"] * 3 + [b"9" * 20] + [b"1"] * 36) + b"\n",
            r"t:1: column 4 is '9+', expected an integer",
            id="not-an-integer",
        ),
        pytest.param(
            b"\t".join([b"1"] * 3 + [b"\x00"] + [b"1"] * 36) + b"\n", r"t:1: column 4 is '.x00'", id="null-byte"
        ),
        pytest.param(
            b"\t".join([b"1"] * 3 + [b"\xff\xfe"] + [b"1"] * 36) + b"\n",
            r"t:1: column 4 is '.xff.xfe'",
            id="not-ascii",
        ),
        pytest.param(b"\t".join([b"1"] * 40) + b"\n", r"all 1 train labels are 1", id="one-label"),
    ],
)
def test_bad_files_are_one_clear_error_and_leave_no_dataset(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t").write_bytes(content)
    evaluation = write(tmp_path / "e", make_text(50))
    with pytest.raises(DatasetError, match=message) as caught:
        prepare(tmp_path / "d", [tmp_path / "t"], [evaluation])
    assert len(str(caught.value).splitlines()) <= 11
    assert list((tmp_path / "d").iterdir()) == []


@pytest.mark.parametrize("missing", ["train", "eval"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    files = {"train": write(tmp_path / "train", make_text(50)), "eval": write(tmp_path / "eval", make_text(50))}
    files[missing].unlink()
    with pytest.raises(DatasetError, match=f"{missing}: no such file"):
        prepare(tmp_path / "d", [files["train"]], [files["eval"]])


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"cannot be read: Is a directory"):
        prepare(tmp_path / "d", [tmp_path], [tmp_path])


def test_a_file_of_another_form_says_how_such_are_begun(tmp_path: Path) -> None:
    source = write(tmp_path / "my clicks.csv", b"user,ad,click\nu1,a1,1\n")
    with pytest.raises(DatasetError, match=r":1: 1 columns.*init ./mine.toml --from-columns '.*my clicks.csv'"):
        prepare(tmp_path / "a", [source], [source])


def test_malformed_lines_up_to_the_threshold_are_left_out_and_named(tmp_path: Path) -> None:
    lines = make_text(1000).splitlines(keepends=True)
    for number in (3, 500, 999):
        lines[number] = b"not a line\n"
    source = write(tmp_path / "t", b"".join(lines))
    prepared = prepare(tmp_path / "a", [source], [source], max_malformed=0.003)
    assert (prepared.num_lines, prepared.num_malformed, prepared.num_samples["train"]) == (2000, 6, 997)
    assert [name.rsplit("/", 1)[1] for name in prepared.malformed[:3]] == [
        f"t:{number}: 1 columns, expected 40" for number in (4, 501, 1000)
    ]
    with pytest.raises(DatasetError, match=r"t:4: 1 columns.*6 of 2,000 lines.*--max-malformed"):
        prepare(tmp_path / "b", [source], [source], max_malformed=0.0029)


def test_line_numbers_hold_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference_models.data.prepared.lines.BLOCK_BYTES", 2000)
    lines = make_text(300).splitlines(keepends=True)
    lines[250] = b"\n"
    prepared = prepare(tmp_path / "d", [write(tmp_path / "t", b"".join(lines))], [tmp_path / "t"], max_malformed=0.1)
    assert prepared.malformed[0].endswith("t:251: 1 columns, expected 40")


def test_only_the_first_ten_malformed_lines_are_named(tmp_path: Path) -> None:
    source = write(tmp_path / "t", b"x\n" * 50 + make_text(50))
    prepared = prepare(tmp_path / "d", [source], [source], max_malformed=1.0)
    assert (len(prepared.malformed), prepared.num_malformed) == (10, 100)


@pytest.mark.parametrize(
    ("parameters", "evaluation", "options", "message"),
    [
        ({"split": "files"}, False, {}, r"split is 'files': give the evaluation files with --eval"),
        ({"split": "days", "num_days": 7}, True, {}, r"split is 'days'.*Leave --eval out"),
        ({"split": "last_file"}, False, {}, r"at least two files"),
        ({"split": "thirds"}, True, {}, r"data.parameters.split is 'thirds'"),
        ({"split": "files", "num_days": 3}, True, {}, r"num_days is 3, expected nothing"),
        ({"split": "files", "min_frequency": 0}, True, {}, r"min_frequency is 0, expected a whole number"),
        ({"split": "files", "minfrequency": 3}, True, {}, r"Did you mean 'min_frequency'"),
        ({"split": "files"}, True, {"memory_bytes": 1000}, r"--memory is 1000 bytes, expected at least 512 MiB"),
    ],
)
def test_impossible_requests_are_refused_before_anything_is_read(
    tmp_path: Path, parameters: dict[str, Any], evaluation: bool, options: dict[str, Any], message: str
) -> None:
    source = write(tmp_path / "t", make_text(20))
    data = parse_data({"kind": "criteo", "name": "s", "parameters": parameters})
    with pytest.raises(ConfigError, match=message):
        prepare(tmp_path / "d", [source], [source] if evaluation else [], data=data, **options)
    assert not (tmp_path / "d").exists()


def test_other_files_than_the_definitions_are_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "t", make_text(100))
    for change, message in (
        ({"train_samples": 99}, r"100 train samples.*is 99"),
        ({"eval_samples": 7}, r"100 eval samples.*is 7"),
        ({"num_embeddings": (5,) * 26}, r"num_embeddings says \[5, 5"),
    ):
        with pytest.raises(DatasetError, match=message):
            prepare(tmp_path / "d", [source], [source], data=replace(make_data(), **change))
    assert list((tmp_path / "d").iterdir()) == []


def test_a_finished_dataset_is_not_overwritten(tmp_path: Path) -> None:
    source = write(tmp_path / "t", make_text(100))
    before = prepare(tmp_path / "d", [source], [source])
    with pytest.raises(ConfigError, match="finished dataset already"):
        prepare(tmp_path / "d", [source], [source])
    assert verify(tmp_path / "d")["dataset_sha256"] == before.dataset_sha256


def test_a_dictionary_beyond_the_memory_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "WORKING_BYTES", (1 << 30) - 84 * 50)
    source = write(tmp_path / "t", make_text(300))
    with pytest.raises(ConfigError, match=r"column 15 has more than 50 categories.*--memory.*max_ind_range"):
        prepare(tmp_path / "d", [source], [source])
    assert list((tmp_path / "d").iterdir()) == []


@pytest.mark.parametrize("step", ["append", "replace"])
def test_a_full_disk_is_an_error_and_leaves_nothing(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")

    source = write(tmp_path / "t", make_text(100))
    with monkeypatch.context() as patch:
        patch.setattr(Spool, step, fail)
        with pytest.raises(OSError, match="No space left"):
            prepare(tmp_path / "d", [source], [source])
    assert list((tmp_path / "d").iterdir()) == []
    prepare(tmp_path / "d", [source], [source])


@pytest.mark.slow
def test_kill_at_any_moment_leaves_no_dataset_and_the_next_one_is_whole(tmp_path: Path) -> None:
    source = write(tmp_path / "t", make_text(40_000))
    wanted = prepare(tmp_path / "whole", [source], [source])
    code = (
        "import sys; from pathlib import Path; from reference_models.data.registry import parse_data\n"
        "from reference_models.data.criteo.tsv import prepare_tsv\n"
        "data = parse_data({'kind': 'criteo', 'name': 'sample', 'parameters': {'split': 'files'}})\n"
        "print('ready', flush=True)\n"
        "prepare_tsv([Path(sys.argv[1])], [Path(sys.argv[1])], data, Path(sys.argv[2]),\n"
        "            on_progress=lambda stage, share: print(stage, flush=True))\n"
    )
    folder = tmp_path / "killed"
    for stage in ("parsing", "numbering", "writing"):
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(source), str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert child.stdout is not None
        for line in child.stdout:
            if line.strip() == stage:
                break
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        if not (folder / "manifest.json").exists():
            with pytest.raises(DatasetError, match="not finished"):
                open_dataset(folder, make_data())
        else:
            (folder / "manifest.json").unlink()
    assert prepare(folder, [source], [source]).dataset_sha256 == wanted.dataset_sha256
    assert not list(folder.glob(".*"))


@pytest.mark.slow
def test_the_first_rows_of_criteo_kaggle(tmp_path: Path) -> None:
    source = SHARED / "criteo10k" / "train.txt"
    if not source.exists():
        pytest.skip("the sample of Criteo Kaggle is not here: its licence forbids shipping it")
    data = parse_data({"kind": "criteo", "name": "k", "parameters": {"split": "days", "num_days": 7}})
    prepared = prepare(tmp_path / "d", [source], data=data)
    assert (prepared.num_lines, prepared.num_malformed) == (10_000, 0)
    assert prepared.num_samples == {"train": 8572, "eval": 714}
    lines = good_lines(source.read_bytes())
    labels, _, dense = read_split(tmp_path / "d", data, "train")
    assert labels == [line.label for line in lines[:8572]]
    np.testing.assert_array_equal(dense, np.array([line.dense for line in lines[:8572]], np.float32))


@pytest.mark.long
def test_a_file_larger_than_the_bound_is_prepared_within_it() -> None:
    """1.2 GiB of text with millions of categories, under the default bound of 1 GiB."""
    command = TESTS / "performance" / "parse.py"
    done = subprocess.run(
        [sys.executable, str(command), "--rows", "20000", "--memory-test", "1.2"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "peak memory" in done.stdout
