"""`data prepare`: files in, a dataset and a summary out, errors as one message and a documented exit code."""

import gzip
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from criteo_builder import make_text
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from harness.cli import cli
from harness.cli.data import spread_values
from harness.cli.shared.options import SizeParam
from harness.config.catalog import load_data
from harness.run_sets.dataset import ensure_dataset
from reference_models.process.errors import DatasetError

DEFINITION = ROOT / "tests" / "benchmarks" / "ml1m.toml"


def run(*args: str | Path) -> Result:
    return invoke("data", "prepare", *args)


def invoke(*args: str | Path) -> Result:
    """By the whole command line: alone a verb would remember, for all tests to come, that nobody told it of -h."""
    return CliRunner().invoke(cli, [str(arg) for arg in args])


def dlrmbench(*args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", "data", "prepare", *map(str, args)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def sources(folder: Path) -> tuple[Path, Path]:
    (folder / "train.txt").write_bytes(make_text(500) + b"damaged\n")
    (folder / "eval.gz").write_bytes(gzip.compress(make_text(99, seed=1)))
    return folder / "train.txt", folder / "eval.gz"


def test_the_summary_says_what_was_made_where_and_what_to_do_next(tmp_path: Path) -> None:
    train, evaluation = sources(tmp_path)
    result = run(
        DEFINITION, "--train", train, train, "--eval", evaluation, "--data", tmp_path / "d", "--max-malformed", "0.01"
    )
    assert result.exit_code == 0, result.output
    (folder,) = (tmp_path / "d").iterdir()
    lines = result.stdout.splitlines()
    assert lines[0] == f"dataset  ml1m in {folder}"
    assert lines[1] == "lines    1,101 read, 2 malformed and left out"
    assert lines[2] == "samples  1,000 train, 99 eval"
    assert lines[3].startswith("tables   ")
    assert f"left out {train}:501: 1 columns, expected 40" in lines
    assert lines[-1] == f"next     dlrmbench run {DEFINITION} --data {tmp_path / 'd'}"
    assert (folder / "manifest.json").exists()
    assert "parsing" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        ((DEFINITION, "--train", "nowhere.txt", "--eval", "nowhere.txt"), 8, "nowhere.txt: no such file"),
        ((DEFINITION, "--train", DEFINITION, "--eval", DEFINITION), 8, "expected 40"),
        ((DEFINITION, "--train", DEFINITION), 2, "--eval"),
        ((DEFINITION,), 2, "--train"),
        (("dlrm_kagle", "--train", DEFINITION), 2, "Did you mean 'dlrm_kaggle'"),
        (
            ("dlrm_dcnv2", "--train", DEFINITION),
            2,
            "'mlperf_multi_hot', which is read as it is. For files of your",
        ),
        ((DEFINITION, "--train", DEFINITION, "--memory", "lots"), 2, "'lots' is not a number with a unit"),
        ((DEFINITION, "--train", DEFINITION, "--max-malformed", "2"), 2, "max-malformed"),
    ],
)
def test_errors_have_a_message_and_an_exit_code(
    tmp_path: Path, args: tuple[str | Path, ...], exit_code: int, message: str
) -> None:
    result = dlrmbench(*args, "--data", tmp_path / "d")
    assert result.returncode == exit_code
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_what_is_wrong_with_a_file_is_said_before_that_a_dataset_is_there(tmp_path: Path) -> None:
    train, evaluation = sources(tmp_path)
    given: tuple[str | Path, ...] = (DEFINITION, "--data", tmp_path / "d", "--max-malformed", "0.01")
    assert run(*given, "--train", train, "--eval", evaluation).exit_code == 0
    for wrong, said in (("nowhere.txt", "nowhere.txt: no such file"), (DEFINITION, "expected 40")):
        assert said in str(run(*given, "--train", train, "--eval", wrong).exception)
    assert "holds a finished dataset already" in str(run(*given, "--train", train, "--eval", evaluation).exception)


def test_after_a_refused_preparation_the_dataset_is_still_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that was locked for it is empty, and no unfinished dataset."""
    monkeypatch.chdir(tmp_path)
    assert "--eval" in str(run(DEFINITION, "--train", DEFINITION).exception)
    with pytest.raises(DatasetError, match=r"the dataset is not here\. .*data prepare x --train FILE… --eval FILE…"):
        ensure_dataset(load_data(DEFINITION), None, num_threads=1, benchmark="x")
    planned = invoke("plan", DEFINITION, "--no-measure")
    assert planned.exit_code == 0 and "holds no dataset yet" in " ".join(planned.output.split())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    train, evaluation = sources(tmp_path)
    result = dlrmbench(DEFINITION, "--train", train, "--eval", evaluation, "--data", train)
    assert result.returncode == 2
    assert str(train) in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_preparing_and_asking_for_help_load_no_torch(tmp_path: Path) -> None:
    train, evaluation = sources(tmp_path)
    code = (
        "import sys; from harness.cli.data import prepare\n"
        "prepare.main(sys.argv[1:], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules, 'torch'\n"
    )
    for args in (
        ["--help"],
        [DEFINITION, "--train", train, "--eval", evaluation, "--data", tmp_path / "d", "--max-malformed", "0.01"],
    ):
        command = [sys.executable, "-c", code, *map(str, args)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@given(
    train=st.lists(st.sampled_from(["a", "b c", "day_0"]), min_size=1),
    evaluation=st.lists(st.sampled_from(["x", "y"])),
)
def test_values_after_an_option_belong_to_it(train: list[str], evaluation: list[str]) -> None:
    args = ["name", "--train", *train, *(["--eval", *evaluation] if evaluation else []), "--quiet"]
    spread = spread_values(args)
    pairs = list(pairwise(spread))
    assert [value for option, value in pairs if option == "--train"] == train
    assert [value for option, value in pairs if option == "--eval"] == evaluation
    assert (spread[0], spread[-1]) == ("name", "--quiet")


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [("1073741824", 2**30), ("1GiB", 2**30), ("1.5 GiB", 3 * 2**29), ("800MB", 800_000_000), ("2g", 2 * 10**9)],
)
def test_sizes_have_units(text: str, num_bytes: int) -> None:
    assert SizeParam(takes_bytes=True).convert(text, None, None) == num_bytes
